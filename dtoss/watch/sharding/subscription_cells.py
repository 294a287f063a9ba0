"""Which routing cells each subscription that stands touches, its bytes, and the words that it stands under."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.row_runs import offsets, runs
from dtoss.watch.index.build_index import covers_of
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.sharding.routing_grid import SIDE, RoutingGrid, grid_of, rects_in
from dtoss.watch.words.formula_programs import compile_words
from dtoss.watch.words.messages import Vocabulary, vocabulary_of

_KEY_BYTES = 8


class AskedCells(NamedTuple):
    """Subscriptions of an index on a grid; n of them."""

    # int64 (p, 4). First column, first row, last column and last row of the cells that a part of a place touches
    rects: NDArray[np.int64]
    # int64 (p,). The row of the index's table, rising. One whose place is not known, or that is not answered, has none
    owner: NDArray[np.int64]
    bytes: NDArray[np.float64]  # float64 (n,). What each takes in an index, about
    cover_begin: NDArray[np.int64]  # int64 (n + 1,). Where the words of each begin in ``cover``
    cover: NDArray[np.int64]  # int64. Numbers of words, of ``vocabulary``
    vocabulary: Vocabulary


def grid_of_standing(standing: Standing, space: Space, side: int = SIDE) -> RoutingGrid:
    """Return a grid over where the subscriptions that stand are, of ``side`` rows and columns."""
    rects = [covers_of(built).rects for _, built in standing.parts]
    return grid_of(space, np.concatenate([np.zeros((0, 4)), *rects]), side, side)


def asked_cells(built: SubscriptionIndex, grid: RoutingGrid) -> AskedCells:
    """Return what the subscriptions of an index ask, by routing cells. Cost O(n), and that of reading their words."""
    covers = covers_of(built)
    touched = rects_in(grid, built.space, covers.rects)
    every = _everywhere(built)
    placed = ~np.isin(covers.owner[touched.of], every)
    whole = np.tile([0, 0, grid.columns - 1, grid.rows - 1], (len(every), 1)).astype(np.int64)
    owner = np.concatenate([covers.owner[touched.of][placed].astype(np.int64), every])
    order = np.argsort(owner, kind="stable")
    answered = np.ones(len(built), np.bool_)
    answered[[one.row for one in built.unanswered]] = False
    order = order[answered[owner[order]]]
    vocabulary, begin, words = _covers(built)
    rects = np.concatenate([touched.rects[placed], whole])[order]
    return AskedCells(rects, owner[order], _bytes(built), begin, words, vocabulary)


def _everywhere(built: SubscriptionIndex) -> NDArray[np.int64]:
    """Return the subscriptions that have no place, and those that ask about all outside of theirs, int64."""
    from dtoss.watch.subscription import COMPLEMENT, EVERYWHERE

    return np.flatnonzero((built.arrays["kind"] == EVERYWHERE) | ((built.arrays["events"] & COMPLEMENT) != 0))


def _bytes(built: SubscriptionIndex) -> NDArray[np.float64]:
    """Return what each subscription takes, float64 (n,): an equal share of all but polygons, and its own corners."""
    count = len(built)
    if count == 0:
        return np.zeros(0)
    corners = np.zeros(count)
    sizes = built.arrays["polygon/corners"] * _KEY_BYTES * built.space.dimension
    if len(sizes):
        corners += np.bincount(np.repeat(np.arange(count), np.diff(built.arrays["parts"])), sizes, count)
    return (built.bytes - corners.sum()) / count + corners


def _covers(built: SubscriptionIndex) -> tuple[Vocabulary, NDArray[np.int64], NDArray[np.int64]]:
    """Return the words under which subscriptions stand: all of them, where those of each begin, and their numbers."""
    column = built.table.column("words")
    said = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    begin = np.zeros(len(built) + 1, np.int64)
    if len(said) == 0:
        return vocabulary_of(pa.array([], pa.large_string())), begin, np.zeros(0, np.int64)
    texts = column.take(pa.array(said)).combine_chunks().cast(pa.large_string())
    vocabulary, compiled = compile_words(texts)
    sizes = (compiled.cover[:, 1] - compiled.cover[:, 0]).astype(np.int64)
    counts = np.zeros(len(built), np.int64)
    counts[said] = sizes
    return vocabulary, offsets(counts), compiled.covers[runs(compiled.cover[:, 0], sizes)].astype(np.int64)
