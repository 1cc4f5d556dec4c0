#!/usr/bin/env bash
# Proves on a machine with an NVIDIA GPU what docs/notes/gpu.md says about GPUs; the output is the transcript there.
#
#   tests/gpu-proof.sh          needs root, the NVIDIA driver, python3 with torch, and the built program (VOLLEY=path)
#   tests/gpu-proof.sh --fake   the same steps with a pretended GPU, on any machine
#
# Nothing is fetched and no kubectl is needed: the steps talk to the cluster's own API.
set -euo pipefail
cd "$(dirname "$0")/.."
export VOLLEY=${VOLLEY:-$PWD/target/release/volley} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
[ -x "$VOLLEY" ] || { echo "$VOLLEY is not there; build it with: make build" >&2; exit 1; }
exec python3 tests/gpu/proof.py "$@"
