"""Rows of the log that are merged with a snapshot: what stands, is remembered and is counted is what a cycle says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.fresh.standing import LATE, NEWER, UNCHANGED, UNUSABLE, judge, merge_rows, standing_of
from dtoss.snapshots.partition_file import encode, encode_border
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from tests.examples import examples
from tests.update_worlds import INT_IDS, NOW, STRING_IDS, drawn, table

ROWS = {"id": [1, 2, 3], "lon": [8.0, 9.0, 10.0], "lat": [50.0, 51.0, 52.0], "free": [True, False, True]}


def files_of(index):
    """The bytes of all partitions and of the borders."""
    return [encode(part).to_pybytes() for part in index.parts.all()] + [encode_border(index.border).to_pybytes()]


def store_of(path, times=(10, 10, 10), **options):
    dtoss.build({**ROWS, "t": list(times)}, **options).save(path)
    return Store(str(path))


def log(*rows):
    """Rows of the log: (id, t, lon, lat) or (id, t) of a deletion."""
    whole = [row if len(row) == 4 else (*row, None, None) for row in rows]
    columns = dict(zip(("id", "t", "lon", "lat"), map(list, zip(*whole, strict=True)), strict=True))
    deleted = [len(row) == 2 for row in rows]
    places = {name: pa.array(columns[name], pa.float64()) for name in ("lon", "lat")}
    return pa.table({**columns, **places, "free": [True] * len(rows), "deleted": deleted})


def ids_of(standing):
    return sorted(id for part in standing.index.parts.all() for id in part.ids[: part.owned_objects].tolist())


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1), plane=st.booleans(), string_ids=st.booleans(),
    time=st.sampled_from([None, pa.timestamp("us", "UTC"), pa.date32()]),
)  # fmt: skip
def test_what_stands_is_what_a_cycle_makes_of_the_same_rows(tmp_path_factory, seed, plane, string_ids, time):
    """Byte for byte, with ties of time, rows that say nothing new, deletions of whoever, and rows older than these."""
    path = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(seed)
    ids = STRING_IDS if string_ids else INT_IDS
    kinds = {"plane": plane, "string_ids": string_ids, "time": time}
    first = {"partitions": 4} | ({"crs": "none"} if plane else {})
    now = 1e9 if time is None else "2030-01-01"
    cycle(table(drawn(rng, ids, 30, plane=plane, at=(0, 60), deleted=0.0), **kinds), str(path), now=NOW, first=first,
          deleted="deleted", deleted_for=None, pivots="keep")  # fmt: skip
    standing = standing_of(Store(str(path)))
    for number, at in enumerate([(40, 80), (60, 100), (50, 101)]):
        rows = table(drawn(rng, ids, int(rng.integers(0, 12)), plane=plane, at=at, deleted=0.3), **kinds)
        standing, counts = merge_rows(standing, rows, number + 1)
        manifest = cycle(rows, str(path), now=now, deleted="deleted", deleted_for=None, pivots="keep",
                         in_place_until=1e9, allow_empty=True)  # fmt: skip
        again = standing_of(Store(str(path)))
        assert files_of(standing.index) == files_of(again.index)
        assert standing.tombstones == again.tombstones or len(again.tombstones) == 0
        said = manifest["cycle"]
        assert {name: said[name] for name in ("updated", "added", "late", "unchanged", "deleted")} == {
            name: getattr(counts, name) for name in ("updated", "added", "late", "unchanged", "deleted")
        }


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32 - 1), time=st.sampled_from([None, pa.timestamp("us", "UTC")]))
def test_a_deletion_that_is_forgotten_brings_nobody_back(tmp_path_factory, seed, time):
    """What is older than the deletions that a snapshot remembers is too late, as for a cycle of the same clock."""
    path, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(seed)
    now = 100 if time is None else "1970-01-01T00:01:40"
    kinds = {"deleted": "deleted", "now": now, "pivots": "keep", "in_place_until": 1e9, "allow_empty": True}

    def rows(count, at, deleted):
        return table(drawn(rng, INT_IDS, count, at=at, deleted=deleted), time=time)

    cycle(rows(20, (0, 80), 0.0), str(path), first={"partitions": 2}, **kinds)
    cycle(rows(10, (40, 100), 0.7), str(path), deleted_for=20, **kinds)
    standing = standing_of(Store(str(path)))
    more = rows(12, (40, 100), 0.2)
    standing, counts = merge_rows(standing, more, 12)
    said = cycle(more, str(path), deleted_for=20, **kinds)["cycle"]
    assert files_of(standing.index) == files_of(standing_of(Store(str(path))).index)
    assert (counts.late, counts.added) == (said["late"] + said["too_late"], said["added"])


def test_a_row_older_than_its_deletion_stays_out_and_a_newer_one_ends_it(tmp_path):
    standing = standing_of(store_of(tmp_path))
    gone, counts = merge_rows(standing, log((2, 20), (9, 20)), 2)
    assert (ids_of(gone), counts.deleted, gone.tombstones.to_pydict()) == ([1, 3], 1, {"id": [2, 9], "t": [20, 20]})
    late, counts = merge_rows(gone, log((2, 19, 5.0, 5.0), (9, 20, 5.0, 5.0), (9, 20)), 5)
    assert late.index is gone.index
    assert (ids_of(late), counts.late, counts.unchanged, late.seq) == ([1, 3], 1, 1, 5)
    back, counts = merge_rows(late, log((2, 21, 5.0, 5.0)), 6)
    assert (ids_of(back), counts.added, back.tombstones.to_pydict()) == ([1, 2, 3], 1, {"id": [9], "t": [20]})


def test_an_index_may_become_empty_and_not_so_again(tmp_path):
    standing = standing_of(store_of(tmp_path, partitions=2))
    empty, counts = merge_rows(standing, log((1, 20), (2, 20), (3, 20)), 3)
    assert (len(empty.index), counts.deleted, empty.index.knn([8.0, 50.0]).id.tolist()) == (0, 3, [])
    again, _ = merge_rows(empty, log((1, 19, 8.0, 50.0), (3, 21, 8.0, 50.0)), 5)
    assert again.index.knn([8.0, 50.0]).id.tolist() == [3]


def test_rows_are_judged_each_by_itself(tmp_path):
    standing, _ = merge_rows(standing_of(store_of(tmp_path)), log((3, 20)), 1)
    rows = log((1, 11, 8.0, 50.0), (1, 9, 8.0, 50.0), (1, 10, 8.0, 50.0), (2, 10), (3, 20), (3, 20, 1.0, 1.0),
               (7, 1, 200.0, 0.0), (7, 1), (7, 1, None, 0.0))  # fmt: skip
    assert judge(standing, rows).tolist() == [
        NEWER, LATE, UNCHANGED, NEWER, UNCHANGED, LATE, UNUSABLE, NEWER, UNUSABLE
    ]  # fmt: skip
    after, counts = merge_rows(standing, rows.slice(6), 4)
    assert (after.index is standing.index, counts.unusable, ids_of(after)) == (True, 2, [1, 2])


def test_rows_outside_bounds_that_were_given_are_left_out(tmp_path):
    rows = {"id": [1, 2], "x": [1.0, 2.0], "y": [1.0, 2.0], "t": [1, 1]}
    dtoss.build(rows, crs="none", bounds=[0, 0, 10, 10]).save(tmp_path)
    more = pa.table({"id": [1, 2, 3], "x": [10.0, 10.5, 1e-90], "y": [0.0, 1.0, 0.0], "t": [2, 2, 2],
                     "deleted": [False] * 3})  # fmt: skip
    standing, counts = merge_rows(standing_of(Store(str(tmp_path))), more, 3)
    assert (counts.updated, counts.unusable, standing.index.bounds) == (1, 2, (0, 0, 10, 10))


def test_rows_of_those_who_are_forgotten_are_left_out(tmp_path):
    from dtoss.erasure.forgotten import forget_ids

    store = store_of(tmp_path)
    forget_ids(store.path, ["7"])
    standing, counts = merge_rows(standing_of(store), log((7, 20, 1.0, 1.0), (1, 20, 1.0, 1.0)), 2)
    assert (ids_of(standing), counts.unusable) == ([1, 2, 3], 1)


def test_a_store_without_times_says_so(tmp_path):
    dtoss.build(ROWS).save(tmp_path)
    with pytest.raises(dtoss.InputError, match="has no times"):
        standing_of(Store(str(tmp_path)))
    standing = standing_of(store_of(tmp_path / "timed"))
    with pytest.raises(dtoss.InputError, match="rows have no column 'free'"):
        merge_rows(standing, log((1, 20)).drop_columns(["free"]), 1)
