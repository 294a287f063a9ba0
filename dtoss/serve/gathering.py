"""Requests that arrive in one turn of the loop share one call of a kernel.

No timer waits for more of them: a request by itself is answered at the end of the turn in which it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Protocol

import numpy as np

from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers import Hit, encode
from dtoss.serve.serving import Served
from dtoss.serve.state import WorkerState

K_SIZES = (1, 8, 32, 64)
"""What k is rounded up to: the k nearest are the first of more."""
MOST = K_SIZES[-1]
"""The largest k, and more hits than a range has whose answer is small."""
SIZE_OF_K = (0, *(next(size for size in K_SIZES if size >= k) for k in range(1, MOST + 1)))
KNN, RANGE, OBJECT, WINDOWS_ROUTE = 0, 1, 2, 3
"""Kinds of hot questions: the numbers of their routes in the metrics."""


class Asked(Protocol):
    """A question that waits for the end of the turn.

    ``size`` is what k is rounded up to; a range has k = 0, and its radius.
    """

    kind: int
    x: float
    y: float
    k: int
    radius: float
    where: str | None

    def answered(self, served: Served, body: bytes) -> None:
        """Take the answer."""

    def elsewhere(self) -> None:
        """Ask on the long way: this one would hold up the others, or failed."""


class Gathering:
    """Questions of this turn of the loop.

    Parameters
    ----------
    state
        Of the worker.
    loop
        Whose turns these are.
    """

    def __init__(self, state: WorkerState, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self._waiting: list[Asked] = []

    def add(self, asked: Asked) -> None:
        """Let a question wait for the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._answer)
        self._waiting.append(asked)

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        served = self._state.serving.now
        self._state.metrics.gathered(len(waiting))
        groups: dict[tuple[int, int, str | None], list[Asked]] = {}
        for asked in waiting:
            group = (asked.kind, SIZE_OF_K[asked.k], asked.where)
            if group in groups:
                groups[group].append(asked)
            else:
                groups[group] = [asked]
        for (kind, size, where), group_of in groups.items():
            try:
                self._group(served, kind, size or MOST, where, group_of)
            except Exception as error:  # the long way says what is wrong, to each its own
                self._state.log.event("gathering failed", error=repr(error))
                for asked in group_of:
                    asked.elsewhere()

    def _group(self, served: Served, kind: int, size: int, where: str | None, group: Sequence[Asked]) -> None:
        places = np.array([(asked.x, asked.y) for asked in group])
        radius = np.array([asked.radius for asked in group])
        found = _search(served, places, radius, size, where)
        if found is None:
            for asked in group:
                asked.elsewhere()
            return
        ids = found.ids.tolist() if found.ids is not None else served.index.ids_of(found).to_pylist()
        hits = list(map(Hit, ids, found.distance.tolist()))
        begin, at, left = served.beginning, 0, []
        for row, (asked, count) in enumerate(zip(group, found.count.tolist(), strict=True)):
            if kind == KNN:
                asked.answered(served, begin + encode(hits[at : at + min(count, asked.k)]) + b"}")
            elif count < size:
                asked.answered(served, begin + encode(hits[at : at + count]) + b"}")
            else:
                left.append(row)
                asked.elsewhere()
            at += count
        self._record(kind, group, places, radius, left)
        self._state.metrics.read(int(found.reads.sum()), len(group))

    def _record(
        self,
        kind: int,
        group: Sequence[Asked],
        places: np.ndarray[tuple[int, int], np.dtype[np.float64]],
        radius: np.ndarray[tuple[int], np.dtype[np.float64]],
        left: list[int],
    ) -> None:
        """Put those that were answered into the access log."""
        if left:
            places, radius = np.delete(places, left, 0), np.delete(radius, left)
        if not len(places):
            return
        limit = None if radius.min() == inf else np.where(radius == inf, np.nan, radius)
        k = None if kind == RANGE else np.array([asked.k for asked in group])
        self._state.accesses.many(places[:, 0], places[:, 1], k, limit)


def _search(
    served: Served,
    places: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    radius: np.ndarray[tuple[int], np.dtype[np.float64]],
    size: int,
    where: str | None,
) -> RawHits | None:
    """Return the hits of a group, None where its condition is not evaluated yet."""
    index = served.index
    if where is None:
        return index.search(places, radius, size, places=False)
    condition = served.conditions.ready(where)
    if condition is None:
        return None
    return condition.answer(index.space.vectors(places), radius, size, 1, places=False, may_build=False)
