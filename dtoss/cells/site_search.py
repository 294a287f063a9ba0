"""What cells are cut from: the sites in a tree of boxes, and a tree along lines for long cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import Boxes, box_tree, child_columns, leaf_columns
from dtoss.cells.oriented_boxes import Oriented


@dataclass(frozen=True, slots=True)
class Search:
    """What finds the sites that may cut a cell: a tree of boxes, its leaves and inner nodes by coordinate.

    ``oriented`` makes the tree along lines when it is asked for.
    """

    tree: Boxes
    columns: NDArray[np.float64]
    children: NDArray[np.float64]
    oriented: Oriented


def search_of(sites: NDArray[np.float64]) -> Search:
    """Return what finds sites (n, dimension) in curve order, n >= 1. Cost O(n)."""
    tree = box_tree(sites)
    return Search(tree, leaf_columns(sites), child_columns(tree), Oriented(sites))
