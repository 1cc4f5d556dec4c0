# What a person types here. `make` alone lists it.

TARGET := $(or $(CARGO_TARGET_DIR),target)
# nextest runs tests side by side and tells slow ones; without it, cargo's own runner does the same tests.
TEST := $(if $(shell command -v cargo-nextest),cargo nextest run,cargo test)
# Scripts call the program by this path.
export VOLLEY = $(abspath $(TARGET)/debug/volley)

.DEFAULT_GOAL := help
.PHONY: help setup build check lint test demo gpu-proof bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine (Debian; does nothing when all is there)
	@tests/setup.sh

build: ## Build the program for use: target/release/volley
	cargo build --release -p volley

check: lint ## Format, lint, tidy and the fast tests: before every commit
	$(TEST) -p xtask -p volley-api -p volley-plan

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: setup lint ## Everything: format, lint, all tests, the tour of the README, W&B's guide, the demo
	cargo build -p volley
	$(TEST) --workspace
	tests/tour.sh
	tests/guide.sh
	tests/demo.sh

demo: setup build ## Show the main job: a cluster comes up and kubectl works with it
	VOLLEY=$(abspath $(TARGET)/release/volley) tests/demo.sh

gpu-proof: build ## Show on a machine with an NVIDIA GPU what docs/notes/gpu.md says (as root)
	VOLLEY=$(abspath $(TARGET)/release/volley) tests/gpu-proof.sh

bench: ## Measure, and print the figures that bench/README.md explains (pods need root)
	tests/setup.sh bench
	cargo build --release -p volley
	cargo run --release -p volley-bench

clean: ## Remove what was built and installed below this folder
	cargo clean
	rm -rf .cache
