"""The files, leaves and periods of a version, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.history.row_blocks import whole
from dtoss.partition import numbers


@dataclass(frozen=True)
class Files:
    """The files of a version, in no order that means anything; arrays (n,)."""

    name: list[str]
    sha256: list[str]
    order: NDArray[np.int8]  # int8
    bytes: NDArray[np.int64]  # int64, of the whole file, live or not
    rows: NDArray[np.int64]  # int64, of the whole file, live or not
    sum: NDArray[np.uint64]  # uint64

    def as_table(self) -> pa.Table:
        """Return what a segment holds of them."""
        texts = {name: pa.array(getattr(self, name), pa.large_string()) for name in ("name", "sha256")}
        return pa.table(texts | {name: numbers(getattr(self, name)) for name in ("order", "bytes", "rows", "sum")})

    @classmethod
    def of_table(cls, table: pa.Table) -> Files:
        """Return the files of a segment."""
        texts = [table.column(name).to_pylist() for name in ("name", "sha256")]
        return cls(*texts, *(whole(table, name) for name in ("order", "bytes", "rows", "sum")))


@dataclass(frozen=True)
class Leaves:
    """The leaves of a version: runs of blocks of a file, which are live. Arrays (n,)."""

    file: NDArray[np.int32]  # int32. Its number in :class:`Files`
    order: NDArray[np.int8]  # int8
    period: NDArray[np.int32]  # int32. The number of its period
    # segment, first, count: int32, int64, int32. Which blocks of which of the version's segments of blocks
    segment: NDArray[np.int32]
    first: NDArray[np.int64]
    count: NDArray[np.int32]
    rows: NDArray[np.int64]  # rows, bytes, offset: int64. Of its blocks, and where the first one begins in the file
    bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    sum: NDArray[np.uint64]  # uint64
    t_from: NDArray[Any]  # int64 or float64
    t_to: NDArray[Any]  # int64 or float64
    id_from: NDArray[np.int64]  # id_from, id_to: int64. As of :class:`dtoss.history.row_blocks.Blocks`
    id_to: NDArray[np.int64]
    low: NDArray[np.float64]  # float64 (n, dimension). The box of its blocks
    high: NDArray[np.float64]  # float64 (n, dimension). The box of its blocks
    cell: NDArray[np.float64]  # float64 (n, 4). x0, y0, x1, y1 of the tree, half-open: x0 < x <= x1
    since: NDArray[np.int64]  # int64. The number of the version that it was made in
    marks: NDArray[np.int64]  # int64. Its deletions

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: NDArray[Any]) -> Leaves:
        """Return some of them, by a mask or numbers."""
        return Leaves(*(getattr(self, part.name)[rows] for part in fields(self)))

    def as_table(self) -> pa.Table:
        """Return what a segment holds of them: boxes and cells by their coordinates."""
        columns: dict[str, Any] = {}
        for part in fields(self):
            values = getattr(self, part.name)
            if values.ndim == 1:
                columns[part.name] = values
            else:
                columns |= {f"{part.name}_{i}": values[:, i] for i in range(values.shape[1])}
        return pa.table({name: numbers(np.ascontiguousarray(values)) for name, values in columns.items()})

    @classmethod
    def of_table(cls, table: pa.Table) -> Leaves:
        """Return the leaves of a segment."""
        found = []
        for part in fields(cls):
            if part.name in table.column_names:
                found.append(whole(table, part.name))
            else:
                sides = sorted(name for name in table.column_names if name.startswith(f"{part.name}_"))
                found.append(np.stack([whole(table, name) for name in sides], axis=1))
        return cls(*found)


@dataclass(frozen=True)
class Periods:
    """The periods of a version by ascending number; arrays (n,)."""

    number: NDArray[np.int32]  # int32. Never used again
    tier: NDArray[np.int16]  # int16. 0 for an append, k + 1 for what eight of tier k have become
    rows: NDArray[np.int64]  # int64. Of its time order
    bytes: NDArray[np.int64]  # int64. Of its time order
    sum: NDArray[np.uint64]  # uint64
    orders: NDArray[np.uint8]  # uint8. ``1 << code`` of each order that it has

    def __len__(self) -> int:
        return len(self.number)
