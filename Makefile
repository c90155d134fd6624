.DEFAULT_GOAL := help
export UV_PYTHON_DOWNLOADS := never

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

.PHONY: test
test: dev-setup ## Run every check and every test
	@scripts/test.sh all

.PHONY: check
check: dev-setup ## Run the static checks: format, lint, types, import rules
	@scripts/test.sh static

.PHONY: torture
torture: dev-setup ## Run the tests that take minutes: hostile input, long simulations, large queues
	@scripts/servers.sh
	@$(BIN)/pytest -q -n auto -m long

.PHONY: unit
unit: dev-setup ## Run the fast tests
	@$(BIN)/pytest -q -n auto -m "not slow and not long"

.PHONY: format
format: dev-setup ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

.PHONY: bench
bench: .venv/bench.stamp ## Measure throughput and latency on this machine
	@$(BIN)/python -m bench

.PHONY: lock
lock: dev-setup ## Pin the newest allowed versions in requirements/
	@scripts/lock.sh

.PHONY: clean
clean: ## Remove the environment and every cache
	@rm -rf .venv build dist .coverage .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
