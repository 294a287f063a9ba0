"""The loop with cycles of Spark's: files in, objects out, through deletions, expiry, rollbacks and another writer."""

from __future__ import annotations

import os
import time

import pytest

from dtoss.snapshots.store import Store
from pipelines.loop.disposal import Disposal
from pipelines.ticks.run import Ran
from tests.pipelines.loops import looped
from tests.pipelines.stores import objects_of


@pytest.fixture
def loop(spark, tmp_path):
    """A function that makes one beat, and one that writes a file of rows (id, lon, lat, t, gone)."""
    folder, store = tmp_path / "updates", tmp_path / "store"
    folder.mkdir()

    def put(name, *rows):
        lines = [",".join(map(str, row)) for row in [("id", "lon", "lat", "t", "gone"), *rows]]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        os.utime(folder / name, (time.time() - 60.0,) * 2)

    def beat(**options):
        wanted = {"every": 1.0, "cycles": 1, "columns": {"deleted": "gone"}, "max_ahead": None, "deleted_for": None}
        wanted |= {"first": {"partitions": 2}, "keep_for": 0.0, "warn": pytest.fail}
        return looped(str(folder), str(store), lambda: spark, **wanted | options)

    return folder, store, put, beat


def test_a_life_of_a_store(loop):
    folder, store, put, beat = loop
    put("1.csv", *[(i, i + 1, -i, 100, 0) for i in range(8)])
    assert beat() == Ran(cycles=1)
    stands = {i: (i + 1.0, float(-i), 100) for i in range(8)}
    assert objects_of(store) == stands
    # an older row, a deletion without a place, and a new one; whole numbers where others had none
    put("2.csv", (0, 9, 9, 99, 0), (1, "", "", 150, 1), (2, 5.5, 5.5, 200, ""), (8, 1, 1, 120, 0))
    assert beat() == Ran(cycles=1)
    cycle = Store(str(store)).manifest()["cycle"]
    assert (cycle["updated"], cycle["late"], cycle["deleted"]) == (2, 1, 1)
    del stands[1]
    stands |= {2: (5.5, 5.5, 200), 8: (1.0, 1.0, 120)}
    assert objects_of(store) == stands
    assert beat() == Ran(skipped=1)
    # nothing rises from the dead, but a rollback has no deaths yet
    put("3.csv", (1, 4, 4, 149, 0))
    assert beat() == Ran(cycles=1)
    assert objects_of(store) == stands
    Store(str(store)).rollback(pytest.fail)
    Store(str(store)).rollback(pytest.fail)
    assert objects_of(store)[1] == (2.0, -1.0, 100)
    assert beat() == Ran(cycles=1)
    assert objects_of(store) == stands
    assert set(Store(str(store)).manifest()["ledger"]["files"]) == {str(path) for path in folder.iterdir()}
    # time alone: 100 is too old at 170 when 60 seconds are kept, 120 is not
    assert beat(expire=60.0, now=160) == Ran(skipped=1)
    told = []
    assert beat(expire=60.0, now=170, disposal=Disposal(None), keep=1, warn=told.append) == Ran(cycles=1)
    assert told == ["2 objects, the current snapshot has 8: 75.0% fewer; --max-shrink 50% would have refused that"]
    assert objects_of(store) == {2: (5.5, 5.5, 200), 8: (1.0, 1.0, 120)}
    assert beat(expire=60.0, now=170) == Ran(skipped=1)
    assert list(folder.iterdir()) == []
