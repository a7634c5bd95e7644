# Two commands matter: `make quickstart` and `make test`. Both install what they
# need first. Build output lies outside the clone, so that a fresh clone reuses it.

export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tandem/target
RUN ?= runs/quickstart
DEVICE ?= cpu

.PHONY: help setup build cuda weights quickstart test test-slow warmup clean

help:
	@echo 'make quickstart   run a small campaign from fetched weights to a report and a pair'
	@echo 'make test         run all tests'
	@echo 'make cuda         build the program with Burn CUDA'
	@echo 'make warmup       make the demonstrations of the quickstart adapter again'

# The wasm32-wasip2 target, bubblewrap, git and Python; nothing that is there already.
setup:
	@scripts/setup.sh

build: setup
	cargo build --locked

# The same program with Burn CUDA; builds on a machine without CUDA.
cuda: setup
	scripts/llvm_bundle.sh
	CUDARC_CUDA_VERSION=13000 cargo build --locked --features cuda

weights: build
	$(CARGO_TARGET_DIR)/debug/tandem model fetch smollm2-135m

quickstart: weights
	rm -rf $(RUN)
	$(CARGO_TARGET_DIR)/debug/tandem train examples/quickstart/campaign.toml --run $(RUN) --device $(DEVICE)
	$(CARGO_TARGET_DIR)/debug/tandem pair verify $(RUN)/pair

test: weights
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path plugins/Cargo.toml
	cargo build --locked --no-default-features
	TANDEM_REQUIRE_WEIGHTS=1 cargo test --locked --workspace
	cargo test --locked --manifest-path plugins/Cargo.toml
	python3 examples/tasks/check.py
	python3 examples/warmup/generate.py --self-test
