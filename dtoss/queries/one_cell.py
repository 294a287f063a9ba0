"""One cell in one kernel, which says whether all of its edges are beyond doubt: most need no exact arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.arguments import outline_in
from dtoss.cells.cell_polygons import POLYGON_COLUMNS, cut_all, draw
from dtoss.cells.clipping import PAD, chord, furthest, is_framed, plane_area, sphere_area
from dtoss.cells.edge_doubt import NEARLY
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.pointers import part_of, pointer
from dtoss.geometry.place import SPHERE, Place
from dtoss.geometry.rounding import EDGE_DOUBT

MOST_LISTED = 64
"""Candidates of a cell up to which it is drawn here."""
VERTICES = MOST_LISTED + 8
DRAWN_ROOM = (VERTICES + 2 * PAD) * POLYGON_COLUMNS + 2 * SPHERE
"""Numbers of the workspace of floats; that of whole numbers needs fewer."""
CROWDED = 1e-14
"""Chord, 64 nm or 100 ulps, within which rounding decides which sites cut each other's cells."""
TWICE = 2.0
"""How far from doubt an edge has to be: doubt itself is some thousand times what rounding makes."""
_GAP = 3
"""Where the distance of the other site stands behind the three numbers of an edge's normal."""
NOT_DRAWN = -1
"""In place of a number of vertices: the cell has to be made in another way."""


class Sketch(NamedTuple):
    """A cell and its candidates: pointers, as :func:`draw_cell` is given the arrays."""

    others: Any
    vertices: Any
    owner: Any
    length: Any


@kernel
def _is_crowded(site, others, count):
    """Return whether any two of a site and the others are so near each other that rounding chose the candidates."""
    for i in range(count):
        at = SPHERE * i
        x, y, z = others[at], others[at + 1], others[at + 2]
        if abs(x - site.x) <= CROWDED and abs(y - site.y) <= CROWDED and abs(z - site.z) <= CROWDED:
            return True
        for j in range(i):
            to = SPHERE * j
            a, b, c = others[to] - x, others[to + 1] - y, others[to + 2] - z
            if abs(a) <= CROWDED and abs(b) <= CROWDED and abs(c) <= CROWDED:
                return True
    return False


@kernel
def _normal(site, sketch, i, m):
    """Return the unit normal of an edge, (x, y, z), and the distance of its site, 0 for one of the bounds."""
    others, z, gap = sketch.others, 0.0, 0.0
    if sketch.owner[i] < 0:
        here, after = 2 * i, 2 * (i + 1 if i + 1 < m else 0)
        x, y = sketch.vertices[after + 1] - sketch.vertices[here + 1], sketch.vertices[here] - sketch.vertices[after]
        size = np.sqrt(x * x + y * y)
    else:
        at = sketch.owner[i] * site.dimension
        x, y = others[at] - site.x, others[at + 1] - site.y
        if site.dimension == SPHERE:
            z = others[at + 2] - site.z
        size = gap = np.sqrt(x * x + y * y + z * z)
    return x / size, y / size, z / size, gap


@kernel
def _turn(a, b):
    """Return sine and cosine of the angle between two unit normals, from how far apart their ends are."""
    x, y, z = a[0] - b[0], a[1] - b[1], a[2] - b[2]
    half = 0.5 * (x * x + y * y + z * z)
    return np.sqrt(half * max(2.0 - half, 0.0)), 1.0 - half


@kernel
def _stays(site, sketch, m, radius):
    """Return whether no edge would be gone if rounding moved it: :mod:`dtoss.cells.edge_doubt`, with room to spare."""
    this = _normal(site, sketch, 0, m)
    sine, cosine = _turn(this, _normal(site, sketch, m - 1, m))
    for i in range(m):
        after = _normal(site, sketch, i + 1 if i + 1 < m else 0, m)
        sine_on, cosine_on = _turn(after, this)
        if sketch.owner[i] >= 0:
            # the lines of the edges before and after meet behind this one, as far as the sine of both turns is positive
            behind = max(sine * cosine_on + cosine * sine_on, 0.0)
            rough = TWICE * EDGE_DOUBT * max(this[_GAP], radius)
            if not sketch.length[i] * sine * sine_on > rough * behind:
                return False
        this, sine, cosine = after, sine_on, cosine_on
    return True


@step
def _is_clear(site, sketch, count, m, radius, shortest):
    """Return whether each candidate has one edge, and all edges are longer than what counts, beyond doubt."""
    clear, owned = True, 0
    for i in range(m):
        mine = sketch.owner[i]
        clear = clear and sketch.length[i] > shortest * NEARLY * NEARLY
        for j in range(i):
            clear = clear and (mine < 0 or sketch.owner[j] != mine)
        owned += 1 if mine >= 0 else 0
    return clear and owned == count and _stays(site, sketch, m, radius)


@kernel(
    "Tuple((int64, boolean, float64))(float64, float64, float64, float64[:, ::1], float64[::1], float64, float64[::1], "
    "int64[::1], float64[::1], float64[:, ::1], int64[::1])"
)
def draw_cell(x, y, z, others_, bounds, shortest, real, whole, length, vertices, owner):
    """Fill the vertices of a cell and the owners of its edges, as :func:`dtoss.cells.cell_polygons.shapes` does.

    Returns how many vertices it has, whether all candidates have an edge that counts beyond doubt, and its area. The
    first is :data:`NOT_DRAWN` where candidates are crowded, and where the cell reaches so far on the sphere that it is
    cut in 3-D.

    Parameters
    ----------
    x, y, z
        The vector of the site; z is 0 in the plane.
    others_
        float64 (c, dimension). Its candidates, at most :data:`MOST_LISTED`.
    bounds
        float64 (4,). Those of the plane.
    shortest
        The length up to which an edge does not count.
    real, whole
        Workspaces of :data:`DRAWN_ROOM` numbers.
    length
        float64 (c + 4,). Of the edges.
    vertices
        float64 (c + 4, dimension).
    owner
        int64 (c + 4,). A candidate, or -1 for the bounds.
    """
    count, dimension = others_.shape
    room = VERTICES + 2 * PAD
    site, others = Place(x, y, z, dimension), pointer(others_)
    outline = outline_in(pointer(real), pointer(whole), room)
    basis = part_of(pointer(real), POLYGON_COLUMNS * room, 2 * SPHERE)
    if dimension == SPHERE and _is_crowded(site, others, count):
        return NOT_DRAWN, False, 0.0
    m = cut_all(outline, site, basis, pointer(bounds), others, 0, count)
    if dimension == SPHERE and is_framed(outline, m):
        return NOT_DRAWN, False, 0.0
    draw(outline, m, site, basis, 0, vertices, owner, length)
    far = furthest(outline.u, outline.v, m)
    radius, area = np.sqrt(far), 0.0
    if dimension == SPHERE:
        radius, area = chord(far), sphere_area(outline.u, outline.v, m)
    else:
        area = plane_area(outline.u, outline.v, m)
    sketch = Sketch(others, pointer(vertices), pointer(owner), pointer(length))
    return m, _is_clear(site, sketch, count, m, radius, shortest), area


@dataclass(frozen=True)
class Drawn:
    """A cell of c candidates.

    Parameters
    ----------
    vertices
        float64 (v, dimension), as in :class:`dtoss.cells.cell_polygons.CellPolygons`.
    owner
        int64 (v,). The candidate behind the edge from each vertex, -1 for the bounds.
    area
        Square CRS units or steradians.
    clear
        Whether each candidate has an edge that counts, beyond doubt.
    """

    vertices: NDArray[np.float64]
    owner: NDArray[np.int64]
    area: float
    clear: bool


def drawn_cell(
    site: NDArray[np.float64], others: NDArray[np.float64], bounds: NDArray[np.float64], shortest: float
) -> Drawn | None:
    """Return the cell of a site (dimension,) of its candidates (c, dimension); None where it is made in another way.

    Cost O(c v), some microseconds.
    """
    count, dimension = others.shape
    if not 0 < count <= MOST_LISTED:
        return None
    x, y, *z = site.tolist()
    real, whole, length = np.empty(DRAWN_ROOM), np.empty(DRAWN_ROOM, np.int64), np.empty(count + 4)
    vertices, owner = np.empty((count + 4, dimension)), np.empty(count + 4, np.int64)
    m, clear, area = draw_cell(x, y, z[0] if z else 0.0, others, bounds, shortest, real, whole, length, vertices, owner)
    return None if m < 0 else Drawn(vertices[:m], owner[:m], area, clear)
