"""Cells that their partition alone could not certify, as tiles: where partitions had to ask each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.building.border import BorderTable
from dtoss.cells.cell_polygons import shapes
from dtoss.tiles.cell_tiles import closed_rings, runs
from dtoss.tiles.map_frame import Frame
from dtoss.tiles.mvt import EXTENT, LINES, layer
from dtoss.tiles.rings import MapRings, rings_on_map
from dtoss.tiles.tile_clipping import Clipped, TileBox, clipped_lines, rings_in, tile_box

MOST_UNCERTIFIED = 200_000
"""Cells that are kept, the largest ones: 40 MB at the most."""
POINT_UNITS = 8
"""Units of a tile that a picture's point is wide; smaller cells are drawn as one, once."""
_TOLERANCE = 2.0**-22
"""As :data:`.rings.TOLERANCE`, 10 m at the equator: these cells are seen from afar."""


@dataclass(frozen=True)
class UncertifiedCells:
    """Uncertified cells on the map."""

    made: MapRings
    partition: NDArray[np.int64]  # int64 (n,). Who owns the site of each
    # Whether these are all: the smallest are left out where there are more than :data:`MOST_UNCERTIFIED`
    complete: bool


def uncertified_on_map(
    frame: Frame, border: BorderTable | None, bounds: NDArray[np.float64] | None, most: int = MOST_UNCERTIFIED
) -> UncertifiedCells:
    """Return the cells that the border table holds, the largest of them where there are many.

    Cost O(their neighbours).
    """
    dimension = 2 if bounds is not None else 3
    if border is None:
        none = np.zeros(1, np.int64)
        return UncertifiedCells(rings_on_map(frame, np.zeros((0, dimension)), none, none), none[:0], True)
    sites = np.flatnonzero(border.open)
    complete = len(sites) <= most
    if not complete:
        sites = np.sort(sites[np.argsort(-border.area[sites], kind="stable")[:most]])
    count = np.diff(border.first)[sites].astype(np.int64)
    near = border.neighbours[runs(border.first[sites].astype(np.int64), count)]
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    made = shapes(border.sites[sites], first, border.sites[near], bounds)
    vectors, ring_first, rings = closed_rings(made)
    on_map = rings_on_map(frame, vectors, ring_first, rings, np.diff(made.first) == 0, _TOLERANCE)
    return UncertifiedCells(on_map, border.home[sites].astype(np.int64), complete)


def uncertified_tile(cells: UncertifiedCells, z: int, x: int, y: int) -> bytes:
    """Return a tile of the borders of uncertified cells: lines in the layer ``uncertified``, property ``partition``.

    Cells that are smaller than a point of the picture are drawn as the point's border, one for all of them there.
    """
    tile, made = tile_box(z, x, y), cells.made
    chosen = rings_in(made, tile)
    west, north, east, south = made.boxes[chosen].T
    small = np.maximum(east - west, south - north) * tile.grid[2] < POINT_UNITS
    small &= made.winding[chosen] == 0
    owner = np.searchsorted(made.rings, chosen, side="right") - 1
    middles = np.column_stack([west + east, north + south])[small] / 2.0
    cut = _with_points(clipped_lines(made, tile, chosen[~small]), middles, owner[small], tile)
    return layer("uncertified", cut.features(LINES, (("partition", cells.partition),)))


def _with_points(cut: Clipped, middles: NDArray[np.float64], owner: NDArray[np.int64], tile: TileBox) -> Clipped:
    """Return lines and, behind them, those round points of the picture that hold middles of small cells, each once."""
    offset = middles - tile.grid[:2]
    offset[:, 0] -= np.floor(offset[:, 0])
    at = np.floor(offset * tile.grid[2] / POINT_UNITS).astype(np.int64)
    inside = ((at >= 0) & (at < EXTENT // POINT_UNITS)).all(axis=1)
    _, kept = np.unique(at[inside] @ np.array([1, EXTENT]), return_index=True)
    corner = (at[inside][kept] * POINT_UNITS).astype(np.int32)
    square = POINT_UNITS * np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], np.int32)
    points = (corner[:, None] + square).reshape(-1, 2)
    polygon = np.concatenate([cut.polygon, owner[inside][kept]])
    first = np.concatenate([cut.first, cut.first[-1] + len(square) * np.arange(1, len(corner) + 1)])
    return Clipped(np.concatenate([cut.points, points]), first, polygon, np.zeros(len(polygon), np.int64))
