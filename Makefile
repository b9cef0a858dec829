# Two commands on a fresh machine (Rust, Python 3.11 with pip, git, make, a C compiler):
#   make demo    an agent works, errs and is undone on a real package
#   make test    every test
#
# Stamps under .venv make a second run incremental. Tests build with the dev profile, so `cargo test`, clippy and
# the module share their compiled dependencies; demo and benchmarks build with the release profile. One module is
# installed at a time: building one profile takes the other's stamp away, and going back costs a copy, not a build.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SITE := $(abspath $(VENV))

# Tools of the environment come first, whether or not a shell has activated it; an active conda would confuse maturin.
export PATH := $(SITE)/bin:$(PATH)
export VIRTUAL_ENV := $(SITE)
unexport CONDA_PREFIX
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST := $(shell find src -name '*.rs') Cargo.toml Cargo.lock pyproject.toml
CHECKED := python tests/python examples $(wildcard tests/bench)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(VENV)/.built-dev ## Make .venv from the lock file and build the module for tests

.PHONY: demo
demo: $(VENV)/.built-release ## Let an agent work, err and be undone on a real package
	@$(BIN)/python examples/demo/demo.py

.PHONY: test test-rust test-python
test: test-rust test-python ## Run every test, of the core and of the package

test-rust: ## Run the tests of the core
	cargo test --locked --quiet

# Two workers: the machine this is sized for has two cores, and many tests start programs of their own.
test-python: $(VENV)/.built-dev ## Run the tests of the package
	$(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: bench
bench: $(VENV)/.built-release ## Measure against the obvious ways of doing the same
	$(BIN)/python tests/bench/run.py
	cargo bench --locked --quiet

.PHONY: lint lint-rust lint-python
lint: lint-rust lint-python ## Check format, lints and types of everything

lint-rust: ## Check the Rust code, without and with Python
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --all-targets --features python -- -D warnings

# stubtest imports the module, so it needs a built one.
lint-python: $(VENV)/.built-dev ## Check the Python code and the stub
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy
	$(BIN)/mypy $(wildcard tests/python) examples
	$(BIN)/pyright
	MYPYPATH=python $(BIN)/python -m mypy.stubtest hedgerow._native --allowlist .mypy-stubtest-allowlist --ignore-disjoint-bases

.PHONY: format
format: $(VENV)/.requirements ## Format everything
	cargo fmt
	$(BIN)/ruff check --fix-only --quiet $(CHECKED)
	$(BIN)/ruff format --quiet $(CHECKED)

.PHONY: lock
lock: ## Resolve requirements/dev.in anew into requirements/dev.txt
	rm -rf target/lock
	$(PYTHON) -m venv target/lock
	target/lock/bin/python -m pip install --quiet --upgrade -r requirements/dev.in
	{ echo "# Made by \`make lock\` from dev.in. Versions only: where packages come from is the machine's affair."; \
	  target/lock/bin/python -m pip freeze; } > requirements/dev.txt
	rm -rf target/lock

.PHONY: clean
clean: ## Remove what was built, and the environment
	rm -rf target $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/hedgerow/_native*.so
	find python tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock file is complete, so nothing is left to resolve (--no-deps); `pip check` says so if it is not.
# Compiling every module of every package took half the CPU time of this step; Python does it for those it imports.
$(VENV)/.requirements: requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --no-compile -r requirements/dev.txt
	$(BIN)/python -m pip check
	touch $@

$(VENV)/.built-dev: PROFILE := dev
$(VENV)/.built-release: PROFILE := release
$(VENV)/.built-%: $(VENV)/.requirements $(RUST)
	rm -f $(VENV)/.built-*
	$(BIN)/maturin develop --quiet --locked --profile $(PROFILE)
	touch $@
