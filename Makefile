# The only commands anyone has to know. Each works in a fresh clone with Python 3.11, pip and make,
# makes its own .venv, and says in one line what it is doing.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
SEEDS   ?= 20
# Test processes; more than the cores only makes timeouts likelier.
WORKERS ?= 2

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check --quiet
RUN  := $(VENV)/.run-installed
DEV  := $(VENV)/.dev-installed
CODE := $(wildcard src tests tools bench)

SIMULATION := $(wildcard src/headgate/testing/simulation.py src/headgate/testing/simulation/__main__.py)
BENCHES    := $(sort $(patsubst bench/%.py,%,$(wildcard bench/bench_*.py)))

# -E reads every page anew: a page that is not read again does not repeat its warnings.
SPHINX     = $(BIN)/sphinx-build -W --keep-going -n -q -E -b html -d build/doctrees docs site
UV_COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal \
	--fork-strategy fewest --python-version 3.11 --generate-hashes --no-emit-index-url --no-config $(LOCKFLAGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two targets at once would install into one .venv at once.
.NOTPARALLEL:
.PHONY: help up test check format docs bench simtest lock clean

help: ## list the targets
	@echo "usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '%-10s %s\n' "$$name" "$$text"; done

up: $(RUN) ## start Headgate on this machine (ARGS="--demo --port 0" and the like are handed to it)
	@echo "up: starting Headgate"
	@exec $(BIN)/headgate up $(ARGS)

test: $(DEV) ## run the tests (ARGS="-m slow" and the like are handed to pytest)
	@echo "test: running the tests in $(WORKERS) processes"
	@$(BIN)/python -m pytest -q -n $(WORKERS) $(ARGS)

check: $(DEV) ## format, lint, types, import rules, docs: everything that needs no test run
	@echo "check: ruff format"
	@$(BIN)/ruff format --check --quiet $(CODE) docs/conf.py || { \
		$(BIN)/ruff format --check $(CODE) docs/conf.py; echo "run 'make format'"; exit 1; }
	@echo "check: ruff check"
	@$(BIN)/ruff check --quiet $(CODE) docs/conf.py
	@echo "check: mypy --strict"
	@$(BIN)/mypy $(CODE)
	@echo "check: import-linter"
	@$(BIN)/lint-imports --no-cache > $(VENV)/import-linter.log || { cat $(VENV)/import-linter.log; exit 1; }
	@echo "check: docs build without warnings"
	@$(SPHINX)

format: $(DEV) ## format the code and apply the safe fixes of the linter
	@echo "format: ruff"
	@$(BIN)/ruff check --fix --silent --exit-zero $(CODE) docs/conf.py
	@$(BIN)/ruff format --quiet $(CODE) docs/conf.py

docs: $(DEV) ## build the documentation into site/, warnings are errors
	@echo "docs: building site/index.html"
	@$(SPHINX)

bench: $(DEV) ## run every benchmark and print its ratios; other job queues are installed into build/ for it
	@echo "bench: $(or $(BENCHES),there are no benchmarks yet)"
	@set -e; for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m bench.$$name; done
	@echo "== peers (python -m bench.peers --help for more)"; $(BIN)/python -m bench.peers

simtest: $(DEV) ## run the deterministic simulation over SEEDS=n seeds
ifeq ($(SIMULATION),)
	@echo "simtest: the simulation does not exist in this version yet; nothing was tested" >&2; exit 1
else
	@echo "simtest: simulating $(SEEDS) seeds"
	@$(BIN)/python -m headgate.testing.simulation --seeds $(SEEDS)
endif

lock: $(DEV) ## pin the requirements anew (LOCKFLAGS=--upgrade for the newest versions)
	@echo "lock: pinning requirements/dev.txt and requirements/run.txt"
	@$(UV_COMPILE) --extra dev -o requirements/dev.txt pyproject.toml
	@$(UV_COMPILE) --extra build -c requirements/dev.txt --no-annotate -o requirements/run.txt pyproject.toml

clean: ## remove everything that the other targets made
	@echo "clean: removing .venv, caches and build outputs"
	@rm -rf $(VENV) build dist site htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no python3 found; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than Python 3.11; set PYTHON=..." >&2; exit 1; }
	@echo "venv: making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)

$(RUN): requirements/run.txt pyproject.toml | $(BIN)/python
	@echo "venv: installing what Headgate needs to run"
	@$(PIP) install --require-hashes -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo "venv: installing what development needs (about a minute the first time)"
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
