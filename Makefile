# Two commands on a fresh machine: make demo, make test. Needs python3 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# The tests start hundreds of processes, each a quarter slower where Python must not keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-long lint fmt docs bench mutate performance reproduce \
	readme install-sql wheel wheels clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(INSTALLED) ## the environment in .venv

$(INSTALLED): pyproject.toml
	@echo "making the environment in $(VENV) (once, some minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target $(VENV)/duckdb-1.2.2 duckdb==1.2.2 \
		|| echo "duckdb 1.2.2 is not to be had for this Python: the test that opens an export with it will be skipped"
	@echo "compiling the kernels (once, a minute or two) ..."
	@$(BIN)/python -m duckanon.release.prepare >/dev/null \
		|| echo "the kernels were not compiled: the first release that needs them does that"
	@touch $@

demo: $(INSTALLED) ## the main job on real data: 299,285 persons become an audited anonymized view
	@mkdir -p build && rm -f build/census.duckdb
	@$(BIN)/duckanon demo --export build/census.duckdb

# One worker a core; threads of linear algebra in each of them would only wait for one another. Files come in the
# order of tests/conftest.py.
test: $(INSTALLED) ## the tests, in some minutes
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-slow: $(INSTALLED) ## what takes too long for make test: a browser, PostgreSQL, Spark, the tables of the papers
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder \
		-m "slow and not long" $(PYTEST_ARGS)

test-long: $(INSTALLED) ## the random tests with all their cases, of which make test tries a part
	@OPENBLAS_NUM_THREADS=1 DUCKANON_TESTS=long $(BIN)/python -m pytest -n auto --dist worksteal \
		-m "long or hypothesis" $(PYTEST_ARGS)

lint: $(INSTALLED) ## ruff, mypy, import-linter, SQL purity and generated SQL
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -W ignore::RuntimeWarning:runpy -m duckanon.audits.macros --check

fmt: $(INSTALLED) ## format the Python code
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

docs: $(INSTALLED) ## the documentation site in build/site, with its links and anchors checked
	@$(BIN)/python -c "import mkdocstrings_handlers.python, zensical" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	@$(BIN)/python docs/build_site.py

bench: $(INSTALLED) ## performance bars as ratios, each within one run
	@$(BIN)/python -m benchmarks

mutate: $(INSTALLED) ## break every audit in sql/audit in ten ways and more; the tests must notice each
	@$(BIN)/python -m benchmarks.mutate_audits

wheel: $(INSTALLED) ## a wheel in dist that has the kernels compiled, for this Python and system
	@$(BIN)/python -m duckanon.release.prepare
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

wheels: $(INSTALLED) ## such a wheel for each Python from 3.11 to 3.14 that is to be had here, each tried in a fresh environment
	@.ci/wheels

performance: $(INSTALLED) ## write docs/performance.md from the results of the last make bench
	@$(BIN)/python docs/performance.py

reproduce: $(INSTALLED) ## every table of the four papers, published beside measured, into docs/reproduction.md
	@$(BIN)/python -m reproduce

readme: $(INSTALLED) ## write what commands print into the pages that show it
	@$(BIN)/python docs/readme.py

install-sql: $(INSTALLED) ## write sql/install.sql, sql/gate.sql and the tables of sql/README.md
	@$(BIN)/python -W ignore::RuntimeWarning:runpy -m duckanon.audits.macros

clean: ## remove the environment, what was built, and compiled kernels
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf duckanon/machine_code duckanon/.machine_code-*
	find duckanon -name '*.nb[ic]' -delete
