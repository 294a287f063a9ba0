"""Lists of neighbours, one after another in one array: where each begins, some of them, and others in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.row_runs import offsets


@kernel("void(int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int32[::1])")
def _replace(first, neighbours, which, new_first, merged, lists):
    """Fill ``merged`` with ``lists``, one after another, for the sites ``which`` and the old lists for all others."""
    taken, since = 0, 0
    for r in range(which.size + 1):
        site = which[r] if r < which.size else first.size - 1
        place = new_first[since]
        for t in range(first[since], first[site]):
            merged[place] = neighbours[t]
            place += 1
        if r == which.size:
            return
        for t in range(new_first[site], new_first[site + 1]):
            merged[t] = lists[taken]
            taken += 1
        since = site + 1


def with_lists(
    first: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    which: NDArray[np.int64],
    degree: NDArray[np.int32],
    lists: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the lists of all sites with others for the sites ``which``, ascending: ``lists``, one after another."""
    degrees = np.diff(first)
    degrees[which] = degree
    new_first = offsets(degrees, np.int32)
    merged = np.empty(new_first[-1], np.int32)
    _replace(first, neighbours, which, new_first, merged, lists)
    return new_first, merged
