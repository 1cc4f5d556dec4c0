#!/usr/bin/env bash
# Runs the guides, block by block, as a reader would: every ```sh guide block of a page in one shell.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=$(realpath "${VOLLEY:-target/debug/volley}")
scratch=$(mktemp -d)
mkdir "$scratch/bin" "$scratch/work"
ln -s "$volley" "$scratch/bin/volley"
export PATH=$scratch/bin:$PATH HOME=$scratch VOLLEY_HOME=$scratch/home
unset KUBECONFIG WANDB_BASE_URL WANDB_API_KEY WANDB_ENTITY WANDB_PROJECT VOLLEY_SERVER VOLLEY_API_KEY

tear_down() {
    local code=$?
    volley down || true
    rm -rf "$scratch"
    exit "$code"
}
trap tear_down EXIT

for page in docs/guides/wandb-scripts.md; do
    awk '/^```sh guide$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$page" >"$scratch/guide.sh"
    [ -s "$scratch/guide.sh" ] || { echo "$page has no blocks marked \`sh guide\`" >&2; exit 1; }
    (cd "$scratch/work" && bash -euxo pipefail "$scratch/guide.sh")
    echo "$page passed"
done
