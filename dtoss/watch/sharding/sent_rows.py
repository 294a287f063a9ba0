"""Rows sent to workers: each to that of its cell, and again to that of the cell before, which tells what is left.

A row is told of by one worker: what is entered and where it is inside by that of its own cell, what is left by that of
the cell of the row before. Both get both rows, since a subscription is told of where it holds one and not the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import JudgedRows
from dtoss.watch.sharding.layout_files import open_routing
from dtoss.watch.sharding.routing_grid import Routing, cells_of
from dtoss.watch.watch_settings import Rows

IS_BEFORE, IS_OVER, BEGINS, ARRIVES, LEFT, SPOKEN = (1 << bit for bit in range(6))
"""What a row is for a worker: a row before, one whose time is over, the first of its kind there, one that it tells the
events of, one up to which it tells what is left, one that only its words have sent."""
_ATTRIBUTE = "a:"


def sent_to_workers(plan: Plan, judged: JudgedRows) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a task for each worker that gets some, by worker.

    Cost O(n log n). Columns: ``seq``, the number of the row in its task; ``flags``; ``cell``; ``changes``; ``x`` and
    ``y``; ``t``, ``id``, ``text`` and attributes as far as there are any.
    """
    assert plan.routed is not None
    rows = judged.rows
    if len(rows) == 0:
        return
    routing = open_routing(plan.home, plan.routed.layout["name"])
    cell = cells_of(routing.grid, plan.settings.space, rows.positions)
    worker, seq, flags = _sent(routing, cell, rows, judged.tracks)
    changes = np.zeros(len(rows), np.int64) if judged.tracks is None else judged.tracks.changes
    bounds = np.searchsorted(worker, np.arange(plan.routed.workers + 1))
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        part = slice(bounds[number], bounds[number + 1])
        mine = seq[part]
        some = rows.take(mine)
        columns: dict[str, Any] = {"seq": mine, "flags": flags[part], "cell": cell[mine], "changes": changes[mine]}
        yield number, pa.record_batch(columns | _columns(some, plan.routed.columns))


def _columns(rows: Rows, names: tuple[str, ...]) -> dict[str, Any]:
    columns: dict[str, Any] = {"x": pa.array(rows.positions[:, 0]), "y": pa.array(rows.positions[:, 1])}
    if rows.t is not None:
        columns["t"] = pa.array(rows.t)
    if rows.ids is not None:
        columns["id"] = rows.ids
    if rows.text is not None:
        columns["text"] = rows.text
    return columns | {_ATTRIBUTE + name: rows.attributes[name] for name in names if name in rows.attributes}


def rows_sent(batch: pa.RecordBatch | pa.Table) -> Rows:
    """Return the rows of :func:`sent_to_workers`."""
    columns = {name: _one(batch.column(name)) for name in batch.schema.names}
    return Rows(
        np.ascontiguousarray(np.stack([columns["x"].to_numpy(), columns["y"].to_numpy()], axis=1)),
        columns.get("id"),
        columns["t"].to_numpy() if "t" in columns else None,
        columns.get("text"),
        {name[len(_ATTRIBUTE) :]: column for name, column in columns.items() if name.startswith(_ATTRIBUTE)},
    )


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _sent(
    routing: Routing, cell: NDArray[np.int64], rows: Rows, tracks: Tracks | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return worker, row and flags of what is sent, by worker; rows rise, and those that words have sent come last."""
    count = len(rows)
    home = routing.worker_of(cell, rows).astype(np.int64)
    each = np.arange(count)
    if tracks is None:
        arrives, sent = each, [(home, each, ARRIVES | BEGINS)]
        starts = np.ones(count, np.bool_)
        own = np.zeros(count, np.uint8)
    else:
        starts = np.zeros(count, np.bool_)
        starts[tracks.begin[:-1]] = True
        follows = ~starts
        follows[1:] &= ~tracks.expired[:-1]
        later = np.flatnonzero(follows)
        arrives, over = np.flatnonzero(~tracks.before), np.flatnonzero(tracks.expired)
        own = (tracks.before * IS_BEFORE | tracks.expired * IS_OVER).astype(np.uint8)
        sent = [
            (home[arrives], arrives, ARRIVES),
            (home[over], over, LEFT),
            (home[later - 1], later, LEFT),
            (home[later], later - 1, 0),
            (home[later - 1], later - 1, 0),
        ]
    key = np.concatenate([whose * count + row for whose, row, _ in sent])
    flag = np.concatenate([np.full(len(row), bits, np.uint8) for _, row, bits in sent])
    key, inverse = np.unique(key, return_inverse=True)
    flags = np.zeros(len(key), np.uint8)
    np.bitwise_or.at(flags, inverse, flag)
    worker, seq = key // count, key % count
    flags |= own[seq]
    fresh = starts[seq].copy()
    fresh[1:] |= (worker[1:] != worker[:-1]) | (seq[1:] != seq[:-1] + 1)
    fresh[:1] = True
    flags[fresh] |= BEGINS
    if rows.text is None or len(routing.word_cell) == 0:
        return worker, seq, flags
    spoken = routing.spoken(cell[arrives], rows.text.take(pa.array(arrives)))
    said = np.full(len(spoken.row), SPOKEN | BEGINS | ARRIVES, np.uint8)
    worker = np.concatenate([worker, spoken.worker.astype(np.int64)])
    seq, flags = np.concatenate([seq, arrives[spoken.row]]), np.concatenate([flags, said])
    order = np.argsort(worker, kind="stable")
    return worker[order], seq[order], flags[order]
