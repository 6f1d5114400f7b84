# One verb per need. `make setup` runs by itself when pyproject.toml or constraints.txt changed.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup-stamp
# RLlib pins an older Gymnasium, so it lives in an environment of its own.
RLLIB := .venv-rllib
RLLIB_STAMP := $(RLLIB)/.setup-stamp

.PHONY: setup demo test test-thorough test-all test-rllib fuzz lint bench docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(RLLIB_STAMP): pyproject.toml constraints-rllib.txt
	test -x $(RLLIB)/bin/python || $(PYTHON) -m venv $(RLLIB)
	$(RLLIB)/bin/python -m pip install --quiet -c constraints-rllib.txt -e '.[rllib]'
	touch $@

demo: setup
	$(BIN)/slipstream demo

# What a person runs while working: a few minutes. The rest of what has to pass is in test-thorough.
test: setup
	$(BIN)/python -m pytest -n 2

test-thorough: setup
	$(BIN)/python -m pytest -n 2 -m 'thorough and not slow'

test-all: setup $(RLLIB_STAMP)
	$(BIN)/python -m pytest -m ''

test-rllib: setup $(RLLIB_STAMP)
	$(BIN)/python -m pytest -m '' tests/interop/test_rllib.py

# Damaged input for every reader; bounded by MINUTES. SEED=... repeats a run.
fuzz: setup
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: setup
	set -e; for script in benchmarks/*.py; do $(BIN)/python "$$script" --json; done

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
