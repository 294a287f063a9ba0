"""Pieces of a batch shared among threads, which are kept for the next batch with the memory they work in.

The vectors of a batch's positions, made by several threads where they are many.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import Space

T = TypeVar("T")
PIECES = 4
"""Pieces for each thread at the most: one that is held up leaves more of them to the others."""
WHOLE_PIECE = 16384
"""Rows of a piece, unless it is the only one of its thread: each costs some 30 microseconds before it begins."""
LEAST = 256
"""Rows for each thread, or fewer threads work, unless they say how many."""
MOST_THREADS = 256
"""Threads that are kept at the most; they are started when they are needed."""


def in_pieces(rows: int, threads: int, work: Callable[[int, int], T], least: int = LEAST) -> list[T]:
    """Return what a function makes of each piece of the rows, (first, last), in order.

    ``threads``: how many work at a time at the most, the one that calls among them. One gets all rows as one piece;
    ``work``: is called with the first row of a piece and the one after its last, in any thread.

    Examples
    --------
    >>> in_pieces(10, 1, lambda first, last: last - first)
    [10]
    >>> in_pieces(1024, 2, lambda first, last: last - first)
    [512, 512]
    """
    threads = min(threads, max(rows // least, 1))
    if threads == 1:
        return [work(0, rows)]
    pieces = min(max(rows // (threads * WHOLE_PIECE), 1), PIECES)
    cuts = np.linspace(0, rows, pieces * threads + 1).astype(int).tolist()
    made: dict[int, T] = {}
    turns = iter(range(len(cuts) - 1))

    def some() -> None:
        for i in turns:
            made[i] = work(cuts[i], cuts[i + 1])

    others = [_pool.submit(some) for _ in range(threads - 1)]
    try:
        some()
    finally:
        # those that did not begin yet find nothing left to do
        begun = [other for other in others if not other.cancel()]
        for other in begun:
            other.exception()
    for other in begun:
        other.result()
    return [made[i] for i in range(len(made))]


def _fresh() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="dtoss")


def _replace() -> None:
    global _pool
    _pool = _fresh()


_pool = _fresh()

if hasattr(os, "register_at_fork"):
    # threads do not come along into a forked process
    os.register_at_fork(after_in_child=_replace)


SHARED_FROM = 4096
"""Positions from which on threads share the work."""


def query_vectors(places: NDArray[np.float64], space: Space, threads: int) -> NDArray[np.float64]:
    """Return the vectors (n, dimension) of legal positions (n, 2): as :meth:`dtoss.geometry.space.Space.vectors`."""
    # positions of such a CRS are transformed together: an error names the row
    if threads == 1 or len(places) < SHARED_FROM or space.to_lonlat:
        return space.vectors(places)
    vectors = np.empty((len(places), space.dimension))

    def some(a: int, b: int) -> None:
        vectors[a:b] = space.vectors(places[a:b])

    in_pieces(len(places), threads, some, SHARED_FROM // 2)
    return vectors
