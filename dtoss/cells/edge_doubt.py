"""Which edges of cells rounding could make or unmake.

The lines of the edges before and after an edge meet behind it, or not at all. Moved out beyond where they meet, the
edge is gone; where that is as near as rounding, whether the edge is there at all is for exact arithmetic to say. And
where the line of a site without an edge goes by a corner as near as rounding, it may have one in the place of those.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.geometry.rounding import EDGE_DOUBT

NEARLY = 1.02
"""An edge that is longer or shorter than what counts by this factor is so in truth, where it is not in doubt."""


def edges_in_doubt(
    shape: CellPolygons,
    centres: NDArray[np.float64],
    first: NDArray[np.int64],
    others: NDArray[np.float64],
    length: NDArray[np.float64],
    shortest: float,
) -> NDArray[np.bool_]:
    """Return which candidates have an edge that may be none, or one that is about as long as counts, bool (c,).

    ``shape``: the cells of ``centres`` (m, dimension), cut by ``others`` (c, dimension); ``centres``: float64 (m,
    dimension). The sites of the cells; ``first``: int64 (m + 1,). The candidates of cell i are ``first[i]:first[i +
    1]``; ``others``: float64 (c, dimension). The candidates; ``length``: float64 (c,). The length of each candidate's
    edge; those of length 0 are not in doubt here; ``shortest``: edges no longer than this do not count; as sides of
    others they are passed over.
    """
    doubt = (length > shortest / NEARLY) & (length < shortest * NEARLY)
    short = np.flatnonzero(length <= shortest)
    if len(short):
        of = np.searchsorted(first, short, side="right") - 1
        doubt[_beside(shape, of, centres[of], others[short])] = True
    kept = np.flatnonzero(shape.length > shortest)
    if len(kept) == 0 or len(others) == 0:
        return doubt
    cell, before = _order(shape, kept)
    owner = shape.owner[kept]
    normal = others[owner] - centres[cell]
    bounds = owner < 0
    if bounds.any():
        along = _after(shape, kept[bounds]) - shape.vertices[kept[bounds]]
        normal[bounds] = along[:, ::-1] * [1.0, -1.0]
    gap = np.sqrt((normal**2).sum(axis=1))
    # a piece of the bounds so short that its ends have the same digits
    unknown = gap == 0.0
    normal /= np.where(unknown, 1.0, gap)[:, None]
    turn = np.sqrt(((normal - normal[before]) ** 2).sum(axis=1))
    turn[unknown | unknown[before]] = 0.0
    gap[bounds] = 0.0
    rough = EDGE_DOUBT * np.maximum(gap, shape.radius[cell])
    own = shape.length[kept]
    if 0.25 * turn.min() ** 2 * own.min() > rough.max():
        return doubt
    turned = 2.0 * np.arcsin(np.minimum(0.5 * turn, 1.0))
    on = np.empty(len(kept))
    on[before] = turned
    height = own * np.sin(turned) * np.sin(on)
    close = (turned + on < np.pi) & ~(height > rough * np.sin(turned + on)) & ~bounds
    doubt[owner[close]] = True
    return doubt


def _order(shape: CellPolygons, kept: NDArray[np.int64]) -> tuple[NDArray[np.int64] | int, NDArray[np.int64]]:
    """Return the cell of each kept edge, and which kept edge stands before it round the cell."""
    before = np.arange(-1, len(kept) - 1)
    if len(shape.area) == 1:
        return 0, before
    starts = np.searchsorted(kept, shape.first)
    filled = starts[1:] > starts[:-1]
    before[starts[:-1][filled]] = starts[1:][filled] - 1
    return np.searchsorted(shape.first, kept, side="right") - 1, before


def _after(shape: CellPolygons, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the vertices in which edges end."""
    cell = np.searchsorted(shape.first, edges, side="right") - 1
    return shape.vertices[np.where(edges + 1 == shape.first[cell + 1], shape.first[cell], edges + 1)]


def _beside(
    shape: CellPolygons, cell: NDArray[np.int64], centre: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the candidates with an edge at a corner that the line between a cell's centre and another site goes by.

    Cells, centres and other sites are k rows each; a candidate may stand there more than once.
    """
    begin, end = shape.first[cell], shape.first[cell + 1]
    count = end - begin
    row = np.repeat(np.arange(len(cell)), count)
    corner = np.arange(len(row)) - np.repeat(np.cumsum(count) - count - begin, count)
    normal = other - centre
    gap = np.sqrt((normal**2).sum(axis=1))
    at = shape.vertices[corner]
    if centre.shape[1] == 2:
        depth = ((at - centre[row]) * normal[row]).sum(axis=1) / gap[row] - 0.5 * gap[row]
    else:
        depth = (at * normal[row]).sum(axis=1) / gap[row]
    near = depth > -np.maximum(EDGE_DOUBT * np.maximum(gap, shape.radius[cell])[row], 1e-15 * np.abs(at).max(axis=1))
    corner, row = corner[near], row[near]
    before = np.where(corner == begin[row], end[row], corner) - 1
    owner = shape.owner[np.concatenate([corner, before])]
    return owner[owner >= 0]
