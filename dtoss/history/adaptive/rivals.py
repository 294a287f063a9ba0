"""What the questions of a history would have read, had its rows been kept as others keep them; from a sample, modelled.

Each rival is laid out well: files that its users would make, row groups as small as serve it best, footers that are
known before anything is read, and neighbouring row groups read at once, as ours are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.hilbert import curve_keys
from dtoss.history.adaptive.layout_reads import Layout
from dtoss.history.data_file import FILE_BYTES

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
