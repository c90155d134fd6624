.DEFAULT_GOAL := help
export UV_PYTHON_DOWNLOADS := never
# Tests start hundreds of processes; without bytecode on disk each of them would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SETUP := scripts/setup.sh pyproject.toml

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: .venv/run.stamp ## Start Pillarbox on SQLite in development mode (PORT=n chooses the port)
	@$(BIN)/pillarbox dev $(if $(PORT),--port $(PORT))

.PHONY: setup
setup: .venv/run.stamp ## Install what running needs; leaves .venv/bin/pillarbox

.PHONY: dev-setup
dev-setup: .venv/dev.stamp ## Install what the checks and tests need

.venv/run.stamp: requirements/run.txt $(SETUP)
	@scripts/setup.sh run

.venv/dev.stamp: requirements/dev.txt $(SETUP)
	@scripts/setup.sh dev

.venv/bench.stamp: requirements/bench.txt .venv/dev.stamp
	@scripts/setup.sh bench

.venv/peers.stamp: requirements/peers.txt requirements/peers-arq.txt scripts/peers.sh .venv/bench.stamp
	@scripts/peers.sh

.PHONY: test
test: dev-setup ## Run every check and every test
	@scripts/test.sh all

.PHONY: check
check: dev-setup ## Run the static checks: format, lint, types, import rules
	@scripts/test.sh static

.PHONY: torture
torture: dev-setup ## Run what takes an hour: long tests, tens of thousands of simulations, real processes under trouble
	@scripts/servers.sh
	@$(BIN)/pytest -q -n auto -m long
	@$(BIN)/python -m tests.simulation --seeds 10000 --jobs "$$(getconf _NPROCESSORS_ONLN)"
	@$(BIN)/python -m torture --minutes 1 --calm
	@$(BIN)/python -m torture --minutes 1 --calm --database postgres
	@$(BIN)/python -m torture --minutes 10
	@$(BIN)/python -m torture --minutes 10 --database postgres

.PHONY: mutants
mutants: dev-setup ## Plant bugs in a copy of our code and see that the tests find each
	@$(BIN)/python -m mutants --result docs/results/mutants.json

.PHONY: mutmut
mutmut: dev-setup ## Have a program change the engine and the pure files by the hundred, and count what the tests notice
	@$(BIN)/python -m mutants.machine_made --result docs/results/mutmut.json

.PHONY: pictures
pictures: dev-setup ## Take the documentation's screenshots anew
	@scripts/servers.sh
	@mkdir -p docs/pictures
	@PILLARBOX_TEST_PICTURES=docs/pictures $(BIN)/pytest -q tests/browser/test_pictures.py

.PHONY: unit
unit: dev-setup ## Run the fast tests
	@$(BIN)/pytest -q -n auto -m "not slow and not long"

.PHONY: docs
docs: dev-setup ## Build the documentation as a site in build/site, to be read without a network
	@$(BIN)/python scripts/reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html; with search: $(BIN)/python -m http.server --bind 127.0.0.1 -d build/site"

.PHONY: format
format: dev-setup ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

.PHONY: bench
bench: .venv/peers.stamp ## Measure us beside other queues on this machine (QUICK=1 for a first impression)
	@$(BIN)/python -m bench $(if $(QUICK),--quick)

.PHONY: lock
lock: dev-setup ## Pin the newest allowed versions in requirements/
	@scripts/lock.sh

.PHONY: clean
clean: ## Remove the environment and every cache
	@rm -rf .venv build dist .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
