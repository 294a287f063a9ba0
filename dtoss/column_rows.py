"""Rows of frozen objects whose fields are columns: some of them, and several objects one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.partition import numbers

_T = TypeVar("_T")
_ARROW = (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)


def take_rows(columns: _T, rows: NDArray[Any] | slice) -> _T:
    """Return some rows of each column: views of a slice; of numbers from 0 or a mask in memory of their own.

    A field that is no array, Arrow column or table, or mapping of such, is no column and stays. A class that writes
    ``take = take_rows`` has it as a method.
    """
    at = np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ else rows
    return type(columns)(*(_take(getattr(columns, one.name), at) for one in fields(columns)))  # type: ignore[arg-type]


def join_rows(parts: Sequence[_T]) -> _T:
    """Return the rows of one or more objects as one; what is no column is the first one's. One part is not copied."""
    if len(parts) == 1:
        return parts[0]
    names = [one.name for one in fields(parts[0])]  # type: ignore[arg-type]
    return type(parts[0])(*(_join([getattr(part, name) for part in parts]) for name in names))


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; one that is in one piece already is not copied."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _take(column: Any, rows: Any) -> Any:
    if isinstance(column, Mapping):
        return {name: _take(one, rows) for name, one in column.items()}
    if isinstance(column, np.ndarray):
        return column[rows] if isinstance(rows, slice) else column.take(rows, axis=0)
    if not isinstance(column, _ARROW):
        return column
    if isinstance(rows, slice):
        begin, end, step = rows.indices(len(column))
        if step == 1:
            return column.slice(begin, max(end - begin, 0))
        rows = np.arange(begin, end, step)
    return column.take(numbers(rows))


def _join(columns: list[Any]) -> Any:
    first = columns[0]
    if isinstance(first, Mapping):
        return {name: _join([column[name] for column in columns]) for name in first}
    if isinstance(first, np.ndarray):
        return np.concatenate(columns)
    if isinstance(first, pa.Table):
        return pa.concat_tables(columns)
    return pa.concat_arrays(columns) if isinstance(first, pa.Array) else first
