# Two commands matter: `make run` (a first look) and `make test` (everything CI checks).
# Both prepare a virtual environment in .venv, and do so again only when the pins change.

SHELL := /bin/sh
PYTHON ?= python3
PY := .venv/bin/python
# Errors only: in a virtual environment pip's advice to root, and on itself, is noise.
INSTALL := $(PY) -m pip --disable-pip-version-check -qq install --root-user-action ignore -c constraints.txt
VENV := .venv/.created
BASE := .venv/.base-installed
EXAMPLES := .venv/.examples-installed
DEV := .venv/.dev-installed
COLLECTED := .venv/.tests-collected
LOWEST := .venv-lowest/.installed
LOWEST_INSTALL := .venv/bin/uv pip install -q --python .venv-lowest/bin/python
# Many containers forbid bytecode. The tests start hundreds of processes, and each would compile the sources anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run examples test quick unit lint types imports tests lowest chromium pictures bench fmt docs clean help

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/:/' | sort

# A stamp and not the interpreter: that exists before pip does when this is interrupted.
$(VENV):
	@echo "Creating .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "AgentFlow needs Python 3.11 or newer")'
	@$(PYTHON) -m venv --clear .venv
	@touch $@

$(BASE): pyproject.toml constraints.txt | $(VENV)
	@echo "Installing AgentFlow (base) into .venv"
	@$(INSTALL) -e .
	@touch $@

# What the examples declare by require_extras.
$(EXAMPLES): pyproject.toml constraints.txt | $(BASE)
	@$(INSTALL) -e ".[anthropic,coordination,dashboard,fleet,local,web]"
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(VENV)
	@echo "Installing AgentFlow with everything the tests need into .venv (about a minute, once)"
	@$(INSTALL) -e ".[dev]"
	@touch $@ $(BASE) $(EXAMPLES)

run: $(BASE)  ## run the example workflow on the embedded store
	@$(PY) -m afl run examples/newsroom/newsroom.afl --agent examples/newsroom/agents.py
	@echo "The command afl is in .venv/bin; activate it with:  . .venv/bin/activate" >&2

examples: $(EXAMPLES)  ## run every example, each with the command at its top
	$(PY) -m afl run examples/hello/hello.afl --agent examples/hello/agents.py --input name=Ada
	$(PY) -m afl run examples/newsroom/newsroom.afl --agent examples/newsroom/agents.py
	$(PY) -m afl run examples/fanout/fanout.afl --agent examples/fanout/agents.py
	$(PY) -m afl run examples/retry/retry.afl --agent examples/retry/agents.py
	$(PY) examples/node_worker/main.py
	$(PY) examples/research/main.py
	$(PY) examples/two_agents/main.py
	$(PY) examples/messages/main.py
	$(PY) examples/fleet/main.py
	$(PY) examples/assistant/main.py
	$(PY) examples/everything/main.py
	$(PY) examples/web_app/main.py

test: $(DEV)  ## lint, types, import contract and every test
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types lint imports $(COLLECTED)
	@$(MAKE) --no-print-directory tests

lint: $(DEV)  ## ruff: style and format
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(DEV)  ## mypy --strict
	@MYPY_NUM_WORKERS=2 $(PY) -m mypy

imports: $(DEV)  ## the floors: each imports only those below
	@$(PY) -c 'from importlinter.cli import lint_imports_command as main; main(["--no-logo"])'

# Reads every file of tests beside mypy, once: `tests` then finds them compiled, and later all but those that changed.
# What cannot be read is told of by `tests`.
$(COLLECTED): $(DEV)
	@$(PY) -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

# More processes than cores: with three the cores were idle for three tenths of the time.
tests: $(DEV)  ## pytest, against real servers started from wheels
	@$(PY) -m pytest --processes 4

# Types first: a unit test asks mypy as well, and finds what this one has stored.
quick: $(DEV)  ## the fast part, for every change: lint, types, imports and unit tests, side by side
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types unit lint imports

unit: $(DEV)
	@$(PY) -m pytest -q --processes 3 tests/unit

# What we run on, at the lowest versions that pyproject.toml allows; what only the tests need, at any. The test client of
# the lowest Starlette needs httpx.
$(LOWEST): pyproject.toml | $(DEV)
	@echo "Installing the lowest versions into .venv-lowest"
	@.venv/bin/uv venv -q --clear --python $(PY) .venv-lowest
	@$(LOWEST_INSTALL) --resolution lowest-direct -e ".[all,ray,local]"
	@$(LOWEST_INSTALL) -e ".[dev]" httpx
	@touch $@

# Old versions on new ones are told of deprecations, which is not for us to fix.
lowest: $(LOWEST)  ## unit and dashboard tests with the lowest versions that are allowed
	@.venv-lowest/bin/python -m pytest -q --processes 3 -W default::DeprecationWarning tests/unit tests/integration/dashboard

chromium:  ## install Debian's Chromium, for the browser tests (about 15 s)
	@.ci/chromium

pictures: $(DEV)  ## draw the pictures of the README and of docs/dashboard.md anew
	@AFL_BROWSER=required AFL_PICTURES=docs/images $(PY) -m pytest -q tests/browser/test_pictures.py
	@PYTHONPATH=tests $(PY) -m browser.pictures docs/images

bench: $(DEV)  ## the figures: ratios against a raw limit of the same run
	@$(PY) -m bench

fmt: $(DEV)  ## rewrite the sources in the project's format
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

docs: $(DEV)  ## rewrite the pages that are made from the code
	@$(PY) -m reference

clean:  ## stop local servers and remove everything that was made here
	@if [ -e .afl/servers/stack.json ]; then $(PY) -c 'from afl.devstack import down; down(remove=True)'; fi
	rm -rf .venv .venv-lowest .afl .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
