"""What the questions of a history would have read, had its rows been kept as others keep them; from a sample, modelled.

Each rival is laid out well: files that its users would make, row groups as small as serve it best, footers that are
known before anything is read, and neighbouring row groups read at once, as ours are.

A sample of a history's rows that is spread evenly over its time, read from a few blocks of the time order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.geometry.hilbert import curve_keys
from dtoss.history.adaptive.layout_reads import Layout
from dtoss.history.data_file import FILE_BYTES, read_blocks
from dtoss.history.query.read_plan import ChosenBlocks, blocks_of, every_block, gather_column
from dtoss.history.row_blocks import BY_TIME, t_numbers
from dtoss.history.schema import MICROSECONDS, Schema
from dtoss.history.versions import Home, Version

WIDE_GROUP, FINE_GROUP = 122_880, 12_800
"""Rows of a row group: as DuckDB writes them, and a tenth, which serves files that are sorted by place."""
HOUR_SECONDS, DAY_SECONDS = 3600, 86_400
"""Of an hour's files, and of a day's."""
_RANK_BITS = 20
"""Bits of the rank of each coordinate in a z-order: three of them fit a word."""


@dataclass(frozen=True)
class Sample:
    """Rows of a history by ascending times, of which each stands for several."""

    t: NDArray[np.float64]  # float64 (n,), ascending. As times are stored
    positions: NDArray[np.float64]  # float64 (n, 2)
    vectors: NDArray[np.float64]  # float64 (n, dimension)
    row_bytes: float  # What a row takes in a file, in the mean
    stands_for: float = 1.0  # How many rows each is
    second: float = 1.0  # As many units of t are a second

    def __len__(self) -> int:
        return len(self.t)


def rival_layouts(sample: Sample) -> Mapping[str, Layout]:
    """Return the layouts of the rivals by their names. Cost O(n log n).

    ``hours``: Parquet files by hour, rows as they came. ``days``: files by day, rows along a Hilbert curve.
    ``z_order``: files of 128 MB, rows by the interleaved ranks of x, y and t.

    ``sample``: the rows; at least one.
    """
    makers: dict[str, Callable[[Sample], Layout]] = {"hours": _hours, "days": _days, "z_order": _z_order}
    return {name: make(sample) for name, make in makers.items()}


def rows_of_group(sample: Sample, group: int) -> int:
    """Return how many rows of a sample a row group is: at least one."""
    return max(round(group / sample.stands_for), 1)


def _hours(sample: Sample) -> Layout:
    file = np.floor(sample.t / (HOUR_SECONDS * sample.second)).astype(np.int64)
    return _laid_out(sample, np.arange(len(sample)), file, WIDE_GROUP)


def _days(sample: Sample) -> Layout:
    file = np.floor(sample.t / (DAY_SECONDS * sample.second)).astype(np.int64)
    order = np.lexsort((curve_keys(np.ascontiguousarray(sample.vectors)), file))
    return _laid_out(sample, order, file[order], FINE_GROUP)


def _z_order(sample: Sample) -> Layout:
    key = np.zeros(len(sample), np.uint64)
    for place, values in enumerate((sample.positions[:, 0], sample.positions[:, 1], sample.t)):
        rank = np.empty(len(values), np.uint64)
        rank[np.argsort(values, kind="stable")] = np.arange(len(values), dtype=np.uint64)
        rank = rank * np.uint64(1 << _RANK_BITS) // np.uint64(len(values))
        for bit in range(_RANK_BITS):
            key |= ((rank >> np.uint64(bit)) & np.uint64(1)) << np.uint64(3 * bit + place)
    held = sample.row_bytes * sample.stands_for
    file = (np.arange(len(sample)) * held // FILE_BYTES).astype(np.int64)
    return _laid_out(sample, np.argsort(key, kind="stable"), file, FINE_GROUP)


def _laid_out(sample: Sample, order: NDArray[np.int64], file: NDArray[np.int64], group: int) -> Layout:
    """Return rows in an order, cut where the file of each, ascending in that order, changes, and into row groups."""
    n = len(order)
    fresh = np.flatnonzero(np.append(True, file[1:] != file[:-1]))
    within = np.arange(n) - np.repeat(fresh, np.diff(np.append(fresh, n)))
    starts = np.flatnonzero(within % rows_of_group(sample, group) == 0)
    rows = np.diff(np.append(starts, n)) * sample.stands_for
    size = np.rint(rows * sample.row_bytes).astype(np.int64)
    file = np.unique(file[starts], return_inverse=True)[1].astype(np.int64)
    end = np.cumsum(size)
    new = np.append(True, file[1:] != file[:-1])
    vectors, t = sample.vectors[order], sample.t[order]
    none = np.zeros(len(starts), np.int64)
    return Layout(
        np.minimum.reduceat(vectors, starts, axis=0),
        np.maximum.reduceat(vectors, starts, axis=0),
        np.minimum.reduceat(t, starts),
        np.maximum.reduceat(t, starts),
        end - size - (end - size)[new][file],
        size,
        np.rint(rows).astype(np.int64),
        file,
        none,
        none,
    )


@dataclass(frozen=True)
class StorePrices:
    """List prices of an object store and of a machine that reads from it."""

    per_thousand_requests: float = 0.0004  # Dollars for 1,000 reads
    per_gigabyte_month: float = 0.023  # Dollars for keeping a gigabyte for a month
    per_machine_hour: float = 0.0816  # Dollars for a machine while it waits and reads
    # seconds_a_request, bytes_a_second: how long it waits for a request, and how fast it reads
    seconds_a_request: float = 0.02
    bytes_a_second: float = 50e6
    date: str = "2026-06-17"  # When and where that was the list
    # When and where that was the list
    source: str = "S3 Standard, EC2 m7g.large, us-east-1; 20 ms a request and 50 MB/s are assumed"

    def for_reading(self, requests: float, size: float) -> float:
        """Return the dollars for so many requests of so many bytes together: the store's, and the machine's time."""
        seconds = requests * self.seconds_a_request + size / self.bytes_a_second
        return requests / 1000 * self.per_thousand_requests + seconds / 3600 * self.per_machine_hour

    def for_keeping(self, size: float) -> float:
        """Return the dollars for keeping so many bytes for a day."""
        return size / 1e9 * self.per_gigabyte_month / DAYS_A_MONTH


DAYS_A_MONTH = 30.44
"""In the mean."""


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
        t = _stretch(version, chosen, t, blocks)
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


def _stretch(
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
