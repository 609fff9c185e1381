# Two commands do everything on a machine with Python >= 3.11 and make:
#   make figures   the project's main job: compute and draw every figure
#   make test      the whole test suite
# Both set up .venv first, with the versions pinned in constraints.txt: figures installs the package,
# test the tools of the developers too.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp for each set of packages: figures need the package alone, tests need everything.
PACKAGE := $(VENV)/.installed-package
EVERYTHING := $(VENV)/.installed-everything
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
COMMA := ,
OUT ?= figures
PROFILE ?= quick
# Four test processes on two cores: some wait for other processes that they have started.
PROCESSES ?= 4
# A file of tests is the work of one process, which makes its fixtures once.
PYTEST := $(BIN)/python -m pytest --dist loadfile
# One BLAS thread for each test process: the runner uses the cores already.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Compiled when first imported, and kept: the tests start more than a hundred Python processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup figures test suite quick check bench docs browser clean

help:
	@sed -n '1,6p' Makefile
	@echo "also: setup, quick (tests of 90 seconds), check (lint, types, import rules), bench (SIZE=8: a file of 8 GB), docs, clean"

setup: $(EVERYTHING)

# uv installs in a tenth of pip's time; where it does not reach an index that pip is set up for, pip does.
define install
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	($(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -b constraints.txt -e '$(1)') \
	  || $(PIP) -e '$(1)'
endef

$(PACKAGE): pyproject.toml constraints.txt
	$(call install,.)
	@touch $@

$(EVERYTHING): pyproject.toml constraints.txt
	$(call install,.[web$(COMMA)cluster$(COMMA)export$(COMMA)dev])
	@touch $(PACKAGE) $@

figures: $(PACKAGE)
	$(BIN)/polyceptron figures --out $(OUT) --profile $(PROFILE)

# Checks and tests side by side; then the browser, whose pages time out on a busy machine.
test: setup
	@$(MAKE) --no-print-directory -j 2 check suite
	@$(MAKE) --no-print-directory browser

suite: setup
	$(PYTEST) -n $(PROCESSES) -m "not browser"

# What drives Debian's Chromium; without root and apt to install it these tests skip and say why.
browser: setup
	@sh tests/install_chromium.sh
	$(PYTEST) -n 2 -m browser tests/browser tests/docs/test_docs_build.py

# What a change should run while it is made: no browser, no other processes, no figures.
quick: setup
	$(PYTEST) -n 2 -m "not slow and not process and not browser"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/docs/type_check.py
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks $(if $(SIZE),--size $(SIZE))

docs: setup
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) $(OUT) docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
