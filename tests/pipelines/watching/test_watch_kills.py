"""Processes of a real Spark are killed in mid-batch: no event is lost, none is told twice."""

from __future__ import annotations

import signal

import pytest

from dtoss.watch.home import Home
from dtoss.watch.told.verify import verify_watch
from tests.pipelines.watching.with_spark import assert_told_once, made, watched


@pytest.mark.slow
def test_six_kills_lose_nothing_and_double_nothing(tmp_path):
    """The driver twice, then Python workers and Java twice each; every commit is held to the loop."""
    folder, store = tmp_path / "in", tmp_path / "store"
    files = made(folder, store, 7)
    for seed in (1, 2):
        code, _, err = watched(folder, store, seed, "driver")
        assert code == -signal.SIGKILL, err
    code, counts, err = watched(folder, store, 3, "worker", "java", "worker", "java")
    assert code == 0, err
    assert counts["worker"] >= 2
    assert counts["java"] == 2
    assert_told_once(store, files)
    assert verify_watch(Home(str(store))).damaged == []
