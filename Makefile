# Sets itself up in ./.venv. An active virtual environment is not touched unless named: make test VENV="$VIRTUAL_ENV"
VENV = .venv
# The Python that makes the environment where VENV does not exist yet.
PYTHON = python3
# Plain-text PREFIX.en and PREFIX.fr for the demo, instead of LibreOffice's help.
CORPUS =
# What `make test` runs.
TESTS = tests
# An attached data-bin for the benchmarks, instead of generated data; where to write their figures, and plots of growth.
DATA =
FILE = examples/benchmark/output/bench.json
PLOTS =

ENV_PYTHON = $(VENV)/bin/python
INSTALLED = $(VENV)/.fairseq-seg-installed
PIP = $(ENV_PYTHON) -m pip --disable-pip-version-check install
HAS_TORCH = 'from importlib.metadata import version; assert [*map(int, version("torch").split(".")[:2])] >= [2, 6]'
RUN = PATH="$(abspath $(VENV))/bin:$$PATH"

.PHONY: help setup demo test browser bench lint
help:
	@echo "make demo    train a plain and a search-guided translator on LibreOffice's help (under half an hour on two cores)"
	@echo "             make demo CORPUS=PREFIX takes PREFIX.en and PREFIX.fr instead"
	@echo "make test    run the tests"
	@echo "make bench   run all benchmarks and print their ratios (about 15 minutes on two quiet cores)"
	@echo "             make bench DATA=DATA-BIN measures retrieval on your data, FILE=FILE names the JSON file,"
	@echo "             PLOTS=FOLDER draws growth"
	@echo "make lint    check style with ruff and types with mypy"
	@echo "Each sets up ./.venv first, once. VENV=FOLDER names another environment, PYTHON=python3.12 the"
	@echo "Python to make it with."

setup: $(INSTALLED)

demo: $(INSTALLED)
	@$(RUN) python examples/recipe.py examples/demo/recipe.toml $(if $(CORPUS),--corpus $(CORPUS) --output examples/demo/output/$(notdir $(CORPUS)))

# Two processes of one thread each: the tests' tensors are tiny, and several threads only wait for each other.
test: $(INSTALLED) browser
	@$(RUN) OMP_NUM_THREADS=1 python -m pytest -q --durations=10 -n 2 --dist loadfile $(TESTS)

# The workbench is tested in Chromium: Debian's, where this may install it. Elsewhere those tests are skipped.
browser:
	@command -v chromedriver >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null \
	|| (apt-get update -qq && apt-get install -qq -y chromium chromium-driver) >/dev/null 2>&1 || true

bench: $(INSTALLED)
	@$(RUN) python examples/benchmark/suite.py $(DATA) --json $(FILE) $(if $(PLOTS),--plots $(PLOTS))

lint: $(INSTALLED)
	@$(RUN) ruff check .
	@$(RUN) ruff format --check --quiet . || (echo "Run .venv/bin/ruff format."; exit 1)
	@$(RUN) mypy

$(INSTALLED): setup.py requirements/check.py $(wildcard requirements/*.txt)
	@if [ -x $(ENV_PYTHON) ]; then $(ENV_PYTHON) requirements/check.py; \
	elif ! command -v $(PYTHON) >/dev/null; then echo "$(PYTHON) was not found: install Python 3.11 or newer, or name yours with PYTHON=..."; exit 1; \
	else $(PYTHON) requirements/check.py && $(PYTHON) -m venv $(VENV); fi
	@echo "1/4 torch (kept if $(VENV) has one) and libraries: a large download the first time"
	@$(ENV_PYTHON) -c $(HAS_TORCH) 2>/dev/null || $(PIP) -r requirements/torch.txt
	@$(PIP) --quiet -r requirements/base.txt -r requirements/dev.txt
	@echo "2/4 fairseq: compiled here the first time, about 4 minutes on two cores"
	@$(PIP) --quiet --no-build-isolation -r requirements/fairseq.txt
	@echo "3/4 pyserini, without the requirements that retrieval does not use"
	@$(PIP) --quiet --no-deps -r requirements/pyserini.txt
	@echo "4/4 fairseq-seg itself"
	@$(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@
