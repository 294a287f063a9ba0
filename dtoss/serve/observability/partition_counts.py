"""Requests by the partition that holds their place: a sample of them, in memory that all workers share.

A request costs a subtraction. Of so many in a row one is drawn and stands for all of them; where it was asked is looked
up later, once a second. So each request counts with a chance of one in n and a weight of n, however requests follow
each other: sums have no bias.

A uniform sample of requests, whatever their number: most of them cost one subtraction.

Which requests are kept is drawn as gaps between them (Li 1994, "Reservoir-sampling algorithms of time complexity
O(n (1 + log(N / n)))", algorithm L), so nothing is drawn for those that are passed over. Weights are whole requests
whose sum is their exact number.
"""

from __future__ import annotations

import math
import mmap
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import Space
from dtoss.locks import Lock

Floats: TypeAlias = NDArray[Any]
Rounding: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Returns coordinates, float64 (n,) each, as they are kept."""
A_DEGREE = EARTH_RADIUS * np.pi / 180.0
"""Metres of a degree of latitude."""


def rounding_of(space: Space, digits: int | None, grid: float | None) -> Rounding | None:
    """Return how places are kept; None where they are kept as they are.

    ``grid``: metres between the places that are kept, or units of a CRS that is not in degrees.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> lon, lat = rounding_of(space_of(), None, 1000.0)(np.array([2.3522]), np.array([48.8566]))
    >>> lon.round(4).tolist(), lat.round(4).tolist()
    ([2.3512], [48.8601])
    """
    if digits is not None and grid is not None:
        raise ValueError("places are rounded to digits or to a grid: give --access-round or --log-places")
    if grid is not None and not 0.0 < grid < np.inf:
        raise ValueError(f"--log-places is {grid:g}: a length above 0 is wanted")
    if digits is not None:
        return lambda x, y: (np.round(x, digits), np.round(y, digits))
    if grid is None:
        return None
    return (lambda x, y: _on_sphere(x, y, grid)) if space.geographic else (lambda x, y: (_to(x, grid), _to(y, grid)))


def _on_sphere(lon: Floats, lat: Floats, metres: float) -> tuple[Floats, Floats]:
    """Return degrees on a grid of parallels, each cut into as many equal parts as are no shorter than asked for."""
    step = metres / A_DEGREE
    on = np.clip(_to(lat, step), -90.0, 90.0)
    parts = np.maximum(np.floor(360.0 * np.cos(np.radians(on)) / step), 1.0)
    east = _to(lon, 360.0 / parts)
    return np.where(east > 180.0, east - 360.0, np.where(east < -180.0, east + 360.0, east)), on


def _to(values: Floats, step: float | Floats) -> Floats:
    found: Floats = np.round(values / step) * step + 0.0
    return found


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
    """Counts the requests of one worker; any thread may call it."""

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
        """Count requests. ``x``, ``y``: their places, arrays (count,), or numbers for one request."""
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
        """Look up what was drawn and tell the other processes; to be called once a second."""
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


Values: TypeAlias = NDArray[np.generic] | float
TIMES = pa.timestamp("us", "UTC")


@dataclass(frozen=True, eq=False)
class Kept:
    """The requests that were kept, and how many they stand for."""

    table: pa.Table  # Columns t, the two coordinates, k, radius (null where a request had none) and weight
    requests: int  # The sum of the weights
    since: float  # When the sample began, seconds since 1970


class Sample:
    """Requests of a while, each kept with the same probability."""

    __slots__ = ("_chance", "_columns", "_left", "_random", "_rows", "_size", "requests", "since")

    def __init__(self, size: int, seed: int | None = None) -> None:
        self._size = size
        self._random = random.Random(seed)
        self._columns = [np.empty(size, np.int64), *(np.empty(size) for _ in range(4))]
        self._rows = 0
        self._left = -1  # requests to pass over before the next one is kept; -1 while there is room for all
        self._chance = 1.0
        self.requests = 0
        self.since = time.time()

    @property
    def full(self) -> bool:
        """Whether each further one takes the place of another."""
        return self._rows == self._size

    def add(self, x: Values, y: Values, k: Values | None, radius: Values | None, count: int) -> None:
        """Count requests, of whose values each is an array of ``count`` or one for all, and keep some of them."""
        self.requests += count
        if self._left >= count:
            self._left -= count
            return
        values = (time.time_ns() // 1000, x, y, math.nan if k is None else k, math.nan if radius is None else radius)
        at = 0
        if self._rows < self._size:
            at = min(count, self._size - self._rows)
            there = slice(self._rows, self._rows + at)
            for column, value in zip(self._columns, values, strict=True):
                column[there] = value[:at] if isinstance(value, np.ndarray) else value
            self._rows += at
            if self._rows < self._size:
                return
            self._left = self._gap()
        at += self._left
        while at < count:
            place = int(self._random.random() * self._size)
            for column, value in zip(self._columns, values, strict=True):
                column[place] = value[at] if isinstance(value, np.ndarray) else value
            at += 1 + self._gap()
        self._left = at - count

    def _gap(self) -> int:
        """Return how many requests are passed over before the next one is kept."""
        # of the random keys that requests would have, the largest of those kept falls by such a factor
        self._chance *= (1.0 - self._random.random()) ** (1.0 / self._size)
        chance = min(self._chance, 1.0 - 2.0**-53)
        return int(math.log(1.0 - self._random.random()) / math.log1p(-chance))

    def kept(self, names: tuple[str, str], rounding: Rounding | None = None) -> Kept:
        """Return what was kept. ``rounding``: of coordinates; they stay as they are when None."""
        n = self._rows
        t, x, y, k, radius = (column[:n] for column in self._columns)
        if rounding is not None:
            x, y = rounding(x, y)
        table = pa.table(
            {
                "t": pa.array(t.view("datetime64[us]"), TIMES),
                names[0]: x.copy(),
                names[1]: y.copy(),
                "k": pa.array(np.nan_to_num(k).astype(np.int32), mask=~(k >= 1)),
                "radius": pa.array(radius.copy(), mask=~((radius >= 0) & (radius < np.inf))),
                "weight": self._weights(),
            }
        )
        return Kept(table, self.requests, self.since)

    def _weights(self) -> NDArray[np.int64]:
        if not self._rows:
            return np.zeros(0, np.int64)
        each, more = divmod(self.requests, self._rows)
        weights = np.full(self._rows, each)
        weights[self._random.sample(range(self._rows), more)] += 1
        return weights
