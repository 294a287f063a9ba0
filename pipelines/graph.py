"""The nearest neighbours of every object of a store: its kNN graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dtoss.answer_rows import Ask, answer_batch, make_ask, open_once
from dtoss.mapped_index import Verify
from dtoss.snapshots.store import Store
from pipelines.join import SLICE, id_type, result_schema
from pipelines.spark.session import configure_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def knn_graph(
    session: SparkSession,
    store: str,
    k: int = 1,
    *,
    columns: Sequence[str] = (),
    where: str | None = None,
    max_distance: float | None = None,
    snapshot: str | None = None,
    verify: Verify = "touch",
) -> DataFrame:
    """Return the k nearest other objects of every object: query_id, id, distance, rank (from 1), and columns.

    Parameters
    ----------
    session
        The one whose executors answer.
    store
        Path or URI; executors must reach it too.
    k
        At least 1.
    columns
        Attributes of the neighbours to return.
    where
        A condition on the neighbours, not on the objects whose neighbours they are.
    max_distance
        Metres on the sphere, CRS units in the plane; closed.
    snapshot
        Its name; the current one when None.
    verify
        Which checksums the workers compare, as in :func:`dtoss.open`.

    Raises
    ------
    ValueError
        If an argument is out of its bounds, or a column or condition does not fit the objects.
    StoreError
        If there is no such store or snapshot.

    Notes
    -----
    Lazy: nothing runs before an action. Objects are asked where they are, partition by partition, without a shuffle.
    """
    ask = make_ask(
        store, snapshot, k=k, columns=columns, where=where, max_distance=max_distance, exclude_self=True, verify=verify
    )
    manifest = Store(ask.store).manifest(ask.snapshot)
    partitions = len(manifest["partitions"])
    numbers = configure_session(session).range(0, partitions, numPartitions=max(partitions, 1))
    return numbers.mapInArrow(_neighbours(ask), result_schema(manifest, id_type(manifest), ask.columns))


def _neighbours(ask: Ask) -> Callable[..., Iterator[pa.RecordBatch]]:
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = open_once(ask.store, ask.snapshot, ask.verify)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                partition = index.parts[number]
                for begin in range(0, partition.owned_objects, SLICE):
                    rows = slice(begin, min(begin + SLICE, partition.owned_objects))
                    x, y = np.ascontiguousarray(partition.positions[rows].T)
                    ids = partition.ids[rows]
                    queries = pa.record_batch([pa.array(ids), pa.array(x), pa.array(y)], names=["query_id", "x", "y"])
                    yield answer_batch(index, ask, queries)

    return answer


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("knn --all")
