# What a person types here. `make` alone lists it.

TARGET := $(or $(CARGO_TARGET_DIR),target)
# nextest runs tests side by side and tells slow ones; without it, cargo's own runner does the same tests. Many wait for others
# (clients, pods, timers), so one more runs than there are processors.
TEST := $(if $(shell command -v cargo-nextest),cargo nextest run --test-threads $(shell expr `nproc` + 1),cargo test)
# Scripts call the program by this path.
export VOLLEY = $(abspath $(TARGET)/debug/volley)

.DEFAULT_GOAL := help
# The page is built again only when something that it is made of has changed. Without npm there is none, and the server says so.
PAGE := $(if $(shell command -v npm),web/node_modules/.built)
PAGE_SOURCES := $(wildcard $(shell git ls-files -co --exclude-standard web)) crates/server/schema.graphql

.PHONY: help setup web build check lint test demo gpu-proof bench screenshots clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine (Debian; does nothing when all is there)
	@tests/setup.sh

web: $(PAGE) ## Build the web page, which cargo then makes a part of the program (needs Node)

# Not `npm ci`: it refuses a lock file without the tools of every other platform. The versions and sums are the lock file's here, too.
web/node_modules/.package-lock.json: web/package-lock.json
	npm --prefix web install --no-save
	touch $@

web/node_modules/.built: web/node_modules/.package-lock.json $(PAGE_SOURCES)
	npm --prefix web run build
	touch $@

build: web ## Build the program for use: target/release/volley
	cargo build --release -p volley

check: lint ## Format, lint, tidy and the fast tests: before every commit
	$(TEST) -p xtask -p volley-api -p volley-plan

lint: web
	npm --prefix web run check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

test: setup lint ## Everything: format, lint, all tests, the README's tour and the guides, the demo
	cargo build -p volley
	$(TEST) --workspace
	tests/named.sh
	npm --prefix web test
	tests/pages.sh
	tests/demo.sh

demo: setup build ## Show the main job, and leave a live one running: the last line is the link to its page
	VOLLEY=$(abspath $(TARGET)/release/volley) tests/demo.sh --stay

gpu-proof: build ## Show on a machine with an NVIDIA GPU what docs/notes/gpu.md says (as root)
	VOLLEY=$(abspath $(TARGET)/release/volley) tests/gpu-proof.sh

screenshots: setup web ## Take pictures of every page, light and dark, desktop and phone: web/screenshots
	tests/setup.sh screenshots
	cargo build -p volley
	npm --prefix web run screenshots

bench: web ## Measure, and print the figures that bench/README.md explains (pods need root)
	tests/setup.sh bench
	cargo build --release -p volley
	cargo run --release -p volley-bench
	VOLLEY=$(abspath $(TARGET)/release/volley) npm --prefix web run bench

clean: ## Remove what was built and installed below this folder
	cargo clean
	rm -rf .cache web/node_modules web/build web/screenshots
	git clean -fdqX web/dist
