"""Between strategies and a watch: layouts as the files that rows are sent by, and what each worker stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.balance.cell_layout import Layout, WordParts, of_parts
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions
from dtoss.watch.index.large_and_small import Standing, open_index_of
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.sharding.layout_files import AskedCells, asked_cells, texts_of, write_stored
from dtoss.watch.sharding.routing_grid import Routing, RoutingGrid
from dtoss.watch.watch_folder import Home
from dtoss.watch.words.messages import Vocabulary

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
