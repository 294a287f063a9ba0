"""Processes of a real Spark are killed in mid-batch: no event is lost, none is told twice. ``kills`` has many more."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.dtoss.watch.processing.scripted import small
from tests.pipelines.watching.arrivals import once
from tests.pipelines.watching.with_spark import EXPIRE, MOST_ROWS, assert_told_once, faults, made, watched

KINDS = ("worker", "worker", "worker", "java", "commit")
"""Of one process, which the last of them ends; what is left another one does, whose driver is killed in its tasks."""
FILES = 20
"""Each is a batch: more than the kills need where each of them waits as long as it may (``PATIENCE``)."""


@pytest.mark.deep("Sparks of its own; kills at each kind of file need none, tasks fail in test_watch_files.py")
def test_six_kills_lose_nothing_and_double_nothing(spark, tmp_path, monkeypatch):
    """Python workers, Java, the driver around a commit and in a task; each Spark with another number of cores."""
    small(monkeypatch)
    folder, store = tmp_path / "in", tmp_path / "store"
    files = made(folder, store, 7, files=FILES)
    for seed, kinds in ((1, KINDS), (2, ("driver",))):
        code, err = watched(folder, store, seed, *kinds)
        assert code == -signal.SIGKILL, err
    found = faults(folder)
    assert Counter(one["kind"] for one in found) == Counter([*KINDS, "driver"])
    assert len({one["cores"] for one in found}) > 1
    once(spark, folder, store, expire=EXPIRE, most_rows=MOST_ROWS)
    assert assert_told_once(store, files) > 50
