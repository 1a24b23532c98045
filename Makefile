PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs screenshots bench wild clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(STAMP): pyproject.toml constraints.txt tests/found-requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gradproof needs Python 3.11 or newer, but '$(PYTHON)' is `$(PYTHON) --version 2>&1`." >&2; \
	  echo "Name another one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing gradproof and its tools into $(VENV) (about a minute) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[torch,dev]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -r tests/found-requirements.txt
	@touch $@

demo: $(STAMP) ## run the demonstration; it writes build/demo.html; BACKEND=numpy or jax for another model
	$(BIN)/python examples/demo.py $(BACKEND)

test: $(STAMP) ## run the tests; PYTEST_ARGS="-k locate" adds arguments
	$(BIN)/pytest -n 2 $(PYTEST_ARGS)

lint: $(STAMP) ## ruff check, ruff format --check, pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: $(STAMP) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(STAMP) ## make the pictures of the README again; needs chromium and chromium-driver
	$(BIN)/python docs/screenshots.py

bench: $(STAMP) ## measure against torch's and JAX's checkers
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[jax]'
	$(BIN)/python benchmarks/slow_mode.py
	$(BIN)/python benchmarks/sensitivity.py
	$(BIN)/python benchmarks/jax_sensitivity.py

wild: $(STAMP) ## check Functions of released packages (ten minutes); writes build/wild.html
	$(BIN)/python benchmarks/wild.py

clean: ## remove what the other targets made, except .venv
	rm -rf build dist site .hypothesis .pytest_cache .ruff_cache
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
