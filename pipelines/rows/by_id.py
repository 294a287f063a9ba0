"""Ids that repeat where there is no time, and how rows are shared among tasks by their ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.engines.rows import one_value
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pipelines.rows.position_frame import Positions

ROWS_PER_TASK = 1_000_000
"""Rows that one task looks through for the latest of each id."""


def task_count(rows: int, at_once: int) -> int:
    """Return how many tasks share so many rows: one for each million, at least as many as run at once."""
    return int(min(max(-(-rows // ROWS_PER_TASK), at_once), 2000))


def count_ids(positions: Positions, rows: int) -> tuple[int, int, list[str]]:
    """Return how many ids good rows have, how many stand more than once, and three of these at the most.

    Only ids are shuffled.
    """
    tasks = task_count(4 * rows, cores(positions.session))
    found = positions.good(["id"]).exchange_by_hash(tasks, "id").map(_count, "counts string").values()
    counts = [json.loads(text) for text in found]
    some = sorted(text for _, _, texts in counts for text in texts)
    return sum(ids for ids, _, _ in counts), sum(repeated for _, repeated, _ in counts), some[:3]


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = [batch.column(0) for batch in batches]
    if not columns:
        return
    groups = pc.value_counts(pa.chunked_array(columns))
    values = groups.field("values").filter(pc.greater(groups.field("counts"), 1))
    some = [str(value) for value in sorted(values.slice(0, 1000).to_pylist())[:3]]
    yield one_value("counts", json.dumps([len(groups), len(values), some]))
