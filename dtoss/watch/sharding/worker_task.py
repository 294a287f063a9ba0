"""What a worker does: rows are sent to those of their cells, and each holds them against its own subscriptions.

What a worker holds rows against: its own subscriptions of the large index, as a file, and of the small one.

Events of workers put in the order in which one task alone would have told them, and written as its file.

A row is told of by one worker: what is entered and where it is inside by that of its own cell, what is left by that of
the cell of the row before. Both get both rows, since a subscription is told of where it holds one and not the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.row_runs import offsets, runs
from dtoss.watch.index.build_index import build
from dtoss.watch.index.index_files import open_built, write_built
from dtoss.watch.index.large_and_small import GONE, Standing, open_index_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.grid_search import candidates_of
from dtoss.watch.matching.matches import Matches
from dtoss.watch.processing.event_table import EVENT_KINDS, event_column, event_schema
from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.transitions import kinds_told, write_events, write_messages
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import JudgedRows, TaskResult, events_of_task, told_of
from dtoss.watch.sharding.layout_files import Stored, open_routing, open_stored
from dtoss.watch.sharding.routing_grid import Routing, cells_of
from dtoss.watch.subscription import CROSS, ENTER, INSIDE, LEAVE
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of, vocabulary_of

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
    key: str | None  # key, entry: of its large index, :class:`dtoss.watch.sharding.worker_task.WorkerIndex`
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

    ``sent``: tasks and rows, of :func:`dtoss.watch.sharding.worker_task.sent_to_workers`; those of a task may be in
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
            piece = piece.take(self._mine(piece.row, piece.subscription))
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
    word = covers.number[runs(covers.begin[subscription], sizes)].astype(np.int64)
    asked = np.repeat(place, sizes) * count + word
    found = np.searchsorted(keys, asked)
    there = np.append(keys, -1)[found] == asked
    return np.minimum.reduceat(np.where(there, word, count - 1), offsets(sizes)[:-1])


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


_OPEN = 128


@dataclass(frozen=True, eq=False)
class Covers:
    """The words that decide who tells of a subscription where cells are split."""

    # int64 (n + 1,). Of each subscription, where its words begin in ``number``; none where they decide nothing
    begin: NDArray[np.int64]
    number: NDArray[np.int32]  # int32. Words by their numbers, rising for each
    words: pa.Array  # large_string. By number, in the order of texts

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words, to be found in texts."""
        return vocabulary_of(self.words)

    @cached_property
    def decide(self) -> NDArray[np.bool_]:
        """Of which subscriptions words decide, bool (n,)."""
        return np.diff(self.begin) > 0


@dataclass(frozen=True)
class WorkerIndex:
    """A worker's subscriptions."""

    standing: Standing  # They, as if nothing else stood
    covers: Covers
    key: str | None  # Of the large part; None where there is none
    entry: Mapping[str, Any] | None  # What a commit says of its file


def worker_index(plan: Plan, worker: int) -> WorkerIndex:
    """Return what a worker of a batch holds rows against; the file of its large part is written if it is not there.

    Cost O(its subscriptions) the first time in a process, and again where they have changed.
    """
    assert plan.routed is not None
    assert plan.files is not None
    base = None if plan.routed.base is None else open_stored(plan.home, plan.routed.base["name"], worker)
    delta = None if plan.routed.delta is None else open_stored(plan.home, plan.routed.delta["name"], worker)
    entry = None
    large = None
    if base is not None and plan.files.base is not None and len(base.rows):
        entry = plan.routed.indexes.get(base.key)
        if entry is None:
            entry = _written(plan.home, plan.files.base["name"], base)
        large = _open_index(plan.home, entry["name"])
    small = None
    if delta is not None and plan.files.delta is not None:
        gone = None if large is None or base is None else base
        small = _small(plan.home, plan.files.delta["name"], delta.key, delta, None if gone is None else gone.key, gone)
    parts = [some for some, built in ((base, large), (delta, small)) if some is not None and built is not None]
    covers = _covers(plan.routed.base, plan.routed.delta, worker, parts)
    return WorkerIndex(Standing(large, small), covers, None if large is None or base is None else base.key, entry)


def _written(home: Home, name: str, stored: Stored) -> dict[str, Any]:
    """Write a worker's part of the large index, and return what a commit says of it."""
    whole = open_index_of(home, name)
    return write_built(home.asked, _part(whole, stored.rows), "worker")


def _part(whole: SubscriptionIndex, rows: NDArray[np.int64]) -> SubscriptionIndex:
    # which conditions may be asked was found out for all: what could not be is in no part
    text = any(name.startswith("words/") for name in whole.arrays)
    return build(whole.table.take(pa.array(rows)).combine_chunks(), whole.space, whole.schema, text)


@lru_cache(maxsize=_OPEN)
def _open_index(home: Home, name: str) -> SubscriptionIndex:
    return open_built(home.asked, name)


_smalls: dict[tuple[Home, str, str, str | None], SubscriptionIndex] = {}


def _small(
    home: Home, name: str, key: str, stored: Stored, base_key: str | None, base: Stored | None
) -> SubscriptionIndex | None:
    """Return a worker's part of the small index, with the rows of its large part that are gone."""
    known = (home, name, key, base_key)
    found = _smalls.get(known)
    if found is None:
        whole = open_index_of(home, name)
        found = _part(whole, stored.rows)
        if base is not None:
            at = np.searchsorted(base.rows, whole.arrays.get(GONE, np.zeros(0, np.int32)))
            there = np.append(base.rows, -1)[at] == whole.arrays.get(GONE, np.zeros(0, np.int32))
            found = replace(found, arrays={**found.arrays, GONE: at[there].astype(np.int32)})
        while len(_smalls) >= _OPEN:
            _smalls.pop(next(iter(_smalls)), None)
        _smalls[known] = found
    return found if len(found) or GONE in found.arrays else None


_read: dict[tuple[str | None, str | None, int], Covers] = {}


def _covers(
    base: Mapping[str, Any] | None, delta: Mapping[str, Any] | None, worker: int, parts: list[Stored]
) -> Covers:
    known = (None if base is None else base["name"], None if delta is None else delta["name"], worker)
    found = _read.get(known)
    if found is None:
        lists = pa.concat_arrays([pa.array([], pa.large_list(pa.large_string())), *(one.covers for one in parts)])
        sizes = np.diff(lists.offsets.to_numpy())
        coded = lists.flatten().dictionary_encode()
        order = np.asarray(pc.sort_indices(coded.dictionary)).astype(np.int64)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        number = place[coded.indices.to_numpy()]
        begin = offsets(sizes)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        number = number[np.lexsort((number, owner))]
        words = coded.dictionary.take(pa.array(order)).cast(pa.large_string())
        while len(_read) >= _OPEN:
            _read.pop(next(iter(_read)), None)
        found = _read[known] = Covers(begin, number, words)
    return found


def told_by_task(plan: Plan, judged: JudgedRows) -> pa.Table | None:
    """Return the crosses and the stays of a task's rows as a worker tells events, None where nobody wants any.

    A way leads through cells of several workers, and a stay may: the task tells of them, by all that stands.
    """
    if judged.tracks is None or not (plan.standing.crosses or plan.standing.stays is not None):
        return None
    count = len(judged.rows)
    out = _Told(
        event_schema(plan.settings, plan.options.carry, plan.standing.crosses),
        np.zeros(count, np.int64),
        np.arange(count),
    )
    write_events(plan, replace(judged.tracks, tells=np.full(count, CROSS, np.uint8)), out)
    return pa.concat_tables(out.tables).drop_columns([TASK]) if out.tables else None


def merge_events(plan: Plan, done: TaskResult, told: Sequence[pa.Table], seconds: float = 0.0) -> TaskResult:
    """Return what a task has done, with the events that workers have told of its rows.

    ``done``: of the task, without events; ``told``: of :func:`answer_rows`, of any workers in any order, and of
    :func:`told_by_task`.

    The order is that of rows, then of times, kinds and ids: the same for every layout. Cost
    O(m log m) for m events, which are held in memory.
    """
    file, out = events_of_task(plan, done.task)
    counts = dict.fromkeys([EVENT_KINDS[kind] for kind in kinds_told(plan.standing)] if plan.timed else ["inside"], 0)
    if told:
        whole = pa.concat_tables(told, promote_options="default").unify_dictionaries().combine_chunks()
        kind = _ranks(whole.column("kind"), {name: place for place, name in enumerate(EVENT_KINDS)})
        counts |= {name: int((kind == EVENT_KINDS.index(name)).sum()) for name in counts}
        keys = (_order_of_ids(whole.column("subscription")), kind, np.asarray(whole.column(SEQ)))
        order = np.lexsort((*keys[:2], np.asarray(whole.column("t")), keys[2]) if plan.timed else keys)
        whole = whole.drop_columns([SEQ])
        room = plan.home.limits.event_group_rows
        for begin in range(0, len(order), room):
            some = whole.take(pa.array(order[begin : begin + room]))
            out.add({name: some.column(name) for name in some.column_names})
    return told_of(plan, done, file, counts, seconds)


def _encode(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = column.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def _ranks(column: pa.ChunkedArray, places: dict[str, int]) -> NDArray[np.int64]:
    coded = _encode(column)
    rank = np.array([places[name] for name in coded.dictionary.to_pylist()], np.int64)
    return rank[coded.indices.to_numpy()]


def _order_of_ids(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the place of each id in the order of their bytes."""
    coded = _encode(column)
    order = np.asarray(pc.sort_indices(coded.dictionary))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[coded.indices.to_numpy()]


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
