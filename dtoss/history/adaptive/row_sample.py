"""A sample of a history's rows that is spread evenly over its time, read from a few blocks of the time order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.history.adaptive.rivals import Sample
from dtoss.history.query.read_plan import ChosenBlocks, blocks_of, every_block, gather_column
from dtoss.history.read_blocks import read_blocks
from dtoss.history.row_blocks import BY_TIME
from dtoss.history.row_tables import t_numbers
from dtoss.history.schema import Schema
from dtoss.history.time_scale import MICROSECONDS
from dtoss.history.versions import Home, Version

SAMPLED_ROWS, SAMPLED_BLOCKS = 1 << 20, 2048
"""Rows of a sample, and blocks that are read for it, at the most."""
_READ = ("t", "x", "y", "deleted")


def sample_of(home: Home, version: Version, most_rows: int = SAMPLED_ROWS, most_blocks: int = SAMPLED_BLOCKS) -> Sample:
    """Return rows of a version, deletions aside; the same ones each time.

    ``most_rows``, ``most_blocks``: of a history with more blocks every so-and-so-many-th is read, and the rows of each
    are stretched over the time up to the next one that is; of more rows every so-and-so-many-th is kept.
    """
    every, chosen = _chosen(version, most_blocks)
    kept = max(-(-int(gather_column(version, chosen, "rows").sum()) // most_rows), 1)
    parts = [_rows_of(home, version, chosen.take(chosen.file == file)) for file in np.unique(chosen.file).tolist()]
    t, positions, blocks = (np.concatenate(arrays) for arrays in zip(*parts, strict=True)) if parts else _nothing()
    if len(every) > len(chosen):
        t = _stretched(version, chosen, t, blocks)
    by = np.argsort(t, kind="stable")[::kept]
    truth = version.leaves.order == BY_TIME
    size, marks = int(version.leaves.bytes[truth].sum()), int(version.leaves.marks[truth].sum())
    return Sample(
        np.ascontiguousarray(t[by]),
        np.ascontiguousarray(positions[by]),
        version.schema.space.vectors(np.ascontiguousarray(positions[by])),
        size / max(version.rows, 1),
        (version.rows - marks) / max(len(by), 1),
        unit_of(version.schema),
    )


def unit_of(schema: Schema) -> float:
    """Return how many units of stored times are a second."""
    return float(MICROSECONDS) if schema.t_type == "timestamp" else 1.0


def _chosen(version: Version, most: int) -> tuple[ChosenBlocks, ChosenBlocks]:
    """Return all blocks of the time order, and those that are read, by file and offset."""
    leaves = version.leaves
    rows = np.flatnonzero(leaves.order == BY_TIME)
    every = every_block(version, rows[np.lexsort((leaves.offset[rows], leaves.file[rows]))])
    if len(every) <= most:
        return every, every
    by = np.argsort(gather_column(version, every, "t_from"), kind="stable")
    at = np.linspace(0, len(every) - 1, most).astype(np.int64)
    return every, every.take(np.sort(by[at]))


def _rows_of(
    home: Home, version: Version, chosen: ChosenBlocks
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return t, position and block, by its number in its file's, of the rows in blocks of one file."""
    blocks = blocks_of(version, chosen)
    table = read_blocks(home, version.files.name[int(chosen.file[0])], blocks, version.schema, _READ)
    number = np.repeat(chosen.block + (chosen.segment.astype(np.int64) << _SEGMENT), blocks.rows)
    keep = pc.invert(table.column("deleted").combine_chunks())
    mask = np.asarray(keep.to_numpy(zero_copy_only=False), np.bool_)
    table = table.filter(pa.chunked_array([keep]))
    positions = np.stack([table.column(name).to_numpy() for name in ("x", "y")], axis=1)
    return t_numbers(table.column("t")).astype(np.float64), positions, number[mask]


_SEGMENT = 40
"""Bits of the number of a block within its segment."""


def _nothing() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    return np.zeros(0), np.zeros((0, 2)), np.zeros(0, np.int64)


def _stretched(
    version: Version, chosen: ChosenBlocks, t: NDArray[np.float64], blocks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return times such that each block that was read reaches up to the next one."""
    number = chosen.block + (chosen.segment.astype(np.int64) << _SEGMENT)
    begin = gather_column(version, chosen, "t_from").astype(np.float64)
    end = gather_column(version, chosen, "t_to").astype(np.float64)
    by = np.lexsort((end, begin))
    until = np.empty(len(by))
    until[by] = np.append(begin[by][1:], max(float(end.max()), float(begin.max())))
    until = np.maximum(until, end)
    by_number = np.argsort(number)
    mine = by_number[np.searchsorted(number[by_number], blocks)]
    share = (t - begin[mine]) / np.maximum(end - begin, 1e-9)[mine]
    return np.asarray(begin[mine] + share * (until - begin)[mine])
