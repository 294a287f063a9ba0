"""D-MOVIES (Dittrich et al. 2011), which the dissertation competes with: objects dealt to nodes by a hash of their ids.

A node has its objects in one array along the Z-order. A range reads it from the code of its lower corner to that of the
upper one, and jumps over what lies outside to the next code inside (BIGMIN, Tropf and Herzog 1981). All nodes are asked
each time. All is real but the network: nodes are arrays of one process, and messages are counted. Beside the codes lie
positions, so that answers are exact; the paper's objects have 8 bytes, and answers that are only nearly right.
"""

from __future__ import annotations

import numpy as np

from bench.peers.by_ranges import Floats, Found, Ints, nearest_by_ranges, within
from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.hilbert import sorted_keys

_BITS = 31
"""Of a code for each axis."""
_ONE_AXIS = 0x1555555555555555
_MIXING = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _code(x, y, frame):
    """Return the Z-order's code of a place; what lies outside the frame counts as on its edge."""
    top, code = (1 << _BITS) - 1, 0
    column = int(min(max((x - frame[0]) * frame[2], 0.0), float(top)))
    row = int(min(max((y - frame[1]) * frame[2], 0.0), float(top)))
    for bit in range(_BITS):
        code |= ((column >> bit) & 1) << (2 * bit) | ((row >> bit) & 1) << (2 * bit + 1)
    return code


@kernel("void(Array(float64, 2, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), int64[::1])")
def write_codes(places, frame, codes):
    """Write the codes of places."""
    for i in range(places.shape[0]):
        codes[i] = _code(places[i, 0], places[i, 1], frame)


@kernel("int64(int64, int64, int64)")
def next_inside(code, low, high):
    """Return the least code above one outside that is inside the box with these corners (BIGMIN)."""
    best = high
    for bit in range(2 * _BITS - 1, -1, -1):
        here = 1 << bit
        below = (_ONE_AXIS << (bit & 1)) & (here - 1)  # the same axis, less significant
        case = (4 if code & here else 0) | (2 if low & here else 0) | (1 if high & here else 0)
        if case == 1:
            best = (low | here) & ~below
            high = (high & ~here) | below
        elif case == 3:
            return low
        elif case == 4:
            return best
        elif case == 5:
            low = (low | here) & ~below
    return best


@kernel
def _first_from(codes, code, begin):
    """Return the first row from ``begin`` on whose code is at least so much."""
    step, end = 1, begin
    while end < codes.size and codes[end] < code:
        begin = end + 1
        end += step
        step *= 2
    end = min(end, codes.size)
    while begin < end:
        middle = (begin + end) // 2
        if codes[middle] < code:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel(
    "int64(int64, Array(float64, 2, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), int64[::1],"
    " Array(float64, 2, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), int64[::1], int64[::1])"
)
def read_boxes(start, at, radius, codes, places, frame, ends, rows):
    """Write what lies in the squares of queries from ``start`` on; return the first without room, or how many."""
    used = 0
    for i in range(start, at.shape[0]):
        x, y, far = at[i, 0], at[i, 1], radius[i]
        low, high = _code(x - far, y - far, frame), _code(x + far, y + far, frame)
        row = _first_from(codes, low, 0)
        while row < codes.size and codes[row] <= high:
            if abs(places[row, 0] - x) <= far and abs(places[row, 1] - y) <= far:
                if used == rows.size:
                    return i
                rows[used] = row
                used += 1
                row += 1
            else:
                row = _first_from(codes, next_inside(codes[row], low, high), row + 1)
        ends[i] = used
    return at.shape[0]


class Image:
    """The index of a node, which is thrown away in the next cycle."""

    def __init__(self, ids: Ints, places: Floats, frame: Floats) -> None:
        codes = np.empty(len(ids), np.int64)
        write_codes(operand(places), frame, codes)
        order, self.codes = sorted_keys(codes)
        self.ids, self.places, self.frame = ids[order], places[order], frame

    def read(self, at: Floats, radius: Floats) -> tuple[Ints, Ints]:
        """Return what lies in the squares round the circles: queries and ids."""
        start, ends, counts, ids = 0, np.empty(len(at), np.int64), np.empty(len(at), np.int64), []
        rows = np.empty(max(64 * len(at), 1024), np.int64)
        while start < len(at):
            stop = read_boxes(start, at, radius, self.codes, self.places, self.frame, ends, rows)
            counts[start:stop] = np.diff(ends[start:stop], prepend=0)
            if stop > start:
                ids.append(self.ids[rows[: ends[stop - 1]]])
            else:
                rows = np.empty(2 * len(rows), np.int64)
            start = stop
        return np.repeat(np.arange(len(at)), counts), np.concatenate(ids)


class DMovies:
    """Objects on nodes; ids are the rows of ``objects``, float64 (n, 2)."""

    def __init__(self, objects: Floats, nodes: int) -> None:
        self.objects, self.nodes = operand(objects), nodes
        low, wide = objects.min(axis=0), max(np.ptp(objects, axis=0).max(), 1e-9)
        frame = np.array([*low, ((1 << _BITS) - 1) / wide])
        ids = np.arange(len(objects))
        home = (ids.astype(np.uint64) * _MIXING >> np.uint64(32)) % np.uint64(nodes)
        order = np.argsort(home, kind="stable")
        ends = np.cumsum(np.bincount(home.astype(np.int64), minlength=nodes))
        self.images = [Image(mine, objects[mine], frame) for mine in np.split(ids[order], ends[:-1])]

    def range(self, at: Floats, radius: Floats) -> Found:
        """Return all objects within the radius of each place."""
        asked = operand(at), operand(radius)
        query, ids = (np.concatenate(some) for some in zip(*(one.read(*asked) for one in self.images), strict=True))
        return within(query, ids, at, radius, self.objects, 2 * (self.nodes - 1) * len(at))

    def knn(self, at: Floats, k: int) -> Found:
        """Return the k nearest objects of each place."""
        return nearest_by_ranges(self.range, at, k, self.objects)
