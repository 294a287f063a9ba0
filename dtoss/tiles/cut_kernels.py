"""Kernels that cut rings and lines by a box and write them in units of a tile's grid."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.geometry.position import YMAX

POLE_TURNS = 3
"""Turns of a ring round a pole that are drawn."""
_TOLERANCE = 0.5
"""Units that a line on a tile may leave out of its way."""
_SIDES = 4
_FEWEST = 3
"""Corners that a ring needs, and points that a line needs for one of them to be left out."""
_BEYOND = -4.0
"""y of a place north of all that the map has."""


@kernel
def _cut_side(source, n, axis, bound, above, target):
    """Cut a closed ring by one side of a box (Sutherland and Hodgman); returns how many points are left."""
    filled = 0
    if n == 0:
        return 0
    px, py = source[n - 1, 0], source[n - 1, 1]
    p = px if axis == 0 else py
    for i in range(n):
        qx, qy = source[i, 0], source[i, 1]
        q = qx if axis == 0 else qy
        p_in = p >= bound if above else p <= bound
        q_in = q >= bound if above else q <= bound
        if p_in != q_in:
            share = (bound - p) / (q - p)
            if axis == 0:
                target[filled, 0], target[filled, 1] = bound, py + share * (qy - py)
            else:
                target[filled, 0], target[filled, 1] = px + share * (qx - px), bound
            filled += 1
        if q_in:
            target[filled, 0], target[filled, 1] = qx, qy
            filled += 1
        px, py, p = qx, qy, q
    return filled


@kernel
def _cut_ring(one, two, n, box):
    """Cut a ring, in ``one``, by a box; returns how many points are left, in ``one`` again."""
    n = _cut_side(one, n, 0, box[0], True, two)
    n = _cut_side(two, n, 0, box[2], False, one)
    n = _cut_side(one, n, 1, box[1], True, two)
    return _cut_side(two, n, 1, box[YMAX], False, one)


@kernel
def _turn_to(angle):
    """Return an angle between -pi and pi."""
    if angle > np.pi:
        return angle - 2.0 * np.pi
    if angle < -np.pi:
        return angle + 2.0 * np.pi
    return angle


@kernel
def _thin(line, n):
    """Leave out of a line what is within the tolerance of the way without it; returns how many points are left.

    From a point that stays, the way goes on as long as one direction passes all that is left out (Reumann and Witkam's
    cone), and no point is nearer than one before it.
    """
    if n < _FEWEST:
        return n
    kept = 1
    ax, ay = line[0, 0], line[0, 1]
    far, ahead, low, high = 0.0, 0.0, -np.inf, np.inf
    bx, by = ax, ay
    for i in range(1, n):
        x, y = line[i, 0], line[i, 1]
        u, v = x - ax, y - ay
        gap = np.sqrt(u * u + v * v)
        if far > 0.0:
            turn = _turn_to(np.arctan2(v, u) - ahead)
            if gap < far or turn < low or turn > high:
                line[kept, 0], line[kept, 1] = bx, by
                kept += 1
                ax, ay, far = bx, by, 0.0
                u, v = x - ax, y - ay
                gap = np.sqrt(u * u + v * v)
        bx, by = x, y
        if gap <= _TOLERANCE:
            continue
        half = np.arcsin(_TOLERANCE / gap)
        if far == 0.0:
            ahead, low, high = np.arctan2(v, u), -half, half
        else:
            turn = _turn_to(np.arctan2(v, u) - ahead)
            low, high = max(low, turn - half), min(high, turn + half)
        far = gap
    line[kept, 0], line[kept, 1] = bx, by
    return kept + 1


@kernel
def _write(line, n, grid, out, filled, closed):
    """Write a line or ring in units of the grid, rings backwards; returns the place behind it: ``filled`` for none."""
    for i in range(n):
        line[i, 0] = (line[i, 0] - grid[0]) * grid[2]
        line[i, 1] = (line[i, 1] - grid[1]) * grid[2]
    n = _thin(line, n)
    begin = filled
    for i in range(n):
        j = n - 1 - i if closed else i
        x, y = np.int32(np.rint(line[j, 0])), np.int32(np.rint(line[j, 1]))
        if filled > begin and out[filled - 1, 0] == x and out[filled - 1, 1] == y:
            continue
        out[filled, 0], out[filled, 1] = x, y
        filled += 1
    if closed:
        while filled > begin + 1 and out[filled - 1, 0] == out[begin, 0] and out[filled - 1, 1] == out[begin, 1]:
            filled -= 1
        return filled if filled - begin >= _FEWEST else begin
    return filled if filled - begin > 1 else begin


@kernel
def _area(out, begin, end):
    """Return twice the area of a ring in square units."""
    total = np.int64(0)
    for i in range(begin, end):
        j = i + 1 if i + 1 < end else begin
        total += np.int64(out[i, 0]) * np.int64(out[j, 1]) - np.int64(out[j, 0]) * np.int64(out[i, 1])
    return total


@kernel(
    "int64(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], int64[::1], float64[::1], float64[::1], "
    "float64[:, ::1], float64[:, ::1], int32[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def clip_rings(points, first, winding, boxes, chosen, box, grid, one, two, out, out_first, out_ring, out_area):
    """Fill the parts of rings in a box, with the ring that each is of and twice its area; returns how many."""
    made, filled = 0, 0
    for t in range(chosen.size):
        ring = chosen[t]
        begin, end = first[ring], first[ring + 1]
        around = winding[ring] != 0
        low = np.int64(0) if around else np.int64(np.ceil(box[0] - boxes[ring, 2]))
        high = np.int64(0) if around else np.int64(np.floor(box[2] - boxes[ring, 0]))
        for turn in range(low, high + 1):
            n = 0
            if around:
                # three turns and then back over the north: the box lies between both ends, half a turn from either
                step = 1.0 if winding[ring] > 0 else -1.0
                shift = 1.0 - np.floor(points[begin, 0] - 0.5)
                if step > 0.0:
                    shift = -1.0 - np.ceil(points[begin, 0] - 0.5)
                for k in range(POLE_TURNS):
                    for i in range(begin, end - 1):
                        one[n, 0], one[n, 1] = points[i, 0] + shift + k * step, points[i, 1]
                        n += 1
                start = points[begin, 0] + shift
                one[n, 0], one[n, 1] = start + POLE_TURNS * step, points[begin, 1]
                one[n + 1, 0], one[n + 1, 1] = start + POLE_TURNS * step, _BEYOND
                n += 2
                one[n, 0], one[n, 1] = start, _BEYOND
                n += 1
            else:
                for i in range(begin, end - 1):
                    one[n, 0], one[n, 1] = points[i, 0] + turn, points[i, 1]
                    n += 1
            n = _cut_ring(one, two, n, box)
            after = _write(one, n, grid, out, filled, True)
            area = _area(out, filled, after)
            if area == 0:
                continue
            out_ring[made], out_area[made] = ring, area
            made += 1
            filled = after
            out_first[made] = filled
    return made


@kernel
def _part_in(ax, ay, bx, by, box):
    """Return from where to where the way from a to b is in a box, as shares: falling where nowhere (Liang, Barsky)."""
    begin, end = 0.0, 1.0
    for side in range(_SIDES):
        axis = side % 2
        a, b = (ax, bx) if axis == 0 else (ay, by)
        bound = box[side]
        over_a, over_b = (bound - a, bound - b) if side < 2 else (a - bound, b - bound)
        if over_a > 0.0 and over_b > 0.0:
            return 1.0, 0.0
        if over_a > 0.0:
            begin = max(begin, over_a / (over_a - over_b))
        elif over_b > 0.0:
            end = min(end, over_a / (over_a - over_b))
    return begin, end


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[:, ::1], "
    "int32[:, ::1], int64[::1], int64[::1])"
)
def clip_lines(points, first, boxes, chosen, box, grid, line, out, out_first, out_ring):
    """Fill the parts of rings in a box as lines, with the ring that each is of; returns how many."""
    made, filled = 0, 0
    for t in range(chosen.size):
        ring = chosen[t]
        low = np.int64(np.ceil(box[0] - boxes[ring, 2]))
        high = np.int64(np.floor(box[2] - boxes[ring, 0]))
        for turn in range(low, high + 1):
            n = 0
            for i in range(first[ring], first[ring + 1] - 1):
                ax, ay = points[i, 0] + turn, points[i, 1]
                bx, by = points[i + 1, 0] + turn, points[i + 1, 1]
                begin, end = _part_in(ax, ay, bx, by, box)
                if begin <= end:
                    if n == 0:
                        line[0, 0], line[0, 1] = ax + begin * (bx - ax), ay + begin * (by - ay)
                        n = 1
                    line[n, 0], line[n, 1] = ax + end * (bx - ax), ay + end * (by - ay)
                    n += 1
                last = i + 2 == first[ring + 1]
                if n > 0 and (begin > end or end < 1.0 or last):
                    after = _write(line, n, grid, out, filled, False)
                    if after > filled:
                        out_ring[made] = ring
                        made += 1
                        filled = after
                        out_first[made] = filled
                    n = 0
    return made


@kernel("int64(float64[:, ::1], int64[::1], float64, float64[:, ::1], float64[:, ::1], int64[::1])")
def thin_rings(points, first, scale, line, out, out_first):
    """Fill rings that leave their way by less than the tolerance of a grid; returns how many points are left.

    ``scale`` is units of the grid in a side of the map.
    """
    filled = 0
    for ring in range(first.size - 1):
        out_first[ring] = filled
        begin = first[ring]
        n = first[ring + 1] - begin
        for i in range(n):
            line[i, 0], line[i, 1] = points[begin + i, 0] * scale, points[begin + i, 1] * scale
        n = _thin(line, n)
        for i in range(n):
            out[filled, 0], out[filled, 1] = line[i, 0] / scale, line[i, 1] / scale
            filled += 1
    out_first[first.size - 1] = filled
    return filled
