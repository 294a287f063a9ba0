"""Balls round runs of 16 balls that follow each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BALL, FAN, RADIUS


def grouped_balls(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 of n balls, float64 (n / 16, 4) rounded up; the last one is round those left.

    ``balls``: float64 (n, 4). Centres, z = 0 in the plane, and radii.

    Examples
    --------
    >>> grouped_balls(np.array([[float(i), 0.0, 0.0, 0.5] for i in range(20)])).round(6).tolist()
    [[7.5, 0.0, 0.0, 8.0], [17.5, 0.0, 0.0, 2.0]]
    """
    left = np.repeat(balls[-1:], -len(balls) % FAN, axis=0)
    grouped = np.concatenate([balls, left]).reshape(-1, FAN, BALL)
    each = [np.ascontiguousarray(grouped[:, i].T) for i in range(FAN)]
    low, high = np.full((RADIUS, len(grouped)), np.inf), np.full((RADIUS, len(grouped)), -np.inf)
    for ball in each:
        np.minimum(low, ball[:RADIUS], out=low)
        np.maximum(high, ball[:RADIUS], out=high)
    middle = 0.5 * (low + high)
    far = np.zeros(len(grouped))
    for ball in each:
        gap = ball[:RADIUS] - middle
        np.maximum(far, np.sqrt((gap * gap).sum(axis=0)) + ball[RADIUS], out=far)
    return np.column_stack([*middle, far * (1.0 + PRUNE)])
