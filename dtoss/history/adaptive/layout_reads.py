"""What questions read of rows that lie in files: of a history's own orders, and of any other layout by its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.history.data_file import READ_OVER
from dtoss.history.query.read_plan import blocks_of, every_block
from dtoss.history.questions import Questions
from dtoss.history.versions import Version


@dataclass(frozen=True)
class Layout:
    """Blocks of files, by file and place in it; arrays of n rows."""

    low: NDArray[np.float64]  # float64 (n, dimension). Boxes of vectors
    high: NDArray[np.float64]  # float64 (n, dimension). Boxes of vectors
    t_from: NDArray[np.float64]  # float64. As times are stored
    t_to: NDArray[np.float64]  # float64. As times are stored
    offset: NDArray[np.int64]  # int64. Where a block is in its file
    bytes: NDArray[np.int64]  # int64. Where a block is in its file
    rows: NDArray[np.int64]  # int64
    file: NDArray[np.int64]  # int64, ascending
    # group, leaf: int64. What is counted apart, such as the period; and the number of the leaf
    group: NDArray[np.int64]
    leaf: NDArray[np.int64]
    groups: int = 1  # How many groups there are

    def __len__(self) -> int:
        return len(self.bytes)


def order_of(version: Version, order: int) -> Layout:
    """Return the blocks of one order of a version; its groups are the version's periods. Cost O(blocks)."""
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

    ``questions``: m of them; one without pieces asks about everywhere; ``gap``: bytes between two blocks that are read
    over, and count.
    """
    out = np.zeros((len(questions), layout.groups, 2), np.int64)
    where = (operand(layout.offset), operand(layout.bytes), operand(layout.file), operand(layout.group))
    for begin, met in _met(layout, questions):
        _reads(met, *where, gap, out[begin : begin + len(met)])
    return out


def leaf_rows(
    layout: Layout,
    questions: Questions,
    leaves: int,
    used: NDArray[np.bool_] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return how many rows questions read of each leaf, together, float64 (leaves,). Cost as :func:`layout_reads`.

    ``used``: bool (m, groups). Which groups a question reads in this layout; all when None; ``weights``: float64 (m,).
    What each counts; 1 when None.
    """
    reads = np.ones((len(questions), layout.groups), np.bool_) if used is None else used
    counts = np.ones(len(questions)) if weights is None else weights
    out = np.zeros(leaves)
    rows, group, leaf = operand(layout.rows), operand(layout.group), operand(layout.leaf)
    for begin, met in _met(layout, questions):
        end = begin + len(met)
        _rows(met, rows, group, leaf, operand(reads[begin:end]), operand(counts[begin:end]), out)
    return out


_AT_ONCE = 1 << 24
"""Questions times blocks that are looked at together: so many bytes."""


def _met(layout: Layout, asked: Questions) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Yield the first of some questions and which blocks can hold answers of them, bool (some, n).

    A block without positions never can, but where all places are asked about.
    """
    boxes = tuple(operand(part) for part in (layout.low, layout.high, layout.t_from, layout.t_to))
    pieces = tuple(operand(part) for part in (asked.low, asked.high, asked.reach))
    some = max(_AT_ONCE // max(len(layout), 1), 1)
    for begin in range(0, len(asked), some):
        spans = (operand(part[begin : begin + some]) for part in (asked.first, asked.last))
        met = np.zeros((len(asked.first[begin : begin + some]), len(layout)), np.bool_)
        _meet(*boxes, *spans, operand(asked.begin[begin : begin + some + 1]), *pieces, met)
        yield begin, met


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64[::1], float64[::1], int64[::1], "
    "float64[:, ::1], float64[:, ::1], float64[::1], boolean[:, ::1])"
)
def _meet(low, high, t_from, t_to, first, last, begin, piece_low, piece_high, reach, met):
    # all in one loop: a call for each block would count references to twelve arrays, ten times the work
    for question in range(first.size):
        everywhere = begin[question] == begin[question + 1]
        for i in range(t_from.size):
            if t_from[i] > last[question] or t_to[i] < first[question]:
                continue
            met[question, i] = everywhere
            for j in range(begin[question], begin[question + 1]):
                room = reach[j] * reach[j]
                for axis in range(low.shape[1]):
                    gap = max(low[i, axis] - piece_high[j, axis], piece_low[j, axis] - high[i, axis])
                    if gap > 0.0:
                        room -= gap * gap
                if room >= 0.0:
                    met[question, i] = True
                    break


@kernel("void(boolean[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[:, :, ::1])")
def _reads(met, offset, size, file, group, gap, out):
    for question in range(met.shape[0]):
        before = -1
        for i in range(met.shape[1]):
            if not met[question, i]:
                continue
            apart = gap + 1
            if before >= 0 and file[before] == file[i] and group[before] == group[i]:
                apart = offset[i] - offset[before] - size[before]
            if apart > gap:
                out[question, group[i], 0] += 1
                apart = 0
            out[question, group[i], 1] += size[i] + apart
            before = i


@kernel("void(boolean[:, ::1], int64[::1], int64[::1], int64[::1], boolean[:, ::1], float64[::1], float64[::1])")
def _rows(met, rows, group, leaf, used, weights, out):
    for question in range(met.shape[0]):
        for i in range(met.shape[1]):
            if met[question, i] and used[question, group[i]]:
                out[leaf[i]] += weights[question] * rows[i]
