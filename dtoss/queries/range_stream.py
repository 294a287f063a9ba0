"""Long answers a piece at a time: as many queries as have so many hits, or a part of the hits of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dtoss.queries.raw_hits import RawHits

COUNTED = 4096
"""Queries whose hits are counted at a time."""


def pieces_of(
    queries: int,
    most: int,
    count: Callable[[slice], NDArray[np.int64]],
    search: Callable[[slice], RawHits],
    counted: int = COUNTED,
) -> Iterator[tuple[int, RawHits]]:
    """Yield the first query and the hits of each piece, in order: at most ``most`` hits, and never none.

    ``most``: hits in a piece, at least 1.

    Holds at a time ``most`` hits, or those of one query where these are more.

    Examples
    --------
    >>> sizes = np.array([2, 0, 1, 7])
    >>> def found(rows):
    ...     total, empty = sizes[rows].sum(), np.zeros(0, np.int32)
    ...     return RawHits(sizes[rows], empty, empty, np.zeros(total), np.arange(total), np.zeros(0, np.int32))
    >>> [(first, hits.count.tolist()) for first, hits in pieces_of(4, 3, sizes.__getitem__, found)]
    [(0, [2, 0, 1]), (3, [3]), (3, [3]), (3, [1])]
    """
    for begin in range(0, queries, counted):
        counts = count(slice(begin, min(begin + counted, queries)))
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            before = int(ends[first] - counts[first])
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            if ends[last - 1] > before:
                found = search(slice(begin + first, begin + last))
                for part in _parts(found, most):
                    yield begin + first, part
            first = last


def _parts(found: RawHits, most: int) -> Iterator[RawHits]:
    """Yield hits that are those of one query, if they are more than ``most``, so many at a time."""
    total = len(found.distance)
    if total <= most:
        yield found
        return
    for at in range(0, total, most):
        rows = slice(at, min(at + most, total))
        yield replace(
            found,
            count=np.array([rows.stop - at]),
            part=found.part[rows],
            item=found.item[rows],
            distance=found.distance[rows],
            ids=None if found.ids is None else found.ids[rows],
        )
