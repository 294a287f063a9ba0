"""Tasks of this process: what is exchanged and in which order, which error is raised, and how others end."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from dtoss.buckets import hashes_of, seeded_hashes
from dtoss.errors import InputError
from pipelines.engines.local_rows import rows_of_batches, run_all, tasks_here
from pipelines.engines.spool import Memory, Spool, bytes_for_rows
from pipelines.rebuild import rebuild
from tests.pipelines.stores import snapshot_bytes


def batches(seed, many=5, wide=1):
    rng = np.random.default_rng(seed)
    return [
        pa.record_batch({"task": rng.integers(0, 3, n), "text": [f"{seed} {i} {'x' * wide}" for i in range(n)]})
        for n in rng.integers(0, 40, many)
    ]


@pytest.mark.parametrize("wide", [1, 10_000])
def test_an_exchange_brings_each_row_to_its_task_in_order(wide):
    """Rows that are small are copied, large ones stay where they are."""
    groups = [batches(seed, wide=wide) for seed in range(4)]
    rows = [row for group in groups for batch in group for row in batch.to_pylist()]
    found = rows_of_batches(groups).exchange(3).collect()
    assert [[row["text"] for batch in task for row in batch.to_pylist()] for task in found] == [
        [row["text"] for row in rows if row["task"] == task] for task in range(3)
    ]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("room", [0, 2000, 10**9])
def test_batches_that_have_no_room_wait_on_disk(room, keep, tmp_path, monkeypatch):
    """All of them, some, or none; in their order, and no file is left that anybody could see."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spool = Spool(2, Memory(room), keep=keep)
    rows = [(seed % 2, seed % 3, batch) for seed in range(9) for batch in batches(seed)]
    for group, origin, batch in rows:
        spool.add(group, batch, origin)
    for group in (1, 0):
        wanted = [batch for origin in range(3) for one, of, batch in rows if (one, of) == (group, origin)]
        assert [batch.to_pylist() for batch in spool.read(group)] == [batch.to_pylist() for batch in wanted]
        assert len(list(spool.read(group))) == (len(wanted) if keep else 0)
    assert list(tmp_path.iterdir()) == []


def test_spools_share_one_bound_of_memory():
    """What was read, and what nobody has any more, makes room."""
    batch = pa.record_batch({"n": np.arange(100)})
    memory = Memory(2 * batch.nbytes)
    once, kept = Spool(1, memory), Spool(1, memory, keep=True)
    taken = []
    for spool in (once, kept, kept):
        spool.add(0, batch, 0)
        taken.append(memory.taken // batch.nbytes)
    assert taken == [1, 2, 2]
    assert len(list(once.read(0))) == 1
    assert len(list(kept.read(0))) == 2
    assert memory.taken == batch.nbytes
    once.add(0, batch, 0)
    del spool, kept
    assert memory.taken == batch.nbytes
    del once
    assert memory.taken == 0


def test_a_rebuild_that_has_no_room_in_memory_writes_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    lon, lat = rng.normal(size=(2, 3000))
    rows = pa.table({"id": np.arange(3000) % 900, "lon": lon, "lat": lat, "t": np.arange(3000)})
    rebuild(rows, str(tmp_path / "a"), partitions=3)
    monkeypatch.setenv("DTOSS_MEMORY", "1k")
    rebuild(rows, str(tmp_path / "b"), partitions=3)
    assert snapshot_bytes(tmp_path / "a") == snapshot_bytes(tmp_path / "b")


@pytest.mark.parametrize(("said", "bytes_"), [("4096", 4096), ("3K", 3 << 10), (" 2g ", 2 << 30)])
def test_memory_for_rows_is_what_the_user_says(monkeypatch, said, bytes_):
    monkeypatch.setenv("DTOSS_MEMORY", said)
    assert bytes_for_rows() == bytes_
    monkeypatch.setenv("DTOSS_MEMORY", "much")
    with pytest.raises(InputError, match="DTOSS_MEMORY is 'much': a number of bytes such as 4g is wanted"):
        bytes_for_rows()


def test_equal_values_come_to_one_task():
    ids = [pa.record_batch({"id": pa.array(some)}) for some in ([1, 2, 3], [3, 1, None], [2, 2])]
    found = rows_of_batches([ids[:2], ids[2:]]).exchange_by_hash(7, "id").collect()
    seen = [{one for batch in task for one in batch["id"].to_pylist()} for task in found]
    assert sorted(one for some in seen for one in some if one is not None) == [1, 2, 3]


def test_values_stand_in_the_order_of_tasks():
    doubled = tasks_here(9).map(lambda some: (pa.record_batch({"n": [2 * one["id"][0].as_py()]}) for one in some))
    assert doubled.values() == list(range(0, 18, 2))


def test_the_first_task_that_failed_is_told_and_others_end_at_their_next_batch():
    """Even where a later one fails before it."""
    later, steps = threading.Event(), []

    def endless():
        while True:
            steps.append(1)
            yield None

    def first():
        later.wait(5)
        raise ValueError("the first")
        yield

    def second():
        later.set()
        raise OSError("the second")
        yield

    with pytest.raises(ValueError, match="the first"):
        run_all([first, second, endless], list)
    with pytest.raises(ValueError, match="the first"):
        run_all([first, partial(iter, []), endless], list)


def test_the_hash_of_a_sample_is_that_of_spark(spark):
    """Of whole numbers and texts, under small seeds, large and negative ones."""
    from pyspark.sql import functions as F

    numbers = [0, 1, -1, 2**63 - 1, -(2**63), 12_345]
    texts = ["", "a", "taxi", "é 🚕", "x" * 100]
    for values in (numbers, texts):
        frame = spark.createDataFrame([(value,) for value in values], ["id"])
        for seed in (0, 1, -1, 2**31 - 1, 2**31, 2**40, -(2**40)):
            wanted = [row[0] for row in frame.select(F.xxhash64(F.col("id"), F.lit(seed))).collect()]
            kind = pa.int64() if values is numbers else pa.string()
            assert seeded_hashes(hashes_of(pa.array(values, kind)), seed).tolist() == wanted
