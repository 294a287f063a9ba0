"""Bins of speeds, a tenth wide: percentiles are known to a twentieth, and counts of bins add up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LAST = (1 << 63) - 1


def _bounds() -> NDArray[np.int64]:
    found, bound = [], 0
    while bound <= _LAST:
        found.append(bound)
        bound = max(bound + 1, bound + bound // 10)
    return np.array(found, np.int64)


BOUNDS = _bounds()
"""The least whole mm/s of each bin: 0 to 19 have one each, from then on each is a tenth wide, rounded down."""
MIDDLES = (BOUNDS + (np.append(BOUNDS[1:] - 1, _LAST) - BOUNDS) // 2).astype(np.int64)
"""What a percentile says that lies in a bin: the middle of its least and greatest whole mm/s, rounded down."""


def bin_of(speeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of each speed of 0 or more whole mm/s, int64 (n,).

    Examples
    --------
    >>> bin_of(np.array([0, 7, 19, 20, 21, 22, 1000])).tolist()
    [0, 7, 19, 20, 20, 21, 63]
    """
    return np.searchsorted(BOUNDS, speeds, "right") - 1


SLOW = 1 << 16
"""Speeds below this, in mm/s, have their bin in a table."""
BINS_OF_SLOW = bin_of(np.arange(SLOW)).astype(np.int16)
"""The bin of each."""
