# Everything here needs nothing but Python 3.11, make and git: each target makes its own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test demo docs bench lint install clean

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

# The shape checks of jaxtyping and beartype run in every test but the compiled ones: they cannot be traced.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m 'not compiled' --jaxtyping-packages=mondrian,beartype.beartype
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m compiled

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
