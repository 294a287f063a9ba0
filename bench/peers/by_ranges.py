"""What the dissertation's competitors share: answers with the messages that they took, and kNN by growing ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Found:
    """Rows of queries, ascending, and of objects that answer them; requests between nodes with their replies."""

    query: Ints
    row: Ints
    messages: int


def within(query: Ints, row: Ints, at: Floats, radius: Floats, objects: Floats, messages: int) -> Found:
    """Return those pairs that lie within the radius of their query."""
    near = np.hypot(*(at[query] - objects[row]).T) <= radius[query]
    order = np.argsort(query[near], kind="stable")
    return Found(query[near][order], row[near][order], messages)


def nearest_by_ranges(ask: Callable[[Floats, Floats], Found], at: Floats, k: int, objects: Floats) -> Found:
    """Return the k nearest of each place, by (distance, row), from ranges that grow until they hold so many.

    The first radius is 3.3.2's ed(k) for all objects (Tao et al. 2004). It doubles, where the paper adds ed(k)/k: far
    from clustered objects that takes thousands of rounds.
    """
    most = min(k, len(objects))
    expected = 2 / np.sqrt(np.pi) * (1 - np.sqrt(1 - np.sqrt(most / len(objects))))
    radius = np.full(len(at), max(expected * np.ptp(objects, axis=0).max(), 1e-9))
    left, messages, pairs = np.arange(len(at)), 0, []
    while len(left):
        found = ask(at[left], radius[left])
        enough = np.bincount(found.query, minlength=len(left)) >= most
        kept = enough[found.query]
        pairs.append(np.stack([left[found.query[kept]], found.row[kept]]))
        messages += found.messages
        left = left[~enough]
        radius[left] *= 2
    query, row = np.concatenate(pairs, axis=1)
    order = np.lexsort((row, np.hypot(*(at[query] - objects[row]).T), query))
    query, row = query[order], row[order]
    first = np.arange(len(query)) - np.searchsorted(query, query) < most
    return Found(query[first], row[first], messages)
