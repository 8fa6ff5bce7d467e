# `make test` needs Python 3.11 or newer (with venv), git and make; everything else it fetches, pinned and hashed.
PYTHON ?= python3
VENV ?= .venv
# loadgroup: no test is in a group, so each worker gets one test after the other; `load` begins with an eighth of all.
# No restarts: pytest-xdist 3.8 then gives a test that killed its worker to the next one, eight times over.
PYTEST_ARGS ?= -n auto --dist loadgroup --max-worker-restart=0

LOCK := requirements/dev.txt
FUZZ_LOCK := requirements/fuzz.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Where it is set, every process of pytest compiles all tests anew: 9.7 s to collect most of them instead of 3.5 s.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test long demo check format coverage soak sweep fuzz bench pictures docs reference release-check lock tools wheel clean

# A first look, on a machine that has nothing yet: ralph on a throwaway repository, with a script in the model's place.
demo: $(VENV)/.installed
	@examples/demo/play "$(CURDIR)/$(BIN)/ralph"

# What a newcomer runs: linters, types, and every test that is not marked `long`. At most 10 minutes on two cores.
test: tools
	@$(MAKE) --no-print-directory check

check: $(VENV)/.installed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m 'not long'

# The tests marked `long`: real agents at length, sweeps, storms, races; then the benchmark's short form, which fails
# only where a ratio is more than twice its target in three tries. At most 35 minutes on two cores.
long: tools
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m long
	$(BIN)/python -m bench --short

# Branch coverage of the tests of both tiers, every process measured: longer than both take. A test that fails because
# it is measured (it may count modules, processor time or seconds) does not end it: what the others reach is counted.
coverage: tools
	rm -rf .coverage && mkdir .coverage
	-$(BIN)/coverage run -m pytest $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

format: $(VENV)/.installed
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The long forms of tests that `make check` holds in short. On two cores: soak about 75 minutes, sweep 15, fuzz 100.
RALPH_ROUNDS ?= 100
soak: $(VENV)/.installed
	RALPH_ROUNDS=$(RALPH_ROUNDS) $(BIN)/python -m pytest -n 2 -o faulthandler_timeout=0 tests/e2e/test_nothing_outlives.py \
	    tests/e2e/test_runs_chaos.py tests/e2e/test_runs_stopping.py tests/e2e/test_runs_racing.py

RALPH_SWEEP ?= 200
sweep: $(VENV)/.installed
	RALPH_SWEEP=$(RALPH_SWEEP) $(BIN)/python -m pytest -n 2 -o faulthandler_timeout=0 tests/e2e/test_crash_sweep.py tests/e2e/test_disk.py

# -timeout: no input of a few kilobytes may take longer; 2 s because a busy machine must not fail it.
RALPH_FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= lines claude codex rtf1 plain events configuration goal retry manifest journal message
fuzz: $(VENV)/fuzz/.installed
	@mkdir -p $(addprefix $(VENV)/fuzz/found/,$(FUZZ_TARGETS))
	set -e; for target in $(FUZZ_TARGETS); do \
	    PYTHONPATH=$(VENV)/fuzz $(BIN)/python -m fuzz $$target -max_total_time=$(RALPH_FUZZ_SECONDS) -timeout=2 \
	        -rss_limit_mb=1024 -print_final_stats=1 -verbosity=1 -artifact_prefix=$(VENV)/fuzz/$$target- \
	        $(VENV)/fuzz/found/$$target; \
	done

# Fetches outside tools that tests need into a cache outside the checkout; without them those tests are skipped.
tools: $(VENV)/.installed
	@$(BIN)/python tools/fetch.py

wheel: $(VENV)/.installed
	$(BIN)/python -m hatchling build -t wheel -d dist

# Some 25 minutes, best on a quiet machine; writes bench/RESULTS.md, on a clean commit only. QUICK=1: prints only, 5 minutes.
# RALPH_RUBY=DIR measures a checkout of the Ruby original as well.
bench: $(VENV)/.installed
	$(BIN)/python -m bench $(if $(QUICK),--quick)

# The recordings in docs/pictures, made again: real terminals, a model of ours on loopback; a minute.
pictures: $(VENV)/.installed
	$(BIN)/python -m pictures

# The documentation as a site: open site/index.html. A broken link fails it.
docs: $(VENV)/.installed
	$(BIN)/python tools/site.py site

# The tables in docs/ that the code defines.
reference: $(VENV)/.installed
	$(BIN)/python -m tools.reference

# What must hold before a version is tagged: build, fresh install, licences, documentation. About a minute; needs the index.
release-check: $(VENV)/.installed
	$(BIN)/python -m tools.release

# UPGRADE=--upgrade takes the newest versions; without it only what pyproject.toml or dev.in changed moves.
lock: $(VENV)/.locked
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config --no-header \
	    --no-emit-index-url --no-emit-find-links $(UPGRADE) --output-file $(LOCK) --all-extras pyproject.toml requirements/dev.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-config --no-header \
	    --no-emit-index-url --no-emit-find-links $(UPGRADE) --output-file $(FUZZ_LOCK) requirements/fuzz.in

clean:
	rm -rf $(VENV) dist site .coverage .flakes .hypothesis .pytest_cache .ruff_cache

# --no-deps: the lock is whole. Left to resolve, pip 23.2 meets an extra that the lock leaves out (`psycopg[binary]`),
# looks for the newest version of it, and then misses that version's hash.
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
	$(PIP) install --no-deps --require-hashes --requirement $(LOCK)
	@touch $@

# Beside the environment, not in it: only the fuzzers see it.
$(VENV)/fuzz/.installed: $(VENV)/.installed $(FUZZ_LOCK)
	$(PIP) install --no-deps --upgrade --require-hashes --requirement $(FUZZ_LOCK) --target $(VENV)/fuzz
	@touch $@
