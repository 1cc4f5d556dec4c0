#!/usr/bin/env bash
# Runs the two-minute tour of the README, block by block, as a reader would: every ```sh tour block in one shell.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=$(realpath "${VOLLEY:-target/debug/volley}")
scratch=$(mktemp -d)
mkdir "$scratch/bin" "$scratch/work"
ln -s "$volley" "$scratch/bin/volley"
export PATH=$scratch/bin:$PATH HOME=$scratch VOLLEY_HOME=$scratch/home
unset KUBECONFIG

tear_down() {
    local code=$?
    volley down || true
    rm -rf "$scratch"
    exit "$code"
}
trap tear_down EXIT

# The reader has a free port 6443 or is told another one; both are in the README, so nothing is changed here.
awk '/^```sh tour$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$scratch/tour.sh"
[ -s "$scratch/tour.sh" ] || { echo "README.md has no blocks marked \`sh tour\`" >&2; exit 1; }
cd "$scratch/work"
bash -euxo pipefail "$scratch/tour.sh"
echo "the tour passed"
