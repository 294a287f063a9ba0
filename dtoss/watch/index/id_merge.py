"""In which order the ids of two indexes of subscriptions follow one another, where each has its own in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

_OFFSETS, _BYTES = "Array(int32, 1, 'C', readonly=True)", "Array(uint8, 1, 'C', readonly=True)"


def turns_of(large: pa.Array, small: pa.Array) -> NDArray[np.int64]:
    """Return the place of each id among all of both, int64 (large + small,), those of the first one first.

    ``large``, ``small``: texts, each rising by their bytes. One that is in both comes first where the small one has it.

    Cost O(large + small log large).

    Examples
    --------
    >>> turns_of(pa.array(["a", "c", "e"]), pa.array(["b", "c"])).tolist()
    [0, 3, 4, 1, 2]
    """
    before = np.empty(len(small), np.int64)
    _before(*_texts(large), *_texts(small), before)
    passed = np.cumsum(np.bincount(before, minlength=len(large) + 1)[: len(large)])
    return np.concatenate([np.arange(len(large)) + passed, before + np.arange(len(small))])


def _texts(ids: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return where texts begin in their bytes, and these."""
    if len(ids) == 0:
        return np.zeros(1, np.int32), np.zeros(1, np.uint8)
    _, offsets, data = ids.buffers()
    flat = np.zeros(1, np.uint8) if data is None or data.size == 0 else np.frombuffer(data, np.uint8)
    return np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1], flat


@kernel(f"void({_OFFSETS}, {_BYTES}, {_OFFSETS}, {_BYTES}, int64[::1])")
def _before(large, large_bytes, small, small_bytes, out):
    """Write for each small text how many of the large ones are less."""
    count = large.size - 1
    begin = 0
    for i in range(small.size - 1):
        # texts that rise are mostly near the one before
        step = 1
        low, high = begin, count
        while low + step < count and _less(large, large_bytes, low + step, small, small_bytes, i):
            low += step
            step *= 2
        if low + step < count:
            high = low + step
        while low < high:
            middle = (low + high) // 2
            if _less(large, large_bytes, middle, small, small_bytes, i):
                low = middle + 1
            else:
                high = middle
        begin = low
        out[i] = low


@kernel
def _less(large, large_bytes, a, small, small_bytes, b):
    """Return whether a large text is less than a small one, by their bytes."""
    first, second = large[a], small[b]
    one, other = large[a + 1] - first, small[b + 1] - second
    for k in range(min(one, other)):
        if large_bytes[first + k] != small_bytes[second + k]:
            return large_bytes[first + k] < small_bytes[second + k]
    return one < other
