"""Workers of a local Spark begin with all that tasks need; none looks for garbage among what has stayed."""

from __future__ import annotations

import gc
import sys

import pytest

from pipelines.spark.garbage import LOOKS, leave_out_what_stays
from pipelines.spark.worker_daemon import PRELOADED, without_archives


@pytest.fixture
def two_looks():
    """Two looks are left."""
    before, LOOKS[0] = LOOKS[0], 2
    yield
    LOOKS[0] = before


def test_what_has_stayed_is_left_out_after_the_first_looks_alone(two_looks):
    before, there = gc.get_freeze_count(), list(gc.callbacks)
    kept = [[] for _ in range(1000)]
    for _ in range(2):
        leave_out_what_stays()
        gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen >= before + len(kept)
    assert gc.callbacks == there
    leave_out_what_stays()
    more = [[] for _ in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() < frozen + len(more)


def test_an_installed_pyspark_is_taken_and_not_that_of_an_archive():
    archive = "/spark/python/lib/pyspark.zip"
    assert without_archives([archive, *sys.path]) == [one for one in sys.path if not one.endswith(".zip")]
    assert without_archives([archive, "/nowhere"]) == [archive, "/nowhere"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere workers are Spark's own")
def test_workers_have_loaded_what_tasks_need(spark):
    """Nothing that may not be there before a fork: obstore waits for threads that would not come along."""

    def loaded(_):
        return [name in sys.modules for name in (*PRELOADED, "obstore")], gc.get_freeze_count() > 100_000

    assert spark.sparkContext.parallelize([0], 1).map(loaded).collect() == [([True] * len(PRELOADED) + [False], True)]
