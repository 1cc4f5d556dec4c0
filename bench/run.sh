#!/bin/sh
# Builds the release binary and the bench, runs them, prints one table. `bench/run.sh quick` leaves out the largest scale.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --quiet -p volley -p volley-bench
target="${CARGO_TARGET_DIR:-target}/release"
exec "$target/volley-bench" "$target/volley" "$@"
