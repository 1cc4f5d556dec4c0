#!/usr/bin/env bash
# Runs the agent's tests, and those of training jobs, on a cluster that they did not start, as CONTRIBUTING says for any Kubernetes:
# here on one of ours, whose nodes are on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=$(realpath "${VOLLEY:-target/debug/volley}")
home=$(mktemp -d /var/tmp/volley-named-XXXXXX)
"$volley" --home "$home" cluster --listen 127.0.0.1:0 2>"$home.log" &
cluster=$!

tear_down() {
    local code=$?
    [[ $code == 0 ]] || cat "$home.log"
    kill -INT "$cluster" && wait "$cluster" || true
    rm -rf "$home" "$home.log"
    exit "$code"
}
trap tear_down EXIT

until [[ -e $home/kubeconfig ]]; do
    kill -0 "$cluster"
    sleep 0.1
done
export VOLLEY_TEST_KUBECONFIG=$home/kubeconfig VOLLEY_TEST_IMAGE=host
# One after the other: an operator looks after a whole cluster.
timeout 900 cargo test --workspace --test agent -- --test-threads=1 named:: scenarios:: differs:: chaos:: outage:: secrets::
timeout 300 cargo test --workspace --test training -- --test-threads=1 jobs::
