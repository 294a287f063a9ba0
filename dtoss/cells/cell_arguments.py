"""What the kernels of cells hand to each other: what belongs together, made once inside the kernel that Python calls.

Python passes flat arrays by position; a name here costs a kernel nothing, as its fields are registers when compiled.
The workspace of the cell kernel is two of these arrays: what lies where in them is said at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import LIST, NEAR, SIDES
from dtoss.cells.half_planes import PAD
from dtoss.cells.oriented_boxes import NEAREST
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.pointers import part_of, pointer, shift
from dtoss.geometry.distance import SPHERE, Place

STACK = 1024
"""Room for the nodes of the tree that wait."""
_COLUMNS = 9
"""Columns of floats of a polygon: its own five, and four of the discs."""
_U, _V, _EX, _EY, _EH, _X, _Y, _Z, _REACH = range(_COLUMNS)
"""Their places in the workspace."""
_BESIDES = (SIDES + 1) * NEAR + (SIDES + 1) * LIST + STACK + NEAREST + 2 * SPHERE
"""What the workspace of floats holds besides the polygon."""


class Outline(NamedTuple):
    """The polygon of a cell (``dtoss/cells/half_planes.py``): pointers to its columns, ``PAD`` entries either side."""

    u: Any  # u, v: the vertices, counter-clockwise, in the tangent plane of the site
    v: Any
    ex: Any  # ex, ey, eh: the line ``ex * u + ey * v = eh`` of the edge from each vertex to the next
    ey: Any
    eh: Any
    edge: Any  # int64, the site that the edge belongs to, negative for the starting frame


class Discs(NamedTuple):
    """The influence region: pointers to the centres and squared radii of the discs round the vertices of a cell."""

    x: Any
    y: Any
    z: Any
    reach: Any


class Waiting(NamedTuple):
    """Nodes of a tree that wait, the next one on top: pointers to their numbers, levels, and how far or deep they are.

    How many wait is passed beside it.
    """

    node: Any
    level: Any
    key: Any


class Scratch(NamedTuple):
    """Room for the influence region, and for nodes that wait.

    The latter in the search for what cuts a cell, and in that for the site nearest to a corner.
    """

    discs: Discs
    waiting: Waiting
    nearest: Waiting


class Workpiece(NamedTuple):
    """A cell that is being cut."""

    site: Place  # The place whose cell it is
    basis: Any  # Pointer to two unit vectors that span the tangent plane there; only used on the sphere
    outline: Outline
    positions: Any  # Pointer to the vectors of all sites
    capacity: int  # Vertices that there is room for


class RimWorkpiece(NamedTuple):
    """A cell that is being cut in 3-D (``dtoss/cells/rim_polygon.py``)."""

    site: Place
    basis: Any
    rows: Any  # rows, spare: pointers to the rows of its corners, and to as many that are written meanwhile
    spare: Any
    positions: Any
    capacity: int  # Corners that there is room for


class Corner(NamedTuple):
    """A corner of a cell as boxes along their sites see it (``dtoss/cells/oriented_boxes.py``): ``V`` and ``kappa``."""

    x: float
    y: float
    z: float
    kappa: float


class Nodes(NamedTuple):
    """The upright boxes of all nodes of the tree in curve order: pointers to :class:`dtoss.cells.box_tree.Boxes`."""

    starts: Any
    levels: int
    low: Any
    high: Any
    dimension: int


class Tree(NamedTuple):
    """A tree over sites: the one in curve order, or the one along lines (:class:`dtoss.cells.oriented_boxes.Lines`)."""

    starts: Any  # Pointer to the first node of each of its levels
    levels: int  # How many it has
    sites: int  # How many it has
    # columns, children: pointers to the sites of each leaf, and to the upright boxes of each inner node's children
    columns: Any
    children: Any
    aligned: bool  # Whether it is the one along lines; only then there are ``boxes`` and ``order``
    # boxes, order: pointers to the boxes along the sites of each inner node's children, and to the sites of its leaves
    boxes: Any
    order: Any


class Near(NamedTuple):
    """Leaves near the parent of a leaf: pointers to their numbers and to the columns of their boxes.

    ``candidate`` and ``gap`` are room for places among them and for their distances from one leaf.
    """

    found: Any
    box: Any
    candidate: Any
    gap: Any


class Listed(NamedTuple):
    """Leaves near a leaf, the nearest first: pointers to their numbers, squared distances and columns of boxes."""

    leaf: Any
    gap: Any
    box: Any


class Settled(NamedTuple):
    """The bytes of the leaves from ``first`` to ``last``: a bit for each site that is settled."""

    leaves: Any
    first: int
    last: int


class Search(NamedTuple):
    """Where sites are looked for that cut the cells of a leaf: in the leaves that are listed for it, and in a tree."""

    curve: Tree  # curve, lines: both trees; that along lines may be empty
    lines: Tree
    nodes: Nodes  # The boxes by which leaves were listed
    settled: Settled  # The sites that are passed over
    listed: Listed  # listed, leaves: the leaves that are listed, and how many there are
    leaves: int
    leaf: int  # The one of the cell's own site
    within: float  # Squared distance from it within which all leaves are listed; -1 where these are its parent's alone


class Earlier(NamedTuple):
    """The sites cut before that have a site as a neighbour: pointers to ``EARLIER`` of each, and how many there are."""

    site: Any
    count: Any


class Made(NamedTuple):
    """What is made of each cell: pointers, as in :class:`dtoss.cells.diagram.Diagram`; ``symmetric`` takes doubt."""

    degree: Any
    neighbours: Any
    area: Any
    radius: Any
    rim: Any
    doubt: Any


def workspace(capacity: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the two arrays for polygons of ``capacity`` vertices."""
    room = capacity + 2 * PAD
    real = np.empty(_COLUMNS * room + _BESIDES)
    return real, np.empty(room + 2 * NEAR + LIST + 2 * STACK + 2 * NEAREST, np.int64)


@kernel
def column_of(real, number, room):
    """Return a column of a polygon, behind its ``PAD`` first entries."""
    return shift(part_of(real, number * room, room), PAD)


@step
def outline_in(real, whole, room):
    """Return the outline at the beginning of a workspace: five columns of floats, and one of whole numbers."""
    u, v, ex = column_of(real, _U, room), column_of(real, _V, room), column_of(real, _EX, room)
    return Outline(u, v, ex, column_of(real, _EY, room), column_of(real, _EH, room), column_of(whole, 0, room))


@step
def discs_in(real, room):
    """Return the discs, which follow the outline."""
    x, y, z = column_of(real, _X, room), column_of(real, _Y, room), column_of(real, _Z, room)
    return Discs(x, y, z, column_of(real, _REACH, room))


@step
def parts_of(real_, whole_):
    """Return the parts of a workspace: outline, near and listed leaves, scratch, basis, and its capacity."""
    real, whole = pointer(real_), pointer(whole_)
    room = (real_.size - _BESIDES) // _COLUMNS
    outline, discs = outline_in(real, whole, room), discs_in(real, room)
    at = _COLUMNS * room
    near_box, at = part_of(real, at, SIDES * NEAR), at + SIDES * NEAR
    near_gap, at = part_of(real, at, NEAR), at + NEAR
    list_box, at = part_of(real, at, SIDES * LIST), at + SIDES * LIST
    list_gap, at = part_of(real, at, LIST), at + LIST
    waiting_gap, at = part_of(real, at, STACK), at + STACK
    bound, basis = part_of(real, at, NEAREST), part_of(real, at + NEAREST, 2 * SPHERE)
    at = room
    found, candidate = part_of(whole, at, NEAR), part_of(whole, at + NEAR, NEAR)
    at += 2 * NEAR
    leaf, at = part_of(whole, at, LIST), at + LIST
    node, level = part_of(whole, at, STACK), part_of(whole, at + STACK, STACK)
    at += 2 * STACK
    nearest_node, nearest_level = part_of(whole, at, NEAREST), part_of(whole, at + NEAREST, NEAREST)
    return (
        outline,
        Near(found, near_box, candidate, near_gap),
        Listed(leaf, list_gap, list_box),
        Scratch(discs, Waiting(node, level, waiting_gap), Waiting(nearest_node, nearest_level, bound)),
        basis,
        room - 2 * PAD,
    )
