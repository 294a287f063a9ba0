"""Which objects are nearest to each place, as GeoPandas counts them: all of a tie, or none that stand on the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.index import Index
from dtoss.queries.raw_hits import RawHits
from dtoss.row_runs import runs

TIES = ("lowest", "all")
"""Of objects as far as the last one: those of the lowest ids, or all."""
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Nearest:
    """What is asked of each place."""

    k: int
    max_distance: float  # Metres on the sphere, CRS units in the plane; infinite where there is no limit
    exclusive: bool  # Whether objects at distance 0 are left out
    ties: str
    where: str | None = None  # A condition on the objects
    places: bool = False  # Whether partitions and objects of hits are wanted, besides ids that are numbers
    threads: int = 1  # A batch is split among so many


def nearest_pairs(index: Index, at: Floats, ask: Nearest) -> RawHits:
    """Return the nearest objects of legal positions (m, 2), those of each in the order (distance, id).

    Cost O(k) a place and O(1) a hit more: where many objects stand on a place that is asked often, they are looked at
    once for all who ask there.
    """
    found = _away(index, at, ask) if ask.exclusive else _nearest(index, at, ask.k, ask)
    if ask.ties == "lowest":
        return found
    full = np.flatnonzero(found.count == ask.k)
    reach = found.distance[_begin(found)[full] + ask.k - 1]
    # distances are compared as they are reported: as far is the same number
    some = index.search(at[full], reach, -1, ask.where, threads=ask.threads).count
    if ask.exclusive:
        some = some - _standing(index, at[full], ask)
    tied, reach = full[some > ask.k], reach[some > ask.k]
    if len(tied) == 0:
        return found

    def search(rows: Rows) -> RawHits:
        within = index.search(at[tied[rows]], reach[rows], 0, ask.where, places=ask.places, threads=ask.threads)
        return _only(within, within.distance > 0.0) if ask.exclusive else within

    return _instead(found, tied, _asked_once(at[tied], search))


def _nearest(index: Index, at: Floats, k: int, ask: Nearest) -> RawHits:
    radius = np.full(len(at), ask.max_distance)
    return index.search(at, radius, k, ask.where, places=ask.places, threads=ask.threads)


def _standing(index: Index, at: Floats, ask: Nearest) -> Rows:
    """Return how many objects are at distance 0 of each place."""
    return index.search(at, np.zeros(len(at)), -1, ask.where, threads=ask.threads).count


def _away(index: Index, at: Floats, ask: Nearest) -> RawHits:
    """Return the k nearest of the objects that do not stand on the places."""
    found = _nearest(index, at, ask.k + 1, ask)
    whole = found.count > ask.k
    found = _only(found, found.distance > 0.0)
    # where several stand on a place, some may have been crowded out
    crowded = np.flatnonzero(whole & (found.count < ask.k))
    found = _first(found, ask.k)
    if len(crowded) == 0:
        return found

    def search(rows: Rows) -> RawHits:
        places = at[crowded[rows]]
        # a few sizes, each less than twice what is needed: together as many as there are objects and hits
        size = np.ceil(np.log2(_standing(index, places, ask) + ask.k)).astype(np.int64)
        every = _taken(found, np.zeros(0, np.int64), np.zeros(len(rows), np.int64))
        for power in np.unique(size).tolist():
            mine = np.flatnonzero(size == power)
            near = _nearest(index, places[mine], 2**power, ask)
            every = _instead(every, mine, _first(_only(near, near.distance > 0.0), ask.k))
        return every

    return _instead(found, crowded, _asked_once(at[crowded], search))


def _asked_once(at: Floats, search: Callable[[Rows], RawHits]) -> RawHits:
    """Return the hits of places (m, 2), where ``search`` is given the row of the first of those that are one place."""
    _, first, of = np.unique(at, axis=0, return_index=True, return_inverse=True)
    return _of_rows(search(first), of.reshape(-1))


def _begin(found: RawHits) -> Rows:
    """Return where the hits of each query begin."""
    return np.cumsum(found.count) - found.count


def _query(found: RawHits) -> Rows:
    """Return the query of each hit."""
    return np.repeat(np.arange(len(found.count)), found.count)


def _only(found: RawHits, kept: NDArray[np.bool_]) -> RawHits:
    """Return some of the hits, in the same order."""
    count = np.bincount(_query(found)[kept], minlength=len(found.count))
    return _taken(found, np.flatnonzero(kept), count)


def _first(found: RawHits, k: int) -> RawHits:
    """Return the first k hits of each query."""
    return _only(found, np.arange(len(found.distance)) - np.repeat(_begin(found), found.count) < k)


def _of_rows(found: RawHits, rows: Rows) -> RawHits:
    """Return the hits of queries by their numbers, in this order, as often as they stand there."""
    count = found.count[rows]
    return _taken(found, runs(_begin(found)[rows], count), count)


def _instead(found: RawHits, rows: Rows, others: RawHits) -> RawHits:
    """Return hits with those of some queries replaced by those of as many others."""
    both = join_rows([found, others])
    which = np.arange(len(found.count))
    which[rows] = len(found.count) + np.arange(len(rows))
    return _of_rows(both, which)


def _taken(found: RawHits, at: Rows, count: Rows) -> RawHits:
    """Return hits by their numbers; how many partitions a query read is of no use any more."""
    part, item = (column[at] if len(column) else column for column in (found.part, found.item))
    ids = None if found.ids is None else found.ids[at]
    return RawHits(count, part, item, found.distance[at], ids, np.zeros(len(count), np.int32))
