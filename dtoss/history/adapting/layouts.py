"""What questions read of rows that lie in files: of a history's own orders, and of any other layout by its blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.history.asking.plan import blocks_of, every_block
from dtoss.history.questions import Questions
from dtoss.history.reading import READ_OVER
from dtoss.history.versions import Version


@dataclass(frozen=True)
class Layout:
    """Blocks of files, by file and place in it; arrays of n rows.

    Parameters
    ----------
    low, high
        float64 (n, dimension). Boxes of vectors.
    t_from, t_to
        float64. As times are stored.
    offset, bytes
        int64. Where a block is in its file.
    rows
        int64.
    file
        int64, ascending.
    group, leaf
        int64. What is counted apart, such as the period; and the number of the leaf.
    groups
        How many groups there are.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    t_from: NDArray[np.float64]
    t_to: NDArray[np.float64]
    offset: NDArray[np.int64]
    bytes: NDArray[np.int64]
    rows: NDArray[np.int64]
    file: NDArray[np.int64]
    group: NDArray[np.int64]
    leaf: NDArray[np.int64]
    groups: int = 1

    def __len__(self) -> int:
        return len(self.bytes)


def order_of(version: Version, order: int) -> Layout:
    """Return the blocks of one order of a version; its groups are the version's periods. Cost O(blocks).

    Parameters
    ----------
    version
        Of the history.
    order
        Its code, by which :data:`dtoss.history.blocks.ORDER_NAMES` has its name.
    """
    leaves = version.leaves
    rows = np.flatnonzero(leaves.order == order)
    rows = rows[np.lexsort((leaves.offset[rows], leaves.file[rows]))]
    chosen = every_block(version, rows)
    blocks = blocks_of(version, chosen)
    return Layout(
        blocks.low,
        blocks.high,
        blocks.t_from.astype(np.float64),
        blocks.t_to.astype(np.float64),
        blocks.offset.astype(np.int64),
        blocks.bytes.astype(np.int64),
        blocks.rows.astype(np.int64),
        chosen.file.astype(np.int64),
        np.searchsorted(version.periods.number, leaves.period[chosen.leaf]).astype(np.int64),
        chosen.leaf.astype(np.int64),
        len(version.periods),
    )


def layout_reads(layout: Layout, questions: Questions, gap: int = READ_OVER) -> NDArray[np.int64]:
    """Return ranges and bytes that each question reads of each group, int64 (m, groups, 2). Cost O(m n) at the worst.

    Parameters
    ----------
    layout
        The blocks.
    questions
        m of them; one without pieces asks about everywhere.
    gap
        Bytes between two blocks that are read over, and count.
    """
    out = np.zeros((len(questions), layout.groups, 2), np.int64)
    _reads(
        *_boxes(layout), operand(layout.offset), operand(layout.bytes), operand(layout.file), operand(layout.group),
        *_pieces(questions), gap, out,
    )  # fmt: skip
    return out


def leaf_rows(
    layout: Layout,
    questions: Questions,
    leaves: int,
    used: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return how many rows questions read of each leaf, together, float64 (leaves,). Cost as :func:`layout_reads`.

    Parameters
    ----------
    layout
        The blocks.
    questions
        m of them.
    leaves
        How many leaves the version has, of all orders.
    used
        bool (m, groups). Which groups a question reads in this layout; all when None.
    weights
        float64 (m,). What each counts; 1 when None.
    """
    reads = np.ones((len(questions), layout.groups), np.bool_) if used is None else used
    counts = np.ones(len(questions)) if weights is None else weights
    out = np.zeros(leaves)
    _rows(
        *_boxes(layout), operand(layout.rows), operand(layout.group), operand(layout.leaf), *_pieces(questions),
        operand(reads), operand(counts), out,
    )  # fmt: skip
    return out


def _boxes(layout: Layout) -> tuple[NDArray[np.float64], ...]:
    return operand(layout.low), operand(layout.high), operand(layout.t_from), operand(layout.t_to)


def _pieces(asked: Questions) -> tuple[NDArray[np.float64] | NDArray[np.int64], ...]:
    parts = (asked.first, asked.last, asked.begin, asked.low, asked.high, asked.reach)
    return tuple(operand(part) for part in parts)


@kernel
def _met(low, high, t_from, t_to, i, first, last, begin, piece_low, piece_high, reach, question):
    """Return whether a block can hold an answer; one without positions never does, but where all places are asked."""
    if t_from[i] > last[question] or t_to[i] < first[question]:
        return False
    if begin[question] == begin[question + 1]:
        return True
    for j in range(begin[question], begin[question + 1]):
        total = 0.0
        for axis in range(low.shape[1]):
            gap = max(low[i, axis] - piece_high[j, axis], piece_low[j, axis] - high[i, axis], 0.0)
            total += gap * gap
        if total <= reach[j] * reach[j]:
            return True
    return False


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], float64[::1], float64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[::1], int64, "
    "int64[:, :, ::1])"
)
def _reads(
    low, high, t_from, t_to, offset, size, file, group, first, last, begin, piece_low, piece_high, reach, gap, out
):
    for question in range(first.size):
        before = -1
        for i in range(size.size):
            if not _met(low, high, t_from, t_to, i, first, last, begin, piece_low, piece_high, reach, question):
                continue
            apart = gap + 1
            if before >= 0 and file[before] == file[i] and group[before] == group[i]:
                apart = offset[i] - offset[before] - size[before]
            if apart > gap:
                out[question, group[i], 0] += 1
                apart = 0
            out[question, group[i], 1] += size[i] + apart
            before = i


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], int64[::1], int64[::1], "
    "float64[::1], float64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[::1], boolean[:, ::1], "
    "float64[::1], float64[::1])"
)
def _rows(
    low, high, t_from, t_to, rows, group, leaf, first, last, begin, piece_low, piece_high, reach, used, weights, out
):
    for question in range(first.size):
        for i in range(rows.size):
            if used[question, group[i]] and _met(
                low, high, t_from, t_to, i, first, last, begin, piece_low, piece_high, reach, question
            ):
                out[leaf[i]] += weights[question] * rows[i]
