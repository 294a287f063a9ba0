"""Events of workers put in the order in which one task alone would have told them, and written as its file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.processing.event_table import EVENT_KINDS
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, events_of_task, told_of
from dtoss.watch.sharding.worker_task import SEQ

_TOLD = ("leave", "enter", "inside")


def merge_events(plan: Plan, done: TaskResult, told: Sequence[pa.Table], seconds: float = 0.0) -> TaskResult:
    """Return what a task has done, with the events that workers have told of its rows.

    ``done``: of the task, without events; ``told``: of :func:`dtoss.watch.sharding.worker_task.answer_rows`, of any
    workers in any order.

    The order is that of rows, then leave before enter before inside, then that of ids: the same for every layout. Cost
    O(m log m) for m events, which are held in memory.
    """
    file, out = events_of_task(plan, done.task)
    counts = dict.fromkeys(_TOLD if plan.timed else ("inside",), 0)
    if told:
        whole = pa.concat_tables(told).unify_dictionaries().combine_chunks()
        kind = _ranks(whole.column("kind"), {name: place for place, name in enumerate(EVENT_KINDS)})
        counts |= {name: int((kind == EVENT_KINDS.index(name)).sum()) for name in counts}
        order = np.lexsort((_order_of_ids(whole.column("subscription")), kind, np.asarray(whole.column(SEQ))))
        whole = whole.drop_columns([SEQ])
        room = plan.home.limits.event_group_rows
        for begin in range(0, len(order), room):
            some = whole.take(pa.array(order[begin : begin + room]))
            out.add({name: some.column(name) for name in some.column_names})
    return told_of(plan, done, file, counts, seconds)


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = column.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def _ranks(column: pa.ChunkedArray, places: dict[str, int]) -> NDArray[np.int64]:
    coded = _coded(column)
    rank = np.array([places[name] for name in coded.dictionary.to_pylist()], np.int64)
    return rank[coded.indices.to_numpy()]


def _order_of_ids(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the place of each id in the order of their bytes."""
    coded = _coded(column)
    order = np.asarray(pc.sort_indices(coded.dictionary))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[coded.indices.to_numpy()]
