"""A tree of bounding boxes over sites in curve order: which sites are near, however dense the place.

The leaves of a box tree near one of them, nearest first: where the kernel of cells looks for what cuts a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.half_planes import lanes_in
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, equal, lanes_at, larger, put_lanes, splat
from dtoss.compiled.pointers import bits_set, shift
from dtoss.geometry.distance import SPHERE, Place
from dtoss.row_runs import offsets

LEAF = 8
"""Consecutive sites in one leaf."""
CHILDREN = 8
"""Nodes under one node."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of ``LEAF`` consecutive sites, of ``CHILDREN`` such boxes, and so on up to one root."""

    # int64 (levels + 1,). Level l is the nodes ``starts[l]:starts[l + 1]``; level 0 is the leaves
    starts: NDArray[np.int64]
    low: NDArray[np.float64]  # low, high: float64 (nodes, dimension). The corners of each node's box
    high: NDArray[np.float64]


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def _fill(vectors, starts, low, high):
    n, dimension = vectors.shape
    for node in range(starts[1]):
        first = node * LEAF
        last = min(n, first + LEAF)
        for axis in range(dimension):
            a = vectors[first, axis]
            b = a
            for i in range(first + 1, last):
                a = min(a, vectors[i, axis])
                b = max(b, vectors[i, axis])
            low[node, axis] = a
            high[node, axis] = b
    for level in range(1, starts.size - 1):
        for node in range(starts[level], starts[level + 1]):
            first = starts[level - 1] + (node - starts[level]) * CHILDREN
            last = min(starts[level], first + CHILDREN)
            for axis in range(dimension):
                a = low[first, axis]
                b = high[first, axis]
                for i in range(first + 1, last):
                    a = min(a, low[i, axis])
                    b = max(b, high[i, axis])
                low[node, axis] = a
                high[node, axis] = b


def box_tree(vectors: NDArray[np.float64]) -> Boxes:
    """Return the boxes over vectors (n, dimension) in curve order, n >= 1. Cost O(n)."""
    sizes = [-(-len(vectors) // LEAF)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // CHILDREN))
    starts = offsets(sizes)
    low = np.empty((starts[-1], vectors.shape[1]))
    high = np.empty_like(low)
    _fill(vectors, starts, low, high)
    return Boxes(starts, low, high)


@kernel("void(float64[:, ::1], float64[:, :, ::1])")
def _columns(vectors, columns):
    n, dimension = vectors.shape
    for i in range(n):
        for axis in range(dimension):
            columns[i // LEAF, axis, i % LEAF] = vectors[i, axis]
    for i in range(n, columns.shape[0] * LEAF):
        for axis in range(dimension):
            columns[i // LEAF, axis, i % LEAF] = np.inf


def leaf_columns(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sites of each leaf by coordinate, float64 (leaves, dimension, LEAF), padded with infinity."""
    columns = np.empty((-(-len(vectors) // LEAF), vectors.shape[1], LEAF))
    _columns(vectors, columns)
    return columns


@kernel("void(int64[::1], float64[:, ::1], float64[:, ::1], float64[:, :, ::1])")
def _children(starts, low, high, columns):
    leaves, dimension = starts[1], low.shape[1]
    for level in range(1, starts.size - 1):
        for node in range(starts[level], starts[level + 1]):
            first = starts[level - 1] + (node - starts[level]) * CHILDREN
            for lane in range(CHILDREN):
                child = first + lane
                for axis in range(dimension):
                    there = child < starts[level]
                    columns[node - leaves, 2 * axis, lane] = low[child, axis] if there else np.inf
                    columns[node - leaves, 2 * axis + 1, lane] = high[child, axis] if there else -np.inf


def child_columns(tree: Boxes) -> NDArray[np.float64]:
    """Return the boxes of each inner node's children by coordinate, float64 (inner nodes, 2 * dimension, CHILDREN).

    The rows of a node are the low and the high ends of its children in x, then in y, and so on; where there is no
    child the low end is infinity and the high end minus infinity.
    """
    dimension = tree.low.shape[1]
    columns = np.empty((len(tree.low) - int(tree.starts[1]), 2 * dimension, CHILDREN))
    _children(tree.starts, tree.low, tree.high, columns)
    return columns


ALL_SETTLED = 255
"""The byte of a leaf whose sites are all settled."""
NEAR = 128
"""Leaves listed for one parent node at the most."""
LIST = 48
"""Leaves kept of these for one leaf, the nearest first."""
SIDES = 2 * SPHERE
"""Columns of boxes: the low and the high ends in x, then in y, then in z."""
REACH = 2.0
"""Half-width of the first ring, in mean distances between sites."""
_TRIALS, _CLOSER = 3, 0.125
"""Rings that are tried where too many leaves are near, and the squared width of each as a share of the one before."""


@kernel
def box_gap(nodes, a, b):
    """Return the squared distance between the boxes of two nodes."""
    gap = 0.0
    dimension, low, high = nodes.dimension, nodes.low, nodes.high
    for axis in range(dimension):
        d = max(
            low[a * dimension + axis] - high[b * dimension + axis],
            low[b * dimension + axis] - high[a * dimension + axis],
        )
        if d > 0:
            gap += d * d
    return gap


@kernel
def box_gaps(boxes, room, low, high):
    """Return the squared distances of eight boxes from one, of two corners; a column of ``boxes`` has ``room``."""
    none = splat(0.0)
    d = larger(larger(lanes_at(boxes, 0) - high.x, low.x - lanes_at(boxes, room)), none)
    gaps = d * d
    boxes = shift(boxes, 2 * room)
    d = larger(larger(lanes_at(boxes, 0) - high.y, low.y - lanes_at(boxes, room)), none)
    gaps = gaps + d * d
    if low.dimension == SPHERE:
        boxes = shift(boxes, 2 * room)
        d = larger(larger(lanes_at(boxes, 0) - high.z, low.z - lanes_at(boxes, room)), none)
        gaps = gaps + d * d
    return gaps


@kernel
def _end_of(ends, node, dimension):
    """Return the low or the high end of a node's box as a place."""
    at = node * dimension
    return Place(ends[at], ends[at + 1], ends[at + 2] if dimension == SPHERE else 0.0, dimension)


@kernel
def _leaves_near(nodes, node, gap, found, waiting):
    """List the leaves whose box lies within sqrt(gap) of a node's box; -1 if there are more than NEAR."""
    starts, levels = nodes.starts, nodes.levels
    waiting.node[0], waiting.level[0] = starts[levels] - 1, levels - 1
    left = 1
    count = 0
    while left > 0:
        left -= 1
        at, level = waiting.node[left], waiting.level[left]
        if level == 0:
            if count == NEAR:
                return -1
            found[count] = at
            count += 1
            continue
        first = starts[level - 1] + (at - starts[level]) * CHILDREN
        for child in range(first, min(starts[level], first + CHILDREN)):
            if box_gap(nodes, child, node) <= gap:
                waiting.node[left], waiting.level[left] = child, level - 1
                left += 1
    return count


@kernel
def list_near(nodes, own, node, near, waiting):
    """List the leaves near the node over leaf ``own`` and fill the columns of their boxes.

    Returns how many there are, and the squared distance from the node within which none is missing; -1 where that is
    not known.
    """
    dimension, low, high = nodes.dimension, nodes.low, nodes.high
    diagonal = 0.0
    for axis in range(dimension):
        side = high[node * dimension + axis] - low[node * dimension + axis]
        diagonal += side * side
    gap = REACH * REACH * diagonal / (LEAF * CHILDREN)
    count = -1
    for _ in range(_TRIALS):
        count = _leaves_near(nodes, node, gap, near.found, waiting)
        if count >= 0:
            break
        gap *= _CLOSER
    if count < 0:
        # the box of this node covers other nodes' sites; its own leaves come first and the tree does the rest
        gap = -1.0
        count = 0
        first = own // CHILDREN * CHILDREN
        for other in range(first, min(first + CHILDREN, nodes.starts[1])):
            near.found[count] = other
            count += 1
    for i in range(count):
        for axis in range(dimension):
            near.box[2 * axis * NEAR + i] = low[near.found[i] * dimension + axis]
            near.box[(2 * axis + 1) * NEAR + i] = high[near.found[i] * dimension + axis]
    return count, gap


@kernel
def list_leaves(nodes, leaf, near, count, within, settled, listed):
    """List those of the ``count`` near leaves that are not settled, by distance from one of them, which comes first.

    All leaves within the squared distance ``within`` are among them, or there are no others if that is negative.
    Returns how many are listed, and the squared distance within which none is missing.
    """
    dimension = nodes.dimension
    low, high = _end_of(nodes.low, leaf, dimension), _end_of(nodes.high, leaf, dimension)
    for i in range(0, count, WIDTH):
        put_lanes(near.gap, i, box_gaps(shift(near.box, i), NEAR, low, high))
    # others as near as the limit are not known here: left to the tree
    limit = within if within >= 0.0 else np.inf
    open_ = 0
    for i in range(count):
        gap, other = near.gap[i], near.found[i]
        closed = settled.first <= other < settled.last and settled.leaves[other - settled.first] == ALL_SETTLED
        if gap < limit and not closed:
            near.gap[open_] = gap if other != leaf else -1.0
            near.candidate[open_] = i
            open_ += 1
    # each one's rank is how many are nearer, of equals those before it
    for i in range(open_):
        rank = 0
        gap = splat(near.gap[i])
        for t in range(0, open_, WIDTH):
            lanes = lanes_at(near.gap, t)
            ties = equal(lanes, gap) & ((1 << min(max(i - t, 0), WIDTH)) - 1)
            rank += bits_set((above(gap, lanes) | ties) & lanes_in(open_, t))
        if rank < LIST:
            other = near.candidate[i]
            listed.leaf[rank] = near.found[other]
            listed.gap[rank] = near.gap[i]
            for axis in range(2 * dimension):
                listed.box[axis * LIST + rank] = near.box[axis * NEAR + other]
        elif rank == LIST:
            within = near.gap[i]
    return min(open_, LIST), within
