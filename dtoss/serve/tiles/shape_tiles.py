"""Tiles of regions, cells and uncertified cells of one snapshot, and what is made once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.locks import once
from dtoss.partitioning.regions import Regions
from dtoss.tiles.cell_tiles import CELL_LIMITS, NEAR_ZOOM, CellSource
from dtoss.tiles.map_frame import Frame
from dtoss.tiles.region_tiles import DrawnRegions, region_tile, regions_on_map
from dtoss.tiles.uncertified import MOST_UNCERTIFIED, UncertifiedCells, uncertified_on_map, uncertified_tile

DRAWN_EARLY = 512
"""Regions up to which drawing them all takes a second: twice as many take three times as long."""


class ShapeTiles:
    """What a map shows of an index besides its objects; thread-safe.

    ``most_uncertified``: so many uncertified cells are drawn from afar at the most, the largest ones.
    """

    def __init__(self, index: Index, frame: Frame, most_uncertified: int = MOST_UNCERTIFIED) -> None:
        self._index, self._frame, self._most_uncertified = index, frame, most_uncertified
        self._bounds = None if index.bounds is None else np.array(index.bounds)

    def make_early(self, most: int = DRAWN_EARLY) -> None:
        """Draw the regions before anybody asks, unless they are so many that this takes more than a second."""
        if len(self._index.partitioning) <= most:
            self.regions_drawn  # noqa: B018

    @once
    def regions_drawn(self) -> DrawnRegions:
        """The regions on the map; snapshots of the same pivots and weights share them."""
        return _regions_drawn(
            _Asked(self._index.partitioning.digest, self._frame, self._index.bounds, self._index.partitioning)
        )

    @once
    def uncertified_drawn(self) -> UncertifiedCells:
        """The uncertified cells on the map. Made when first asked for: cost O(their neighbours)."""
        return uncertified_on_map(self._frame, self._index.border, self._bounds, self._most_uncertified)

    @once
    def cell_source(self) -> CellSource:
        """What makes cells by the tile."""
        return CellSource(self._index, self._frame)

    @property
    def cells_from(self) -> int:
        """The zoom from which on cells are worth asking for.

        Where all are few that is the first one. A plane's square is as large as its bounds, so its objects say from
        where on they are few in a tile; on the sphere they are in towns.
        """
        if len(self._index) <= CELL_LIMITS.far:
            return 0
        if self._frame.plane is None:
            return NEAR_ZOOM
        return min(NEAR_ZOOM, 1 + ceil(log(len(self._index) / CELL_LIMITS.far, 4.0)))

    def regions(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of regions."""
        return region_tile(self.regions_drawn, z, x, y)

    def cells(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of cells; no bytes where they are too many to be seen."""
        return self.cell_source.tile(z, x, y)

    def uncertified(self, z: int, x: int, y: int) -> bytes:
        """Return the tile of uncertified cells; where not all are kept, those in view are looked up from near by."""
        drawn = self.uncertified_drawn
        if z >= NEAR_ZOOM and not drawn.complete:
            return self.cell_source.uncertified_tile(z, x, y)
        return uncertified_tile(drawn, z, x, y)


@dataclass(frozen=True)
class _Asked:
    """Regions by their digest."""

    digest: str
    frame: Frame
    bounds: tuple[float, float, float, float] | None
    regions: Regions = field(compare=False)


@lru_cache(maxsize=2)
def _regions_drawn(asked: _Asked) -> DrawnRegions:
    bounds: NDArray[np.float64] | None = None if asked.bounds is None else np.array(asked.bounds)
    return regions_on_map(asked.frame, asked.regions, bounds)
