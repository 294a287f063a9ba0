"""Balls round runs of 16 blocks, of 256, and so on: of thousands of sites at once, whether a large disc holds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.memory import address
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import FAN, RADIUS
from dtoss.queries.kernels.address_table import AddressTable


def addresses_of_runs(table: AddressTable) -> NDArray[np.int64]:
    """Return the addresses of the balls of runs of each partition, int64 (P,); 0 where there are none.

    They are made when they are first asked for, and kept with the blocks. Cost O(b) for b blocks, once.
    """
    if table.runs[0] < 0:
        made = np.zeros(len(table.runs), np.int64)
        for number, partition in enumerate(table.partitions):
            if partition is not None and len(partition.blocks.balls) > FAN:
                runs = partition.blocks.runs
                if not runs:
                    runs.append(balls_of_runs(partition.blocks.balls))
                made[number] = address(runs[0], "balls of runs")
        table.runs[:] = made
    return table.runs


def balls_of_runs(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 of b blocks, then round each 256, and so on until there are no more than 16.

    Parameters
    ----------
    balls
        float64 (b, 4). Centres and radii of the blocks.

    Examples
    --------
    >>> balls_of_runs(np.array([[float(i), 0.0, 0.0, 0.5] for i in range(20)])).round(6).tolist()
    [[7.5, 0.0, 0.0, 8.0], [17.5, 0.0, 0.0, 2.0]]
    """
    levels = [np.zeros((0, RADIUS + 1))]
    while len(balls) > FAN:
        balls = _round_each(balls)
        levels.append(balls)
    return np.concatenate(levels)


def _round_each(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 balls; the last one is round those that are left."""
    left = np.repeat(balls[-1:], -len(balls) % FAN, axis=0)
    grouped = np.concatenate([balls, left]).reshape(-1, FAN, RADIUS + 1)
    each = [np.ascontiguousarray(grouped[:, i].T) for i in range(FAN)]
    low, high = each[0][:RADIUS].copy(), each[0][:RADIUS].copy()
    for ball in each:
        np.minimum(low, ball[:RADIUS], out=low)
        np.maximum(high, ball[:RADIUS], out=high)
    middle = 0.5 * (low + high)
    far = np.zeros(len(grouped))
    for ball in each:
        gap = ball[:RADIUS] - middle
        np.maximum(far, np.sqrt((gap * gap).sum(axis=0)) + ball[RADIUS], out=far)
    return np.column_stack([*middle, far * (1.0 + PRUNE)])
