"""A tree of rectangles that stands still: packed along a curve, and looked through by many rectangles at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.row_runs import offsets

_FAN = 8
"""Rectangles below a node."""
_NORTH = 3
_DEEPEST = 24
"""Levels of 8^24 rectangles: more than there are."""


class RectTree(NamedTuple):
    """Rectangles, and those around eight of them, and so on up to one."""

    order: NDArray[np.int64]  # int64 (n,). The rectangles as they stand at the lowest level
    boxes: NDArray[np.float64]  # float64 (nodes, 4). Level after level, the lowest first: the least x and y, the most
    first: NDArray[np.int64]  # int64 (levels + 1,). Level l has the boxes ``first[l]:first[l + 1]``


def tree_of(rects: NDArray[np.float64]) -> RectTree:
    """Return the tree of rectangles (n, 4): the least x and y, the greatest x and y. Cost O(n)."""
    middles = operand((rects[:, :2] + rects[:, 2:]) / 2.0)
    order = radix_order(curve_keys(middles)).astype(np.int64) if len(rects) else np.zeros(0, np.int64)
    levels = [operand(rects[order])]
    while len(levels[-1]) > 1:
        below = levels[-1]
        at = np.arange(0, len(below), _FAN)
        levels.append(
            np.concatenate([np.minimum.reduceat(below[:, :2], at), np.maximum.reduceat(below[:, 2:], at)], axis=1)
        )
    first = offsets([*map(len, levels)])
    return RectTree(order, operand(np.concatenate(levels)), first)


def count_met(tree: RectTree, asked: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many rectangles each of others (m, 4) has a place in common with, int64 (m,)."""
    counts = np.zeros(len(asked), np.int64)
    if len(tree.order):
        _walk(operand(asked), *tree, np.zeros(0, np.int64), counts, np.zeros(0, np.int64))
    return counts


def list_met(tree: RectTree, asked: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rectangles that each of others (m, 4) has a place in common with, of which :func:`count_met` told."""
    found = np.empty(int(counts.sum()), np.int64)
    if len(found):
        _walk(operand(asked), *tree, np.cumsum(counts) - counts, np.zeros(0, np.int64), found)
    return found


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _walk(asked: Any, order: Any, boxes: Any, first: Any, begins: Any, counts: Any, found: Any) -> None:
    """Count what each rectangle meets, or where it is known where its numbers begin, write them."""
    nodes, heights = np.empty(_FAN * _DEEPEST, np.int64), np.empty(_FAN * _DEEPEST, np.int64)
    for i in range(asked.shape[0]):
        nodes[0], heights[0] = 0, first.size - 2
        waiting, met = 1, 0
        while waiting:
            waiting -= 1
            node, height = nodes[waiting], heights[waiting]
            at = first[height] + node
            if boxes[at, 0] > asked[i, 2] or boxes[at, 2] < asked[i, 0]:
                continue
            if boxes[at, 1] > asked[i, _NORTH] or boxes[at, _NORTH] < asked[i, 1]:
                continue
            if height == 0:
                if begins.size:
                    found[begins[i] + met] = order[node]
                met += 1
                continue
            begin, below = node * _FAN, first[height] - first[height - 1]
            for child in range(begin, min(begin + _FAN, below)):
                nodes[waiting], heights[waiting] = child, height - 1
                waiting += 1
        if not begins.size:
            counts[i] = met
