# Every target sets up .venv by itself; what is up to date is not done again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PEERS := .venv-peers
PYTEST_WORKERS ?= 2
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup demo check test fuzz lint bench docs clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(INSTALLED)  ## make .venv with focalcal and its development tools

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup  ## show what focalcal does, in a minute, with bundled data
	@$(BIN)/focalcal demo

lint: setup  ## lint, format check, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint  ## the daily loop: lint, types, layers, and quick unit tests (no process, browser or real data)
	env -u FOCALCAL_DATA $(BIN)/pytest -n $(PYTEST_WORKERS) --durations 5 -m 'not (processes or browser or whole or slow)' tests

test: lint  ## all checks
	$(BIN)/pytest -n $(PYTEST_WORKERS)

fuzz: setup  ## hostile files, and property tests with other examples, for FUZZ_SECONDS (600); SEED=… repeats one round
	$(BIN)/python tests/fuzz.py --seconds $(FUZZ_SECONDS) --workers $(PYTEST_WORKERS) $(if $(SEED),--seed $(SEED))

bench: $(PEERS)/.installed  ## measure speed beside peers and floors; prints the tables
	$(PEERS)/bin/python -m benchmarks

# The peers have an environment of their own. torch-uncertainty would pull in torchvision, which no benchmark needs.
$(PEERS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[references,translation]' seaborn playwright
	$(PEERS)/bin/python -m pip install --quiet --no-deps torch-uncertainty==0.13.0
	@touch $@

docs: setup  ## build the documentation into site/
	$(BIN)/python docs/draw.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## remove what was built
	rm -rf $(VENV) .venv-peers site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
