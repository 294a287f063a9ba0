# Two commands for users: make demo, make test. Each sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
export PYTHON

.PHONY: setup demo test check check-data bench clean

setup:
	@./setup.sh

demo: setup
	@$(BIN)/python -m datasets.demo

test: setup
	@$(BIN)/python -m pytest -q -p no:cacheprovider -p no:benchmark -n 2 --dist loadgroup --no-loadscope-reorder --durations=25

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check-data: setup
	@$(BIN)/python -m bench.check_data
	@$(BIN)/python -m bench.conditions
	@$(BIN)/python -m bench.damages
	@$(BIN)/python -m bench.worlds
	@$(BIN)/python -m bench.ulps
	@$(BIN)/python -m bench.stores
	@$(BIN)/python -m bench.crowds
	@$(BIN)/python -m bench.join_worlds
	@DTOSS_EVERY_KERNEL=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/dtoss/test_kernel_bridge.py
	@DTOSS_ALL_SIGNALS=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/pipelines/test_interruption.py

bench: setup
	@$(BIN)/python -m pytest bench -q --benchmark-only

clean:
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache
