"""Where the paper's method cuts leaves that are there already: what ``adapt(method="aqwa")`` does with a period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.history.aqwa.counts import PointCounts
from dtoss.history.aqwa.grid import GRID_LINES, Grid, Rectangle
from dtoss.history.aqwa.layout import Aqwa, MadeCut, Rule

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PaperCuts:
    """What became of leaves: the cuts in their order, and the cells of those that are there at the end.

    Parameters
    ----------
    cuts
        By number of leaf: those given are 0, 1, ...; halves are numbered on from there.
    at
        Where each cut is, on x or y, float64 (cuts,); a row at the line itself belongs to the first half.
    cells
        Number of leaf to its least x, least y, greatest x, greatest y, half-open (x0, x1], of all that stand.
    read, rewritten
        Rows that the questions read, and that the cuts rewrote.
    """

    cuts: tuple[MadeCut, ...]
    at: Floats
    cells: dict[int, tuple[float, float, float, float]]
    read: int
    rewritten: int


def paper_cuts(places: Floats, cells: Floats, boxes: Floats, rule: Rule, lines: int = GRID_LINES) -> PaperCuts:
    """Return how the paper's method cuts leaves when it is asked the boxes in turn; files are read whole.

    Parameters
    ----------
    places
        The rows of all leaves, float64 (n, 2).
    cells
        The leaves, float64 (leaves, 4): least x, least y, greatest x, greatest y, half-open (x0, x1], infinite where a
        leaf has no border. They share no place.
    boxes
        The questions, oldest first, float64 (questions, 4), borders included.
    rule
        When and where leaves are cut.
    lines
        Cells an axis of the grid, beside the borders of the leaves.

    Raises
    ------
    ValueError
        If a leaf's box is empty.

    Examples
    --------
    Nine questions want the lower left corner of 100 rows:

    >>> side = np.arange(10.0)
    >>> places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    >>> world = np.array([[-np.inf, -np.inf, np.inf, np.inf]])
    >>> asked = np.tile([0.0, 0.0, 1.0, 1.0], (9, 1))
    >>> done = paper_cuts(places, world, asked, Rule(least_points=9), lines=10)
    >>> [(cut.part, cut.first, cut.second) for cut in done.cuts], sorted(done.cells)
    ([(0, 1, 2), (1, 3, 4)], [2, 3, 4])
    >>> done.read, done.rewritten
    (380, 120)
    """
    cells = np.asarray(cells, np.float64).reshape(-1, 4)
    empty = ~((cells[:, 0] < cells[:, 2]) & (cells[:, 1] < cells[:, 3]))
    if empty.any():
        raise ValueError(f"leaf {int(np.argmax(empty))} has the box {cells[np.argmax(empty)].tolist()}, which is empty")
    grid = Grid(
        _lines(places[:, 0], cells[:, [0, 2]], lines),
        _lines(places[:, 1], cells[:, [1, 3]], lines),
    )
    parts = [_rectangle(grid, cell) for cell in cells]
    aqwa = Aqwa(grid, PointCounts.of(grid, places), parts, rule)
    answers = [aqwa.ask(box) for box in np.asarray(boxes, np.float64).reshape(-1, 4)]
    cuts = tuple(cut for answer in answers for cut in answer.cuts)
    return PaperCuts(
        cuts=cuts,
        at=np.array([float((grid.y if cut.across_rows else grid.x)[cut.line]) for cut in cuts]),
        cells={number: grid.box(aqwa.rectangle(number)) for number in aqwa.numbers.tolist()},
        read=int(sum(answer.points.sum() for answer in answers)),
        rewritten=sum(answer.rewritten for answer in answers),
    )


def _lines(values: Floats, borders: Floats, lines: int) -> Floats:
    """Return lines an axis: even ones between the outermost values, the leaves' borders, and both infinities."""
    even = np.linspace(values.min(), values.max(), lines + 1) if len(values) else np.zeros(0)
    return np.unique(np.concatenate([even, borders.ravel(), [-np.inf, np.inf]]))


def _rectangle(grid: Grid, cell: Floats) -> Rectangle:
    left, right = np.searchsorted(grid.x, cell[[0, 2]])
    top, bottom = np.searchsorted(grid.y, cell[[1, 3]])
    return Rectangle(int(top), int(left), int(bottom), int(right))
