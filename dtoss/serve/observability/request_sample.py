"""A uniform sample of requests, whatever their number: most of them cost one subtraction.

Which requests are kept is drawn as gaps between them (Li 1994, "Reservoir-sampling algorithms of time complexity
O(n (1 + log(N / n)))", algorithm L), so nothing is drawn for those that are passed over. Weights are whole requests
whose sum is their exact number.
"""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.serve.observability.rounded_places import Rounding

Values: TypeAlias = NDArray[np.generic] | float
TIMES = pa.timestamp("us", "UTC")


@dataclass(frozen=True, eq=False)
class Kept:
    """The requests that were kept, and how many they stand for."""

    table: pa.Table  # Columns t, the two coordinates, k, radius (null where a request had none) and weight
    requests: int  # The sum of the weights
    since: float  # When the sample began, seconds since 1970


class Sample:
    """Requests of a while, each kept with the same probability.

    ``size``: how many are kept of more; ``seed``: of the random choices; the system's when None.
    """

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
        """Return what was kept.

        ``rounding``: of coordinates; they stay as they are when None.
        """
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
