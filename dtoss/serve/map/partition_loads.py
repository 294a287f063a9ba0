"""Requests/s of all workers and of each partition, from what workers count of the last seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.serve.observability.partition_counts import MOST_PARTITIONS, HomeCounts, Homes, PartitionCounts, mark_of

WINDOW_SECONDS = 6.0
"""That a rate is the mean of."""
SILENT_SECONDS = 4.0
"""A worker that has told nothing for so long answers nothing: it counts once a second."""
_NANO = 1e9


@dataclass(frozen=True, eq=False)
class Load:
    """What is asked now."""

    requests: float  # Requests/s of all workers: places that were asked about
    partitions: NDArray[np.float64]  # float64 (P,), requests/s by the partition that holds the place


def settle(homes: Homes, index: Index) -> None:
    """Look up whose partitions were asked for, and tell the other processes."""

    def home_of(places: NDArray[np.float64]) -> NDArray[np.int32]:
        try:
            return index.partitioning.nearest(index.space.vectors(places))
        except ValueError:  # a place that is none in the store's CRS was not answered either
            return np.full(len(places), MOST_PARTITIONS, np.int32)

    homes.settle(mark_of(index.partitioning.digest), len(index.parts), home_of)


class Loads:
    """Makes rates of counts; of one process, for one caller at a time."""

    def __init__(self, counts: HomeCounts) -> None:
        self._counts = counts
        self._history: list[deque[PartitionCounts]] = []

    def look(self, mark: int, partitions: int, now: float) -> Load:
        """Return what is asked now, as far as it is known: nothing at the first look.

        ``now``: seconds of ``time.monotonic``.
        """
        counted = self._counts.read(partitions)
        if not self._history:
            self._history = [deque() for _ in counted]
        requests, of = 0.0, np.zeros(partitions)
        for history, latest in zip(self._history, counted, strict=True):
            if latest is not None and (not history or history[-1].moment != latest.moment):
                history.append(latest)
            # one that is older than the window stays: rates are of at least as long
            while len(history) > 2 and now - history[1].moment / _NANO > WINDOW_SECONDS:
                history.popleft()
            if len(history) < 2 or now - history[-1].moment / _NANO > SILENT_SECONDS:
                continue
            last = history[-1]
            known = [one for one in history if now - one.moment / _NANO <= WINDOW_SECONDS + SILENT_SECONDS]
            if len(known) < 2:
                continue
            requests += (last.requests - known[0].requests) * _NANO / (last.moment - known[0].moment)
            # at other pivots counting began anew
            alike = list(takewhile(lambda one: one.regions == mark, reversed(known)))
            if len(alike) > 1:
                first, share = alike[-1], min(len(last.of), len(alike[-1].of))
                of[:share] += np.maximum(last.of[:share] - first.of[:share], 0) * (_NANO / (last.moment - first.moment))
        return Load(requests, of)
