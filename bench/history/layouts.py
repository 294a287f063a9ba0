"""Layouts of the same rows: in which order they lie, where files and blocks end, and what questions read of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.history.worlds import DAY, HOUR, World
from dtoss.compiled.kernel import kernel
from dtoss.geometry.hilbert import curve_keys
from dtoss.history.questions import Questions
from dtoss.history.read_blocks import READ_OVER

WIDE = 122_880
"""Rows of DuckDB's row groups, about ten times those of blocks."""


@dataclass(frozen=True)
class Layout:
    """Blocks of all files, by file and place in it.

    Parameters
    ----------
    low, high
        float64 (n, 3). Boxes: x, y, t.
    bytes
        int64 (n,).
    file
        int64 (n,), ascending.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    bytes: NDArray[np.int64]
    file: NDArray[np.int64]


def laid_out(world: World, order: NDArray[np.int64], file: NDArray[np.int64], block_rows: int) -> Layout:
    """Return rows in an order, cut where the file (of each row in that order, ascending) changes and into blocks."""
    n = len(order)
    fresh = np.flatnonzero(np.append(True, file[1:] != file[:-1]))
    within = np.arange(n) - np.repeat(fresh, np.diff(np.append(fresh, n)))
    starts = np.flatnonzero(within % block_rows == 0)
    seen = np.concatenate([world.xy[order], world.t[order][:, None]], axis=1)
    rows = np.diff(np.append(starts, n))
    return Layout(
        np.minimum.reduceat(seen, starts, axis=0),
        np.maximum.reduceat(seen, starts, axis=0),
        np.rint(rows * world.row_bytes).astype(np.int64),
        file[starts],
    )


def reads(layout: Layout, questions: Questions, gap: int = READ_OVER) -> NDArray[np.int64]:
    """Return ranges and bytes that each question reads, int64 (m, 2)."""
    out = np.zeros((len(questions), 2), np.int64)
    _reads(
        layout.low, layout.high, layout.bytes, layout.file, questions.first, questions.last, questions.begin,
        questions.low, questions.high, questions.reach, gap, out,
    )  # fmt: skip
    return out


def files_whole(layout: Layout) -> Layout:
    """Return files that are read from end to end wherever one of their blocks would be: each is one block."""
    starts = np.flatnonzero(np.append(True, layout.file[1:] != layout.file[:-1]))
    return Layout(
        np.minimum.reduceat(layout.low, starts, axis=0),
        np.maximum.reduceat(layout.high, starts, axis=0),
        np.add.reduceat(layout.bytes, starts),
        layout.file[starts],
    )


def by_time(world: World, every: float, inside: str, block_rows: int) -> Layout:
    """Return files of some seconds each, their rows by "time" or by "hilbert"."""
    file = (world.t // every).astype(np.int64)
    key = world.t if inside == "time" else _hilbert(world)
    order = np.lexsort((key, file)).astype(np.int64)
    return laid_out(world, order, file[order], block_rows)


def by_hilbert(world: World, block_rows: int) -> Layout:
    """Return all rows along the curve of x and y, in files of 128 MB."""
    order = np.argsort(_hilbert(world), kind="stable").astype(np.int64)
    return laid_out(world, order, _even_files(world), block_rows)


def by_z_order(world: World, block_rows: int) -> Layout:
    """Return all rows by the interleaved bits of the ranks of x, y and t, as Delta's ZORDER BY has them."""
    bits = 20
    key = np.zeros(len(world.t), np.uint64)
    for place, values in enumerate((world.xy[:, 0], world.xy[:, 1], world.t)):
        rank = np.empty(len(values), np.uint64)
        rank[np.argsort(values, kind="stable")] = np.arange(len(values), dtype=np.uint64)
        rank = rank * np.uint64(1 << bits) // np.uint64(len(values))
        for bit in range(bits):
            key |= ((rank >> np.uint64(bit)) & np.uint64(1)) << np.uint64(3 * bit + place)
    return laid_out(world, np.argsort(key, kind="stable").astype(np.int64), _even_files(world), block_rows)


def by_cells(world: World, leaves: int, scale: float | None = None) -> tuple[Layout, NDArray[np.int64]]:
    """Return the leaves of an even k-d tree, rows by time inside, and the leaf of each row.

    Parameters
    ----------
    world
        The rows.
    leaves
        How many, a power of two.
    scale
        Metres that a second counts as, where the tree cuts times too; None where it cuts places alone.
    """
    values = world.xy if scale is None else np.concatenate([world.xy, (world.t * scale)[:, None]], axis=1)
    cell = even_cells(values, leaves)
    order = np.lexsort((world.t, cell)).astype(np.int64)
    return laid_out(world, order, cell[order], world.block_rows), cell


def even_cells(values: NDArray[np.float64], leaves: int) -> NDArray[np.int64]:
    """Return the leaf of each row in a k-d tree that halves the rows along the wider axis, int64 (n,)."""
    cell = np.zeros(len(values), np.int64)
    groups = [np.arange(len(values))]
    while len(groups) < leaves:
        halves = []
        for group in groups:
            some = values[group]
            low, high = np.quantile(some, [0.02, 0.98], axis=0)
            axis = int(np.argmax(high - low))
            at = np.partition(some[:, axis], len(group) // 2)[len(group) // 2]
            left = some[:, axis] < at
            halves += [group[left], group[~left]]
        groups = halves
    for number, group in enumerate(groups):
        cell[group] = number
    return cell


def statics(world: World) -> dict[str, Callable[[], Layout]]:
    """Return the layouts that never change, by name."""
    small, wide = world.block_rows, max(world.block_rows * WIDE // 12_800, 1)
    return {
        "hour files, arrival order, rg 122,880": lambda: by_time(world, HOUR, "time", wide),
        "hour files, arrival order, rg 12,800": lambda: by_time(world, HOUR, "time", small),
        "hour files, Hilbert inside": lambda: by_time(world, HOUR, "hilbert", small),
        "day files, Hilbert inside": lambda: by_time(world, DAY, "hilbert", small),
        "Hilbert (x, y), rg 122,880": lambda: by_hilbert(world, wide),
        "z-order (x, y, t), rg 122,880": lambda: by_z_order(world, wide),
        "z-order (x, y, t), rg 12,800": lambda: by_z_order(world, small),
        "k-d (x, y), 64 files read whole": lambda: files_whole(by_cells(world, 64)[0]),
        "k-d (x, y, t), 1,024 leaves, 1 km ~ 1 h": lambda: by_cells(world, 1024, 1000.0 / HOUR)[0],
        "k-d (x, y, t), 1,024 leaves, 1 km ~ 1 day": lambda: by_cells(world, 1024, 1000.0 / DAY)[0],
        **{
            f"k-d (x, y), {leaves:,} leaves, by time inside": lambda leaves=leaves: by_cells(world, leaves)[0]
            for leaves in (64, 256, 1024, 4096)
        },
    }


def time_order(world: World) -> Layout:
    """Return the rows by time, in files of 128 MB: what every history has."""
    order = np.arange(len(world.t), dtype=np.int64)
    return laid_out(world, order, _even_files(world), world.block_rows)


def _even_files(world: World) -> NDArray[np.int64]:
    return (np.arange(len(world.t)) * world.row_bytes // (128 * 2**20)).astype(np.int64)


def _hilbert(world: World) -> NDArray[np.int64]:
    return curve_keys(np.ascontiguousarray(world.xy))


@kernel(
    "void(float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], float64[::1], float64[::1], int64[::1], "
    "float64[:, ::1], float64[:, ::1], float64[::1], int64, int64[:, ::1])"
)
def _reads(low, high, size, file, first, last, begin, piece_low, piece_high, reach, gap, out):
    for question in range(first.size):
        ranges, total, between, before = 0, 0, -1, -1
        for i in range(size.size):
            met = low[i, 2] <= last[question] and high[i, 2] >= first[question]
            if met and begin[question] < begin[question + 1]:
                met = False
                for j in range(begin[question], begin[question + 1]):
                    apart = 0.0
                    for axis in range(2):
                        away = max(low[i, axis] - piece_high[j, axis], piece_low[j, axis] - high[i, axis], 0.0)
                        apart += away * away
                    met = met or apart <= reach[j] * reach[j]
            if not met:
                if between >= 0:
                    between += size[i]
                continue
            if between < 0 or between > gap or file[i] != before:
                ranges += 1
            else:
                total += between
            total += size[i]
            between, before = 0, file[i]
        out[question, 0], out[question, 1] = ranges, total
