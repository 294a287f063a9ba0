"""One cell in one kernel, which says whether all of its edges are beyond doubt: most need no exact arithmetic."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_arguments import outline_in
from dtoss.cells.cell_polygons import POLYGON_COLUMNS, cut_all, draw
from dtoss.cells.edge_doubt import NEARLY
from dtoss.cells.half_planes import PAD, chord, furthest, is_framed, plane_area, sphere_area
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import part_of, pointer
from dtoss.geometry.distance import SPHERE, Place
from dtoss.geometry.rounding import EDGE_DOUBT

MOST_LISTED = 64
"""Candidates of a cell up to which it is drawn here."""
VERTICES = MOST_LISTED + 8
DRAWN_ROOM = (VERTICES + 2 * PAD) * POLYGON_COLUMNS + 2 * SPHERE
"""Numbers of the workspace of floats; that of whole numbers needs fewer."""
CROWDED = 1e-14
"""Chord, 64 nm or 100 ulps, within which rounding decides which sites cut each other's cells."""
CLEAR = 2.0
"""How far from doubt an edge has to be: doubt itself is some thousand times what rounding makes."""
CORNER_DOUBT = 1e-15
"""Share of the largest coordinate within which a line goes by a corner."""
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
    sure: Any


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
def _stay(site, sketch, kept, count, m, radius):
    """Note of which edges it is sure that rounding cannot make them go, of ``count`` that are kept of m."""
    this, before = _normal(site, sketch, kept[0], m), _normal(site, sketch, kept[count - 1], m)
    sine, cosine = _turn(this, before)
    for t in range(count):
        i = kept[t]
        after = _normal(site, sketch, kept[t + 1 if t + 1 < count else 0], m)
        sine_on, cosine_on = _turn(after, this)
        if sketch.owner[i] >= 0:
            # the lines of the edges before and after meet behind this one, as far as the sine of both turns is positive
            behind = max(sine * cosine_on + cosine * sine_on, 0.0)
            rough = CLEAR * EDGE_DOUBT * max(this[_GAP], radius)
            far_enough = sketch.length[i] * sine * sine_on > rough * behind
            sketch.sure[sketch.owner[i]] = 1 if far_enough else 0
        this, sine, cosine = after, sine_on, cosine_on


@kernel
def _pass_by(site, sketch, i, m, radius):
    """Take back what is sure of the edges at corners by which the line of candidate i goes, which has no edge."""
    others, vertices, dimension = sketch.others, sketch.vertices, site.dimension
    x, y, z = others[i * dimension] - site.x, others[i * dimension + 1] - site.y, 0.0
    if dimension == SPHERE:
        z = others[i * dimension + 2] - site.z
    gap = np.sqrt(x * x + y * y + z * z)
    for j in range(m):
        at = j * dimension
        a, b, c = vertices[at], vertices[at + 1], 0.0
        if dimension == SPHERE:
            c = vertices[at + 2]
            depth = (a * x + b * y + c * z) / gap
        else:
            depth = ((a - site.x) * x + (b - site.y) * y) / gap - 0.5 * gap
        rough = max(EDGE_DOUBT * max(gap, radius), CORNER_DOUBT * max(abs(a), abs(b), abs(c)))
        if not depth < -CLEAR * rough:
            for edge in (j, j - 1 if j > 0 else m - 1):
                if sketch.owner[edge] >= 0:
                    sketch.sure[sketch.owner[edge]] = 0


@kernel
def _judge(site, sketch, kept, count, m, radius, shortest):
    """Fill which candidates have an edge that counts, beyond doubt: one edge, longer than what counts, and it stays.

    As in :mod:`dtoss.cells.edge_doubt`, but that what is sure is so by twice as much. Returns whether all have.
    """
    for i in range(count):
        sketch.sure[i] = 0
    long = 0
    for i in range(m):
        if sketch.length[i] > shortest:
            kept[long] = i
            long += 1
    if long > 0:
        _stay(site, sketch, kept, long, m, radius)
    clear = True
    for i in range(count):
        total, edges = 0.0, 0
        for j in range(m):
            if sketch.owner[j] == i:
                total += sketch.length[j]
                edges += 1
        if edges != 1 or not total > shortest * NEARLY * NEARLY:
            sketch.sure[i] = 0
        if not total > shortest * NEARLY:
            _pass_by(site, sketch, i, m, radius)
    for i in range(count):
        clear = clear and sketch.sure[i] == 1
    return clear


@kernel(
    "Tuple((int64, boolean, float64))(float64, float64, float64, float64[:, ::1], float64[::1], float64, float64[::1], "
    "int64[::1], float64[::1], float64[:, ::1], int64[::1], uint8[::1])"
)
def draw_cell(x, y, z, others_, bounds, shortest, real, whole, length, vertices, owner, sure):
    """Fill the vertices of a cell and the owners of its edges, as :func:`dtoss.cells.cell_polygons.shapes` does.

    Returns how many vertices it has, whether all candidates have an edge that counts beyond doubt, and its area. The
    first is :data:`NOT_DRAWN` where candidates are crowded, and where the cell reaches so far on the sphere that it is
    cut in 3-D.

    ``others_``: float64 (c, dimension). Its candidates, at most :data:`MOST_LISTED`; ``bounds``: float64 (4,). Those of
    the plane; ``shortest``: the length up to which an edge does not count; ``length``: float64 (c + 4,). Of the edges;
    ``vertices``: float64 (c + 4, dimension); ``owner``: int64 (c + 4,). A candidate, or -1 for the bounds; ``sure``:
    uint8 (c,). Whether a candidate has an edge that counts, beyond doubt.
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
    sketch = Sketch(others, pointer(vertices), pointer(owner), pointer(length), pointer(sure))
    kept = part_of(pointer(whole), room, VERTICES)
    return m, _judge(site, sketch, kept, count, m, radius, shortest), area


class Drawn(NamedTuple):
    """A cell of c candidates."""

    vertices: NDArray[np.float64]  # float64 (v, dimension), as in :class:`dtoss.cells.cell_polygons.CellPolygons`
    owner: NDArray[np.int64]  # int64 (v,). The candidate behind the edge from each vertex, -1 for the bounds
    area: float  # Square CRS units or steradians
    clear: bool  # Whether each candidate has an edge that counts, beyond doubt
    sure: NDArray[np.bool_]  # bool (c,). Which of them have
    length: NDArray[np.float64]  # float64 (v,). Of the edge from each vertex
    others: NDArray[np.float64]  # float64 (c, dimension). The candidates

    def length_of(self, candidate: int) -> float:
        """Return the length of the edge of a candidate, 0 where it has none."""
        return float(self.length[self.owner == candidate].sum())


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
    sure = np.empty(count, np.uint8)
    m, clear, area = draw_cell(
        x, y, z[0] if z else 0.0, others, bounds, shortest, real, whole, length, vertices, owner, sure
    )
    return None if m < 0 else Drawn(vertices[:m], owner[:m], area, clear, sure.view(np.bool_), length[:m], others)
