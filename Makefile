# Each target sets up what it needs in $(VENV); all it takes is Python 3.11 or newer and make.
#
#   make demo     the next 32 sample groups of the sample data (base install, no extras)
#   make test     the whole test suite, with every extra
#   make check    format, lint, types and import contracts
#   make proof    the suite with its long forms: minutes of kills and fuzzing
#   make bench    the benchmarks
#
# PYTHON chooses the interpreter and VENV the folder:  make test PYTHON=python3.13 VENV=.venv-3.13

VENV ?= .venv
PYTEST_ARGS ?= -n auto --dist worksteal
BENCH_ARGS ?=

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(NEW_ENOUGH)' 2>/dev/null && echo "$$python" && break; done)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt --build-constraint constraints.txt
SETUP_FILES := pyproject.toml constraints.txt

.PHONY: demo test check format proof bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.has-base
	$(BIN)/rolloutds peek --n 32

test: $(VENV)/.has-all
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: $(VENV)/.has-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.has-lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# `-m ""` undoes the deselection of long tests in pyproject.toml.
proof: $(VENV)/.has-all
	HYPOTHESIS_PROFILE=proof $(BIN)/python -m pytest $(PYTEST_ARGS) -m ""

bench: $(VENV)/.has-all
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:
	rm -rf $(VENV) dist build .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# The pip that comes with a new Python 3.11 knows neither --group nor --build-constraint.
$(VENV)/.has-pip: constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; name one with PYTHON=…" >&2; exit 2; }
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "$(PYTHON) is older than Python 3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --upgrade pip
	@touch $@

$(VENV)/.has-base: $(VENV)/.has-pip $(SETUP_FILES)
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.has-lint: $(VENV)/.has-base
	$(INSTALL) --group test --group lint
	@touch $@

$(VENV)/.has-all: $(VENV)/.has-base
	$(INSTALL) --editable '.[all]' --group dev
	@touch $@
