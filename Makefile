.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help demo test check coverage fmt bench fuzz wheel browser
BIN := .venv/bin

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

demo: ## install kvdsl, then compile two deployments into reports under build/demo
	@bash .ci/venv && bash .ci/demo

test: browser ## install all that tests need, then check
	@bash .ci/venv dev && bash .ci/pango && $(MAKE) check

check: ## format, lint, types and tests, with what is installed
	@$(BIN)/ruff format --check --output-format concise . || { echo "not formatted: run make fmt" >&2; exit 1; }
	@$(BIN)/ruff check --output-format concise . && $(BIN)/mypy && $(BIN)/pytest -n auto --dist loadfile

coverage: ## the tests with coverage, without the laws that it slows tenfold
	@bash .ci/venv dev && $(BIN)/pytest -q --cov --ignore=tests/laws --ignore=tests/fuzz --ignore=tests/report

fmt: ## format, and mend what lint can mend
	@bash .ci/venv dev && $(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: ## time compile, search and render side by side
	@bash .ci/venv dev && $(BIN)/python -m benchmarks

fuzz: ## try 100,000 random and damaged specs; RUNS=1000 tries fewer, SEED=2 tries others
	@bash .ci/venv dev && $(BIN)/python -m tests.fuzz --runs $${RUNS:-100000} --seed $${SEED:-1}

wheel: ## build dist/kvdsl-*.whl and the source archive
	@bash .ci/venv dev && $(BIN)/python -m build --no-isolation --outdir dist .

browser:
	@bash .ci/browser
