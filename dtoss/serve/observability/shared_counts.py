"""Counts of frequent requests, in memory that all workers share: one addition each, and none is lost with a worker.

The memory is made before the fork. Each worker writes only its own part, which the next worker of its number goes on
with. All are whole numbers of 8 bytes: seconds are nanoseconds, moments microseconds since 1970.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Sequence

from dtoss.kinds.all_kinds import ALL_KINDS

HOT_ROUTES = (*(f"/{kind.name}" for kind in ALL_KINDS.values() if kind.gathered), "/objects/{object_id}", "/windows")
"""Routes of the short way, by their numbers, as the framework names them; the last one is all that begin so."""
SECONDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets of latencies, the same for all routes; one more is open."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds of the buckets of requests that shared a call; one more is open."""

_NANO = 1_000_000_000
_FEW = 4  # latencies that are put into their buckets one by one: of more, the least and the largest tell most often
_SUM, _BYTES, _BUCKETS = range(3)  # of a route
_ROUTE = _BUCKETS + len(SECONDS) + 1  # words of a route
_GATHERED = len(HOT_ROUTES) * _ROUTE
_GATHERED_SUM = _GATHERED + len(SIZES) + 1
_READ = _GATHERED_SUM + 1
_QUERIES = _READ + 1
_IN_HAND = _QUERIES + 1
_PID = _IN_HAND + 1
_RESTARTS = _PID + 1
_VERSION = _RESTARTS + 1  # odd while what follows is being written
_COMMIT = _VERSION + 1
_MADE = _COMMIT + 1
_OBJECTS = _MADE + 1
_NAME = _OBJECTS + 1
_NAME_WORDS = 16
_WORDS = _NAME + _NAME_WORDS


class SharedCounts:
    """Counts of all workers of a server."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._words = memoryview(mmap.mmap(-1, 8 * _WORDS * workers)).cast("q")

    def of(self, worker: int) -> WorkerCounts:
        """Return the part of one worker, by its number from 0."""
        return WorkerCounts(self._words[worker * _WORDS : (worker + 1) * _WORDS])

    def all(self) -> list[WorkerCounts]:
        """Return the parts of all workers."""
        return [self.of(worker) for worker in range(self.workers)]


class WorkerCounts:
    """What one worker counts; only it writes here, and its parent between two lives of it.

    Threads may call this too: the interpreter lets another one run at calls and at jumps back only, so none of the
    additions is torn.
    """

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    # -- writing ----------------------------------------------------------------------------------------------------

    def begin(self, pid: int) -> None:
        """Let a new process count on."""
        self._words[_IN_HAND] = 0
        self._words[_PID] = pid

    def end(self, *, restarts: bool = False) -> None:
        """Say that the process is gone, and whether another one takes its place."""
        self._words[_PID] = self._words[_IN_HAND] = self._words[_VERSION] = 0
        self._words[_RESTARTS] += restarts

    def hot(self, route: int, seconds: Sequence[float], sent: int) -> None:
        """Count answers of one route, with their latencies and the bytes of all of them."""
        words, at, count = self._words, route * _ROUTE, len(seconds)
        words[at + _SUM] += int(sum(seconds) * _NANO)
        words[at + _BYTES] += sent
        at += _BUCKETS
        if count > _FEW:
            # requests of one turn take about the same time
            place = bisect_left(SECONDS, min(seconds))
            if place == bisect_left(SECONDS, max(seconds)):
                words[at + place] += count
                return
        for one in seconds:
            words[at + bisect_left(SECONDS, one)] += 1

    def gathered(self, requests: int) -> None:
        """Count a call that so many requests shared."""
        self._words[_GATHERED + bisect_left(SIZES, requests)] += 1
        self._words[_GATHERED_SUM] += requests

    def read(self, partitions: int, queries: int) -> None:
        """Count partitions that questions have read."""
        self._words[_READ] += partitions
        self._words[_QUERIES] += queries

    def in_hand(self, change: int) -> None:
        """Count requests that have begun or, where it is negative, ended."""
        self._words[_IN_HAND] += change

    def serve(self, name: str, commit: int, made: float, objects: int) -> None:
        """Say which snapshot answers from now on."""
        words = self._words
        words[_VERSION] |= 1
        data = name.encode()[: 8 * _NAME_WORDS].ljust(8 * _NAME_WORDS, b"\0")
        words[_NAME : _NAME + _NAME_WORDS] = memoryview(data).cast("q")
        words[_COMMIT], words[_MADE], words[_OBJECTS] = commit, int(made * 1e6), objects
        words[_VERSION] += 1

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process; 0 where none runs."""
        return int(self._words[_PID])

    @property
    def restarts(self) -> int:
        """How often another process took the place of one that died."""
        return int(self._words[_RESTARTS])

    @property
    def waiting(self) -> int:
        """Requests in hand."""
        return int(self._words[_IN_HAND])

    def latencies(self, route: int) -> tuple[list[int], float, int]:
        """Return of one route the count of each bucket, the sum of seconds and the bytes of all answers."""
        at = route * _ROUTE
        buckets = self._words[at + _BUCKETS : at + _ROUTE].tolist()
        return buckets, self._words[at + _SUM] / _NANO, int(self._words[at + _BYTES])

    def calls(self) -> tuple[list[int], int]:
        """Return how many calls each bucket of sizes holds, and the requests of all of them."""
        return self._words[_GATHERED:_GATHERED_SUM].tolist(), int(self._words[_GATHERED_SUM])

    def reads(self) -> tuple[int, int]:
        """Return how many partitions were read, and by how many questions."""
        return int(self._words[_READ]), int(self._words[_QUERIES])

    def served(self) -> tuple[str, int, float, int] | None:
        """Return name, commit, moment and objects of the snapshot that answers; None where there is none."""
        for _ in range(1_000):
            version = self._words[_VERSION]
            commit, made, objects = self._words[_COMMIT : _OBJECTS + 1].tolist()
            name = self._words[_NAME : _NAME + _NAME_WORDS].tobytes().rstrip(b"\0").decode(errors="replace")
            if version == self._words[_VERSION] and not version & 1:
                return (name, commit, made / 1e6, objects) if version else None
        return None  # its worker died while it wrote
