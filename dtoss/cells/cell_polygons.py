"""The polygons of cells, cut again from their neighbours when somebody asks: cells are not stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_kernel import tangent
from dtoss.cells.clipping import FRAME, PAD, SLACK, chord, cut, frame, furthest, plane_area, sphere_area
from dtoss.cells.rim import drawn_rim_cells
from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, shifted


@dataclass(frozen=True, slots=True)
class CellPolygons:
    """The polygons of m cells, counter-clockwise, as flat arrays.

    Parameters
    ----------
    first
        int64 (m + 1,). The vertices of cell i are ``vertices[first[i]:first[i + 1]]``.
    vertices
        float64 (v, dimension): x, y, or unit vectors.
    owner
        int64 (v,). Whose half-plane made the edge from this vertex to the next: a position among the candidates of the
        cell, counted over all cells, or -1 for the bounds.
    length
        float64 (v,). Of the edge from this vertex to the next: CRS units, or the chord.
    area
        float64 (m,). Square CRS units or steradians.
    radius
        float64 (m,). Distance or chord from the site to its furthest vertex.
    """

    first: NDArray[np.int64]
    vertices: NDArray[np.float64]
    owner: NDArray[np.int64]
    length: NDArray[np.float64]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]


@kernel(
    "void(float64[:, ::1], int64[::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], int64[::1], "
    "float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1])"
)
def _shape(centres, first, others, bounds, real, whole, count, vertices, owner, length, area, radius):
    """Cut each cell by its candidates; count -1 marks one that must be cut in 3-D."""
    cells, dimension = centres.shape
    capacity = (real.size - 8) // 5
    r = shifted(pointer(real), PAD)
    u, v, ex, ey, eh = (
        r,
        shifted(r, capacity),
        shifted(r, 2 * capacity),
        shifted(r, 3 * capacity),
        shifted(r, 4 * capacity),
    )
    basis = shifted(pointer(real), 5 * capacity)
    edge = shifted(pointer(whole), PAD)
    filled = 0
    for i in range(cells):
        x, y, z = centres[i, 0], centres[i, 1], 0.0
        if dimension == 3:
            z = centres[i, 2]
            tangent(x, y, z, basis)
            m = frame(u, v, ex, ey, eh, edge, -FRAME, -FRAME, FRAME, FRAME)
        else:
            m = frame(u, v, ex, ey, eh, edge, bounds[0] - x, bounds[1] - y, bounds[2] - x, bounds[3] - y)
        for t in range(first[i], first[i + 1]):
            a, b, c = others[t, 0] - x, others[t, 1] - y, 0.0
            dx, dy = a, b
            if dimension == 3:
                c = others[t, 2] - z
                dx = a * basis[0] + b * basis[1] + c * basis[2]
                dy = a * basis[3] + b * basis[4] + c * basis[5]
            distance2 = a * a + b * b + c * c
            if distance2 > 0.0:
                size = cut(u, v, ex, ey, eh, edge, m, dx, dy, 0.5 * distance2, t, SLACK * distance2)
                if size > 0:
                    m = size
        framed = False
        for j in range(m):
            if edge[j] < 0:
                framed = True
        if framed and dimension == 3:
            count[i] = -1
            continue
        for j in range(m):
            owner[filled] = max(edge[j], -1)
            after = j + 1 if j + 1 < m else 0
            # from the site, where coordinates are small: large ones have lost the last digits
            gap = (u[after] - u[j]) ** 2 + (v[after] - v[j]) ** 2
            if dimension == 2:
                vertices[filled, 0], vertices[filled, 1] = x + u[j], y + v[j]
                length[filled] = np.sqrt(gap)
            else:
                f = 1.0 / np.sqrt(1.0 + u[j] * u[j] + v[j] * v[j])
                vertices[filled, 0] = f * (x + u[j] * basis[0] + v[j] * basis[3])
                vertices[filled, 1] = f * (y + u[j] * basis[1] + v[j] * basis[4])
                vertices[filled, 2] = f * (z + u[j] * basis[2] + v[j] * basis[5])
                # two points at angles a, b from each other's direction: |A/|A| - B/|B||^2 without cancellation
                size = np.sqrt((1.0 + u[j] * u[j] + v[j] * v[j]) * (1.0 + u[after] * u[after] + v[after] * v[after]))
                cross = u[j] * v[after] - v[j] * u[after]
                sine2 = (gap + cross * cross) / (size * size)
                cosine = (1.0 + u[j] * u[after] + v[j] * v[after]) / size
                length[filled] = np.sqrt(sine2 / (0.5 * (1.0 + cosine)))
            filled += 1
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

    Parameters
    ----------
    centres
        (m, dimension). The sites whose cells are made.
    first
        int64 (m + 1,). The candidates of cell i are ``others[first[i]:first[i + 1]]``; copies of the site are passed
        over.
    others
        (c, dimension).
    bounds
        Plane only: xmin, ymin, xmax, ymax.

    Notes
    -----
    On the sphere a site without candidates has no vertices and the area of the whole sphere; edges are great-circle
    arcs, and arcs of a hemisphere's rim are cut in quarters. Cost O(candidates x vertices).
    """
    cells, dimension = centres.shape
    centres, others = operand(centres), operand(others)
    first = operand(first, dtype=np.int64)
    degree = np.diff(first)
    capacity = int(degree.max(initial=0)) + 8 + 2 * PAD
    real, whole = np.empty(5 * capacity + 8), np.empty(capacity, np.int64)
    room = len(others) + 4 * cells
    count, owner, length = np.zeros(cells, np.int64), np.empty(room, np.int64), np.empty(room)
    vertices = np.empty((room, dimension))
    area, radius = np.zeros(cells), np.zeros(cells)
    box = np.zeros(4) if bounds is None else operand(bounds, dtype=np.float64)
    _shape(centres, first, others, box, real, whole, count, vertices, owner, length, area, radius)
    far = np.flatnonzero(count < 0)
    count[far] = 0
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    made = int(start[-1])
    if len(far) == 0:
        return CellPolygons(start, vertices[:made], owner[:made], length[:made], area, radius)
    runs = degree[far]
    mine = np.repeat(first[far] - np.concatenate([[0], np.cumsum(runs)[:-1]]), runs) + np.arange(runs.sum())
    drawn = drawn_rim_cells(centres[far], np.concatenate([[0], np.cumsum(runs)]).astype(np.int64), others[mine])
    count[far] = drawn.corner_count
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
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
