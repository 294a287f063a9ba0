"""The diagram of sites most of which stood before: only the cells that may have changed are cut.

The cell of a site is what is nearer to it than to any of its neighbours. So a cell of a site that stays is another one
only where it has lost a neighbour, or where a site that is new has an edge with it. Cut are: the cells of new sites, by
all sites; of those that have an edge with a new one; and of those that had one with a site that is gone. All others
keep their neighbours and their areas.

Edges as short as rounding are the exception: one end of such an edge may know of it, and the other not. What lies
beyond it is as small as rounding where both cells are compact (``dtoss/cells/cell_kernel.py``). So cells that are not
are cut each time; and where that of a new site is not, so are all that this site is near enough to cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.diagram import Diagram, renumber, symmetric
from dtoss.cells.neighbour_lists import runs, with_lists
from dtoss.cells.rim import search_of
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.kernel import kernel, operand

MOST_CUT, NEIGHBOURS_EACH = 0.4, 6
"""Share of the cells from which on it costs less to cut all, where new sites are taken to have so many neighbours each.

Cells that are cut here and there cost three times as much as all do, one after another."""
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
    cut = came.copy()
    cut[~came] = ~before.compact[stood[~came]]
    cut[lost[lost >= 0]] = True
    if np.count_nonzero(cut) + NEIGHBOURS_EACH * np.count_nonzero(came) > most * n:
        return voronoi(sites, bounds, search=search), everyone
    if came.any():
        new = voronoi(sites, bounds, wanted=came, search=search)
        cut[new.neighbours] = True
        cut |= _in_reach(sites, MOST_RADII * np.where(came, 0.0, before.radius[stood]), sites[came & ~new.compact])
    some, which = voronoi(sites, bounds, wanted=cut, search=search), np.flatnonzero(cut)
    # a new site has the empty list of a site behind all others
    old = np.where(came, np.int32(len(number)), stood)
    first, neighbours = renumber(np.append(before.first, before.first[-1:]), before.neighbours, old, number)
    first, neighbours = with_lists(first, neighbours, which, np.diff(some.first)[which], some.neighbours)
    first, neighbours = symmetric(first, neighbours, cut.view(np.uint8))
    return Diagram(
        first,
        neighbours,
        np.where(cut, some.area, before.area[stood]),
        np.where(cut, some.radius, before.radius[stood]),
        some.rim,
        np.where(cut, some.compact, before.compact[stood]),
    ), cut


def _in_reach(sites: NDArray[np.float64], reach: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which sites are nearer to some others than they reach, bool (n,)."""
    found = np.zeros(len(sites), np.uint8)
    _mark_reached(sites, reach, operand(others), found)
    return found.view(np.bool_)


@kernel("void(float64[:, ::1], float64[::1], float64[:, ::1], uint8[::1])")
def _mark_reached(sites, reach, others, found):
    n, dimension = sites.shape
    for i in range(n):
        for o in range(others.shape[0]):
            away = 0.0
            for axis in range(dimension):
                gap = sites[i, axis] - others[o, axis]
                away += gap * gap
            if away < reach[i] * reach[i]:
                found[i] = 1
