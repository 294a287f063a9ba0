"""Rings of the map cut by the box of a tile, in whole units of its grid.

Kernels that cut rings and lines by a box and write them in units of a tile's grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import begin_of, take_rows
from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.distance import YMAX
from dtoss.row_runs import offsets
from dtoss.tiles.mvt import EXTENT, Features
from dtoss.tiles.rings import MapRings

BUFFER = 64
"""Units beyond a tile's sides to which its polygons reach, so that their own outlines stay out of sight."""
_GROWTH = 6
"""Times as many points as a ring has that its part in a box has at the most."""


@dataclass(frozen=True)
class Clipped:
    """Rings in a tile's box."""

    points: NDArray[np.int32]  # int32 (v, 2). x to the right, y down, from the tile's corner
    # int64 (r + 1,). Ring i has the points ``first[i]:first[i + 1]``, the first one not again
    first: NDArray[np.int64] = field(metadata=begin_of("points"))
    polygon: NDArray[np.int64]  # int64 (r,), ascending. Whose ring it is
    area: NDArray[np.int64]  # int64 (r,). Twice the area in square units: positive where it runs clockwise to the eye

    def only(self, kept: NDArray[np.bool_]) -> Clipped:
        """Return the rings of some polygons, by number."""
        return take_rows(self, kept[self.polygon])

    def features(self, kind: int, columns: tuple[tuple[str, Any], ...], *, numbered: bool = False) -> Features:
        """Return a feature for each polygon that has a ring here."""
        begin = np.flatnonzero(np.append(True, self.polygon[1:] != self.polygon[:-1])[: len(self.polygon)])
        own = self.polygon[begin]
        told = tuple((n, v[own] if isinstance(v, np.ndarray) else v.take(pa.array(own))) for n, v in columns)
        first = np.append(begin, len(self.polygon)).astype(np.int64)
        return Features(kind, first, self.first, self.points, told, own.astype(np.uint64) if numbered else None)


@dataclass(frozen=True)
class TileBox:
    """The box of a tile on the map, and its grid."""

    # float64 (4,). xmin, ymin, xmax, ymax in sides of the map with the buffer, which ends where the map does
    box: NDArray[np.float64]
    grid: NDArray[np.float64]  # float64 (3,). The map's x and y of the tile's corner, and units of a side of the map


def tile_box(z: int, x: int, y: int) -> TileBox:
    """Return the box of a tile: z is its zoom, x counts from the west and y from the north."""
    side = 2.0**-z
    edge = side * BUFFER / EXTENT
    box = [x * side - edge, max(y * side - edge, 0.0), (x + 1) * side + edge, min((y + 1) * side + edge, 1.0)]
    return TileBox(np.array(box), np.array([x * side, y * side, EXTENT / side]))


def rings_in(made: MapRings, tile: TileBox) -> NDArray[np.int64]:
    """Return the numbers of the rings whose boxes meet a tile's, ascending, wherever they stand by whole turns."""
    xmin, ymin, xmax, ymax = tile.box.tolist()
    west, north, east, south = made.boxes.T
    turned = np.floor(xmax - west) >= np.ceil(xmin - east)
    # one round a pole is closed over the north, and reaches all that lies there
    return np.flatnonzero((turned | (made.winding != 0)) & ((north <= ymax) | (made.winding != 0)) & (south >= ymin))


def clipped_polygons(made: MapRings, tile: TileBox, chosen: NDArray[np.int64] | None = None) -> Clipped:
    """Return the rings of polygons in a tile's box: of each polygon outer ones, and after each the holes in it.

    Parts of rings run along the box where they leave it. Nothing is left of what no unit of the grid shows.

    ``chosen``: int64. Some of the rings that :func:`rings_in` returns, ascending; None is all of them.
    """
    chosen = rings_in(made, tile) if chosen is None else chosen
    around, count = made.winding[chosen] != 0, np.diff(made.first)[chosen]
    copies, count = np.where(around, 1, _copies(made, chosen, tile)), np.where(around, POLE_TURNS * count, count) + 4
    most, total = int(count.max(initial=0)), int(copies.sum())
    # memory that is not written to costs nothing
    out = np.empty((_GROWTH * int((count * copies).sum()), 2), np.int32)
    first, ring, area = np.zeros(total + 1, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    one, two = np.empty((_GROWTH * most, 2)), np.empty((_GROWTH * most, 2))
    rings = clip_rings(
        operand(made.points), made.first, made.winding, operand(made.boxes), chosen, tile.box, tile.grid, one, two,
        out, first, ring, area,
    )  # fmt: skip
    polygon = np.searchsorted(made.rings, ring[:rings], side="right") - 1
    found = Clipped(out[: first[rings]], first[: rings + 1], polygon, area[:rings])
    if not made.turned_out.any() and not (found.area < 0).any():
        return found
    return _with_holes(found, np.flatnonzero(made.turned_out), tile)


def clipped_lines(made: MapRings, tile: TileBox, chosen: NDArray[np.int64] | None = None) -> Clipped:
    """Return the parts of rings in a tile's box as lines; nothing runs along the box, and areas are 0."""
    chosen = rings_in(made, tile) if chosen is None else chosen
    count = np.diff(made.first)[chosen]
    room = int((count * _copies(made, chosen, tile)).sum())
    out, first, ring = np.empty((2 * room, 2), np.int32), np.zeros(room + 1, np.int64), np.empty(room, np.int64)
    lines = clip_lines(
        operand(made.points), made.first, operand(made.boxes), chosen, tile.box, tile.grid,
        np.empty((int(count.max(initial=0)) + 8, 2)), out, first, ring,
    )  # fmt: skip
    polygon = np.searchsorted(made.rings, ring[:lines], side="right") - 1
    return Clipped(out[: first[lines]], first[: lines + 1], polygon, np.zeros(lines, np.int64))


def thin_for_zoom(made: MapRings, zoom: int) -> MapRings:
    """Return rings with as few points as tiles of a zoom need, and of all zooms before it."""
    out, first = np.empty_like(made.points), np.empty_like(made.first)
    line = np.empty((int(np.diff(made.first).max(initial=0)), 2))
    # half of what a tile itself leaves out
    filled = thin_rings(operand(made.points), made.first, 2.0 * EXTENT * 2.0**zoom, line, out, first)
    return replace(made, points=out[:filled].copy(), first=first)


def _copies(made: MapRings, chosen: NDArray[np.int64], tile: TileBox) -> NDArray[np.int64]:
    """Return at how many whole turns from where it stands each ring may meet a tile's box."""
    west, east = made.boxes[chosen, 0], made.boxes[chosen, 2]
    copies: NDArray[np.int64] = (np.floor(tile.box[2] - west) - np.ceil(tile.box[0] - east) + 1.0).astype(np.int64)
    return copies


def _with_holes(found: Clipped, turned_out: NDArray[np.int64], tile: TileBox) -> Clipped:
    """Return rings with the box itself for polygons that are turned out, and holes behind the rings that hold them."""
    corners = np.rint((tile.box.reshape(2, 2) - tile.grid[:2]) * tile.grid[2]).astype(np.int32)
    (west, north), (east, south) = corners.tolist()
    frame = np.array([[west, north], [east, north], [east, south], [west, south]], np.int32)
    whole = 2 * (east - west) * (south - north)
    rings: list[NDArray[np.int32]] = []
    polygons: list[int] = []
    areas: list[int] = []
    known = set(turned_out.tolist())
    for polygon in sorted(known | set(np.unique(found.polygon).tolist())):
        begin, end = np.searchsorted(found.polygon, [polygon, polygon + 1]).tolist()
        own = [found.points[found.first[i] : found.first[i + 1]] for i in range(begin, end)]
        size = found.area[begin:end].tolist()
        if polygon in known:
            own.append(frame)
            size.append(whole)
        own, size = _without_nothing(own, size, whole)
        for i in _in_order(own, size):
            rings.append(own[i])
            polygons.append(polygon)
            areas.append(size[i])
    first = offsets([*map(len, rings)])
    points = np.concatenate([np.zeros((0, 2), np.int32), *rings])
    return Clipped(points, first, np.array(polygons, np.int64), np.array(areas, np.int64))


def _without_nothing(
    rings: list[NDArray[np.int32]], areas: list[int], whole: int
) -> tuple[list[NDArray[np.int32]], list[int]]:
    """Return rings without pairs that are the whole box and take it away."""
    pairs = min(sum(area == whole for area in areas), sum(area == -whole for area in areas))
    left = {whole: pairs, -whole: pairs}
    kept = []
    for i, area in enumerate(areas):
        if left.get(area, 0):
            left[area] -= 1
        else:
            kept.append(i)
    return [rings[i] for i in kept], [areas[i] for i in kept]


def _in_order(rings: list[NDArray[np.int32]], areas: list[int]) -> list[int]:
    """Return outer rings, and behind each the holes in it: each hole in the smallest whose box holds its own."""
    outer = sorted((i for i, area in enumerate(areas) if area > 0), key=lambda i: areas[i])
    if len(outer) == len(areas) or not outer:
        return outer
    boxes = [(*ring.min(axis=0).tolist(), *ring.max(axis=0).tolist()) for ring in rings]
    holes: dict[int, list[int]] = {i: [] for i in outer}
    for i, area in enumerate(areas):
        if area < 0:
            a = boxes[i]
            home = next(
                (j for j in outer if -area <= areas[j] and all(
                    (boxes[j][0] <= a[0], boxes[j][1] <= a[1], boxes[j][2] >= a[2], boxes[j][3] >= a[3])
                )),
                outer[-1],
            )  # fmt: skip
            holes[home].append(i)
    return [i for j in outer for i in (j, *holes[j])]


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
