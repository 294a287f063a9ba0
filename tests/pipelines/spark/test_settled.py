"""Workers do not search what they have imported for garbage between their tasks."""

from __future__ import annotations

import gc

import pyarrow as pa

from pipelines.spark.by_bucket import freeze_imports


def frozen(batches):
    list(batches)
    yield pa.record_batch(
        [pa.array([gc.get_freeze_count()]), pa.array([len(gc.get_objects())])], names=["kept", "rest"]
    )


def test_a_workers_second_task_has_little_to_collect(spark):
    """What the first one left is out of collections; a batch is what it was."""
    one = spark.range(0, 10, numPartitions=1)
    asks = [one.mapInArrow(freeze_imports(frozen), "kept bigint, rest bigint").toArrow().to_pylist() for _ in range(8)]
    last = asks[-1][0]
    assert last["kept"] > 20_000
    assert last["rest"] < last["kept"] / 2
