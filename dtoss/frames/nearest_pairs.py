"""Which objects are nearest to each place, as GeoPandas counts them: all of a tie, or none that stand on the place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.hits import Hits
from dtoss.index import Index

TIES = ("lowest", "all")
"""Of objects as far as the last one: those of the lowest ids, or all."""


@dataclass(frozen=True)
class Nearest:
    """What is asked of each place.

    Parameters
    ----------
    k
        How many.
    max_distance
        Metres on the sphere, CRS units in the plane; no limit when None.
    exclusive
        Whether objects at distance 0 are left out.
    ties
        One of ``TIES``.
    where
        A condition on the objects.
    columns
        Attributes of the objects to return.
    threads
        A batch is split among so many.
    """

    k: int = 1
    max_distance: float | None = None
    exclusive: bool = False
    ties: str = "lowest"
    where: str | None = None
    columns: Sequence[str] = ()
    threads: int = 1


def nearest_pairs(index: Index, places: NDArray[np.float64], ask: Nearest) -> Hits:
    """Return the nearest objects of places (m, 2), in the order (query, distance, id).

    Notes
    -----
    Cost O(k) a place and O(1) a hit more: where many objects stand on a place that is asked often, they are looked at
    once for all who ask there.
    """
    if ask.ties == "lowest" and not ask.exclusive:
        return _knn(index, places, ask.k, ask)
    # one more than is wanted shows whether the last one is tied
    wanted = ask.k + (ask.ties == "all")
    found = _away(index, places, wanted, ask) if ask.exclusive else _knn(index, places, wanted, ask)
    if ask.ties == "lowest":
        return found
    count = np.bincount(found.query, minlength=len(places))
    begin = np.cumsum(count) - count
    more = np.flatnonzero(count > ask.k)
    last = found.distance[begin[more] + ask.k - 1]
    is_tied = found.distance[begin[more] + ask.k] == last
    tied, reach = more[is_tied], last[is_tied]
    left_out = np.zeros(len(places), np.bool_)
    left_out[tied] = True
    first = found.only((found.rank() <= ask.k) & ~left_out[found.query])
    if len(tied) == 0:
        return first
    return _merged(first, _all_within(index, places, tied, reach, ask))


def _knn(index: Index, places: NDArray[np.float64], k: int, ask: Nearest) -> Hits:
    return index.knn(
        places,
        min(k, max(len(index), 1)),
        max_distance=ask.max_distance,
        where=ask.where,
        columns=ask.columns,
        threads=ask.threads,
    )


def _all_within(
    index: Index, places: NDArray[np.float64], rows: NDArray[np.int64], reach: NDArray[np.float64], ask: Nearest
) -> Hits:
    """Return all objects of some places that are as near as their last one, which is compared as it was reported."""

    def search(some: NDArray[np.float64], asked: NDArray[np.int64]) -> Hits:
        found = index.range(some, reach[asked], where=ask.where, columns=ask.columns, threads=ask.threads)
        return found.only(found.distance > 0.0) if ask.exclusive else found

    return _asked_once(places, rows, search)


def _away(index: Index, places: NDArray[np.float64], k: int, ask: Nearest) -> Hits:
    """Return the k nearest of the objects that do not stand on the places."""
    found = _knn(index, places, k + 1, ask)
    count = np.bincount(found.query, minlength=len(places))
    there = np.bincount(found.query[found.distance == 0.0], minlength=len(places))
    # where several stand on a place, some may have been crowded out
    crowded = (there > 1) & (count == min(k + 1, max(len(index), 1)))
    first = found.only((found.distance > 0.0) & ~crowded[found.query])
    first = first.only(first.rank() <= k)
    rows = np.flatnonzero(crowded)
    if len(rows) == 0:
        return first

    def search(some: NDArray[np.float64], asked: NDArray[np.int64]) -> Hits:
        stand = index.count(some, 0.0, where=ask.where, threads=ask.threads)
        # a few sizes, each less than twice what is needed: together as many as there are objects and hits
        size = np.ceil(np.log2(stand + k)).astype(np.int64)
        pieces = []
        for power in np.unique(size).tolist():
            mine = np.flatnonzero(size == power)
            near = _knn(index, some[mine], 2**power, ask)
            near = near.only(near.distance > 0.0)
            near = near.only(near.rank() <= k)
            pieces.append(Hits(mine[near.query], near.id, near.distance, near.columns))
        return _merged(*pieces)

    return _merged(first, _asked_once(places, rows, search))


def _asked_once(
    places: NDArray[np.float64],
    rows: NDArray[np.int64],
    search: Callable[[NDArray[np.float64], NDArray[np.int64]], Hits],
) -> Hits:
    """Return the hits of some rows: each place is asked once, in the order of the rows that first name it.

    ``search`` gets the places and for each the first of ``rows``, by its number, that stands there.
    """
    _, first, of = np.unique(places[rows], axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    found = search(places[rows[first]], first)
    count = np.bincount(found.query, minlength=len(first))
    begin = np.cumsum(count) - count
    size = count[of]
    start = np.cumsum(size) - size
    at = np.repeat(begin[of] - start, size) + np.arange(int(size.sum()))
    return _taken(found, at, np.repeat(rows, size))


def _merged(*pieces: Hits) -> Hits:
    """Return hits of different queries in the order of their queries."""
    if len(pieces) == 1:
        return pieces[0]
    query = np.concatenate([piece.query for piece in pieces])
    whole = Hits(
        query,
        np.concatenate([piece.id for piece in pieces]),
        np.concatenate([piece.distance for piece in pieces]),
        {name: pa.concat_arrays([piece.columns[name] for piece in pieces]) for name in pieces[0].columns},
    )
    order = np.argsort(query, kind="stable")
    return _taken(whole, order, query[order])


def _taken(hits: Hits, at: NDArray[np.int64], query: NDArray[np.int64]) -> Hits:
    columns = {name: column.take(pa.array(at)) for name, column in hits.columns.items()}
    return Hits(query, hits.id[at], hits.distance[at], columns)
