"""Rings of the map cut by the box of a tile, in whole units of its grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.tiles.cut_kernels import POLE_TURNS, clip_lines, clip_rings, thin_rings
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
    first: NDArray[np.int64]  # int64 (r + 1,). Ring i has the points ``first[i]:first[i + 1]``, the first one not again
    polygon: NDArray[np.int64]  # int64 (r,), ascending. Whose ring it is
    area: NDArray[np.int64]  # int64 (r,). Twice the area in square units: positive where it runs clockwise to the eye

    def only(self, kept: NDArray[np.bool_]) -> Clipped:
        """Return the rings of some polygons, by number."""
        rings = np.flatnonzero(kept[self.polygon])
        count = np.diff(self.first)[rings]
        first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        rows = np.arange(int(first[-1])) + np.repeat(self.first[rings] - first[:-1], count)
        return Clipped(self.points[rows], first, self.polygon[rings], self.area[rings])

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
    first = np.concatenate([[0], np.cumsum([len(ring) for ring in rings], dtype=np.int64)]).astype(np.int64)
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
