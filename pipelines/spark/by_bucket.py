"""Rows shuffled by the bucket of their object; few are brought to this process, which costs less than a shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.buckets import BUCKETS
from pipelines.spark.session import MOST_TOLD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def shuffle_rows(frame: DataFrame, key: str | None, tasks: int, task_of: Sequence[int] | None = None) -> DataFrame:
    """Return rows with those of a task in the partition of its number.

    Arguments as :meth:`pipelines.engines.rows.Rows.exchange_by_bucket` has them.
    """
    return frame.repartitionById(tasks, _task(key, tasks, task_of))


def _task(key: str | None, tasks: int, task_of: Sequence[int] | None) -> Column:
    """Return the task of a key. 256 literals would be as many calls to Java, so they are one: two hex digits each."""
    from pyspark.sql import functions as F

    key_of = F.monotonically_increasing_id() if key is None else F.col(key)
    bucket = F.pmod(F.xxhash64(key_of), F.lit(BUCKETS))
    if task_of is None:
        return F.pmod(bucket, F.lit(tasks)).cast("int")
    digits = F.substring(F.lit(bytes(task_of).hex()), bucket.cast("int") * 2 + 1, 2)
    return F.conv(digits, 16, 10).cast("int")


def collect_small(frame: DataFrame, most: int) -> pa.Table | None:
    """Return rows; None where they are too many to come here.

    ``most``: bytes up to which they come, as far as Spark can tell beforehand. What a file says in few bytes may be far
    more than that: where Spark finds more than it lets a process have, they stay as well.
    """
    if most < 0 or _expected_bytes(frame) > most:
        return None
    try:
        return frame.toArrow()
    except Exception as error:
        if MOST_TOLD in str(error):
            return None
        raise


def _expected_bytes(frame: DataFrame) -> int:
    """Return how large Spark expects rows to be; very large where it does not know."""
    java: object = frame._jdf
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))  # type: ignore[attr-defined]
