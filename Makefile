# Everything a developer or a CI machine runs. A fresh machine needs Python >= 3.11 with pip, and make; the rest comes by itself.
# `make` alone prints the list below. Recipes call tools as `python -m`, so a moved checkout keeps working.

PYTHON   ?= python3
JOBS     ?= 2
SEED     ?= 1
COMMANDS ?= 1000000
ROUNDS   ?= 200
ARGS     ?=

VENV := .venv
PY   := $(VENV)/bin/python
# The constraints bind the build environments too (pip 25.3 and newer read the second variable for that, older ones the first).
PIP  := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
        $(PY) -m pip install -qq --no-input --disable-pip-version-check -c constraints.txt

export HYPOTHESIS_STORAGE_DIRECTORY ?= .cache/hypothesis

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

##@ Start here

.PHONY: help
help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# Where `make run` keeps its exchange; git ignores it, and `make clean` leaves it alone.
DATA ?= bursa-data
PORT ?= 8000

.PHONY: run
run: $(VENV)/.dev ## Run a whole exchange on this machine, with demo sellers (Ctrl-C stops it): make run PORT=8000
	@$(PY) -m bursa.cli up --data '$(DATA)' --port $(PORT) $(ARGS)

.PHONY: watch
watch: $(VENV)/.dev ## Watch a simulated market (Ctrl-C stops it)
	@$(PY) -m tests.sim --show

.PHONY: sim
sim: $(VENV)/.dev ## Simulate a market and audit it: make sim SEED=1 COMMANDS=1000000
	@$(PY) -m tests.sim --seed $(SEED) --commands $(COMMANDS)

##@ Test and check

.PHONY: test
test: $(VENV)/.dev ## Run every test: make test ARGS='-k money'
	@$(PY) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

.PHONY: test-quick
test-quick: $(VENV)/.dev ## Run the tests that take under a second each
	@$(PY) -m pytest -n $(JOBS) --dist loadfile -m 'not slow' $(ARGS)

.PHONY: check
check: $(VENV)/.dev ## Lint, format check, types, imports between rooms, spelling, packaging data
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c 'from importlinter.cli import lint_imports_command as main; main()' --cache-dir .cache/import-linter
	$(PY) -m codespell_lib
	$(PY) -m validate_pyproject pyproject.toml

.PHONY: format
format: $(VENV)/.dev ## Rewrite the code in the house format, with the safe lint fixes
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

.PHONY: golden
golden: $(VENV)/.dev ## Write the golden files anew; read the diff before you commit it
	$(PY) -m tests.test_surface
	$(PY) -m tests.market.test_bad_input
	$(PY) -m tests.store.test_schema
	$(PY) -m tests.api.test_openapi
	$(PY) -m tests.cli.tree
	$(PY) -m tests.cli.test_screens
	$(PY) scripts/doc_tables.py

.PHONY: bench
bench: $(VENV)/.bench ## Measure the market, and other order books beside it
	$(PY) -m benchmarks.market $(ARGS)

.PHONY: bench-service
bench-service: $(VENV)/.bench ## Measure the exchange as a service, and other ledgers beside it
	$(PY) -m benchmarks.service $(ARGS)

.PHONY: faults
faults: $(VENV)/.dev ## Kill processes at random under load, 200 rounds: make faults ROUNDS=200
	BURSA_TEST_KILL_ROUNDS=$(ROUNDS) $(PY) -m pytest -q -s tests/faults -k kill

.PHONY: ci
ci: check test docs package ## All that must pass before a merge

##@ Docs and packages

.PHONY: docs
docs: $(VENV)/.dev ## Build the docs into build/html; a bad reference is an error
	$(PY) -m sphinx -q -E -n -W --keep-going -d .cache/doctrees -b html docs build/html
	@echo "docs: build/html/index.html"

.PHONY: package
package: $(VENV)/.dev ## Build sdist and wheel into build/dist, and import the wheel
	@rm -rf build/dist build/wheel
	$(PY) -m build --no-isolation --outdir build/dist >/dev/null
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-index --target build/wheel build/dist/*.whl
	@test -f build/wheel/bursa/py.typed
	@cd build/wheel && ../../$(PY) -I -c 'import sys; sys.path.insert(0, "."); import bursa; print("package: bursa", bursa.__version__)'

##@ Upkeep

.PHONY: lock
lock: ## Refresh constraints.txt: make lock, or make lock ARGS='--upgrade'
	@scripts/create-venv '$(PYTHON)'
	@$(PY) -c 'import uv' 2>/dev/null || $(PIP) uv
	@$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links \
	  --no-emit-index-annotation --extra dev --extra docs --extra bench --no-emit-package bursa \
	  --custom-compile-command "make lock (make lock ARGS='--upgrade' takes newer versions)" \
	  $(ARGS) --output-file constraints.txt pyproject.toml

.PHONY: hooks
hooks: $(VENV)/.dev ## Install the pre-commit hooks
	$(PY) -m pre_commit install

.PHONY: changelog
changelog: $(VENV)/.dev ## Show the next release's notes
	@$(PY) -m towncrier build --draft --version next

.PHONY: clean
clean: ## Remove all that make made, .venv included
	rm -rf $(VENV) .cache build dist .hypothesis .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is as new as the last install; a change of the pins or of pyproject.toml installs again.
$(VENV)/.dev: pyproject.toml constraints.txt scripts/create-venv
	@scripts/create-venv '$(PYTHON)'
	@echo "installing the pinned packages into $(VENV) (a few minutes the first time)"
	@$(PIP) -e '.[dev,docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@echo "installing the packages to compare with into $(VENV)"
	@$(PIP) -e '.[bench]'
	@touch $@
