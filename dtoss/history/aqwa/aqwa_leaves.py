"""Where the paper's method cuts leaves that are there already: what ``adapt(method="aqwa")`` does with a period."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.history.aqwa.aqwa_grid import GRID_LINES, Grid, Rectangle
from dtoss.history.aqwa.aqwa_partitions import Aqwa, MadeCut, Rule
from dtoss.history.aqwa.grid_counts import PointCounts, QueryCounters

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PaperCuts:
    """What becomes of leaves: the cuts in their order, and the cells of those that are there at the end."""

    cuts: tuple[MadeCut, ...]  # By number of leaf: those given are 0, 1, ...; halves are numbered on from there
    at: Floats  # Where each cut is, on x or y, float64 (cuts,); a row at the line itself belongs to the first half
    # Number of leaf to its least x, least y, greatest x, greatest y, half-open (x0, x1], of all that stand
    cells: dict[int, tuple[float, float, float, float]]
    saved: Floats  # C_d of each cut by (2): rows that the questions would not have read, by their weights


def grid_of_leaves(cells: Floats, box: ArrayLike, lines: int = GRID_LINES) -> Grid:
    """Return a grid that has even lines across a box, the borders of all leaves, and no end.

    ``cells``: the leaves, float64 (leaves, 4): least x, least y, greatest x, greatest y, half-open (x0, x1], infinite
    where a leaf has no border.
    """
    cells = np.asarray(cells, np.float64).reshape(-1, 4)
    empty = ~((cells[:, 0] < cells[:, 2]) & (cells[:, 1] < cells[:, 3]))
    if empty.any():
        raise ValueError(f"leaf {int(np.argmax(empty))} has the box {cells[np.argmax(empty)].tolist()}, which is empty")
    x0, y0, x1, y1 = np.asarray(box, np.float64)
    ends = [-np.inf, np.inf]
    return Grid(
        np.unique(np.concatenate([np.linspace(x0, x1, lines + 1), cells[:, [0, 2]].ravel(), ends])),
        np.unique(np.concatenate([np.linspace(y0, y1, lines + 1), cells[:, [1, 3]].ravel(), ends])),
    )


def paper_cuts(
    grid: Grid, counts: PointCounts, cells: Floats, boxes: Iterable[ArrayLike], rule: Rule, asked: int = 0
) -> PaperCuts:
    """Return how the paper's method cuts leaves after questions; files are read whole.

    It is the state after the last question: all are counted, with what has faded by then, and the leaf that gains most
    is cut while one pays. So the same questions lead to no cut of the leaves that they have led to.

    ``cells``: the leaves. They share no place; ``boxes``: the questions, oldest first: least x, least y, greatest x,
    greatest y, borders included.

    Examples
    --------
    Nine questions want the lower left corner of 100 rows:

    >>> side = np.arange(10.0)
    >>> places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    >>> world = np.array([[-np.inf, -np.inf, np.inf, np.inf]])
    >>> grid = grid_of_leaves(world, [0, 0, 9, 9], lines=10)
    >>> done = paper_cuts(grid, PointCounts.of(grid, places), world, [[0, 0, 1, 1]] * 9, Rule(least_points=3))
    >>> [(cut.part, cut.first, cut.second, cut.points) for cut in done.cuts], done.saved.tolist()
    ([(0, 1, 2, 100), (1, 3, 4, 20)], [720.0, 144.0])
    >>> done.cells[3]
    (-inf, -inf, 1.8, 1.8)
    """
    cells = np.asarray(cells, np.float64).reshape(-1, 4)
    counters = QueryCounters(grid, rule.fade_every, rule.fading, asked)
    for box in boxes:
        counters.add(grid.touched(box))
    aqwa = Aqwa(grid, counts, [_rectangle(grid, cell) for cell in cells], rule, counters)
    cuts = tuple(aqwa.cut_what_pays())
    return PaperCuts(
        cuts=cuts,
        at=np.array([float((grid.y if cut.across_rows else grid.x)[cut.line]) for cut in cuts]),
        cells={number: grid.box(aqwa.rectangle(number)) for number in aqwa.numbers.tolist()},
        saved=np.array([cut.saved for cut in cuts]),
    )


def _rectangle(grid: Grid, cell: Floats) -> Rectangle:
    left, right = np.searchsorted(grid.x, cell[[0, 2]])
    top, bottom = np.searchsorted(grid.y, cell[[1, 3]])
    return Rectangle(int(top), int(left), int(bottom), int(right))
