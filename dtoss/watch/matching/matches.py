"""Which subscriptions hold which rows.

The order in which rows are asked, neighbours one after another, and their hits put back into the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.compiled.kernel import kernel
from dtoss.geometry.hilbert import radix_order


@dataclass(frozen=True)
class Matches:
    """Matches of consecutive rows, each once, by row and then by subscription."""

    first_row: int  # first_row, last_row: the rows that were asked about: from the first up to, but without, the last
    last_row: int
    row: NDArray[np.int64]  # int64 (m,)
    subscription: NDArray[np.int32]  # int32 (m,). The row of the table of subscriptions
    # float64 (m,). To the centre of a circle, in metres or units of the CRS; NaN where a place has no centre
    distance: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    take = take_rows

    def between(self, first_row: int, last_row: int) -> Matches:
        """Return the matches of some of the rows; nothing is copied."""
        begin, end = np.searchsorted(self.row, [first_row, last_row])
        return replace(self.take(slice(begin, end)), first_row=first_row, last_row=last_row)


def joined(first_row: int, last_row: int, parts: list[Matches]) -> Matches:
    """Return matches of the same rows and other subscriptions as one, in order. Cost O(m log p) for p parts."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return join_pieces(first_row, last_row, [])
    while len(parts) > 1:
        parts = [_merged(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return replace(parts[0], first_row=first_row, last_row=last_row)


def join_pieces(first_row: int, last_row: int, pieces: list[Matches]) -> Matches:
    """Return the matches of consecutive pieces as one."""
    none = Matches(0, 0, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
    return replace(join_rows(pieces or [none]), first_row=first_row, last_row=last_row)


def _merged(parts: list[Matches]) -> Matches:
    """Return one or two parts as one."""
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    total = len(one) + len(other)
    row, subscription, distance = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total)
    merge_hits(
        one.row, one.subscription, one.distance, other.row, other.subscription, other.distance,
        row, subscription, distance,
    )  # fmt: skip
    return Matches(one.first_row, one.last_row, row, subscription, distance)


_BITS = 16
"""Of a coordinate, within the box of all rows."""
_MOST = (1 << _BITS) - 1
_BYTE = 8
_BYTES, _NIBBLES, _PAIRS, _SINGLES = 0x00FF00FF, 0x0F0F0F0F, 0x33333333, 0x55555555
"""Every other byte, half a byte, two bits and bit of 32."""


@kernel
def _spread(bits):
    """Return 16 bits with a 0 between each and the next."""
    bits = (bits | (bits << _BYTE)) & _BYTES
    bits = (bits | (bits << 4)) & _NIBBLES
    bits = (bits | (bits << 2)) & _PAIRS
    return (bits | (bits << 1)) & _SINGLES


@kernel
def _step_of(x, low, scale):
    """Return the place of a coordinate in its box, the first or last one where rounding puts it beyond."""
    at = (x - low) * scale
    if not at > 0.0:
        return 0
    return int(at) if at < _MOST else _MOST


@kernel("void(Array(float64, 2, 'C', readonly=True), int64[::1])")
def place_keys(positions, keys):
    """Set the place of each row along a curve that goes through the box of all, z by z."""
    low_x = high_x = positions[0, 0]
    low_y = high_y = positions[0, 1]
    for i in range(positions.shape[0]):
        low_x, high_x = min(low_x, positions[i, 0]), max(high_x, positions[i, 0])
        low_y, high_y = min(low_y, positions[i, 1]), max(high_y, positions[i, 1])
    wide = _MOST / (high_x - low_x) if high_x > low_x else 0.0
    high = _MOST / (high_y - low_y) if high_y > low_y else 0.0
    for i in range(positions.shape[0]):
        column = _step_of(positions[i, 0], low_x, wide)
        keys[i] = _spread(column) | (_spread(_step_of(positions[i, 1], low_y, high)) << 1)


def order_by_place(positions: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return an order of rows, int32 (n,), in which neighbours follow one another, about. Cost O(n)."""
    keys = np.empty(len(positions), np.int64)
    if len(keys):
        place_keys(positions, keys)
    return radix_order(keys)


@kernel(
    "void(Array(int32, 1, 'C', readonly=True), int64[::1], int32[::1], float64[::1], int64[::1], int64[::1],"
    " int32[::1], float64[::1])"
)
def put_back(order, ends, subs, far, begins, row, subscription, distance):
    """Write the hits of rows in the order of rows; ``ends`` has where those of each end, by its place in ``order``.

    ``begins`` has room for a number a row.
    """
    for i in range(order.size):
        begins[order[i]] = ends[i] - (ends[i - 1] if i else 0)
    filled = 0
    for number in range(order.size):
        size = begins[number]
        begins[number] = filled
        for k in range(filled, filled + size):
            row[k] = number
        filled += size
    for i in range(order.size):
        first = ends[i - 1] if i else 0
        at = begins[order[i]]
        for k in range(ends[i] - first):
            subscription[at + k], distance[at + k] = subs[first + k], far[first + k]


_ROW, _SUBS, _FAR = (f"Array({kind}, 1, 'C', readonly=True)" for kind in ("int64", "int32", "float64"))


@kernel(f"void({_ROW}, {_SUBS}, {_FAR}, {_ROW}, {_SUBS}, {_FAR}, int64[::1], int32[::1], float64[::1])")
def merge_hits(row, subs, far, other_row, other_subs, other_far, out_row, out_subs, out_far):
    """Write two lists of hits as one; each is in the order of rows and then of subscriptions, and so is the one."""
    i, j = 0, 0
    for at in range(out_row.size):
        first = j == other_row.size
        if i < row.size and not first:
            first = row[i] < other_row[j] or (row[i] == other_row[j] and subs[i] <= other_subs[j])
        if first:
            out_row[at], out_subs[at], out_far[at] = row[i], subs[i], far[i]
            i += 1
        else:
            out_row[at], out_subs[at], out_far[at] = other_row[j], other_subs[j], other_far[j]
            j += 1
