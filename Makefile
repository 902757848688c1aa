# `make help` lists the targets. Every target sets up what it needs; a second set-up costs milliseconds.
PY := .venv/bin/python
UPFLAGS ?=

# The packages without a database: their tests take seconds, so `make check` runs them too.
CORE_TESTS := $(wildcard tests/gpushare tests/scheduler tests/autoscaler tests/museum/test_decisions.py)

# What all files of a kind have to keep, found by reading them: seconds, too.
RULES := tests/test_assertions.py tests/test_raw_sql.py tests/test_documents.py tests/controlplane/test_parameters.py \
	tests/controlplane/api/test_naming.py::test_each_sentence_with_a_name_says_whose_it_is

.DEFAULT_GOAL := help
.PHONY: help setup up test-cluster reset test check lint fix benchmark figures nightly sbom requirements
# The steps of a target build on each other, and servers and measurements share the machine.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with everything, tests included
	@scripts/setup dev

# exec: Ctrl-C reaches the server itself, and a clean end leaves make nothing to complain about.
up: ## run Weft on a simulated cluster (TRACE=philly|openb|FILE LOAD=1.2 SPEED=60 PORT=8000)
	@scripts/setup server
	@exec $(PY) manage.py up $(if $(TRACE),--trace '$(TRACE)') $(if $(LOAD),--load '$(LOAD)') \
		$(if $(SPEED),--speed '$(SPEED)') $(if $(PORT),--port '$(PORT)') $(UPFLAGS)

# The first start builds Kubernetes with the machine's Go, or with one that a wheel brings: 5 to 10 minutes.
test-cluster: ## run a real Kubernetes with simulated nodes to try Weft on (NODES=3|NUMBER|openb)
	@scripts/setup server
	@exec $(PY) manage.py test_cluster $(if $(NODES),--nodes '$(NODES)') $(CLUSTERFLAGS)

reset: ## delete the data of `make up` and start afresh
	@scripts/setup server
	@exec $(PY) manage.py reset

# WEFT_INSTALL=no: what tests need is taken into the cache only, no package of the system is installed.
test: ## get what the tests need, and run all, on SQLite and on Postgres
	@scripts/get
	@$(PY) -m scripts.alltests

check: setup ## what each commit has to pass: lint, the rules for all files, and the core tests
	@scripts/check tests/test_architecture.py $(RULES) $(CORE_TESTS)

lint: setup ## format, lint, types, import contracts, migrations
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	.venv/bin/lint-imports --no-logo
	$(PY) -m mypy
	$(PY) manage.py makemigrations --check --dry-run

fix: setup ## format, and mend what ruff can mend by itself
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

benchmark: ## measure one thing (NAME=start|replay|page|test-cluster|..., ARGS="--json")
	@scripts/setup server
	@exec $(PY) manage.py benchmark $(NAME) $(ARGS)

figures: ## print the stored figures (MEASURE=1: measure older and missing ones; NAME=start: that one)
	@scripts/setup server
	@exec $(PY) -m controlplane.benchmarks $(NAME) $(if $(MEASURE),--measure) $(ARGS)

nightly: setup ## the tests that are too long for CI, and whether tests notice planted bugs
	$(PY) -m pytest -m "nightly or nightly_too" --timeout=3600
	$(PY) -m pytest tests/controlplane --database=postgres -m "not kubernetes" --timeout=3600
	$(PY) -m tests.mutation
	$(PY) scripts/advisories.py

sbom: setup ## write what Weft consists of to weft.cdx.json (CycloneDX)
	$(PY) scripts/sbom.py > weft.cdx.json

# The floor of the supported Pythons decides; --universal writes markers for the newer ones.
COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command 'make requirements' $(COMPILEFLAGS)

requirements: setup ## pin the dependencies of both pyproject.toml again (COMPILEFLAGS=--upgrade)
	$(COMPILE) pyproject.toml weft/pyproject.toml --extra dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml weft/pyproject.toml -c requirements/dev.txt -o requirements/server.txt
	$(COMPILE) weft/pyproject.toml -c requirements/dev.txt -o requirements/client.txt
	printf 'setuptools\nuv\n' | $(COMPILE) - -o requirements/uv.txt
	@scripts/setup dev
