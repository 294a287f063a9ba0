"""Cells of sites that stay, cut once more by those alone that may cut them: a fraction of a search among all sites.

Let a site stay. What has an edge with its cell now had one before, or is new, or has come to the place of sites that
are gone. From there the way to the site leads over cells of gone sites, one beside the other. So its cell is cut by its
old neighbours, by the new sites that have an edge with it, and by old neighbours of the gone sites that lie on such
ways.

Lists that rounding may have left incomplete prove nothing. Where a gone site was not compact, or the cell is not
compact now, it is left to a search among all sites.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_arguments import Made, Workpiece, parts_of, workspace
from dtoss.cells.cell_kernel import settle
from dtoss.cells.half_planes import frame, tangent
from dtoss.cells.leaf_cuts import cut_by
from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import SPHERE, place_at

MOST_GONE = 32
"""Gone sites whose neighbours cut a cell, at the most: where there are more it is left to a search."""
_VERTICES, _EDGES = 256, 8
"""Room for vertices of a cell, and for the neighbours of each: six are enough where rounding makes no edges."""


@dataclass(frozen=True, slots=True)
class CutCells:
    """Some cells, as :class:`dtoss.cells.diagram.Diagram` has all."""

    which: NDArray[np.int64]  # int64 (c,). Of which sites, ascending
    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    compact: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of m sites of before, and of edges with sites that are new."""

    first: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    compact: NDArray[np.bool_]
    number: NDArray[np.int32]  # int32 (m,). Their numbers now, -1 of those that are gone
    beside: NDArray[np.int32]  # int32 (e,). The sites that have an edge with a new one, ascending, and that one
    new: NDArray[np.int32]


def cut_once_more(
    sites: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
    which: NDArray[np.int64],
    old: NDArray[np.int32],
    known: Known,
) -> CutCells:
    """Return the cells of sites ``which``, (c,), whose numbers before were ``old``.

    Those that are not compact have no neighbours: they are left to a search.
    """
    count = len(which)
    first, lists = np.zeros(count + 1, np.int32), np.empty(_EDGES * (count + _VERTICES), np.int32)
    area, radius, compact = np.empty(count), np.empty(count), np.empty(count, np.uint8)
    _cut(
        sites,
        np.zeros(4) if bounds is None else operand(bounds, dtype=np.float64),
        which,
        old,
        operand(known.first),
        operand(known.neighbours),
        operand(known.compact).view(np.uint8),
        known.number,
        np.searchsorted(known.beside, np.append(which, len(sites))),
        known.new,
        *workspace(_VERTICES),
        np.full(len(known.number), -1, np.int32),
        first,
        lists,
        area,
        radius,
        compact,
    )
    return CutCells(which, first, lists[: first[-1]], area, radius, compact.view(np.bool_))


@kernel(
    "void(float64[:, ::1], float64[::1], int64[::1], int32[::1], int32[::1], int32[::1], uint8[::1], int32[::1], "
    "int64[::1], int32[::1], float64[::1], int64[::1], int32[::1], int32[::1], int32[::1], float64[::1], float64[::1], "
    "uint8[::1])"
)
def _cut(
    vectors, bounds, which, old, first, neighbours, compact, number, new_first, new, real, whole, seen, begins, lists,
    area, radius, fine,
):  # fmt: skip
    """Fill ``begins`` and ``lists``, and ``area``, ``radius`` and ``fine`` of each cell; ``seen`` holds -1."""
    dimension = vectors.shape[1]
    positions, box = pointer(vectors), pointer(bounds)
    outline, _, _, scratch, basis, capacity = parts_of(real, whole)
    degree, gone = np.empty(which.size, np.int32), np.empty(MOST_GONE, np.int32)
    made = Made(pointer(degree), pointer(lists), pointer(area), pointer(radius), pointer(fine), pointer(fine))
    filled = 0
    for r in range(which.size):
        cell = Workpiece(place_at(positions, which[r], dimension), basis, outline, positions, capacity)
        if dimension == SPHERE:
            tangent(cell.site.x, cell.site.y, cell.site.z, basis)
        m = frame(outline, cell.site, box)
        at, listed, count, known = old[r], 0, 0, True
        seen[at] = r
        while True:
            for t in range(first[at], first[at + 1]):
                other = neighbours[t]
                if seen[other] == r or not known:
                    continue
                seen[other] = r
                if number[other] >= 0:
                    size = cut_by(cell, m, number[other])
                    m = size if size > 0 else m
                    known = m + 2 <= capacity
                elif compact[other] != 0 and count < MOST_GONE:
                    gone[count] = other
                    count += 1
                else:
                    known = False
            if listed == count or not known:
                break
            at = gone[listed]
            listed += 1
        for t in range(new_first[r], new_first[r + 1]):
            if known:
                size = cut_by(cell, m, new[t])
                m = size if size > 0 else m
                known = m + 2 <= capacity
        begins[r] = filled
        end, settled = filled, False
        if known and filled + m <= lists.size:
            end, settled = settle(cell, m, scratch.discs, made, r, filled)
        if settled:
            filled = end
        fine[r] = settled
    begins[which.size] = filled
    degree[:1], gone[:1] = 0, 0  # keeps the arrays alive while pointers to them are used
