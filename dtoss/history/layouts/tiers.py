"""Tiers of eight: which periods become one, so that few and large ones hold nearly everything.

An append makes a period of tier 0. Eight of a tier become one of the next. So after n appends there are at most 7 small
periods a tier, and a row was written once a tier: log8 n times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.history.version_leaves import Periods

TIER = 8
"""Periods of a tier that become one of the next."""


def due(periods: Periods) -> list[NDArray[np.int32]]:
    """Return the numbers of periods that are to become one each, the oldest of the lowest tier that is full first.

    Examples
    --------
    >>> def of(*tiers):
    ...     zeros = np.zeros(len(tiers), np.int64)
    ...     return Periods(np.arange(len(tiers), dtype=np.int32), np.array(tiers, np.int16), zeros, zeros, zeros, zeros)
    >>> [run.tolist() for run in due(of(*[0] * 8, 1))], due(of(*[0] * 7))
    ([[0, 1, 2, 3, 4, 5, 6, 7]], [])
    """
    found = []
    for tier in np.unique(periods.tier):
        numbers = np.sort(periods.number[periods.tier == tier])
        found += [numbers[first : first + TIER] for first in range(0, len(numbers) // TIER * TIER, TIER)]
    return found
