"""Cells of H3 as the polygons that they are on the sphere: also over the antimeridian, and round a pole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.extras import need
from dtoss.geometry.space import space_of
from dtoss.row_runs import offsets

_HEAD = 13
"""Bytes of a WKB polygon of one ring before its corners: order, kind, rings, corners."""


def h3_cells(cells: NDArray[np.int64]) -> tuple[NDArray[np.float64], CellPolygons]:
    """Return the middles of cells of H3, lon, lat (n, 2) in degrees, and the cells. Cost O(n).

    ``cells``: int64 (n,). Their numbers, of any resolution.
    """
    need("h3ronpy", "a cell of H3", "h3")
    library = need("h3ronpy.vector", "a cell of H3", "h3")
    numbers = np.ascontiguousarray(cells).astype(np.uint64)
    middles = np.zeros((len(numbers), 2))
    rings = []
    if len(numbers):
        told = library.cells_to_coordinates(numbers)
        middles = np.stack([np.asarray(told[name], np.float64) for name in ("lng", "lat")], axis=1)
        # the last corner is the first one again
        rings = [
            np.frombuffer(one.as_py(), "<f8", offset=_HEAD).reshape(-1, 2)[:-1]
            for one in library.cells_to_wkb_polygons(numbers)
        ]
    first = offsets([*map(len, rings)])
    corners = space_of().vectors(np.concatenate([np.zeros((0, 2)), *rings]))
    after = np.arange(1, len(corners) + 1)
    after[first[1:] - 1] = first[:-1]
    length = np.linalg.norm(corners[after] - corners, axis=1)
    none = np.zeros(len(rings))
    return middles, CellPolygons(first, corners, np.full(len(corners), -1), length, none, none)
