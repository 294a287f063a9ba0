"""What a system that is measured side by side gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows of queries and rows of objects that answer them, as many of each."""


class Missing(Exception):
    """A system that is not installed here; the message says what."""


@dataclass(frozen=True)
class Peer:
    """A system with all objects in it.

    Parameters
    ----------
    name : with its version, and what is asked of it.
    build_seconds : of processor time, from positions in memory to an index that is ready.
    knn, range : answer places, float64 (m, 2), for a k or a radius in metres; None where it has no such query.
    queries : how many it is asked in a measurement, by work: what it answers in some seconds.
    """

    name: str
    build_seconds: float
    knn: Callable[[Floats, int], Pairs] | None
    range: Callable[[Floats, float], Pairs] | None
    queries: Mapping[str, int] = field(default_factory=dict)


def as_pairs(query: object, row: object) -> Pairs:
    """Return columns of any kind as two arrays of int64."""
    return np.asarray(query, dtype=np.int64), np.asarray(row, dtype=np.int64)


def pieces(count: int, size: int) -> Iterator[range]:
    """Yield the rows 0 to count in runs of at most so many."""
    for begin in range(0, count, size):
        yield range(begin, min(begin + size, count))
