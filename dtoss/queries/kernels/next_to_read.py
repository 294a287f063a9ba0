"""Which partition a query reads after its home: the nearest borders come first."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.partitioning.partition_bounds import must_read, other_partition
from dtoss.partitioning.regions import pivot_gap2
from dtoss.queries.kernels.address_table import OWNED_SITES, row_of


@kernel
def next_to_read(snapshot, place, home, far, step, everything):
    """Return the next partition that may own an object within ``far`` of a place, and its step; -1 if there is none.

    The first step comes after -1. With ``everything``, all partitions with sites are next in turn, also the home. One
    that is not open has -1 owned sites.
    """
    fences = snapshot.fences
    listed = fences.listed
    d = np.sqrt(pivot_gap2(place, fences, home))
    while True:
        step += 1
        if everything:
            if step == fences.partitions:
                return -1, step
            p = step
        else:
            if step == fences.partitions - 1 or (step < listed and fences.border[home * listed + step] > d + far):
                return -1, step
            p = other_partition(fences, home, step)
        if row_of(snapshot.rows, p)[OWNED_SITES] == 0:
            continue
        if everything or must_read(place, fences, snapshot.furthest, home, p, far):
            return p, step
