"""Cycles whose every step is done by tasks: the same bytes and counts, and nothing of each update comes back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from pipelines.cycle import cycle
from pipelines.cycles.spread import NOTHING
from tests.dtoss.snapshots.small_stores import silent
from tests.pipelines.cycles.in_place import begun, cycled, state_of
from tests.pipelines.cycles.stored import FATES, files
from tests.update_worlds import INT_IDS, STRING_IDS, Update, drawn, table

WORLDS = [
    (2, False, "wall", 1e9),
    *(
        pytest.param(
            *one, marks=pytest.mark.deep("other partitions, ids, clocks and ways; two of them are in make test")
        )
        for one in ((1, True, "wall", 1e9), (7, False, "data", 1e9), (7, True, "data", 0.5), (7, False, "wall", 0.0))
    ),
]


@pytest.mark.parametrize(("partitions", "string_ids", "clock", "until"), WORLDS)
def test_tasks_of_spark_make_what_this_process_makes(spark, tmp_path, partitions, string_ids, clock, until):
    """Ties, deletions that are remembered and forgotten, expiry, late rows, and each row told twice."""
    rng = np.random.default_rng(31 + partitions)
    awkward = STRING_IDS if string_ids else INT_IDS
    ids = [*awkward, *((str(i) if string_ids else i) for i in range(100, 160))]
    first = {"crs": "none", "partitions": partitions, "columns": "name,size"}
    rules = {"deleted_for": 25, "expire": 50, "max_ahead": 5, "max_bad": 1.0, "keep_for": 0.0, "warn": silent}
    options = rules | {"pivots": "keep", "in_place_until": until, "deleted": "deleted", "first": first}
    when = [{"now": 100}, *({"now": now} if clock == "wall" else {"clock": "data"} for now in (115, 130, 170))]
    before, fates = [], set()
    for number, moment in enumerate(when):
        end = (100, 115, 130, 170)[number]
        rows = drawn(rng, ids, 90, plane=True, at=(end - 60, end + 8), deleted=0.2 if number else 0.0)
        rows += [Update(*row[:4], ("b", 1.5), row.deleted) for row in rows[::7]] + before[::3]
        before = rows
        told = []
        for name, frame, here in (("here", lambda one: one, None), ("tasks", spark.createDataFrame, NOTHING)):
            updates = frame(table([*rows, *rows], string_ids=string_ids, plane=True))
            ways = options | moment | ({} if here is None else {"here": here})
            manifest = cycle(updates, str(tmp_path / name), **ways)
            tombstones = manifest["tombstones"] or {}
            kept = ("cycle", "counts", "clock", "objects", "input", "columns")
            told.append([{part: manifest[part] for part in kept}, tombstones, files(tmp_path / name)])
        assert told[0] == told[1], number
        fates |= {fate for fate in FATES if manifest["cycle"][fate]}
    assert {*FATES} == fates


def told_of(store, count):
    """How many bytes come back from the tasks of a cycle of so many updates and as many objects, each with a tie."""
    told = []
    for t in (10, 11):
        rows = [Update(id, t, id % 170, id % 80, ("a", 1.0), id % 9 == t - 10) for id in range(count)]
        rows += [Update(id, 9, 1.0, 1.0, ("a", 1.0)) for id in range(count, 2 * count)]
        told.clear()
        cycled(store, table(rows), now=20, expire=60, tasks=3, told=told)
    return len(pickle.dumps(told))


def test_what_tasks_say_is_as_short_for_many_updates(tmp_path):
    """A hundred times as many take no more room, beyond a few digits."""
    sizes = [told_of(begun(tmp_path / str(count), state_of(2)), count) for count in (100, 10_000)]
    assert sizes[1] < sizes[0] + 200


def test_an_update_finds_its_object_where_other_tasks_have_nothing(tmp_path):
    """Ids are shared by their hash, also when most tasks have none."""
    store = begun(tmp_path / "s", state_of(2))
    for id in range(6):
        for t, fate in ((10, "added"), (11, "updated"), (9, "late")):
            counts = cycled(store, table([Update(id, t, 1.0, 2.0, ("a", 1.0))]), now=20, tasks=3)
            assert counts[fate] == 1, (id, t)
            assert counts["added"] == (t == 10), (id, t)
