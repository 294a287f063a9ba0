"""Runs of rows, one after another in an array: where each begins, and the rows of some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def offsets(sizes: Any, kind: type[np.signedinteger[Any]] = np.int64) -> NDArray[Any]:
    """Return where runs of so many rows begin, and where the last one ends: (n + 1,) whole numbers of a kind."""
    begin = np.zeros(len(sizes) + 1, kind)
    np.cumsum(sizes, out=begin[1:])
    return begin


def runs(begin: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rows of runs, by where each begins and how many it has, int64: one run after another."""
    ends = np.cumsum(sizes, dtype=np.int64)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begin - (ends - sizes), sizes)
