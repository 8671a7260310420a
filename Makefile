# Everything here needs nothing but Python 3.11, make and git: each target makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# A process for each core; tests that share something made for their file stay together. One thread each, or they wait.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses=4 --dist=loadgroup

.PHONY: test quick compiled demo docs bench lint install clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# All tests. Types are checked while models are compiled, each of which keeps one core busy.
test: $(STAMP)
	$(MAKE) --no-print-directory -j2 lint compiled
	$(PYTEST) -m 'not compiled' --jaxtyping-packages=mondrian,tests.typechecker.check

# The shape checks of jaxtyping and beartype run in every other test: they cannot be traced.
compiled: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m compiled tests

# A minute, after each edit: nothing is started, trained or compiled. The markers are explained in tests/markers.py.
quick: $(STAMP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(PYTEST) -m 'not (process or training or compiled or slow)' tests

# A small model from nothing: data, training, error at three resolutions, a report in runs/demo.
demo: $(STAMP)
	$(BIN)/mondrian demo

bench: $(STAMP)
	$(BIN)/python -m benchmarks.core

# The site, in site/: open site/index.html. A broken link stops it.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
