# `make test` needs Python 3.11 or newer (with venv), git and make; everything else it fetches, pinned and hashed.
PYTHON ?= python3
VENV ?= .venv
# No restarts: with groups, pytest-xdist 3.8 gives a test that killed its worker to the next one, eight times over.
PYTEST_ARGS ?= -n auto --dist loadgroup --max-worker-restart=0

LOCK := requirements/dev.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: test check format lock tools wheel clean

test: tools
	@$(MAKE) --no-print-directory check

check: $(VENV)/.installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest $(PYTEST_ARGS)

format: $(VENV)/.installed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Fetches outside tools that tests need into a cache outside the checkout; without them those tests are skipped.
tools: $(VENV)/.installed
	@$(BIN)/python tools/fetch.py

wheel: $(VENV)/.installed
	$(BIN)/python -m hatchling build -t wheel -d dist

# UPGRADE=--upgrade takes the newest versions; without it only what pyproject.toml or dev.in changed moves.
lock: $(VENV)/.locked
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config --no-header \
	    --no-emit-index-url --no-emit-find-links $(UPGRADE) --output-file $(LOCK) pyproject.toml requirements/dev.in

clean:
	rm -rf $(VENV) dist .hypothesis .pytest_cache .ruff_cache

# Two stamps: a changed lock builds a new environment, a changed pyproject.toml only installs the package again.
$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.locked: $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'error: $(PYTHON) is missing or older than Python 3.11; choose another: make PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo 'error: $(PYTHON) cannot make virtual environments; install its venv module' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --require-hashes --requirement $(LOCK)
	@touch $@
