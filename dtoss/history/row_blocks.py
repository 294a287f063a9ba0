"""Blocks: the units of reading. A block is a row group of a file, of at most 8,192 rows, with a box and a time span."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.history.row_tables import t_numbers
from dtoss.history.sums import row_hashes
from dtoss.partition import numbers

BLOCK_ROWS = 8192
"""Rows of a block at the most."""
ORDER_NAMES = ("time", "place", "object")
BY_TIME, BY_PLACE, BY_OBJECT = 0, 1, 2
"""The orders by their codes."""


@dataclass(frozen=True)
class Blocks:
    """Blocks of one file, or of several, in the order of their files; all arrays have n rows."""

    row_group: NDArray[np.int32]  # int32. Its number in its file
    rows: NDArray[np.int32]  # rows, marks: int32. How many rows it has, and how many of them are deletions
    marks: NDArray[np.int32]
    offset: NDArray[np.int64]  # int64. Where its bytes begin in the file
    bytes: NDArray[np.int32]  # int32
    sum: NDArray[np.uint64]  # uint64. Of its rows: :mod:`dtoss.history.sums`
    t_from: NDArray[Any]  # t_from, t_to: int64 or float64. Its earliest and latest time, as times are stored
    t_to: NDArray[Any]
    id_from: NDArray[np.int64]  # id_from, id_to: int64. Between which its ids are, as :func:`id_words` numbers them
    id_to: NDArray[np.int64]
    # low, high: float64 (n, dimension). The closed box of its vectors (:meth:`dtoss.geometry.space.Space.vectors`); inf
    # and -inf where no row has a position
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, begin: int, end: int) -> Blocks:
        """Return the blocks from a number up to another one, as views."""
        return Blocks(*(getattr(self, field.name)[begin:end] for field in fields(self)))

    def take(self, rows: NDArray[Any]) -> Blocks:
        """Return some of them, by a mask or numbers."""
        return Blocks(*(getattr(self, field.name)[rows] for field in fields(self)))

    def as_table(self) -> pa.Table:
        """Return what a segment holds of them: a column for each number, boxes by their coordinates."""
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("low", "high")}
        for side in ("low", "high"):
            columns |= {f"{side}_{i}": getattr(self, side)[:, i] for i in range(self.low.shape[1])}
        return pa.table({name: numbers(np.ascontiguousarray(values)) for name, values in columns.items()})

    @classmethod
    def of_table(cls, table: pa.Table) -> Blocks:
        """Return the blocks of a segment; single columns are views of it."""
        names = [field.name for field in fields(cls) if field.name not in ("low", "high")]
        plain = [whole(table, name) for name in names]
        boxes = []
        for side in ("low", "high"):
            sides = sorted(name for name in table.column_names if name.startswith(f"{side}_"))
            boxes.append(np.stack([whole(table, name) for name in sides], axis=1))
        return cls(*plain, *boxes)


def whole(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column of numbers as one array, without a copy where it is one piece."""
    column = table.column(name)
    return np.asarray(column.chunk(0).to_numpy() if column.num_chunks == 1 else column.to_numpy())


def join_blocks(parts: list[Blocks]) -> Blocks:
    """Return the blocks of several as one; at least one part is wanted."""
    return Blocks(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Blocks)))


def id_words(ids: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return whole numbers in the order of ids, int64 (n,): themselves, or the first eight bytes of text.

    Texts that begin alike have the same number.

    Examples
    --------
    >>> id_words(pa.array([3, -1])).tolist()
    [3, -1]
    >>> words = id_words(pa.array(["", "a", "ab", "b"], pa.large_string()))
    >>> bool((words[1:] > words[:-1]).all())
    True
    """
    column = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64()).to_numpy())
    begins = column.cast(pa.large_binary()).dictionary_encode()
    words = [
        int.from_bytes(value[:_WORD].ljust(_WORD, b"\0"), "big") - _MIDDLE for value in begins.dictionary.to_pylist()
    ]
    return np.array(words, np.int64)[begins.indices.to_numpy()]


_WORD, _MIDDLE = 8, 1 << 63
"""Bytes of a number, and the middle of all its values."""


def starts_of(rows: int) -> NDArray[np.int64]:
    """Return where the blocks of so many rows begin: evenly, so that none is small."""
    count = -(-rows // BLOCK_ROWS)
    return np.arange(count, dtype=np.int64) * rows // max(count, 1)


def described(rows: pa.Table, starts: NDArray[np.int64], space: Space) -> dict[str, NDArray[Any]]:
    """Return what blocks say of rows, by name: all but where they are in a file. Cost O(rows).

    ``rows``: in the order of a file, at least one; ``starts``: int64. Where each block begins; the first at 0.
    """
    t = t_numbers(rows.column("t"))
    deleted = rows.column("deleted").to_numpy(zero_copy_only=False)
    positions = np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1)
    there = np.isfinite(positions).all(axis=1) & ~deleted
    vectors = np.full((len(rows), space.dimension), np.nan)
    if there.all():
        vectors = space.vectors(np.ascontiguousarray(positions))
    elif there.any():
        vectors[there] = space.vectors(np.ascontiguousarray(positions[there]))
    words = id_words(rows.column("id"))
    low, high = np.fmin.reduceat(vectors, starts, axis=0), np.fmax.reduceat(vectors, starts, axis=0)
    return {
        "rows": np.diff(np.append(starts, len(rows))).astype(np.int32),
        "marks": np.add.reduceat(deleted.astype(np.int32), starts),
        "sum": np.add.reduceat(row_hashes(rows), starts),
        "t_from": np.minimum.reduceat(t, starts),
        "t_to": np.maximum.reduceat(t, starts),
        "id_from": np.minimum.reduceat(words, starts),
        "id_to": np.maximum.reduceat(words, starts),
        "low": np.where(np.isnan(low), np.inf, low),
        "high": np.where(np.isnan(high), -np.inf, high),
    }
