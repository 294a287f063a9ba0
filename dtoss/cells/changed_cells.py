"""The diagram of sites most of which stood before: only the cells that may have changed are cut.

The cell of a site is what is nearer to it than to any of its neighbours. So a cell of a site that stays is another one
only where it has lost a neighbour, or where a site that is new has an edge with it. Cut are: the cells of new sites, by
all sites; of those that have an edge with a new one; and of those that had one with a site that is gone, both by few
(``dtoss/cells/cut_once_more.py``). All others keep their neighbours and their areas.

Edges as short as rounding are the exception: one end of such an edge may know of it, and the other not. What lies
beyond it is as small as rounding where both cells are compact (``dtoss/cells/cell_kernel.py``). So cells that are not
are cut each time; and where that of a new site is not, so are all that this site is near enough to cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import LEAF
from dtoss.cells.cut_once_more import CutCells, Known, cut_once_more
from dtoss.cells.diagram import Diagram, renumber, symmetric
from dtoss.cells.rim import Search, search_of
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.lanes8 import above, lanes_at
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.distance import SPHERE
from dtoss.row_runs import runs

MOST_CUT, NEIGHBOURS_EACH = 0.8, 6
"""Share of the cells from which on it costs less to cut all, where new sites are taken to have so many neighbours each.

The cell of a new site costs six times as much as one of all that are cut one after another, that of one that stays
half."""
MOST_RADII = 2.0 + 1e-6
"""A site may cut a cell whose radius it is no further from than so many times, and a little for rounding."""
FEWEST_KEPT = 1000
"""Sites below which all cells are cut: that takes a millisecond, and to keep some takes half of one."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is kept of a diagram, as in :class:`.diagram.Diagram`, but with its sites in any order."""

    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    compact: NDArray[np.bool_]


def changed_cells(
    sites: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
    before: Before,
    stood: NDArray[np.int32],
    fewest: int = FEWEST_KEPT,
    most: float = MOST_CUT,
) -> tuple[Diagram, NDArray[np.bool_]]:
    """Return the diagram of distinct sites in curve order, and which cells were cut, bool (n,).

    ``before``: of other sites within the same bounds; ``stood``: int32 (n,). The number there of the site at each
    place, -1 where none stood; ``fewest``, ``most``: all cells are cut of fewer sites, or where a greater share is
    likely to change. Cost O(n), a fifth of cutting all where few cells changed.
    """
    n = len(sites)
    came, everyone = stood < 0, np.ones(n, np.bool_)
    if n < fewest:
        return voronoi(sites, bounds), everyone
    search = search_of(sites)
    number = np.full(len(before.area), -1, np.int32)
    number[stood[~came]] = np.flatnonzero(~came)
    gone = np.flatnonzero(number < 0)
    lost = number[before.neighbours[runs(before.first[gone], before.first[gone + 1] - before.first[gone])]]
    by_all = came.copy()  # cut by all sites
    by_all[~came] = ~before.compact[stood[~came]]
    cut = by_all.copy()
    cut[lost[lost >= 0]] = True
    if np.count_nonzero(cut) + NEIGHBOURS_EACH * np.count_nonzero(came) > most * n:
        return voronoi(sites, bounds, search=search), everyone
    made = voronoi(sites, bounds, wanted=by_all, search=search)
    fresh = np.flatnonzero(came).astype(np.int32)
    degree = made.first[fresh + 1] - made.first[fresh]
    beside, new = made.neighbours[runs(made.first[fresh], degree)], np.repeat(fresh, degree)
    cut[beside] = True
    left = ~by_all & _in_reach(
        search, MOST_RADII * np.where(came, 0.0, before.radius[stood]), sites[came & ~made.compact]
    )
    cut |= left
    once_more = cut & ~by_all & ~left
    which, told = np.flatnonzero(once_more), once_more[beside]
    beside, new = beside[told], new[told]
    along = np.argsort(beside, kind="stable")
    known = Known(before.first, before.neighbours, before.compact, number, beside[along], new[along])
    some = cut_once_more(sites, bounds, which, stood[which], known)
    left[which[~some.compact]] = True
    pieces, rim = [_cells_of(made, by_all), some], made.rim
    if left.any():
        made = voronoi(sites, bounds, wanted=left, search=search)
        pieces.append(_cells_of(made, left))
        rim = rim | made.rim
    source, area, radius, compact = stood.copy(), before.area[stood], before.radius[stood], before.compact[stood]
    firsts, lists, rows, entries = [before.first], [before.neighbours], len(before.first), len(before.neighbours)
    for piece in pieces:
        source[piece.which] = np.arange(rows, rows + len(piece.which))
        area[piece.which], radius[piece.which], compact[piece.which] = piece.area, piece.radius, piece.compact
        firsts.append(piece.first + entries)
        lists.append(piece.neighbours + len(number))
        rows, entries = rows + len(piece.first), entries + len(piece.neighbours)
    now = np.append(number, np.arange(n, dtype=np.int32))
    first, neighbours = renumber(np.concatenate(firsts), np.concatenate(lists), source, now)
    first, neighbours = symmetric(first, neighbours[: first[-1]], cut.view(np.uint8))
    return Diagram(first, neighbours, area, radius, rim, compact), cut


def _cells_of(diagram: Diagram, wanted: NDArray[np.bool_]) -> CutCells:
    """Return the cells of a diagram that has only those that were wanted."""
    which = np.flatnonzero(wanted)
    first = np.append(diagram.first[which], diagram.first[-1])
    return CutCells(
        which, first, diagram.neighbours, diagram.area[which], diagram.radius[which], diagram.compact[which]
    )


def _in_reach(search: Search, reach: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which of the sites that are searched are nearer to some others than they reach, bool (n,)."""
    found, room = np.zeros(len(search.columns), np.uint8), np.zeros(LEAF * len(search.columns))
    room[: len(reach)] = reach * reach
    _mark_reached(search.columns, room, operand(others), found)
    return np.unpackbits(found, count=len(reach), bitorder="little").view(np.bool_)


@kernel("void(float64[:, :, ::1], float64[::1], float64[:, ::1], uint8[::1])")
def _mark_reached(columns, squares, others, found):
    leaves, dimension, _ = columns.shape
    sites, reach = pointer(columns), pointer(squares)
    for leaf in range(leaves):
        column, within = shift(sites, leaf * dimension * LEAF), lanes_at(reach, leaf * LEAF)
        for o in range(others.shape[0]):
            dx, dy = lanes_at(column, 0) - others[o, 0], lanes_at(column, LEAF) - others[o, 1]
            gaps = dx * dx + dy * dy
            if dimension == SPHERE:
                dz = lanes_at(column, 2 * LEAF) - others[o, 2]
                gaps = gaps + dz * dz
            found[leaf] |= above(within, gaps)
