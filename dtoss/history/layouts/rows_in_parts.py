"""Rows of periods, some at a time: by time without ever holding all, or spilled into buckets for another order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.history.read_blocks import read_blocks
from dtoss.history.row_blocks import BLOCK_ROWS, BY_TIME, Blocks, sorted_rows, t_numbers
from dtoss.history.versions import Home, Version

PART_ROWS = 2_000_000
"""Rows that are in memory at a time, about."""
PART_BYTES = 128 * 2**20
"""What they take there at most, about, once; sorting takes some times as much."""
_LOOKS = 8
"""Blocks that tell how much a row takes in memory."""


@dataclass(frozen=True)
class Source:
    """The blocks of some periods in the order by time."""

    home: Home
    version: Version
    periods: NDArray[np.int32]  # Their numbers, int32
    names: list[str]  # The file of each block
    blocks: Blocks  # All of them, file by file

    @property
    def rows(self) -> int:
        """How many they are."""
        return int(self.blocks.rows.sum())

    def read(self, chosen: NDArray[np.int64], columns: list[str] | None = None) -> pa.Table:
        """Return the rows of some blocks, by their ascending numbers."""
        schema = self.version.schema
        parts = []
        edges = [0, *(i for i in range(1, len(chosen)) if self.names[chosen[i]] != self.names[chosen[i - 1]])]
        for begin, end in zip(edges, [*edges[1:], len(chosen)], strict=True):
            rows = chosen[begin:end]
            if len(rows):
                blocks = _taken(self.blocks, rows)
                parts.append(read_blocks(self.home, self.names[rows[0]], blocks, schema, columns))
        return pa.concat_tables(parts)


def source_of(home: Home, version: Version, periods: NDArray[np.int32], order: int = BY_TIME) -> Source:
    """Return the rows of periods as they lie in an order; each period has to have it."""
    leaves = version.leaves
    mine = np.flatnonzero((leaves.order == order) & np.isin(leaves.period, periods))
    mine = mine[np.lexsort((leaves.offset[mine], leaves.file[mine]))]
    parts = [version.blocks(int(leaf)) for leaf in mine]
    names = [version.files.name[leaves.file[leaf]] for leaf in mine for _ in range(int(leaves.count[leaf]))]
    return Source(home, version, periods, names, join_rows(parts))


def rows_at_a_time(source: Source, most: int, size: int) -> int:
    """Return how many rows take so many bytes in memory, judged by some blocks: at most ``most``, and at least one."""
    if source.rows <= BLOCK_ROWS:
        return most
    chosen = np.unique(np.linspace(0, len(source.blocks) - 1, _LOOKS).astype(np.int64))
    rows = source.read(chosen)
    return max(min(most, size * len(rows) // max(rows.nbytes, 1)), 1)


def by_time(source: Source, most: int = PART_ROWS) -> Iterator[pa.Table]:
    """Yield all rows in the order of (t, id), about so many at a time; equal times stay together.

    Cost: each block is read once, or once more where a cut of time goes through it.
    """
    blocks = source.blocks
    if source.rows <= most:
        yield sorted_rows(source.read(np.arange(len(blocks))), "time")
        return
    cuts = _cuts(blocks, most)
    for first, last in zip([None, *cuts], [*cuts, None], strict=True):
        mine = np.ones(len(blocks), np.bool_)
        mine &= True if first is None else blocks.t_to >= first
        mine &= True if last is None else blocks.t_from < last
        if not mine.any():
            continue
        rows = source.read(np.flatnonzero(mine))
        t = t_numbers(rows.column("t"))
        kept = np.ones(len(rows), np.bool_)
        kept &= True if first is None else t >= first
        kept &= True if last is None else t < last
        if kept.any():
            yield sorted_rows(rows.filter(pa.array(kept)), "time")


def in_buckets(
    parts: Iterator[pa.Table], bucket_of: Callable[[pa.Table], NDArray[np.int64]], count: int
) -> Iterator[pa.Table]:
    """Yield the rows of each bucket, bucket by bucket; within one they are in the order in which they came.

    ``bucket_of``: the bucket of each row of a table, from 0 on.
    """
    if count <= 1:
        yield from ([pa.concat_tables(tables)] if (tables := list(parts)) else [])
        return
    with tempfile.TemporaryDirectory(prefix="dtoss-history-") as folder:
        writers: dict[int, Any] = {}
        try:
            for rows in parts:
                bucket = bucket_of(rows)
                order = np.argsort(bucket, kind="stable")
                edges = np.searchsorted(bucket[order], np.arange(count + 1))
                for number in np.unique(bucket).tolist():
                    mine = rows.take(pa.array(order[edges[number] : edges[number + 1]]))
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(str(Path(folder) / str(number)), rows.schema)
                    writers[number].write_table(mine)
        finally:
            for writer in writers.values():
                writer.close()
        for number in sorted(writers):
            place = Path(folder) / str(number)
            with pa.OSFile(str(place)) as stream, pa.ipc.open_stream(stream) as reader:
                rows = reader.read_all()
            place.unlink()
            yield rows.combine_chunks()


def _cuts(blocks: Blocks, most: int) -> list[Any]:
    """Return times between which lie about so many rows each, ascending."""
    order = np.argsort(blocks.t_from, kind="stable")
    before = np.cumsum(blocks.rows[order].astype(np.int64))
    turn = before // most
    at = order[np.flatnonzero(np.diff(turn)) + 1]
    return sorted(set(blocks.t_from[at].tolist()))


def _taken(blocks: Blocks, rows: NDArray[np.int64]) -> Blocks:
    return Blocks(*(getattr(blocks, part.name)[rows] for part in fields(Blocks)))
