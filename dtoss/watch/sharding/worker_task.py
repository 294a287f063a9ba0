"""What a worker does: it holds the rows that it was sent against its own subscriptions, and tells its part of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.watch.arriving_rows import Rows
from dtoss.watch.matching.candidates import candidates_of
from dtoss.watch.matching.matches import Matches
from dtoss.watch.processing.event_table import event_column, event_schema
from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.transitions import write_events, write_messages
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.sharding.layout_files import open_routing
from dtoss.watch.sharding.row_routing import Routing
from dtoss.watch.sharding.sent_rows import ARRIVES, BEGINS, IS_BEFORE, IS_OVER, LEFT, SPOKEN, rows_sent
from dtoss.watch.sharding.worker_index import Covers, WorkerIndex, worker_index
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE
from dtoss.watch.words.messages import messages_of

SEQ, TASK = "seq", "task"


@dataclass(frozen=True, eq=False)
class WorkerResult:
    """What a worker has done in a batch; small, and pickled."""

    worker: int
    cell: NDArray[np.int64]  # int64 (c,), rising. Routing cells of which it has told rows
    # rows, candidates, matches: int64 (c,). Rows that it told the events of, places that were looked at for them, and
    # subscriptions that held them
    rows: NDArray[np.int64]
    candidates: NDArray[np.int64]
    matches: NDArray[np.int64]
    sent: int  # Rows that it was sent, those before among them
    seconds: float  # Of the processor, that its rows took; to open its index, or to build it, is not counted
    key: str | None  # key, entry: of its large index, :class:`dtoss.watch.sharding.worker_index.WorkerIndex`
    entry: Mapping[str, Any] | None


@dataclass
class _Told:
    """Events as tables, with the task and the row of each."""

    schema: pa.Schema
    task: NDArray[np.int64]
    seq: NDArray[np.int64]
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, columns: dict[str, Any], row: NDArray[np.int64], number: NDArray[np.int32]) -> None:
        del number  # subscriptions are told apart by their ids
        made = {one.name: event_column(columns.get(one.name), one.type, len(row)) for one in self.schema}
        made |= {TASK: self.task[row], SEQ: self.seq[row]}
        self.tables.append(pa.table(made))


def answer_rows(
    plan: Plan, worker: int, sent: Sequence[tuple[int, pa.Table]]
) -> tuple[WorkerResult, dict[int, pa.Table]]:
    """Return what a worker has done with the rows that it was sent, and its events by the task that they came from.

    ``sent``: tasks and rows, of :func:`dtoss.watch.sharding.sent_rows.sent_to_workers`; those of a task may be in
    pieces, in their order.

    Cost O(n log n + m) for n rows with m matches, and that of :func:`worker_index` where it is the first time.
    """
    assert plan.routed is not None
    mine = worker_index(plan, worker)
    begun = time.thread_time()
    none = np.zeros(0, np.int64)
    if not sent:
        return WorkerResult(worker, none, none, none, none, 0, time.thread_time() - begun, mine.key, mine.entry), {}
    sent = sorted(sent, key=lambda one: one[0])
    table = pa.concat_tables([rows for _, rows in sent])
    task = np.repeat([number for number, _ in sent], [len(rows) for _, rows in sent])
    plain = np.asarray(table.column("flags")) & SPOKEN == 0
    order = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    table, task = table.take(pa.array(order)), task[order]
    flags, cell = np.asarray(table.column("flags")), np.asarray(table.column("cell"))
    rows = rows_sent(table)
    out = _Told(event_schema(plan.settings, plan.options.carry), task, np.asarray(table.column("seq")))
    choice = _Choice(open_routing(plan.home, plan.routed.layout["name"]), mine, worker, rows, cell, flags)
    plan = replace(plan, held=mine.standing)
    if plan.timed:
        write_events(plan, _tracks(rows, flags, np.asarray(table.column("changes"))), out, choice)
    else:
        write_messages(plan, rows, out, choice)
    told = np.flatnonzero(flags & ARRIVES)
    cells, place = np.unique(cell[told], return_inverse=True)
    looked = candidates_of(mine.standing, rows.positions[told])
    worked = WorkerResult(
        worker,
        cells,
        np.bincount(place, minlength=len(cells)),
        np.bincount(place, looked, len(cells)).astype(np.int64),
        np.bincount(place, choice.matches[told], len(cells)).astype(np.int64),
        len(rows),
        time.thread_time() - begun,
        mine.key,
        mine.entry,
    )
    return worked, _by_task(out.tables)


def _tracks(rows: Rows, flags: NDArray[np.uint8], changes: NDArray[np.int64]) -> Tracks:
    begin = np.append(np.flatnonzero(flags & BEGINS), len(rows)).astype(np.int64)
    tells = np.zeros(len(rows), np.uint8)
    tells[(flags & ARRIVES) != 0] |= ENTER | INSIDE
    tells[(flags & LEFT) != 0] |= LEAVE
    tells[(flags & SPOKEN) != 0] = INSIDE
    before, expired = (flags & IS_BEFORE) != 0, (flags & IS_OVER) != 0
    return Tracks(rows, begin, before, expired, changes, {}, tells)


@dataclass
class _Choice:
    """Which matches are this worker's to tell, where cells are split by words; counts what each row had."""

    routing: Routing
    index: WorkerIndex
    worker: int
    rows: Rows
    cell: NDArray[np.int64]
    flags: NDArray[np.uint8]

    def __post_init__(self) -> None:
        self.matches = np.zeros(len(self.rows), np.int64)
        self.split = self.routing.split[self.cell]

    def __call__(self, piece: Matches) -> Matches:
        if self.split[piece.first_row : piece.last_row].any():
            piece = piece.only(self._mine(piece.row, piece.subscription))
        self.matches[piece.first_row : piece.last_row] += np.bincount(
            piece.row - piece.first_row, minlength=piece.last_row - piece.first_row
        )
        return piece

    def _mine(self, row: NDArray[np.int64], subscription: NDArray[np.int32]) -> NDArray[np.bool_]:
        decided = self.index.covers.decide[subscription]
        mine = decided | (self.flags[row] & SPOKEN == 0)
        asked = np.flatnonzero(self.split[row] & decided)
        if len(asked):
            word = first_words(self.index.covers, self.rows, row[asked], subscription[asked])
            whose = self.routing.workers_of_words(self.cell[row[asked]], self.index.covers.words.take(pa.array(word)))
            mine[asked] = whose == self.worker
        return mine


def first_words(
    covers: Covers, rows: Rows, row: NDArray[np.int64], subscription: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return the first word, in the order of texts, of each subscription's cover that each row holds, int64 (m,).

    ``row``, ``subscription``: (m,). Pairs; the row holds one of the words.
    """
    assert rows.text is not None
    some, place = np.unique(row, return_inverse=True)
    held = messages_of(covers.vocabulary, rows.text.take(pa.array(some)))
    count = max(len(covers.words), 1)
    keys = np.repeat(np.arange(len(some)), np.diff(held.first)) * count + held.words
    sizes = (covers.begin[1:] - covers.begin[:-1])[subscription]
    ends = np.cumsum(sizes)
    at = np.repeat(covers.begin[subscription] - ends + sizes, sizes) + np.arange(ends[-1])
    word = covers.number[at].astype(np.int64)
    asked = np.repeat(place, sizes) * count + word
    found = np.searchsorted(keys, asked)
    there = np.append(keys, -1)[found] == asked
    return np.minimum.reduceat(np.where(there, word, count - 1), ends - sizes)


def _by_task(tables: list[pa.Table]) -> dict[int, pa.Table]:
    """Return events by their task."""
    if not tables:
        return {}
    whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    task = np.asarray(whole.column(TASK))
    order = np.argsort(task, kind="stable")
    bounds = np.flatnonzero(np.diff(task[order], prepend=-1)).tolist()
    ends = [*bounds[1:], len(order)]
    kept = whole.drop_columns([TASK])
    return {
        int(task[order[begin]]): kept.take(pa.array(order[begin:end])) for begin, end in zip(bounds, ends, strict=True)
    }
