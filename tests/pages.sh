#!/usr/bin/env bash
# Runs the README's tour and the guides as a reader would: every block of a page that is marked `sh run`, in one shell and
# with a home of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=$(realpath "${VOLLEY:-target/debug/volley}")
scratch=$(mktemp -d)
mkdir "$scratch/bin"
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

# The reader has a free port 6443 or is told another one; both are in the README, so nothing is changed here.
for page in $(grep -l '^```sh run$' README.md docs/guides/*.md); do
    awk '/^```sh run$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$page" >"$scratch/page.sh"
    mkdir "$scratch/work"
    (cd "$scratch/work" && bash -euxo pipefail "$scratch/page.sh")
    volley down --purge --yes
    rm -rf "$scratch/work" "$VOLLEY_HOME"
    echo "$page passed"
done
