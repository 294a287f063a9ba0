"""What questions read of leaves: ranges and bytes, by the same boxes, times and gaps as the reader goes by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand, step
from dtoss.history.data_file import READ_OVER
from dtoss.history.query.block_queries import first_since
from dtoss.history.questions import Questions
from dtoss.history.row_blocks import BLOCK_ROWS


@dataclass(frozen=True, slots=True)
class Prices:
    """What reading and writing cost, all in bytes."""

    request: float  # As many bytes could be read in the time of one request: g
    gap: int = READ_OVER  # Bytes between two blocks that are read over
    block_rows: int = BLOCK_ROWS  # Rows of a block at the most
    least: float = 2**20  # Bytes of a leaf, below which none is cut

    def to_rewrite(self, size: float) -> float:
        """Return what rewriting so many bytes costs: a request, read once, written at twice the price of reading."""
        return self.request + 3.0 * size


@dataclass(frozen=True)
class Run:
    """Blocks that lie one behind the other in a file, by ascending times: those of a leaf."""

    t_from: NDArray[np.float64]  # float64 (n,), ascending both
    t_to: NDArray[np.float64]  # float64 (n,), ascending both
    low: NDArray[np.float64]  # float64 (n, dimension). Boxes of vectors
    high: NDArray[np.float64]  # float64 (n, dimension). Boxes of vectors
    bytes: NDArray[np.int64]  # int64 (n,)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return int(self.bytes.sum())


@dataclass(frozen=True)
class Points:
    """Rows as the decisions see them, by ascending times."""

    t: NDArray[np.float64]  # float64 (n,), ascending
    positions: NDArray[np.float64]  # float64 (n, 2)
    vectors: NDArray[np.float64]  # float64 (n, dimension). NaN for deletions, which no question is answered with
    row_bytes: float  # What a row takes in a file, in the mean

    def __len__(self) -> int:
        return len(self.t)


def run_of(points: Points, rows: NDArray[np.int64], prices: Prices) -> Run:
    """Return the blocks that some rows, by ascending numbers, would make as a leaf of their own; O(rows)."""
    count = -(-len(rows) // prices.block_rows)
    starts = np.append(np.arange(count, dtype=np.int64) * len(rows) // max(count, 1), len(rows))
    dimension = points.vectors.shape[1]
    low, high = np.full((count, dimension), np.inf), np.full((count, dimension), -np.inf)
    _boxes(points.vectors, rows, starts, low, high)
    size = np.rint(np.diff(starts) * points.row_bytes).astype(np.int64)
    return Run(points.t[rows[starts[:-1]]], points.t[rows[starts[1:] - 1]], low, high, size)


def reads_of(run: Run, questions: Questions, prices: Prices) -> NDArray[np.int64]:
    """Return how many ranges and bytes each question reads of a run, int64 (m, 2). Cost O(m blocks) at the worst."""
    out = np.zeros((len(questions), 2), np.int64)
    _reads(*_blocks(run), operand(run.bytes), *_pieces(questions), prices.gap, out)
    return out


def asking(run: Run, questions: Questions, prices: Prices) -> NDArray[np.int64]:
    """Return the rows of questions that may read a run: those that meet the box and the interval around all of it."""
    if not len(run.bytes):
        return np.zeros(0, np.int64)
    box = run.low.min(axis=0)[None, :], run.high.max(axis=0)[None, :]
    outline = Run(run.t_from[:1], run.t_to[-1:], *box, np.array([run.size]))
    return np.flatnonzero(reads_of(outline, questions, prices)[:, 0])


def cost_of(reads: NDArray[np.int64], prices: Prices) -> NDArray[np.float64]:
    """Return what reads cost, float64 (m,): a request for each range, and its bytes."""
    return np.asarray(reads[:, 0] * prices.request + reads[:, 1])


def matched_rows(points: Points, run: Run, questions: Questions) -> NDArray[np.int64]:
    """Return how many rows of a run answer each question, int64 (m,): no more than reading it costs.

    ``points``: the rows of the run, all of them, in its order.
    """
    out = np.zeros(len(questions), np.int64)
    _matched(operand(points.t), operand(points.vectors), *_pieces(questions), out)
    return out


def wasted_bytes(reads: NDArray[np.int64], matched: NDArray[np.int64], row_bytes: float, block_rows: int) -> float:
    """Return how many bytes questions read beyond the blocks that their answers fill.

    ``reads``: int64 (m, 2). Ranges and bytes; ``matched``: int64 (m,). Rows of their answers there.
    """
    needed = -(-matched // block_rows) * block_rows * row_bytes
    return float(np.maximum(reads[:, 1] - needed, 0.0).sum())


def _blocks(run: Run) -> tuple[NDArray[np.float64], ...]:
    return operand(run.t_from), operand(run.t_to), operand(run.low), operand(run.high)


def _pieces(asked: Questions) -> tuple[NDArray[np.float64] | NDArray[np.int64], ...]:
    parts = (asked.first, asked.last, asked.begin, asked.low, asked.high, asked.reach)
    return tuple(operand(part) for part in parts)


@kernel("void(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def _boxes(vectors, rows, starts, low, high):
    """Widen the box of each block by the vectors of its rows; NaN widens none."""
    for block in range(low.shape[0]):
        for i in range(starts[block], starts[block + 1]):
            for axis in range(vectors.shape[1]):
                value = vectors[rows[i], axis]
                if value < low[block, axis]:
                    low[block, axis] = value
                if value > high[block, axis]:
                    high[block, axis] = value


@step
def _asks(low, high, i, begin, piece_low, piece_high, reach, question):
    """Return whether a box comes as near to a piece of a question as it reaches; an empty box never does."""
    met = begin[question] == begin[question + 1]
    for j in range(begin[question], begin[question + 1]):
        total = 0.0
        for axis in range(low.shape[1]):
            gap = max(low[i, axis] - piece_high[j, axis], piece_low[j, axis] - high[i, axis], 0.0)
            total += gap * gap
        if total <= reach[j] * reach[j]:
            met = True
            break
    return met


@kernel(
    "void(float64[::1], float64[::1], float64[:, ::1], float64[:, ::1], int64[::1], float64[::1], float64[::1], "
    "int64[::1], float64[:, ::1], float64[:, ::1], float64[::1], int64, int64[:, ::1])"
)
def _reads(t_from, t_to, low, high, size, first, last, begin, piece_low, piece_high, reach, gap, out):
    for question in range(first.size):
        ranges, total, between = 0, 0, -1
        for i in range(first_since(t_to, 0, t_to.size, first[question]), t_from.size):
            if t_from[i] > last[question]:
                break
            if not _asks(low, high, i, begin, piece_low, piece_high, reach, question):
                if between >= 0:
                    between += size[i]
                continue
            if between < 0 or between > gap:
                ranges += 1
            else:
                total += between
            total += size[i]
            between = 0
        out[question, 0], out[question, 1] = ranges, total


@kernel(
    "void(float64[::1], float64[:, ::1], float64[::1], float64[::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[::1], int64[::1])"
)
def _matched(t, vectors, first, last, begin, piece_low, piece_high, reach, out):
    for question in range(first.size):
        for i in range(first_since(t, 0, t.size, first[question]), t.size):
            if t[i] > last[question]:
                break
            if vectors[i, 0] == vectors[i, 0] and _asks(
                vectors, vectors, i, begin, piece_low, piece_high, reach, question
            ):
                out[question] += 1
