"""The regions of the partitions as tiles: polygons of what each owns, and their borders as lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.partitioning.region_polygons import region_shapes
from dtoss.partitioning.regions import Regions
from dtoss.tiles.map_frame import Frame
from dtoss.tiles.mvt import LINES, POLYGONS, layer
from dtoss.tiles.rings import MapRings, rings_on_map
from dtoss.tiles.tile_clipping import clipped_lines, clipped_polygons, thin_for_zoom, tile_box

FAR_ZOOM = 5
"""The last zoom whose tiles are cut from fewer points."""


@dataclass(frozen=True)
class DrawnRegions:
    """The regions on the map, polygon i that of partition i: as they are, and as they look from afar."""

    near: MapRings
    far: MapRings

    def __len__(self) -> int:
        return len(self.near)


def regions_on_map(frame: Frame, regions: Regions, bounds: NDArray[np.float64] | None) -> DrawnRegions:
    """Return the regions on the map. Cost O(P^2) and more."""
    shapes = region_shapes(regions, bounds)
    curves = [ring for shape in shapes for piece in shape.polygons for ring in piece]
    vectors = np.concatenate([np.zeros((0, regions.pivots.shape[1])), *curves])
    rings = [sum(len(piece) for piece in shape.polygons) for shape in shapes]
    whole = np.array([not shape.polygons and shape.area > 0.0 for shape in shapes])
    near = rings_on_map(frame, vectors, _starts([len(ring) for ring in curves]), _starts(rings), whole)
    return DrawnRegions(near, thin_for_zoom(near, FAR_ZOOM))


def region_tile(drawn: DrawnRegions, z: int, x: int, y: int) -> bytes:
    """Return a tile of regions: polygons in the layer ``regions``, and their borders as lines in ``borders``.

    A feature's id and its property ``partition`` are the number of the partition. Polygons also run along the sides of
    the tile, and lines do not.
    """
    tile, made = tile_box(z, x, y), drawn.far if z <= FAR_ZOOM else drawn.near
    told = (("partition", np.arange(len(made))),)
    areas = layer("regions", clipped_polygons(made, tile).features(POLYGONS, told, numbered=True))
    return areas + layer("borders", clipped_lines(made, tile).features(LINES, told, numbered=True))


def _starts(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
