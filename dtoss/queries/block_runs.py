"""Balls round runs of 16 blocks, of 256, and so on: of thousands of sites at once, whether a large disc holds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.partition import BALL, FAN, Blocks
from dtoss.queries.kernels.address_table import AddressTable
from dtoss.queries.kernels.grouped_balls import grouped_balls


def addresses_of_runs(table: AddressTable) -> NDArray[np.int64]:
    """Return the addresses of the balls of runs of each partition, int64 (P,); 0 where there are none.

    They are made when they are first asked for, and kept with the blocks. Cost O(b) for b blocks, once.
    """
    if table.runs[0] < 0:
        made = np.zeros(len(table.runs), np.int64)
        for number, partition in enumerate(table.partitions):
            if partition is not None and len(partition.blocks.balls) > FAN:
                made[number] = address(runs_of(partition.blocks), "balls of runs")
        table.runs[:] = made
    return table.runs


def runs_of(blocks: Blocks) -> NDArray[np.float64]:
    """Return the balls of runs of a partition's blocks, made when they are first asked for."""
    if not blocks.runs:
        blocks.runs.append(balls_of_runs(blocks.balls))
    return blocks.runs[0]


def balls_of_runs(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 of b blocks, then round each 256, and so on until there are no more than 16.

    ``balls``: float64 (b, 4). Centres and radii of the blocks.

    Examples
    --------
    >>> balls_of_runs(np.array([[float(i), 0.0, 0.0, 0.5] for i in range(20)])).round(6).tolist()
    [[7.5, 0.0, 0.0, 8.0], [17.5, 0.0, 0.0, 2.0]]
    """
    levels = [np.zeros((0, BALL))]
    while len(balls) > FAN:
        balls = grouped_balls(balls)
        levels.append(balls)
    return np.concatenate(levels)
