"""The polygons of cells, cut again from their neighbours when somebody asks: cells are not stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_arguments import outline_in
from dtoss.cells.half_planes import (
    PAD,
    chord,
    cut,
    frame,
    furthest,
    is_framed,
    plane_area,
    seen_from,
    sphere_area,
    tangent,
)
from dtoss.cells.rim import drawn_rim_cells
from dtoss.compiled.kernel import kernel, operand, step
from dtoss.compiled.pointers import part_of, pointer
from dtoss.geometry.distance import SPHERE, place_at
from dtoss.geometry.rounding import CUT
from dtoss.row_runs import offsets, runs


@dataclass(frozen=True, slots=True)
class CellPolygons:
    """The polygons of m cells, counter-clockwise, as flat arrays."""

    first: NDArray[np.int64]  # int64 (m + 1,). The vertices of cell i are ``vertices[first[i]:first[i + 1]]``
    vertices: NDArray[np.float64]  # float64 (v, dimension): x, y, or unit vectors
    # int64 (v,). Whose half-plane made the edge from this vertex to the next: a position among the candidates of the
    # cell, counted over all cells, or -1 for the bounds
    owner: NDArray[np.int64]
    length: NDArray[np.float64]  # float64 (v,). Of the edge from this vertex to the next: CRS units, or the chord
    area: NDArray[np.float64]  # float64 (m,). Square CRS units or steradians
    radius: NDArray[np.float64]  # float64 (m,). Distance or chord from the site to its furthest vertex


POLYGON_COLUMNS = 5
"""Columns of floats of a polygon."""


@step
def cut_all(outline, site, basis, bounds, others, begin, end):
    """Cut the cell of a site by candidates, rows ``begin:end`` of ``others``; returns the number of its vertices."""
    if site.dimension == SPHERE:
        tangent(site.x, site.y, site.z, basis)
    m = frame(outline, site, bounds)
    for t in range(begin, end):
        dx, dy, distance2 = seen_from(site, basis, others, t)
        if distance2 > 0.0:
            size = cut(outline, m, dx, dy, 0.5 * distance2, t, CUT * distance2)
            if size > 0:
                m = size
    return m


@step
def _chord_between(a, b, c, d):
    """Return the chord between the vertices (a, b) and (c, d) of a tangent plane, on the sphere.

    Two points at angles a, b from each other's direction: ``|A/|A| - B/|B||^2`` without cancellation.
    """
    p, q = c - a, d - b
    gap = p * p + q * q
    size = np.sqrt((1.0 + a * a + b * b) * (1.0 + c * c + d * d))
    cross = a * d - b * c
    sine2 = (gap + cross * cross) / (size * size)
    cosine = (1.0 + a * c + b * d) / size
    return np.sqrt(sine2 / (0.5 * (1.0 + cosine)))


@step
def _vertex(site, basis, u, v):
    """Return a vertex of the tangent plane as a vector of the space."""
    if site.dimension == 2:
        return site.x + u, site.y + v, 0.0
    f = 1.0 / np.sqrt(1.0 + u * u + v * v)
    return (
        f * (site.x + u * basis[0] + v * basis[SPHERE]),
        f * (site.y + u * basis[1] + v * basis[SPHERE + 1]),
        f * (site.z + u * basis[2] + v * basis[SPHERE + 2]),
    )


@step
def draw(outline, m, site, basis, filled, vertices, owner, length):
    """Write the vertices of a cell, with the owner and the length of the edge from each, from place ``filled`` on."""
    u, v = outline.u, outline.v
    for j in range(m):
        owner[filled + j] = max(outline.edge[j], -1)
        after = j + 1 if j + 1 < m else 0
        x, y, z = _vertex(site, basis, u[j], v[j])
        vertices[filled + j, 0], vertices[filled + j, 1] = x, y
        # from the site, where coordinates are small: large ones have lost the last digits
        if site.dimension == 2:
            p, q = u[after] - u[j], v[after] - v[j]
            length[filled + j] = np.sqrt(p * p + q * q)
        else:
            vertices[filled + j, 2] = z
            length[filled + j] = _chord_between(u[j], v[j], u[after], v[after])


@kernel(
    "void(float64[:, ::1], int64[::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], int64[::1], "
    "float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1])"
)
def _shape(centres, first, others_, bounds, real, whole, count, vertices, owner, length, area, radius):
    """Cut each cell by its candidates; count -1 marks one that must be cut in 3-D."""
    cells, dimension = centres.shape
    room = (real.size - 2 * SPHERE) // POLYGON_COLUMNS
    outline = outline_in(pointer(real), pointer(whole), room)
    basis = part_of(pointer(real), POLYGON_COLUMNS * room, 2 * SPHERE)
    places, others, box = pointer(centres), pointer(others_), pointer(bounds)
    u, v = outline.u, outline.v
    filled = 0
    for i in range(cells):
        site = place_at(places, i, dimension)
        m = cut_all(outline, site, basis, box, others, first[i], first[i + 1])
        if dimension == SPHERE and is_framed(outline, m):
            count[i] = -1
            continue
        draw(outline, m, site, basis, filled, vertices, owner, length)
        filled += m
        count[i] = m
        far = furthest(u, v, m)
        if dimension == 2:
            area[i], radius[i] = plane_area(u, v, m), np.sqrt(far)
        else:
            area[i], radius[i] = sphere_area(u, v, m), chord(far)


def shapes(
    centres: NDArray[np.float64],
    first: NDArray[np.int64],
    others: NDArray[np.float64],
    bounds: NDArray[np.float64] | None = None,
) -> CellPolygons:
    """Return the polygons of cells from sites that are known to hold all their neighbours.

    ``centres``: (m, dimension). The sites whose cells are made; ``first``: int64 (m + 1,). The candidates of cell i are
    ``others[first[i]:first[i + 1]]``; copies of the site are passed over; ``others``: (c, dimension); ``bounds``: plane
    only: xmin, ymin, xmax, ymax.

    On the sphere a site without candidates has no vertices and the area of the whole sphere; edges are great-circle
    arcs, and arcs of a hemisphere's rim are cut in quarters. Cost O(candidates x vertices).
    """
    cells, dimension = centres.shape
    centres, others = operand(centres), operand(others)
    first = operand(first, dtype=np.int64)
    degree = np.diff(first)
    capacity = int(degree.max(initial=0)) + 8 + 2 * PAD
    real, whole = np.empty(POLYGON_COLUMNS * capacity + 2 * SPHERE), np.empty(capacity, np.int64)
    room = len(others) + 4 * cells
    count, owner, length = np.zeros(cells, np.int64), np.empty(room, np.int64), np.empty(room)
    vertices = np.empty((room, dimension))
    area, radius = np.zeros(cells), np.zeros(cells)
    box = np.zeros(4) if bounds is None else operand(bounds, dtype=np.float64)
    _shape(centres, first, others, box, real, whole, count, vertices, owner, length, area, radius)
    far = np.flatnonzero(count < 0)
    count[far] = 0
    start = offsets(count)
    made = int(start[-1])
    if len(far) == 0:
        return CellPolygons(start, vertices[:made], owner[:made], length[:made], area, radius)
    mine = runs(first[far], degree[far])
    drawn = drawn_rim_cells(centres[far], offsets(degree[far]), others[mine])
    count[far] = drawn.corner_count
    start = offsets(count)
    flat = np.ones(cells, np.bool_)
    flat[far] = False
    kept = np.repeat(flat, count)
    all_vertices, all_owners, all_lengths = np.empty((len(kept), 3)), np.empty(len(kept), np.int64), np.empty(len(kept))
    all_vertices[kept], all_owners[kept], all_lengths[kept] = vertices[:made], owner[:made], length[:made]
    corners, place = drawn.corners, np.flatnonzero(~kept)
    all_vertices[place], all_owners[place] = corners, mine[drawn.owner]
    after = np.arange(1, len(corners) + 1)
    ends = np.cumsum(drawn.corner_count)
    after[ends[drawn.corner_count > 0] - 1] = (ends - drawn.corner_count)[drawn.corner_count > 0]
    all_lengths[place] = np.linalg.norm(corners - corners[after], axis=1)
    area[far], radius[far] = drawn.area, drawn.radius
    return CellPolygons(start, all_vertices, all_owners, all_lengths, area, radius)
