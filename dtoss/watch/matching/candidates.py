"""How many places of a grid are looked at for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, shift
from dtoss.watch.index.cell_frame import cell_key, column_of, columns_of, grid_positions, row_of
from dtoss.watch.index.grid_kernel import count_of, entry_of, frame_in
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.subscription_index import SubscriptionIndex


def candidates_of(standing: Standing, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many places are looked at for each position, int64 (n,). Words and what is everywhere do not count.

    Cost O(n) a level.
    """
    found = np.zeros(len(positions), np.int64)
    for _, built in standing.parts:
        found += _in_index(built, positions)
    return found


def _in_index(built: SubscriptionIndex, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    found = np.zeros(len(positions), np.int64)
    if len(built.arrays["grid/marks"]) and len(positions):
        placed = operand(grid_positions(built.space, positions, built.space.vectors(positions)))
        count_candidates(placed, *(built.arrays[f"grid/{name}"] for name in ("world", "levels", "slots")), found)
    return found


@kernel(
    "void(float64[:, ::1], Array(float64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True),"
    " Array(int64, 2, 'C', readonly=True), int64[::1])"
)
def count_candidates(positions: Any, world: Any, levels: Any, slots: Any, found: Any) -> None:
    """Add what stands in the cells of each position."""
    frame = frame_in(pointer(world))
    of_slots = pointer(slots)
    for i in range(positions.shape[0]):
        place = shift(pointer(positions), 2 * i)
        for index in range(levels.size):
            row = row_of(frame, levels[index], place[1])
            column = column_of(frame, columns_of(frame, levels[index], row), place[0])
            found[i] += count_of(entry_of(of_slots, slots.shape[0], cell_key(index, row, column)))
