"""Which edges of cells rounding could make or unmake.

The lines of the edges before and after an edge meet behind it, or not at all. Moved out beyond where they meet, the
edge is gone; where that is as near as rounding, whether the edge is there at all is for exact arithmetic to say. And
where the line of a site without an edge goes by a corner as near as rounding, it may have one in the place of those.

The length of one edge of a Voronoi diagram in exact arithmetic, for edges that rounding could make or unmake.

The edge of sites a and b is what of their bisector no other site is nearer to. Points of the bisector are
``p * first + q * second``: on the sphere only the direction (p, q) matters, and in the plane p is 1. So each other
site, and each side of the bounds, leaves a half-plane of directions, and what all leave is between two of them.
Rational numbers in the plane, where sites are the doubles that they are; 80 digits on the sphere, where a site is the
direction of its vector, whose length is 1 within rounding only.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.geometry.rounding import EDGE_DOUBT
from dtoss.row_runs import runs

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
    corner = runs(begin, count)
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


_DIGITS = 80


def edge_length(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    others: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
) -> float:
    """Return the length of the edge between two sites, 0.0 where they have none: CRS units or the chord of its ends.

    ``a``, ``b``: (dimension,), distinct; ``others``: (c, dimension). Sites that hold all true neighbours of a, or all
    of b; a and b are passed over; ``bounds``: plane only: xmin, ymin, xmax, ymax.

    On the sphere an edge that is half a great circle or more has length 2. Cost O(c), about 10 microseconds a site.
    """
    rest = [row for row in others.tolist() if row != a.tolist() and row != b.tolist()]
    if bounds is not None:
        return _in_plane(a.tolist(), b.tolist(), rest, bounds.tolist())
    with localcontext(Context(prec=_DIGITS)):
        return _on_sphere(a.tolist(), b.tolist(), rest)


def _in_plane(a: list[float], b: list[float], others: list[list[float]], bounds: list[float]) -> float:
    ax, ay = (Fraction(value) for value in a)
    bx, by = (Fraction(value) for value in b)
    # from the middle of a and b, seen from a, along the bisector
    mx, my = (bx - ax) / 2, (by - ay) / 2
    dx, dy = ay - by, bx - ax
    x0, y0, x1, y1 = (Fraction(value) for value in bounds)
    limits = [(x0 - ax - mx, -dx), (ax + mx - x1, dx), (y0 - ay - my, -dy), (ay + my - y1, dy)]
    for row in others:
        ux, uy = Fraction(row[0]) - ax, Fraction(row[1]) - ay
        limits.append((mx * ux + my * uy - (ux * ux + uy * uy) / 2, dx * ux + dy * uy))
    left = _between((Fraction(0), Fraction(-1)), (Fraction(0), Fraction(1)), limits)
    if left is None or left[0][0] == 0 or left[1][0] == 0:
        return 0.0
    (p, q), (r, s) = left
    return abs(float(s / r - q / p)) * float(np.hypot(float(dx), float(dy)))


def _on_sphere(a: list[float], b: list[float], others: list[list[float]]) -> float:
    site = _direction(*a)
    normal = _less(_direction(*b), site)
    if not any(normal):
        return 0.0  # one direction within rounding
    axis = min(range(3), key=lambda i: abs(normal[i]))
    first = _unit(_cross(normal, [Decimal(i == axis) for i in range(3)]))
    second = _unit(_cross(normal, first))
    # made one by one: where nothing is left of the edge, most need not be
    away = (_less(_direction(*row), site) for row in others)
    limits = ((p, q) for p, q in ((_dot(first, u), _dot(second, u)) for u in away) if p or q)
    p, q = next(limits, (None, None))
    if p is None or q is None:
        return 2.0
    left = _between((-q, p), (q, -p), limits)
    if left is None:
        return 0.0
    (p, q), (r, s) = left
    one, two = (p * p + q * q).sqrt(), (r * r + s * s).sqrt()
    return float(((p / one - r / two) ** 2 + (q / one - s / two) ** 2).sqrt())


def _between(start: tuple[Any, Any], end: tuple[Any, Any], limits: Iterable[tuple[Any, Any]]) -> Any:
    """Return the two directions between which ``p c + q d <= 0`` for all (c, d), or None where that is at most a point.

    ``start`` to ``end``, counter-clockwise, is half a turn to begin with.
    """
    for c, d in limits:
        out_start, out_end = start[0] * c + start[1] * d > 0, end[0] * c + end[1] * d > 0
        if out_start and out_end:
            return None
        if not out_start and not out_end:
            # opposite ends that both lie on the limit: all or nothing is left
            if _turn(start, end) == 0 and start[1] * c - start[0] * d < 0:
                return None
            continue
        edge = (-d, c)
        if out_start:
            start = edge if _turn(start, edge) > 0 else (d, -c)
        else:
            end = edge if _turn(edge, end) > 0 else (d, -c)
        if _turn(start, end) <= 0:
            return None
    return start, end


def _turn(one: tuple[Any, Any], two: tuple[Any, Any]) -> Any:
    return one[0] * two[1] - one[1] * two[0]


def _dot(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: list[Decimal], b: list[Decimal]) -> list[Decimal]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _less(a: list[Decimal], b: list[Decimal]) -> list[Decimal]:
    return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]


@lru_cache(maxsize=4096)
def _direction(x: float, y: float, z: float) -> list[Decimal]:
    """Return a site's direction; the sites of a row are asked for again and again, for each pair of them."""
    return _unit([Decimal(x), Decimal(y), Decimal(z)])


def _unit(a: list[Decimal]) -> list[Decimal]:
    size = _dot(a, a).sqrt()
    return [a[0] / size, a[1] / size, a[2] / size]
