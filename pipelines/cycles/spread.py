"""Work on groups of partitions: in this process where it is little, in Spark's tasks where it is much."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from pipelines.spark.freeze_imports import freeze_imports
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def groups_of(items: Sequence[T], weights: Sequence[float], many: int) -> list[list[T]]:
    """Return items in at most so many groups, about equally heavy: the heaviest first, each to the lightest group.

    Examples
    --------
    >>> groups_of("abcd", [5.0, 1.0, 2.0, 3.0], 2)
    [['a', 'b'], ['d', 'c']]
    """
    groups: list[list[T]] = [[] for _ in range(min(many, len(items)))]
    loads = [0.0] * len(groups)
    for i in sorted(range(len(items)), key=lambda i: (-weights[i], i)):
        lightest = min(range(len(groups)), key=lambda g: (loads[g], g))
        groups[lightest].append(items[i])
        loads[lightest] += weights[i]
    return groups


def spread_work(
    session: SparkSession | None,
    work: Callable[[list[T]], list[Any]],
    items: Sequence[T],
    weights: Sequence[float],
    *,
    here: bool,
) -> list[Any]:
    """Return what ``work`` gives for all items, in any order; a group of them is a task.

    ``here``: do it in this process: a job of Spark's costs a third of a second.
    """
    if not items:
        return []
    if here:
        return work(list(items))
    assert session is not None
    groups = groups_of(items, weights, cores(session))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.record_batch([pa.array([pickle.dumps(work(groups[number]))], pa.binary())], names=["made"])

    numbers = session.range(0, len(groups), 1, len(groups))
    made = numbers.mapInArrow(freeze_imports(run), "made binary").toArrow()
    return [one for packed in made.column(0).to_pylist() for one in pickle.loads(packed)]
