"""Processes of a real Spark are killed in mid-cycle; tests/long/stores.py kills many more of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.oracles import apply, standing
from tests.pipelines.cycles.stored import compared, held
from tests.pipelines.cycles.without_spark import assert_clean, assert_holds, begin, cycled, rows_of

ROOT = Path(__file__).parents[3]


def script(*arguments):
    """Run ``with_spark`` in a process of its own, whose children are ended with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipelines.cycles.with_spark", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=900)
    finally:
        # Java that has lost its driver ends by itself, a little later
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err[-3000:]


@pytest.mark.deep("a Spark of its own; tasks that fail in mid-cycle are in test_cycle.py, kills in test_faults.py")
def test_python_workers_and_java_that_are_killed_lose_nothing(tmp_path):
    """In the middle of building, and of comparing: the state is the old or the new one, and the next cycle is whole."""
    code, out, err = script("kills", tmp_path / "store", 3, "worker:build", "java:compare")
    assert code == 0, err
    told = json.loads(out)
    assert told["killed"] >= 2
    assert told["failed"] >= 1


@pytest.mark.deep("a Spark of its own; a process that is killed at each step of a cycle is in test_faults.py")
def test_a_driver_that_is_killed_loses_nothing(tmp_path):
    """What it has left is cleared by the next cycle, which applies its updates once."""
    store = begin(str(tmp_path / "store"))
    rows = rows_of(1, at=(1, 101))
    code, _, err = script("driver", store.path, "build", 0.05)
    assert code == -signal.SIGKILL, err
    state, _ = apply({}, rows, now=101, expire=90)
    found = compared(standing(held(store.path)))
    assert found in ({}, compared(standing(state)))
    assert_holds(store, state if found else {})
    cycled(store, rows, 101)
    assert_holds(store, state)
    assert_clean(store)
