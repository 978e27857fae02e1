# Everything a developer runs. Needs Python >= 3.11 and make; installs the rest into .venv by itself.
# Plain POSIX shell and make 3.81, so that macOS's own tools will do.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
STAMP := $(VENV)/.stamp-installed
LISTEN ?= 127.0.0.1:8899
# Where tests that start no processes put their databases: in memory, if there are 4 GB to spare.
MEMORY = $$(free=$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }'); \
  [ "$${free:-0}" -gt 4000000 ] && [ -w /dev/shm ] && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
# Hundreds of short processes would else compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

# These kill processes under load and judge how soon all goes on: many side by side would disturb each other.
CALM := $(addprefix tests/faults/test_,kill_node.py cluster_short.py cluster_doorbell.py schedule_leaders.py)
# These start real processes too, but mostly wait for each other.
SIDE_BY_SIDE := tests/integration tests/acceptance tests/faults
CHECKED := src tests $(wildcard bench/*.py bench/fairness/*.py examples/*/*.py)
TYPED := src $(wildcard bench/*.py bench/fairness/*.py examples/*/*.py)

.PHONY: help setup up stock test test-all test-properties test-16 test-faults drill lint types imports unit processes bench bench-peers bench-flood bench-fairness bench-backlog bench-takeover bench-idle bench-memory lock fmt clean

help: ## Show this list.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -e 's/:.*## /	/' | sort | \
	  awk -F '	' '{ printf "  make %-14s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Make .venv and install the locked packages into it; instant the second time.

# The lock names every package with its hashes; nothing is resolved here. The project itself is built
# without isolation (hatchling and editables are in the lock), so that nothing outside the
# lock is ever fetched. uv does in 3 seconds what takes pip 24; it stands in the lock like the rest.
$(STAMP): requirements.lock pyproject.toml
	@for candidate in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
	  if command -v "$$candidate" >/dev/null 2>&1 && \
	     "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Fairway needs Python 3.11 or newer with its venv module; none was found." >&2; \
	  echo "Install one (Debian: apt-get install python3-venv), or say: make setup PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	[ -x $(BIN)/python ] || { echo "making $(VENV) with $$found"; "$$found" -m venv $(VENV); }
	@echo "installing the locked packages"
	@awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements.lock > $(VENV)/uv.lock
	@$(PIP) --require-hashes --no-deps -r $(VENV)/uv.lock
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --no-deps -r requirements.lock || \
	  { echo "uv could not; trying pip, which may know another package index"; \
	    $(PIP) --require-hashes --no-deps -r requirements.lock; }
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# exec: a Ctrl-C or a SIGTERM to make reaches fairway itself, and nothing is left behind.
up: setup ## Run a node with a worker in the foreground; Ctrl-C stops it.
	@exec $(BIN)/fairway up --listen $(LISTEN) $(ARGS)

test: lint types imports unit processes ## Run every gate and every test.
	@echo "all passed"

lint: setup
	@echo "== ruff"
	@$(BIN)/ruff check $(CHECKED)
	@$(BIN)/ruff format --check --quiet $(CHECKED) || \
	  { echo "some files are not formatted: make fmt" >&2; $(BIN)/ruff format --check $(CHECKED); exit 1; }

types: setup lint
	@echo "== mypy"
	@$(BIN)/mypy $(TYPED)

imports: setup types
	@echo "== lint-imports"
	@$(BIN)/lint-imports

# PostgreSQL as users have it: from the system's packages, with LLVM. Where there is none and we may, it is installed.
stock: setup
	@ls /usr/lib/postgresql/*/lib/llvmjit.so >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing the system's PostgreSQL"; \
	    DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; \
	    apt-get install -qq -y --no-install-recommends postgresql >/dev/null 2>&1 || \
	      { apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql >/dev/null; }; \
	  else echo "no PostgreSQL of the system's packages here: tests on it are skipped"; fi; }

unit: setup stock imports
	@echo "== tests without processes of their own, four at a time: some wait for a disk or a clock"
	@TMPDIR=$(MEMORY) $(BIN)/pytest -q -n 4 --session-timeout=700 tests $(addprefix --ignore=,$(SIDE_BY_SIDE))

processes: setup unit
	@echo "== tests with real processes, four files at a time"
	@$(BIN)/pytest -q -n 4 --dist loadfile --session-timeout=600 $(SIDE_BY_SIDE) $(addprefix --ignore=,$(CALM))
	@echo "== tests with real processes, two at a time"
	@$(BIN)/pytest -q -n 2 --dist loadfile --session-timeout=400 $(CALM)

# The long runs show their reports as they come (-s); one that fails does not spare the others.
test-all: test test-properties test-16 test-faults ## Run make test, then PostgreSQL 16, PgBouncer, the long fault runs, the drill.
	@echo "all passed, the long runs too"

test-properties: setup ## Try every property of the core with twenty times as many examples: some ten minutes.
	@echo "== the core's properties, thousands of examples each"
	@FAIRWAY_TEST_EXAMPLES=20 $(BIN)/pytest -q -n 2 --timeout=900 --session-timeout=3600 tests/core

test-16: setup
	@echo "== the stores' suite on PostgreSQL 16"
	@FAIRWAY_TEST_PG_BIN=$$($(BIN)/python -c 'import tests.postgres as p; print(p.find_binaries(16))') \
	  $(BIN)/pytest -q -n 2 --session-timeout=400 tests/conformance

test-faults: setup ## Run the long fault runs and the Patroni drill: about an hour.
	@echo "== long fault runs"
	@$(BIN)/pytest -q -s -m long --session-timeout=7200 tests/faults tests/acceptance tests/integration

drill: setup ## Kill the primary of a Patroni cluster under load; ARGS="--fail-overs 5".
	@$(BIN)/python -m tests.faults.drill $(ARGS)

bench: setup ## Measure this machine: Fairway and Huey on SQLite, side by side.
	@$(BIN)/python -m bench.run $(ARGS)

bench-peers: setup ## Measure Fairway and its peers on one PostgreSQL, side by side; about an hour.
	@$(BIN)/python -m bench.peers $(ARGS)

bench-flood: setup ## Measure how long one job waits beside another tenant's flood of 100,000, also on peers.
	@$(BIN)/python -m bench.flood $(ARGS)

bench-fairness: setup ## Replay drawn worlds, or ARGS="LOG.swf", and judge who had its share; --against DIR compares.
	@$(BIN)/python -m bench.fairness $(ARGS)

bench-backlog: setup ## Load 10,000,000 waiting jobs into a core and watch its memory.
	@$(BIN)/python -m bench.backlog $(ARGS)

bench-takeover: setup ## Kill a leader on 5,000,000 waiting jobs; say when the next one begins, and its memory.
	@$(BIN)/python -m bench.takeover $(ARGS)

bench-idle: setup ## Count what three nodes and twenty workers ask of PostgreSQL while nothing happens.
	@$(BIN)/python -m bench.idle $(ARGS)

bench-memory: setup ## Send 1,000,000 jobs through one node, then one worker, and watch their memory.
	@$(BIN)/python -m bench.run --only memory --memory-jobs 1000000 $(ARGS)

lock: ## Resolve requirements.lock anew from pyproject.toml.
	@[ -x $(BIN)/uv ] || { echo "run make setup first" >&2; exit 1; }
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --extra test --extra gates --extra bench \
	  $(if $(UPGRADE),--upgrade) --output-file requirements.lock pyproject.toml
	@! grep -n '://' requirements.lock

fmt: setup ## Format the code and mend what the linter can.
	@$(BIN)/ruff check --fix --quiet $(CHECKED) || true
	@$(BIN)/ruff format $(CHECKED)

clean: ## Remove everything that was made here, .venv too.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
