# Each target sets itself up: all that is needed is Python 3.11+, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO ?= dpeer-demo
MINUTES ?= 5
# The tests start hundreds of processes: where bytecode is not kept, each of them compiles dpeer again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check docs test test-all soak fuzz audit lowest lint bench clean

demo: $(VENV)/installed
	$(BIN)/dpeer cluster --size 8 --topology ring --task digits --algorithm dfedsmdc --alone always --overwrite --out $(DEMO)
	@echo "to type dpeer yourself, once in each shell: . $(BIN)/activate    then, for example: dpeer report $(DEMO)"

# What to run before every commit.
check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test: $(VENV)/tested
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not long"

# Those too that take long: every file of the papers' tables.
test-all: $(VENV)/tested
	$(BIN)/python -m pytest -n 3 --dist worksteal

# Ten thousand schedules of faults; WORLD="--schedules 500 --from 20000" plays 500 from there on.
soak: $(VENV)/tested
	$(BIN)/python -m tests.world $(WORLD)

# What no message may do, for MINUTES; cases that go new ways stay in .fuzz. atheris is there for Linux and Intel Macs.
fuzz: $(VENV)/tested
	$(PIP) -e '.[fuzz]'
	mkdir -p .fuzz
	$(BIN)/python -m tests.peer.fuzz -max_total_time=$$((60 * $(MINUTES))) -max_len=3000 -timeout=20 -rss_limit_mb=1500 \
		-artifact_prefix=.fuzz/failed- .fuzz tests/peer/corpus

# Known vulnerabilities in what constraints.txt pins, and secrets in the tracked files.
audit: $(VENV)/installed
	$(PIP) -e '.[audit]'
	$(BIN)/python -m tests.audit

lint: $(VENV)/linted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site in build/site; a link, an anchor or a page that is missing ends it.
docs: $(VENV)/installed
	$(PIP) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The oldest versions that pyproject.toml allows, in an environment of their own.
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -r .venv-lowest/lowest.txt -e .
	.venv-lowest/bin/python -m pytest -n 2 -m "not slow" -W ignore::DeprecationWarning -W ignore::ImportWarning

bench: $(VENV)/installed
	$(BIN)/python benchmarks/table.py

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpeer needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt
	@echo "installing dpeer and its pinned dependencies into $(VENV) (torch is large; this happens once)"
	$(PIP) -e '.[plot]'
	@touch $@

$(VENV)/tested: $(VENV)/installed
	$(PIP) -e '.[test]'
	@touch $@

$(VENV)/linted: $(VENV)/installed
	$(PIP) -e '.[test,lint]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-lowest .fuzz build dist *.egg-info
