# Two commands for users: make demo, make test. Each sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
# three processes for two cores, as each of them waits for a child or a clock for a fifth of its time
TESTS := $(BIN)/python -m pytest -q -p no:cacheprovider -p no:benchmark -n 3 --dist loadfile --no-loadscope-reorder
KERNELS := $(BIN)/dtoss warm --quiet
export PYTHON
# processes that tests start by the hundred compile our sources once, also where the machine's Python shall keep nothing
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast test-deep durations check check-data bench paths dist sbom docs clients clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## the environment in .venv; all others run it first
	@./setup.sh

demo: setup ## a million moving objects: built, asked, drawn, watched; ends with commands to try
	@$(BIN)/python -m datasets.demo

test: setup ## the test suite, as CI runs it: what decides whether a change is good
	@$(KERNELS)
	@$(TESTS) --durations=25

test-fast: setup ## after an edit: no Spark, nothing slow, a tenth of made examples, fewer cases
	@$(TESTS) --fast

test-deep: setup ## all tests: wide matrices, more kills, a cluster, notebooks, the demo; an hour
	@$(KERNELS)
	@$(TESTS) --deep --durations=25

durations: setup ## all tests, and what each costs into .ci/durations.json
	@$(KERNELS)
	@$(TESTS) --deep --durations-to=.ci/durations.json

check: setup ## ruff, its format, mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check-data: setup ## full data sets and long fuzzing, against brute force
	@$(BIN)/python -m tests.long.check_data
	@$(BIN)/python -m tests.long.conditions
	@$(BIN)/python -m tests.long.damages
	@$(BIN)/python -m tests.dtoss.snapshots.flips
	@$(BIN)/python -m tests.dtoss.history.maintenance.faults
	@$(BIN)/python -m tests.dtoss.history.maintenance.crowd
	@$(BIN)/python -m tests.dtoss.history.maintenance.operations
	@$(BIN)/python -m tests.dtoss.serve.hostile.fuzz_streams
	@$(BIN)/python -m tests.dtoss.serve.hostile.fuzz
	@$(BIN)/python -m tests.long.hostile --minutes 1 --messages 2000
	@$(BIN)/python -m tests.long.worlds
	@$(BIN)/python -m tests.long.ulps
	@$(BIN)/python -m tests.long.borders
	@$(BIN)/python -m tests.long.stores
	@$(BIN)/python -m tests.long.crowds
	@$(BIN)/python -m tests.long.join_worlds
	@$(BIN)/python -m tests.long.as_of
	@$(BIN)/python -m tests.long.watch_fuzz
	@$(BIN)/python -m tests.dtoss.watch.real.whole
	@$(BIN)/python -m tests.dtoss.watch.processing.crowd
	@$(BIN)/python -m tests.pipelines.command.watch.reader_kills 200
	@$(BIN)/python -m tests.pipelines.watching.kills --count 100
	@$(BIN)/python -m tests.pipelines.watching.taxis_at_speed
	@$(BIN)/python -m tests.dtoss.serve.events.restarts 50 10
	@$(BIN)/python -m tests.dtoss.windows.fuzz 10000
	@$(BIN)/python -m tests.dtoss.windows.real
	@$(BIN)/python -m tests.dtoss.windows.migration.kills_between_sets
	@$(BIN)/python -m tests.pipelines.windowing.window_kills
	@$(BIN)/python -m tests.pipelines.windowing.run_kills
	@$(BIN)/python -m tests.bench.windows.enorm_long
	@$(BIN)/python -m bench.windows.balance
	@$(BIN)/python -m bench.run enorm_14_15 --out build/results

bench: setup ## the tables that README quotes, within half an hour
	@$(BIN)/python -m bench.run ours
	@$(BIN)/python -m bench.report

paths: setup ## how long the hot paths take, beside the last time that it was asked
	@$(BIN)/python -m pytest bench/suites -q -W ignore -p no:cacheprovider --benchmark-only --benchmark-autosave --benchmark-compare \
	  --benchmark-columns=min,median,rounds --benchmark-sort=fullname

dist: setup ## what is released: wheels, with compiled kernels and without, and sources
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist -t sdist -t wheel
	@DTOSS_COMPILED=1 $(BIN)/python -m hatchling build -d dist -t wheel

sbom: setup ## what an installation of the pure wheel brings along, as CycloneDX
	@$(PYTHON) -m venv --clear build/installed && $(PYTHON) -m venv --clear build/tools
	@build/installed/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt dist/*-none-any.whl
	@build/tools/bin/python -m pip install -qq --disable-pip-version-check cyclonedx-bom==7.5.0
	@build/tools/bin/cyclonedx-py environment --output-reproducible --mc-type library \
	  --pyproject pyproject.toml -o dist/dtoss.cdx.json build/installed/bin/python

docs: setup ## documents and the reference of all modules as a site with a search
	@$(BIN)/python docs/pages.py build/docs

clients: setup ## generators of clients into build/clients, for the tests of docs/clients.md
	@npm install --silent --no-package-lock --no-audit --no-fund --prefix build/clients \
	  openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3
	@$(PYTHON) -m venv build/clients
	@build/clients/bin/python -m pip install -qq --disable-pip-version-check openapi-generator-cli==7.26.0

clean: ## remove .venv, the demo and what tools keep
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache
