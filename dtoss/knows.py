"""What a partition knows round a query, and which other partitions a query must read."""

from __future__ import annotations

import numpy as np

from dtoss.kernels import kernel
from dtoss.regions import past_border, pivot_gap2

SLACK = 1e-12
"""Relative slack of distances when something is left out for being too far."""


@kernel
def knows(x, y, z, dimension, home, far, count, listed, pivots, weights, order, distance, reach):
    """Return whether home knows every object within ``far`` of the query: ``max_j f_j(q) + r <= lambda``."""
    gap2 = pivot_gap2(x, y, z, dimension, pivots, home)
    d = np.sqrt(gap2)
    allowed = reach[home] - far - SLACK * (d + far)
    for t in range(home * listed, (home + 1) * listed):
        if d - distance[t] <= allowed:
            return True  # f_j(q) <= |q - p_i| - distance[j], and the list ascends
        if past_border(x, y, z, dimension, pivots, weights, home, int(order[t]), gap2) >= allowed:
            return False
    if listed < count - 1:
        for j in range(count):
            if j != home and past_border(x, y, z, dimension, pivots, weights, home, j, gap2) >= allowed:
                return False
    return True


@kernel
def other_partition(home, step, count, listed, order):
    """Return the partition to look at in a step: first the listed borders, then the rest by number."""
    if step < listed:
        return int(order[home * listed + step])
    left = step - listed
    for j in range(count):
        known = j == home
        for t in range(home * listed, (home + 1) * listed):
            if order[t] == j:
                known = True
                break
        if not known:
            if left == 0:
                return j
            left -= 1
    return home


@kernel
def must_read(x, y, z, dimension, home, j, far, pivots, weights, furthest):
    """Return whether partition j may own an object within ``far`` of a query whose home is another one (3.3.1).

    An object is owned by j where its power is least as computed, so it may lie before the border by rounding, and the
    further it is from the two pivots, the more.
    """
    gap = np.sqrt(pivot_gap2(x, y, z, dimension, pivots, j))
    slack = SLACK * (gap + far)
    if gap - furthest[j] > far + slack:
        return False
    owned = min(furthest[j], gap + far)  # no object of j that counts is further from its pivot
    return past_border(x, y, z, dimension, pivots, weights, home, j, owned * owned) >= -(far + slack)
