"""The leaves of a box tree near one of them, nearest first: where the kernel of cells looks for what cuts a cell."""

from __future__ import annotations

import numpy as np

from dtoss.cells.box_tree import FAN, LEAF
from dtoss.cells.clipping import lanes_in
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, equal, lanes_at, larger, put_lanes, splat
from dtoss.compiled.pointers import bits_set, shifted

ALL = 255
"""The byte of a leaf whose sites are all settled."""
NEAR = 128
"""Leaves listed for one parent node at the most."""
LIST = 48
"""Leaves kept of these for one leaf, the nearest first."""
REACH = 2.0
"""Half-width of the first ring, in mean distances between sites."""


@kernel
def box_gap(low, high, a, b, dimension):
    """Return the squared distance between the boxes of two nodes."""
    gap = 0.0
    for axis in range(dimension):
        d = max(
            low[a * dimension + axis] - high[b * dimension + axis],
            low[b * dimension + axis] - high[a * dimension + axis],
        )
        if d > 0:
            gap += d * d
    return gap


@kernel
def box_gaps(boxes, room, dimension, x0, x1, y0, y1, z0, z1):
    """Return the squared distances of eight boxes from one; column k of ``boxes`` begins at ``k * room``."""
    none = splat(0.0)
    d = larger(larger(lanes_at(boxes, 0) - x1, x0 - lanes_at(boxes, room)), none)
    gaps = d * d
    d = larger(larger(lanes_at(boxes, 2 * room) - y1, y0 - lanes_at(boxes, 3 * room)), none)
    gaps = gaps + d * d
    if dimension == 3:
        d = larger(larger(lanes_at(boxes, 4 * room) - z1, z0 - lanes_at(boxes, 5 * room)), none)
        gaps = gaps + d * d
    return gaps


@kernel
def _leaves_near(starts, levels, low, high, dimension, node, gap, found, stack, level_of):
    """List the leaves whose box lies within sqrt(gap) of a node's box; -1 if there are more than NEAR."""
    stack[0] = starts[levels] - 1
    level_of[0] = levels - 1
    waiting = 1
    count = 0
    while waiting > 0:
        waiting -= 1
        at, level = stack[waiting], level_of[waiting]
        if level == 0:
            if count == NEAR:
                return -1
            found[count] = at
            count += 1
            continue
        first = starts[level - 1] + (at - starts[level]) * FAN
        for child in range(first, min(starts[level], first + FAN)):
            if box_gap(low, high, child, node, dimension) <= gap:
                stack[waiting] = child
                level_of[waiting] = level - 1
                waiting += 1
    return count


@kernel
def list_near(starts, levels, low, high, dimension, own, node, found, boxes, stack, level_of):
    """List the leaves near the node over leaf ``own`` and fill the columns of their boxes.

    Returns how many there are, and the squared distance from the node within which none is missing; -1 where that is
    not known.
    """
    diagonal = 0.0
    for axis in range(dimension):
        side = high[node * dimension + axis] - low[node * dimension + axis]
        diagonal += side * side
    gap = REACH * REACH * diagonal / (LEAF * FAN)
    near = -1
    for _ in range(3):
        near = _leaves_near(starts, levels, low, high, dimension, node, gap, found, stack, level_of)
        if near >= 0:
            break
        gap *= 0.125
    if near < 0:
        # the box of this node covers other nodes' sites; its own leaves come first and the tree does the rest
        gap = -1.0
        near = 0
        first = own // FAN * FAN
        for other in range(first, min(first + FAN, starts[1])):
            found[near] = other
            near += 1
    for i in range(near):
        for axis in range(dimension):
            boxes[2 * axis * NEAR + i] = low[found[i] * dimension + axis]
            boxes[(2 * axis + 1) * NEAR + i] = high[found[i] * dimension + axis]
    return near, gap


@kernel
def list_leaves(
    low,
    high,
    dimension,
    leaf,
    near,
    within,
    found,
    boxes,
    settled,
    first_leaf,
    last_leaf,
    candidate,
    gap_of,
    listed,
    list_gap,
    list_boxes,
):
    """List those of the leaves found that are not settled, by distance from one of them, which comes first.

    ``settled`` are the bytes of the leaves from ``first_leaf`` to ``last_leaf``. Returns how many are listed, and the
    squared distance within which none is missing.
    """
    at = leaf * dimension
    z0, z1 = (low[at + 2], high[at + 2]) if dimension == 3 else (0.0, 0.0)
    for i in range(0, near, WIDTH):
        lanes = box_gaps(shifted(boxes, i), NEAR, dimension, low[at], high[at], low[at + 1], high[at + 1], z0, z1)
        put_lanes(gap_of, i, lanes)
    # others as near as the limit are not known here: left to the tree
    limit = within if within >= 0.0 else np.inf
    count = 0
    for i in range(near):
        gap = gap_of[i]
        other = found[i]
        if gap < limit and not (first_leaf <= other < last_leaf and settled[other - first_leaf] == ALL):
            gap_of[count] = gap if other != leaf else -1.0
            candidate[count] = i
            count += 1
    for i in range(count):
        rank = 0
        gap = splat(gap_of[i])
        for t in range(0, count, WIDTH):
            lanes = lanes_at(gap_of, t)
            ties = equal(lanes, gap) & ((1 << min(max(i - t, 0), WIDTH)) - 1)
            rank += bits_set((above(gap, lanes) | ties) & lanes_in(count, t))
        if rank < LIST:
            other = candidate[i]
            listed[rank] = found[other]
            list_gap[rank] = gap_of[i]
            for axis in range(2 * dimension):
                list_boxes[axis * LIST + rank] = boxes[axis * NEAR + other]
        elif rank == LIST:
            within = gap_of[i]
    return min(count, LIST), within
