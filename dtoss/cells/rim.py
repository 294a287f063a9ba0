"""Cells of the sphere that reach far from their site: the calls of the kernel that cuts them in 3-D."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_kernel import DONE, MORE_NEIGHBOURS, MORE_VERTICES
from dtoss.cells.oriented_boxes import NO_LINES
from dtoss.cells.rim_kernel import cut_rim_cells
from dtoss.cells.rim_polygon import CORNER
from dtoss.cells.site_search import Search


@dataclass(frozen=True, slots=True)
class RimCells:
    """Cells of the sphere cut in 3-D, as in :class:`.diagram.Diagram`.

    Corners are unit vectors with their edges' owners.
    ``visits`` counts the nodes of the tree that were looked into for all of them.
    """

    degree: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    corners: NDArray[np.float64]
    owner: NDArray[np.int64]
    corner_count: NDArray[np.int64]
    visits: int


def rim_cells(
    sites: NDArray[np.float64],
    search: Search,
    which: NDArray[np.int64],
    first_known: NDArray[np.int64],
    known: NDArray[np.int32],
) -> RimCells:
    """Return the spherical cells of the sites ``which``, cut in 3-D.

    ``known[first_known[i]:first_known[i + 1]]`` are sites near ``which[i]`` to begin with; the search finds the others.
    """
    none = np.zeros(0, np.int64)
    return _rim_cells(sites[which], which, sites, search, first_known, known, none)


def drawn_rim_cells(centres: NDArray[np.float64], first: NDArray[np.int64], others: NDArray[np.float64]) -> RimCells:
    """Return spherical cells cut in 3-D by given sites alone, with their corners.

    The candidates of cell i are ``others[first[i]:first[i + 1]]``, and are what its neighbours and owners count.
    """
    known = np.arange(len(others), dtype=np.int32)
    return _rim_cells(centres, np.full(len(centres), -1), others, None, first, known, np.zeros(1, np.int64))


def _rim_cells(
    centres: NDArray[np.float64],
    which: NDArray[np.int64],
    sites: NDArray[np.float64],
    search: Search | None,
    first_known: NDArray[np.int64],
    known: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> RimCells:
    count = len(which)
    capacity, room = 256, 8 * count + 64
    degree, area, radius = np.zeros(count, np.int32), np.zeros(count), np.zeros(count)
    corner_count = np.zeros(count, np.int64)
    neighbours = np.empty(room, np.int32)
    if len(owner):
        owner = np.empty(2 * room, np.int64)
    corners = np.empty((len(owner), 3))
    progress = np.zeros(4, np.int64)
    none = np.zeros((0, 0, 0))
    columns, children = (none, none) if search is None else (search.columns, search.children)
    lines = NO_LINES
    while True:
        real = np.empty(2 * CORNER * capacity)
        status = cut_rim_cells(
            centres,
            which,
            sites,
            np.zeros(1, np.int64) if search is None else search.tree.starts,
            columns,
            children,
            lines.boxes,
            lines.order,
            first_known,
            known,
            real,
            degree,
            neighbours,
            area,
            radius,
            corners,
            owner,
            corner_count,
            progress,
        )
        if status == DONE:
            break
        if status == MORE_VERTICES:
            capacity *= 4
        elif status == MORE_NEIGHBOURS:
            neighbours = np.concatenate([neighbours, np.empty_like(neighbours)])
            corners, owner = np.concatenate([corners, np.empty_like(corners)]), np.concatenate([owner, owner])
        elif search is not None:
            lines = search.oriented.lines()
            columns, children = lines.columns, lines.children
    made = int(progress[2])
    return RimCells(
        degree, neighbours[: progress[1]], area, radius, corners[:made], owner[:made], corner_count, int(progress[3])
    )
