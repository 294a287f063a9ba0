"""What questions have cut stays cut: how heavy rows are where leaves were smaller than even ones would be.

An order by place that is made of periods begins even. Where the largest of them has leaves that cover less ground than
even ones would, because questions have paid for those cuts, the new leaves cover as little. A period of eight times the
rows is cut eight times as fine anyhow, so only what was cut further than that counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.history.layouts.kd_tree import tree_of_cells
from dtoss.history.layouts.rows_in_parts import Source
from dtoss.history.row_blocks import BLOCK_ROWS, BY_PLACE


def weights_of(source: Source, positions: NDArray[np.float64], leaf_rows: float) -> NDArray[np.float64] | None:
    """Return as how many rows each of some positions counts, float64 (n,), at least 1; None where all count as one.

    ``source``: the rows of which an order by place is made; ``positions``: float64 (n, 2). A sample of them;
    ``leaf_rows``: rows of an even leaf. None becomes smaller than a block.
    """
    leaves = source.version.leaves
    placed = (leaves.order == BY_PLACE) & np.isin(leaves.period, source.periods)
    if not placed.any() or not len(positions):
        return None
    numbers, place = np.unique(leaves.period[placed], return_inverse=True)
    mine = placed & (leaves.period == numbers[np.bincount(place, leaves.rows[placed]).argmax()])
    rows = dict(zip(map(tuple, leaves.cell[mine].tolist()), leaves.rows[mine].tolist(), strict=True))
    try:
        tree = tree_of_cells(leaves.cell[mine])
    except ValueError:  # leaves that no tree has made
        return None
    held = np.array([rows[tuple(cell)] for cell in tree.cells.tolist()], np.float64)
    as_many = held * (source.rows / held.sum())
    heavy = np.clip(leaf_rows / as_many, 1.0, max(leaf_rows / BLOCK_ROWS, 1.0))
    return None if (heavy == 1.0).all() else heavy[tree.leaf_of(positions)]
