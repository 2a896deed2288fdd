# Every way to work with Tailrace. `make` alone lists them; nothing has to be typed before `make run` or `make test`.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
KERNELS := src/tailrace/record/kernels

# Workers of a test run: two per core, because half of them mostly wait (tests/suite/scheduler.py).
WORKERS := $(shell expr 2 '*' $$(nproc))

# The first interpreter that is new enough and can make virtual environments; PYTHON=... overrides the search.
PYTHON_CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))

# Bytecode is kept, even where the environment forbids it: without it every worker, and every process that a test starts,
# compiles all sources again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run test test-long test-changed compat-cluster slow budgets coverage soak lint format spec bench
.PHONY: bench-peers bench-spark bench-metadata bench-failover record-kafka dist fresh clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv, compile the kernels, install the package editable with its development tools

# Old extension modules go first: where the compiler fails, a stale one must not shadow its edited source.
$(STAMP): pyproject.toml setup.py $(wildcard $(KERNELS)/*.py) $(wildcard $(KERNELS)/*.pxd)
	@set -eu; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		found=; \
		for candidate in $(or $(PYTHON),$(PYTHON_CANDIDATES)); do \
			if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "error: no Python 3.11 or newer with venv found" >&2; \
			echo "hint: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
			exit 1; \
		fi; \
		echo "making $(VENV) with $$("$$found" --version)"; \
		"$$found" -m venv --clear $(VENV); \
	fi; \
	echo "installing tailrace and its development tools"; \
	rm -f $(KERNELS)/*.so; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'; \
	$(BIN)/tailrace --version; \
	touch $@

run: setup ## a broker on localhost:9092 with orders streaming through it; ONCE=1 ends by itself; ARGS="--port 9093"
	@$(BIN)/tailrace demo $(if $(ONCE),--once) $(ARGS)

test: setup ## the tests, without the long ones
	@$(BIN)/python -m pytest -n $(WORKERS) -m 'not long' --spec-results=test

test-long: setup ## only the long tests
	@$(BIN)/python -m pytest -n $(WORKERS) -m long --spec-results=test-long

slow: setup ## the slowest tests, files and fixtures of the last runs; ARGS=--update commits their durations
	@$(BIN)/python tools/slow.py $(ARGS)

budgets: setup ## the time budget of each test folder, and what the last runs took
	@$(BIN)/python tools/budgets.py

coverage: setup ## line and branch coverage of src; ARGS="--long --against FILE"
	@$(BIN)/python tools/measure_coverage.py $(ARGS)

test-changed: setup ## the tests that changes against HEAD can affect; BASE=rev, LONG=1 adds the long ones
	@$(BIN)/python tools/changed_tests.py --base $(or $(BASE),HEAD) --run -- -n $(WORKERS) $(if $(LONG),,-m 'not long')

compat-cluster: setup ## clusters mixed with a real Kafka: the tests that no other target runs
	@$(BIN)/python -m pytest --by-hand tests/compat/clusters $(ARGS)

soak: setup ## random workloads and faults for as long as you let it
	@$(BIN)/python tools/soak.py

lint: setup ## formatting, lint, types, subjects of commits
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python tools/commit_subjects.py

format: setup ## rewrite the sources in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

spec: setup ## which items of docs/spec-checklist.md passing tests prove
	@$(BIN)/python tools/spec.py

bench: setup ## the benchmarks
	@$(BIN)/python benchmarks/run.py

bench-peers: setup ## the same load against Tailrace and a real Kafka; ARGS="--rows launch --rounds 3"
	@$(BIN)/python benchmarks/peers_run.py $(ARGS)

bench-metadata: setup ## memory and times of the metadata of 1,000 brokers; ARGS="--partitions 1000000"
	@$(BIN)/python benchmarks/metadata.py $(ARGS)

bench-failover: setup ## time from the end of the active controller to the next command; ARGS="--rounds 5"
	@$(BIN)/python benchmarks/failover.py $(ARGS)

bench-spark: setup ## Spark on a topic beside Spark on Parquet files, with the plot; ARGS="--rows 1000000"
	@$(BIN)/python benchmarks/spark_run.py $(ARGS)

record-kafka: setup ## record again what a real Kafka responds to the requests of the tests
	@$(BIN)/python -m pytest -m long --record-kafka tests/compat/test_answers_beside_kafka.py

dist: setup ## wheel for this platform and source archive, in dist/
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist .

# The inner make must behave as if typed by hand, so nothing of this one's environment reaches it.
fresh: ## clone HEAD into a temporary folder and run the demo and the tests there
	@set -eu; \
	if [ -n "$$(git status --porcelain)" ]; then echo "note: changes that are not committed are not tested"; fi; \
	folder=$$(mktemp -d); \
	trap 'rm -rf "$$folder"' EXIT; trap 'exit 130' INT TERM; \
	git clone --quiet --no-hardlinks . "$$folder/tailrace"; \
	cd "$$folder/tailrace"; \
	unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL; \
	make run ONCE=1; \
	make test; \
	echo PASS

clean: ## remove everything that was built, but not .venv
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis $(KERNELS)/*.so
	@rm -f $(STAMP)
