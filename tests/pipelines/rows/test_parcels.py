"""Parcels of rows and of keys: what goes in comes out where it should, and a key that repeats is seen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.partitioning.regions import Regions
from dtoss.snapshots.store import Store
from pipelines.cycles.build_tasks import BuildPlan, sender
from pipelines.rebuild import rebuild
from pipelines.rows.parcels import BYTES_AT_ONCE, KEYS, gather_batches, keys_repeat, pack_keys, pack_rows, rows_of
from tests.pipelines.stores import listing, made, rebuilt, snapshot_bytes


def rows_to(partitions):
    """Rows with a number, a text, a list and nulls, one for each partition named."""
    numbers = list(range(len(partitions)))
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": pa.array([None if n % 3 == 0 else "é" * n for n in numbers], pa.string()),
            "list": pa.array([[n] * (n % 3) for n in numbers], pa.list_(pa.int32())),
            "yes": pa.array([n % 2 == 0 for n in numbers], pa.bool_()),
        }
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5) | st.just(70_000), max_size=40), st.integers(1, 4), st.integers(1, 7))
@example([], 1, 1)
@example([70_000, 3, 70_000 - (1 << 16)], 1, 7)
def test_each_row_comes_to_its_partition(partitions, batches, tasks):
    """From several batches, in their order, to the task of the partition's number."""
    rows = rows_to(partitions)
    found = {}
    for part in np.array_split(np.arange(len(partitions)), batches):
        some = rows.slice(int(part[0]), len(part)) if len(part) else rows.slice(0, 0)
        packed = pack_rows(some, np.arange(len(some)), np.array(partitions, np.int32)[part], tasks)
        for parcel in packed.to_pylist():
            assert parcel["task"] == parcel["partition"] % tasks
            found.setdefault(parcel["partition"], []).append(pa.py_buffer(parcel["parcel"]))
    assert sorted(found) == sorted(set(partitions))
    for number, parcels in found.items():
        expected = [row for row, to in zip(rows.to_pylist(), partitions, strict=True) if to == number]
        assert rows_of(parcels).to_pylist() == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1), max_size=30),
    st.integers(1, 4),
    st.integers(1, 9),
)
@example([2**63 - 1, -(2**63), 2**63 - 1], 3, 4)
def test_keys_that_repeat(keys, batches, tasks):
    """Whichever batches equal keys are in, one task sees them; no key is lost on the way."""
    by_task = [[] for _ in range(tasks)]
    for part in np.array_split(np.array(keys, np.int64), batches):
        packed = pack_keys(part, tasks)
        assert packed.column("partition").to_pylist() == [KEYS] * tasks
        for task, parcel in zip(packed.column("task").to_pylist(), packed.column("parcel"), strict=True):
            by_task[task].append(parcel.as_buffer())
    came = [np.frombuffer(parcel, np.int64) for parcels in by_task for parcel in parcels]
    assert sorted(np.concatenate(came).tolist()) == sorted(keys)
    assert any(keys_repeat(parcels) for parcels in by_task) == (len(set(keys)) < len(keys))


def test_keys_in_steps_are_spread_over_the_tasks():
    """Ids that differ by multiples of the number of tasks would all come to one otherwise."""
    for step in (1, 8, 64, 1 << 32):
        packed = pack_keys(np.arange(8000, dtype=np.int64) * step, 8)
        sizes = [len(parcel.as_buffer()) // 8 for parcel in packed.column("parcel")]
        assert max(sizes) < 1.5 * 1000


def test_batches_are_gathered_up_to_a_size():
    """All rows in their order, each batch but the last as large as asked and not much larger."""
    batch = pa.record_batch({"n": np.arange(BYTES_AT_ONCE // 8 // 3 - 1)})
    batches = [batch] * 7
    found = list(gather_batches(batches))
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches(batches))
    assert [len(some) // len(batch) for some in found] == [4, 3]
    assert list(gather_batches([])) == []


def test_rows_with_many_copies_are_packed_in_slices():
    """A reach that sends every row to every partition: the same parcels' rows, no batch larger than it may be."""
    rng = np.random.default_rng(5)
    space, n = space_of("none"), 500
    regions = Regions(rng.uniform(0, 1, (20, 2)), np.zeros(20))
    plan = BuildPlan(
        Store("unused"), "s1", space, regions, np.full(20, np.inf), np.array([0.0, 0.0, 1.0, 1.0]), ("text",)
    )
    batch = pa.record_batch(
        {
            "id": np.arange(n),
            "x": rng.uniform(0, 1, n),
            "y": rng.uniform(0, 1, n),
            "text": [str(i) * 50 for i in range(n)],
        }
    )

    def sent(**options):
        batches = list(sender(plan, ["text"], 3, **options)(iter([batch])))
        found = {}
        for packed in batches:
            for parcel in packed.to_pylist():
                found.setdefault(parcel["partition"], []).append(pa.py_buffer(parcel["parcel"]))
        return batches, {number: rows_of(parcels).to_pylist() for number, parcels in found.items()}

    whole, expected = sent()
    assert len(whole) == 1
    assert {len(rows) for rows in expected.values()} == {n}
    sliced, found = sent(packed=100_000)
    assert found == expected
    assert max(packed.nbytes for packed in sliced) < 200_000 < whole[0].nbytes


def test_parcels_that_32_bits_cannot_count_are_an_error():
    """Never a wrong length."""
    with pytest.raises(InputError, match=r"rows sent together take [\d,]+ bytes, 5,000 at most"):
        pack_rows(rows_to([0] * 400), np.arange(400), np.zeros(400, np.int32), 1, most=5000)


def some_ids(strings):
    ids = np.arange(2000) * 7 - 5000
    return pa.array([f"é{i}" for i in ids]) if strings else pa.array(ids)


def plain(ids):
    rng = np.random.default_rng(3)
    return pa.table({"id": ids, "lon": rng.normal(0, 1, len(ids)), "lat": rng.normal(0, 1, len(ids))})


@pytest.mark.parametrize("strings", [False, True])
def test_one_id_that_repeats_among_many(engine, tmp_path, strings):
    """It is named; with on_duplicate="any" the greater row stays, and no file of the first attempt."""
    ids = some_ids(strings)
    table = pa.concat_tables([plain(ids), pa.table({"id": ids.slice(900, 1), "lon": [50.0], "lat": [0.0]})])
    store = tmp_path / "store"
    with pytest.raises(InputError, match=f"1 ids stand more than once, {ids[900]} among them"):
        rebuilt(engine, table, store, partitions=7)
    assert not [name for name in listing(store) if "partitions" in name]
    index = rebuilt(engine, table, store, partitions=7, on_duplicate="any")
    assert len(index) == 2000
    assert index[ids[900].as_py()]["lon"] == 50.0
    manifest = Store(str(store)).manifest()
    assert manifest["counts"]["duplicates"] == 1
    named = {entry["file"] for entry in [*manifest["partitions"], manifest["borders"]]}
    assert {name for name in snapshot_bytes(store) if name.endswith(".arrow")} == named


def test_keys_that_are_equal_by_chance(tmp_path, monkeypatch):
    """Strings whose hashes are equal are no duplicates: the snapshot is as it would be."""
    table = plain(some_ids(True))
    monkeypatch.setattr("pipelines.cycles.build_tasks.hashes_of", lambda ids: np.asarray(pc.utf8_length(ids), np.int64))
    rebuild(table, str(tmp_path / "b"), partitions=3, seed=0)
    assert "ids" in Store(str(tmp_path / "b")).manifest()["timings"]
    found, wanted = snapshot_bytes(tmp_path / "b"), snapshot_bytes(made(table, partitions=3))
    assert found.keys() == wanted.keys()
    assert all(found[name] == data for name, data in wanted.items() if name != "manifest.json")
