"""Requests by the partition that holds their place: a sample of them, in memory that all workers share.

A request costs a subtraction. Of so many in a row one is drawn and stands for all of them; where it was asked is looked
up later, once a second. So each request counts with a chance of one in n and a weight of n, however requests follow
each other: sums have no bias.
"""

from __future__ import annotations

import mmap
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.locks import Lock
from dtoss.serve.observability.request_sample import Values

MOST_PARTITIONS = 1 << 16
"""Partitions whose requests are counted each by itself; pages that nobody writes to take no memory."""
LOOKED_UP = 1_000
"""Places of a worker that are looked up in a second, about."""
DRAWN_OF_MANY = 1_024
"""Places of one request of many, of which so many are drawn."""
WIDEST = DRAWN_OF_MANY // 2
"""Requests that one draw stands for at most. From one draw to the next there are less than twice as many, so a request
of many always has a draw in it: never is it skipped for what others asked, nor they drawn for it."""

_VERSION, _REGIONS, _PARTITIONS, _MOMENT, _REQUESTS, _FIRST = range(6)
"""Words of a worker; the version is odd during a change."""
_TRIES = 100


@dataclass(frozen=True)
class PartitionCounts:
    """What a worker has counted until a moment."""

    regions: int  # Stands for the pivots whose partitions these are: :func:`mark_of`
    moment: int  # Nanoseconds of a clock that all processes share and that never goes back
    requests: int
    of: NDArray[np.int64]  # int64 (P,). About how many of each partition, since the worker counts for these pivots


def mark_of(digest: str) -> int:
    """Return 60 bits, not 0, that stand for the pivots with this hash."""
    return int(digest[:15], 16) | 1


class HomeCounts:
    """Counts of all workers of a server; to be made before the fork."""

    def __init__(self, workers: int) -> None:
        words = _FIRST + MOST_PARTITIONS
        self._words = np.frombuffer(mmap.mmap(-1, 8 * words * workers), np.int64).reshape(workers, words)

    def of(self, worker: int) -> NDArray[np.int64]:
        """Return the words of one worker, by its number from 0."""
        found: NDArray[np.int64] = self._words[worker]
        return found

    def read(self, partitions: int) -> list[PartitionCounts | None]:
        """Return what each worker has counted of so many partitions; None of one that has counted nothing yet."""
        return [_read(words, min(partitions, MOST_PARTITIONS)) for words in self._words]


def _read(words: NDArray[np.int64], partitions: int) -> PartitionCounts | None:
    for _ in range(_TRIES):
        version = int(words[_VERSION])
        found = words[: _FIRST + partitions].copy()
        if version == int(words[_VERSION]) and not version & 1:
            break
    else:
        return None  # its worker died while it wrote, and nobody took its place yet
    if not found[_REGIONS]:
        return None
    return PartitionCounts(int(found[_REGIONS]), int(found[_MOMENT]), int(found[_REQUESTS]), found[_FIRST:])


class Homes:
    """Counts the requests of one worker; any thread may call it.

    ``seed``: of the random choices; the system's when None.
    """

    __slots__ = (
        "_each", "_left", "_lock", "_many", "_places", "_random", "_requests", "_rest", "_settling", "_told", "_weight",
        "_words",
    )  # fmt: skip

    def __init__(self, words: NDArray[np.int64], seed: int | None = None) -> None:
        self._words = words
        self._random = random.Random(seed)
        self._lock, self._settling = Lock(), Lock()
        self._places: list[tuple[float, float, int]] = []
        self._many: list[tuple[NDArray[np.float64], NDArray[np.int64]]] = []
        self._requests = self._told = 0
        self._each = self._weight = 1  # requests that the next ones drawn stand for; that the next one does
        self._left = self._rest = 0  # requests before the one that is drawn; those behind it, which it stands for too

    def add(self, x: Values, y: Values, count: int) -> None:
        """Count requests.

        ``x``, ``y``: their places, arrays (count,), or numbers for one request.
        """
        # no other thread has its turn between these lines: there is no call among them
        self._requests += count
        if self._left >= count:
            self._left -= count
            return
        self._draw(x, y, count)

    def _draw(self, x: Values, y: Values, count: int) -> None:
        with self._lock:
            if count > DRAWN_OF_MANY:
                assert isinstance(x, np.ndarray)
                assert isinstance(y, np.ndarray)
                self._draw_of_many(x, y, count)
                return
            at = self._left
            while at < count:
                if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
                    self._places.append((float(x[at]), float(y[at]), self._weight))
                else:
                    self._places.append((float(x), float(y), self._weight))
                if len(self._places) % LOOKED_UP == 0:
                    self._each = min(2 * self._each, WIDEST)  # many more than in the second before
                at += 1 + self._rest
                self._weight = self._each
                skipped = int(self._random.random() * self._weight)
                self._rest = self._weight - 1 - skipped
                at += skipped
            self._left = at - count

    def _draw_of_many(self, x: NDArray[np.generic], y: NDArray[np.generic], count: int) -> None:
        """Draw of each run of places one."""
        ends = np.linspace(0, count, DRAWN_OF_MANY + 1).astype(np.int64)
        weight = np.diff(ends)
        chances = np.random.default_rng(self._random.getrandbits(64)).random(DRAWN_OF_MANY)
        drawn = ends[:-1] + (chances * weight).astype(np.int64)
        self._many.append((np.stack([x[drawn], y[drawn]], axis=1).astype(np.float64), weight))

    @property
    def waiting(self) -> bool:
        """Whether something was counted since :meth:`settle`."""
        return self._requests != self._told

    def settle(self, mark: int, partitions: int, home_of: Callable[[NDArray[np.float64]], NDArray[np.int32]]) -> None:
        """Look up what was drawn and tell the other processes; to be called once a second.

        ``home_of``: returns the partitions that hold places (n, 2).
        """
        with self._settling:
            with self._lock:
                places, self._places = self._places, []
                many, self._many = self._many, []
                fresh = self._requests - self._told
                self._told += fresh
                self._each = min(max(fresh // LOOKED_UP, 1), WIDEST)
            pieces = [*([] if not places else [_columns(places)]), *many]
            of = np.zeros(min(partitions, MOST_PARTITIONS), np.int64)
            for where, weight in pieces:
                homes = home_of(where)
                known = homes < len(of)
                np.add.at(of, homes[known], weight[known])
            words = self._words
            words[_VERSION] |= 1
            if words[_REGIONS] != mark:
                words[_FIRST : _FIRST + int(words[_PARTITIONS])] = 0
                words[_REGIONS], words[_PARTITIONS] = mark, len(of)
            words[_FIRST : _FIRST + len(of)] += of
            words[_REQUESTS] += fresh
            words[_MOMENT] = time.monotonic_ns()
            words[_VERSION] += 1


def _columns(places: list[tuple[float, float, int]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    columns = np.array(places)
    return np.ascontiguousarray(columns[:, :2]), columns[:, 2].astype(np.int64)
