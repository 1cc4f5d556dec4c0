#!/usr/bin/env bash
# Runs the blocks of docs/guides/wandb.md that are marked `sh tour`, in one shell, as a reader would.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=$(realpath "${VOLLEY:-target/debug/volley}")
venv=$(realpath .cache/wandb)
scratch=$(mktemp -d)
mkdir "$scratch/bin" "$scratch/work"
ln -s "$volley" "$scratch/bin/volley"
export PATH=$scratch/bin:$venv/bin:$PATH HOME=$scratch VOLLEY_HOME=$scratch/home
unset WANDB_BASE_URL WANDB_API_KEY

# The port of the guide may be taken here, so another one is chosen in its place.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
awk '/^```sh tour$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/guides/wandb.md |
    sed "s/127\.0\.0\.1:8080/127.0.0.1:$port/; s/volley server /volley server --listen 127.0.0.1:$port /" >"$scratch/guide.sh"
[ -s "$scratch/guide.sh" ] || { echo "docs/guides/wandb.md has no blocks marked \`sh tour\`" >&2; exit 1; }

# What the guide leaves running ends with it: it is a process group of its own.
tear_down() {
    local code=$?
    kill -- "-$guide" 2>/dev/null || true
    [ "$code" = 0 ] || tail -n 50 "$scratch"/work/*.log >&2 || true
    rm -rf "$scratch"
    exit "$code"
}
cd "$scratch/work"
set -m
timeout 600 bash -euxo pipefail "$scratch/guide.sh" &
guide=$!
trap tear_down EXIT
wait "$guide"
echo "the guide passed"
