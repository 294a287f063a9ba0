"""A watch whose rows are spread over workers: the layouts of a strategy as files, and rounds that end.

What rows of a round say, for strategies that split cells by words: counted by tasks, and summed for the decision.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.balance.baselines import Strategy
from ceps.balance.cell_layout import Layout, WordParts, of_parts
from ceps.balance.round_costs import Loads, Terms, WorkModel, fit_work_model, shares_of_seconds
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions
from dtoss.watch.index.large_and_small import Standing, open_index_of
from dtoss.watch.processing.watch_plan import Plan, RoutingFiles
from dtoss.watch.processing.watch_task import TaskResult
from dtoss.watch.sharding.layout_files import (
    AskedCells,
    asked_cells,
    grid_of_standing,
    open_arrays,
    open_routing,
    open_stored,
    texts_of,
    write_arrays,
    write_routing,
    write_stored,
)
from dtoss.watch.sharding.routing_grid import Routing, RoutingGrid
from dtoss.watch.sharding.sharded_batch import RoundLoad, open_words, read_load, write_load, write_words
from dtoss.watch.sharding.worker_task import WorkerResult
from dtoss.watch.watch_folder import Home
from dtoss.watch.words.messages import Vocabulary, vocabulary_of

ROUND_SECONDS = 15.0
"""Of a round where nothing else is said, as SWARM has it: what workers hold is written anew where it changes."""
_KEPT_SAMPLES = 512
"""Batches of workers that prices are fitted to."""
_ENOUGH_ROWS = 10_000
"""Rows of batches of which prices are made: of fewer, seconds are mostly what any task takes."""
_GROWN = 4.0
"""By how much the region of subscriptions may grow or shrink before cells are cut anew."""


@dataclass(frozen=True)
class SpreadOptions:
    """How rows are spread over workers, as the user says it."""

    strategy: str
    workers: int
    batches: int = 1  # Of a round, at least, after which the layout may change; 0 for never
    memory_bytes: int | None = None  # Of a worker, for the strategy that asks for it
    seconds: float = 0.0  # Of a round, at least


def check_strategy(spread: SpreadOptions) -> None:
    """Check that there is such a strategy, and that it has what it needs."""
    strategy_as_said(spread)


def strategy_as_said(spread: SpreadOptions) -> Strategy:
    """Return the strategy that decides about layouts."""
    from ceps.strategies import strategy_of

    return strategy_of(spread.strategy, spread.workers, spread.memory_bytes)


@dataclass
class Spreading:
    """Where a watch stands in its rounds."""

    home: Home
    spread: SpreadOptions  # As the user says it
    _worked: list[WorkerResult] = field(default_factory=list)
    _begun_us: int = 0
    _began: float = 0.0
    _batches: int = 0
    _ended: Loads | None = None
    _said: list[SaidInTexts] = field(default_factory=list)
    _first: bool = True
    _samples: list[tuple[float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._strategy = strategy_as_said(self.spread)

    def routed(self, plan: Plan, beat: bool = False) -> Plan:
        """Return the plan of a batch with its layout; files that are not there yet are written.

        ``beat``: it has no rows, and may not be committed: nothing is decided unless there is no layout yet.
        """
        before = RoutingFiles.of(plan.document_before().get("layout"))
        if before is not None and before.strategy != self.spread.strategy:
            before = None  # another one's layout is no place to begin from, and may be gone
        if before is None:
            return self._decided(plan, None, grid_of_standing(plan.standing, plan.settings.space), None)
        if self._first:
            self._first = False
            self._ended = self._of_before(plan, before)
        routing = open_routing(self.home, before.layout["name"])
        grid = self._grid(plan, routing.grid)
        if grid != routing.grid:
            self._worked, self._batches, self._ended, self._said = [], 0, None, []  # their cells are other ones
            return self._decided(plan, before, grid, None)
        if before.workers != self.spread.workers or (self._ended is not None and not beat):
            return self._decided(plan, before, grid, as_layout(routing, vocabulary_of(self._words(plan, grid))))
        standing = replace(before, columns=columns_sent(plan.standing, plan.options.carry), moved=0)
        if plan.files == plan.before:
            return replace(plan, routed=standing)
        return self._stored(plan, standing, before, routing)

    def _of_before(self, plan: Plan, before: RoutingFiles | None) -> Loads | None:
        """Return the load of a round that another process has ended, and after which nobody has decided yet."""
        entry = None if before is None else before.ended
        if not self.spread.batches or entry is None:
            return None
        held = read_load(self.home, entry["name"])
        rows, candidates, matches = (np.zeros(held.grid.cells) for _ in range(3))
        rows[held.cell], candidates[held.cell], matches[held.cell] = held.rows, held.candidates, held.matches
        asked = self._asked(plan, held.grid)
        stored, sizes = asked.stored_by_cell.astype(np.float64), asked.bytes_by_cell
        return Loads(held.grid.shape, rows, candidates, matches, stored, sizes, WorkModel(*held.model))

    def _grid(self, plan: Plan, held: RoutingGrid) -> RoutingGrid:
        """Return the cells: those that are there, as long as subscriptions are about where they were."""
        if plan.files is None or plan.before is None or plan.files.base_number == plan.before.base_number:
            return held
        fresh = grid_of_standing(plan.standing, plan.settings.space)
        grown = (fresh.width * fresh.height) / (held.width * held.height)
        return held if 1.0 / _GROWN <= grown <= _GROWN else fresh

    def _decided(self, plan: Plan, before: RoutingFiles | None, grid: RoutingGrid, layout: Layout | None) -> Plan:
        """Return the plan with what the strategy says, of a layout of these cells or of none."""
        asked = self._asked(plan, grid)
        loads = _as_stored(grid, asked) if self._ended is None or layout is None else self._ended
        memory = {}
        if before is not None and layout is not None and before.memory is not None:
            memory = open_arrays(self.home, before.memory["name"])
        decided = self._strategy.next_layout(layout, loads, asked, memory)
        self._ended = None
        kept = write_arrays(self.home, decided.memory, "memory-")
        routing = as_routing(decided.layout, grid, self._words(plan, grid))
        if before is not None and layout is not None and decided.layout.same_as(layout):
            return self._stored(plan, replace(before, memory=kept, moved=0, ended=None), before, routing)
        last = RoutingFiles.of(plan.document_before().get("layout"))
        routed = RoutingFiles(
            self.spread.strategy,
            self.spread.workers,
            write_routing(self.home, routing),
            None,
            None,
            {} if before is None else before.indexes,
            kept,
            round=0 if last is None else last.round + 1,
            words=None if before is None else before.words,
            since=plan.number,
        )
        return self._stored(plan, routed, before, routing)

    def _stored(self, plan: Plan, routed: RoutingFiles, before: RoutingFiles | None, routing: Routing) -> Plan:
        """Return the plan with what workers store, and the bytes that they have not had."""
        held = before.base if before is not None and routed.layout == before.layout and _same_base(plan) else None
        grid = routing.grid
        words = self._words(plan, grid)
        known = None if before is None or before.words is None else open_words(self.home, before.words["name"])[0]
        if len(words) and (known is None or not known.equals(words)):
            routed = replace(routed, words=write_words(self.home, words))
        elif not len(words):
            routed = replace(routed, words=None)
        made = write_all_stored(plan, routing, held)
        columns = columns_sent(plan.standing, plan.options.carry)
        routed = replace(routed, base=made.base, delta=made.delta, columns=columns)
        if held is not None or made.base is None or plan.files is None or plan.files.base is None:
            return replace(plan, routed=routed)
        moved, keys = 0.0, set()
        asked = cells_asked(self.home, plan.files.base["name"], grid)
        for worker in range(routed.workers):
            now = open_stored(self.home, made.base["name"], worker)
            keys.add(now.key)
            moved += _fresh_bytes(asked.bytes, now.rows, self._had(plan, before, worker))
        # only what this layout names is kept: other indexes are cleared away
        indexes = {key: entry for key, entry in routed.indexes.items() if key in keys}
        return replace(plan, routed=replace(routed, indexes=indexes, moved=round(moved)))

    def _had(self, plan: Plan, before: RoutingFiles | None, worker: int) -> NDArray[np.int64]:
        if before is None or before.base is None or not _same_base(plan) or worker >= before.workers:
            return np.zeros(0, np.int64)
        return open_stored(self.home, before.base["name"], worker).rows

    def _asked(self, plan: Plan, grid: RoutingGrid) -> SubscriptionLoad:
        parts = [cells_asked(self.home, name, grid) for name in _indexes(plan)]
        return as_asked(grid, parts, self._words(plan, grid))

    def _words(self, plan: Plan, grid: RoutingGrid) -> pa.Array:
        """Return the words that are counted in rows, for a strategy that wants to know them."""
        if plan.settings.text is None or not splits_by_words(self.spread.strategy):
            return NO_TEXTS
        return words_asked(self.home, _indexes(plan), grid)

    def forget(self) -> None:
        """Forget what is not committed: a batch has failed, and is tried again from what the commits say."""
        self._worked, self._batches, self._ended, self._first = [], 0, None, True
        self._said = []

    def ended(self, plan: Plan, worked: Sequence[WorkerResult], done: Sequence[TaskResult]) -> Mapping[str, Any] | None:
        """Take what workers and tasks have done in a batch.

        Return the file of the round's load where it ends with it.
        """
        assert plan.routed is not None
        if not self.spread.batches:
            return None  # no round ever ends: what would be kept for it would only grow
        if not self._batches:
            self._begun_us, self._began = plan.now_us, time.monotonic()
        self._worked += worked
        self._batches += 1
        self._said += in_texts(plan, done)
        for one in worked:
            counts = (float(part.sum()) for part in (one.rows, one.candidates, one.matches))
            self._samples.append((*counts, one.seconds))  # type: ignore[arg-type]
        self._samples = self._samples[-_KEPT_SAMPLES:]
        lasted = time.monotonic() - self._began >= self.spread.seconds
        over = lasted and self.spread.batches <= self._batches
        if not over or not self._worked:
            return None
        grid = open_routing(self.home, plan.routed.layout["name"]).grid
        load = self._round(plan, grid)
        self._worked, self._batches, self._said = [], 0, []
        return write_load(self.home, load)

    def _round(self, plan: Plan, grid: RoutingGrid) -> RoundLoad:
        """Return what the round has cost, and keep it for the decision."""
        rows, candidates, matches = (np.zeros(grid.cells) for _ in range(3))
        for one in self._worked:
            for total, part in ((rows, one.rows), (candidates, one.candidates), (matches, one.matches)):
                total[one.cell] += part
        seen = np.array(self._samples).reshape(-1, 4)
        model = fit_work_model(*seen.T) if seen[:, 0].sum() >= _ENOUGH_ROWS else WorkModel()
        seconds = np.zeros(grid.cells)
        for one in self._worked:
            work = model.work(one.rows.astype(float), one.candidates.astype(float), one.matches.astype(float))
            seconds[one.cell] += shares_of_seconds(work, one.seconds)
        asked = self._asked(plan, grid)
        stored, sizes = asked.stored_by_cell.astype(float), asked.bytes_by_cell
        terms = terms_of(self._said, self._words(plan, grid), asked)
        looked = (
            candidates if terms is None else candidates + np.bincount(terms.cell, terms.rows * terms.under, grid.cells)
        )
        self._ended = Loads(grid.shape, rows, looked, matches, stored, sizes, model, terms)
        cell = np.flatnonzero(rows)
        return RoundLoad(
            grid,
            cell,
            rows[cell].astype(np.int64),
            candidates[cell].astype(np.int64),
            matches[cell].astype(np.int64),
            seconds[cell],
            stored[cell].astype(np.int64),
            sizes[cell],
            self._begun_us,
            time.time_ns() // 1000,
            (model.a, model.b, model.c, model.error),
        )


def _indexes(plan: Plan) -> tuple[str, ...]:
    """Return the names of the indexes that stand, the large one first."""
    entries = () if plan.files is None else (plan.files.base, plan.files.delta)
    return tuple(one["name"] for one in entries if one is not None)


def _same_base(plan: Plan) -> bool:
    """Return whether the large index is that of the batch before."""
    return plan.files is not None and plan.before is not None and plan.files.base == plan.before.base


def _as_stored(grid: RoutingGrid, asked: SubscriptionLoad) -> Loads:
    """Return loads as if rows came where subscriptions are: before the first round nothing else is known."""
    stored = asked.stored_by_cell.astype(np.float64)
    return Loads(grid.shape, stored, np.zeros(grid.cells), np.zeros(grid.cells), stored, asked.bytes_by_cell)


def _fresh_bytes(sizes: NDArray[np.float64], now: NDArray[np.int64], had: NDArray[np.int64]) -> float:
    fresh = np.zeros(len(sizes), np.bool_)
    fresh[now] = True
    fresh[had] = False
    return float(sizes[fresh].sum())


class SaidInTexts(NamedTuple):
    """How many rows of a task say a word in a cell, with the words as texts: batches number them otherwise."""

    cell: NDArray[np.int64]
    word: pa.Array
    rows: NDArray[np.int64]


def splits_by_words(strategy: str) -> bool:
    """Whether a strategy of that name wants to know what rows say."""
    from ceps.strategies import BY_WORDS

    return strategy in BY_WORDS


def in_texts(plan: Plan, done: Sequence[TaskResult]) -> list[SaidInTexts]:
    """Return what rows of tasks say."""
    if plan.routed is None or plan.routed.words is None:
        return []
    words, _ = open_words(plan.home, plan.routed.words["name"])
    said = [one.said for one in done if one.said is not None]
    return [SaidInTexts(one.cell, words.take(pa.array(one.word)), one.rows) for one in said]


def terms_of(said: Sequence[SaidInTexts], words: pa.Array, asked: SubscriptionLoad) -> Terms | None:
    """Return what rows say of the words that are asked for now, None where nothing is known."""
    if not said or not len(words):
        return None
    number = [pc.index_in(one.word, words).fill_null(-1).to_numpy(zero_copy_only=False) for one in said]
    word, cell = np.concatenate(number).astype(np.int64), np.concatenate([one.cell for one in said])
    rows, there = np.concatenate([one.rows for one in said]), word >= 0
    key, of = np.unique(cell[there] * len(words) + word[there], return_inverse=True)
    cell, word = key // len(words), key % len(words)
    under = asked.under_words.over(cell, word).astype(np.float64)
    return Terms(cell, word, np.bincount(of, rows[there], len(key)).astype(np.float64), under)


NO_TEXTS = pa.array([], pa.large_string())


def as_routing(layout: Layout, grid: RoutingGrid, words: pa.Array = NO_TEXTS) -> Routing:
    """Return a layout as rows are sent by it."""
    if layout.shape != grid.shape:
        raise ValueError(
            f"a layout of {layout.shape[0]} x {layout.shape[1]} cells; the grid has {grid.rows} x {grid.columns}"
        )
    parts = layout.words
    text = words.take(pa.array(parts.word)).cast(pa.large_string())
    return Routing(
        grid, layout.workers, layout.begin, layout.worker, layout.share, parts.cell, text, parts.worker
    )  # fmt: skip


def as_layout(routing: Routing, vocabulary: Vocabulary | None = None) -> Layout:
    """Return where rows go as a layout, with the words of a vocabulary; others, and all when None, are left out."""
    cell = np.repeat(np.arange(routing.grid.cells), np.diff(routing.begin))
    words = WordParts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))
    if vocabulary is not None and len(routing.word_cell):
        number = vocabulary.numbers_of(routing.word).astype(np.int64)
        known = number >= 0
        words = WordParts(routing.word_cell[known], number[known], routing.word_worker[known])
    return of_parts(routing.grid.shape, routing.workers, cell, routing.worker, routing.share, words)


def words_of(parts: Sequence[AskedCells]) -> pa.Array:
    """Return the words under which subscriptions of indexes stand, large_string, in their order, each once."""
    texts = [texts_of(one).take(pa.array(np.unique(one.cover))) for one in parts]
    found = pc.unique(pa.chunked_array(texts, pa.large_string()))
    return found.take(pc.sort_indices(found))


@lru_cache(maxsize=4)
def words_asked(home: Home, names: tuple[str, ...], grid: RoutingGrid) -> pa.Array:
    """Return the words under which subscriptions of indexes stand, by the names of these; the last few are kept."""
    return words_of([cells_asked(home, name, grid) for name in names])


def as_asked(grid: RoutingGrid, parts: list[AskedCells], words: pa.Array = NO_TEXTS) -> SubscriptionLoad:
    """Return the subscriptions of indexes, one after another, as strategies see them.

    ``parts``: of the same cells; ``words``: of :func:`words_of`: covers are numbers of these; without any they are left
    out.
    """
    begin, cover = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for one in parts:
        number = np.full(len(one.vocabulary.offsets) - 1, -1, np.int64)
        used = np.unique(one.cover)
        if len(words):
            number[used] = pc.index_in(texts_of(one).take(pa.array(used)), words).to_numpy(zero_copy_only=False)
            begin.append(one.cover_begin[1:] + begin[-1][-1])
            cover.append(number[one.cover])
        else:
            begin.append(np.full(len(one.bytes), begin[-1][-1]))
    first = np.cumsum([0, *(len(one.bytes) for one in parts)])
    return SubscriptionLoad(
        grid.shape,
        np.concatenate([np.zeros((0, 4), np.int64), *(one.rects for one in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(one.owner + at for one, at in zip(parts, first[:-1], strict=True))]),
        np.concatenate([np.zeros(0), *(one.bytes for one in parts)]),
        np.concatenate(begin),
        np.concatenate(cover),
    )


@lru_cache(maxsize=4)
def cells_asked(home: Home, name: str, grid: RoutingGrid) -> AskedCells:
    """Return which cells the subscriptions of an index touch; the last few are kept."""
    return asked_cells(open_index_of(home, name), grid)


@dataclass(frozen=True)
class StoredFiles:
    """Files that say what workers store of the large and of the small index."""

    base: Mapping[str, Any] | None
    delta: Mapping[str, Any] | None


def write_all_stored(plan: Plan, routing: Routing, base: Mapping[str, Any] | None = None) -> StoredFiles:
    """Write what each worker stores of what stands, and return the files."""
    if plan.files is None:
        return StoredFiles(None, None)
    large, small = plan.files.base, plan.files.delta
    if base is None and large is not None:
        base = _write_stored(plan.home, large["name"], routing)
    return StoredFiles(base, None if small is None else _write_stored(plan.home, small["name"], routing))


def _write_stored(home: Home, index: str, routing: Routing) -> dict[str, Any]:
    asked = cells_asked(home, index, routing.grid)
    rows = stored_rows(routing, asked)
    return write_stored(home, index, rows, asked, _by_words(routing, asked))


def stored_rows(routing: Routing, asked: AskedCells) -> list[NDArray[np.int64]]:
    """Return the rows of an index that each worker stores, int64, rising."""
    layout = as_layout(routing, asked.vocabulary)
    whole = SubscriptionLoad(routing.grid.shape, asked.rects, asked.owner, asked.bytes, asked.cover_begin, asked.cover)
    return [np.flatnonzero(stored_subscriptions(layout, whole, worker)) for worker in range(routing.workers)]


def _by_words(routing: Routing, asked: AskedCells) -> NDArray[np.bool_]:
    """Return of which subscriptions words decide who tells of them, bool (n,)."""
    whole = SubscriptionLoad(routing.grid.shape, asked.rects, asked.owner, asked.bytes, asked.cover_begin, asked.cover)
    return whole.touching(routing.split) & (np.diff(asked.cover_begin) > 0)


def columns_sent(standing: Standing, carry: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of rows that workers need: those that a condition reads, and those that events carry."""
    found = set(carry)
    for _, built in standing.parts:
        for condition in built.conditions:
            found |= condition.columns
    return tuple(sorted(found))
