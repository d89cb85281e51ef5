# Holdfast's commands. `make` alone lists them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
# The version that writes the lock files; it is installed for the occasion and thrown away.
UV ?= uv>=0.9,<1
# Extra words for the command at hand: make test ARGS="-n0 -k budget", make lock ARGS=--upgrade
ARGS ?=
# How many programs `make simulate` runs.
SEEDS ?= 3000
# What `make chaos` is to repeat, and how long everything goes wrong at random, after each fault alone.
SEED ?=
MINUTES ?= 3

# Whoever sets it spares a few files; the thousand processes of the tests would each compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PY := $(BIN)/python
LOCKED := $(VENV)/.locked
SITE_LOCKED := $(VENV)/.docs-locked
INSTALLED := $(VENV)/.installed
NODE := examples/node_worker/node_modules/.package-lock.json
CLIENTS := $(VENV)/clients/.locked
CLICKHOUSE := $(VENV)/clickhouse/.locked
PROVIDER := tests/http/provider/node_modules/.package-lock.json
TYPESCRIPT := examples/generated_clients/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup console wheel clients clickhouse demo test tests-again quick long mutants crash e2e workflows stores properties simulate chaos docs screenshots reference check lint types format wire lock clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) $(NODE) $(PROVIDER) ## Create .venv with the locked packages, this project and its console; does nothing when it is up to date
	@$(PY) console/build.py --optional
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "setup: ready; .venv/bin/holdfast --help lists the commands",:)

console: $(INSTALLED) ## Build the console, which the servers send to browsers
	@$(PY) console/build.py

wheel: console ## Make the wheel in dist/, with the console
	@HOLDFAST_CONSOLE=required $(PY) -m pip wheel -qq --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

# Your pip configuration and environment apply as they are: index, proxy, certificates, cache. The lock file is complete, and
# has a newer package than one in it asks for (pyproject.toml, tool.uv), so nobody asks what else is needed.
$(LOCKED): requirements/dev.txt
	@test -n "$(PYTHON)" || { echo "setup: no python3.11 or python3 on the PATH" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "setup: Python 3.11 or newer is needed; say which with make PYTHON=..." >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 \
		|| { echo "setup: creating $(VENV)"; "$(PYTHON)" -m venv --clear $(VENV); }
	@echo "setup: installing the locked packages (a minute or more the first time)"
	@$(PY) -m pip install -qq --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

$(INSTALLED): $(LOCKED) pyproject.toml
	@echo "setup: installing holdfast itself, editable"
	@$(PY) -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

# Without npm, or a registry that it reaches, the tests in JavaScript and TypeScript are skipped and say so.
$(NODE) $(PROVIDER) $(TYPESCRIPT): %/node_modules/.package-lock.json: %/package-lock.json
	@if command -v npm >/dev/null 2>&1; then \
		echo "setup: installing what $* stands on"; \
		cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=60000 && touch $(notdir $(@D))/$(@F) \
			|| echo "setup: npm could not; its tests are skipped"; \
	else echo "setup: there is no npm; the tests of $* are skipped"; fi

clients: setup $(CLIENTS) $(TYPESCRIPT) ## Install the generators of clients that `make e2e` and `make long` hold the API's description against

# An environment of its own: its generator and the test tools ask for other versions of the same packages.
$(CLIENTS): requirements/clients.txt $(LOCKED)
	@echo "clients: installing the generator of clients in Python"
	@"$(PYTHON)" -m venv --clear --without-pip $(@D)
	@$(PY) -m pip --python $(@D)/bin/python install -qq --no-deps --require-hashes -r requirements/clients.txt
	@touch $@

clickhouse: setup $(CLICKHOUSE) ## Install the engine of ClickHouse that `make long` exports events to: 170 MB

# An environment of its own: it is large, and brings packages that nothing else here uses.
$(CLICKHOUSE): requirements/clickhouse.txt $(LOCKED)
	@echo "clickhouse: installing the engine of ClickHouse"
	@"$(PYTHON)" -m venv --clear --without-pip $(@D)
	@if $(PY) -m pip --python $(@D)/bin/python install -qq --no-deps --require-hashes -r requirements/clickhouse.txt; then touch $@; \
	else echo "clickhouse: the engine cannot be installed here; the tests that export to it are skipped"; fi

demo: setup ## Run the support-triage example from start to end
	@$(PY) -m examples.support_triage.demo $(ARGS)

test: setup ## Run the tests, and say which took longest
	@$(PY) -m pytest --durations=15 --durations-min=5 $(ARGS)

# What .ci/run says: the record, and which tests.
tests-again:
	@$(PY) -m tests.again $(RECORD) $(ARGS)

quick: setup ## The rules, the scheduler, the layers, and the promises of the store on SQLite: under a minute
	@HOLDFAST_EXAMPLES=0.3 $(PY) -m pytest -n logical \
		tests/core tests/scheduling tests/stores/test_sqlite.py tests/stores/test_store_conformance.py \
		tests/test_layers.py tests/test_public_names.py -k "sqlite or not test_store_conformance" \
		--ignore tests/core/test_properties_coverage.py $(ARGS)

crash: setup ## Kill a run at every point that lasts, and at every pair of them; takes minutes
	@HOLDFAST_CRASH=all $(PY) -m pytest tests/crash -rP --timeout=1800 $(ARGS)

e2e: clients ## Hold the HTTP API against its description, and kill servers and clients around decisions; takes minutes
	@HOLDFAST_E2E=all $(PY) -m pytest tests/e2e -n auto --timeout=600 $(ARGS)

long: clients clickhouse ## Run the tests that take long beside a shorter one of their kind; takes minutes
	@$(PY) -m pytest -m long $(ARGS)

workflows: setup ## Run the long forms of the examples: killed at every other commit, in every state; takes minutes
	@HOLDFAST_WORKFLOWS=all $(PY) -m pytest tests/examples -n auto --timeout=3600 $(ARGS)

stores: setup ## Run every case of every test that has a store on each kind of store; takes minutes
	@HOLDFAST_STORES=all $(PY) -m pytest tests/stores tests/engine tests/invariants tests/faults $(ARGS)

properties: setup ## Play ten times as many random histories and files by the rules
	@HOLDFAST_EXAMPLES=10 $(PY) -m pytest tests/core tests/actions/expressions tests/actions/jobs/test_model.py tests/actions/jobs/test_restoration.py \
		tests/stores/test_properties_rows.py -k "propert or comes_back or test_model" --timeout=1800 $(ARGS)

mutants: setup ## Break one rule at a time and see that every breakage is noticed (minutes)
	@$(PY) -m tests.mutants $(ARGS)

simulate: setup ## Run random programs among random faults in virtual time: make simulate SEEDS=100000
	@$(PY) -m tests.simulation --seeds $(SEEDS) --jobs 2 $(ARGS)

chaos: setup ## Have everything go wrong in a fleet under load: make chaos SEED=1 MINUTES=10
	@$(PY) -m tests.chaos $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES) $(ARGS)

docs: setup $(SITE_LOCKED) ## Build the pages and the reference into build/site; fails where a link leads nowhere
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet $(ARGS)
	@echo "docs: open build/site/index.html"

screenshots: setup ## Take the pictures of the console in docs/images, with the system's Chromium; takes minutes
	@PYTHONPATH=. $(PY) docs/site/screenshots.py

reference: setup ## Write from the code what follows from it: docs/reference, idioms, types of holdfast.sync, blocking client, tests/face
	@$(PY) docs/site/blocking_client.py
	@PYTHONPATH=. $(PY) docs/site/lists.py
	@$(PY) docs/site/sync_stub.py
	@PYTHONPATH=. $(PY) tests/face/face.py

$(SITE_LOCKED): requirements/docs.txt
	@echo "docs: installing what builds the site"
	@$(PY) -m pip install -qq --require-hashes -r requirements/docs.txt
	@touch $@

check: lint types test ## Everything a change must pass: lint, types, tests

lint: setup ## Check style and formatting without changing anything
	@echo "lint: ruff check"
	@$(PY) -m ruff check
	@echo "lint: ruff format --check"
	@$(PY) -m ruff format --check
	@echo "lint: words, by tests/words"
	@$(PY) -m tests.words
	@if [ -d console/node_modules ]; then $(PY) console/build.py check; else echo "lint: the console's packages are not installed"; fi

types: setup ## Check the types of src, of the simulation, and of examples as their authors would, strictly
	@echo "types: mypy --strict src tests/simulation"
	@$(PY) -m mypy --strict src tests/simulation
	@echo "types: users' files, as users would check them"
	@$(PY) -m mypy --strict --config-file= --cache-dir=.mypy_cache/user examples/expense_approval.py examples/order_flow.py \
		examples/plain_script.py tests/authoring/typing/*.py

format: setup ## Format the code and apply the safe fixes
	@$(PY) -m ruff check --fix-only
	@$(PY) -m ruff format

wire: setup ## Generate the messages of wire.proto anew
	@$(PY) -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src src/holdfast/wire/wire.proto

COMPILE = "$$scratch/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)

lock: ## Write requirements/*.txt anew from pyproject.toml, keeping the versions that still fit
	@echo "lock: installing the compiler in a scratch environment"
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	"$(PYTHON)" -m venv "$$scratch"; \
	"$$scratch/bin/python" -m pip install -qq "$(UV)"; \
	echo "lock: requirements/build.txt, what builds the project"; \
	"$(PYTHON)" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(COMPILE) - --output-file requirements/build.txt >/dev/null; \
	echo "lock: requirements/run.txt, what holdfast needs to run"; \
	$(COMPILE) pyproject.toml --output-file requirements/run.txt >/dev/null; \
	echo "lock: requirements/all.txt, that and the extras of a fleet: PostgreSQL, Redis, S3"; \
	$(COMPILE) pyproject.toml --extra all --constraint requirements/run.txt --output-file requirements/all.txt >/dev/null; \
	echo "lock: requirements/dev.txt, all of these and the test tools"; \
	$(COMPILE) pyproject.toml requirements/build.txt --extra all --extra evals --extra servers --extra testing --extra dev \
		--constraint requirements/all.txt --output-file requirements/dev.txt >/dev/null; \
	echo "lock: requirements/docs.txt, what builds the site"; \
	$(COMPILE) pyproject.toml --extra docs --constraint requirements/dev.txt --output-file requirements/docs.txt >/dev/null; \
	echo "lock: requirements/clients.txt, what makes a client of the description of the API"; \
	$(COMPILE) --group clients --output-file requirements/clients.txt >/dev/null; \
	echo "lock: requirements/clickhouse.txt, the engine that tests of the ClickHouse sink write to"; \
	$(COMPILE) --group clickhouse --output-file requirements/clickhouse.txt >/dev/null; \
	echo "lock: requirements/node.txt, what builds the console where there is no Node"; \
	$(COMPILE) --group node --output-file requirements/node.txt >/dev/null

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist console/dist console/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
