"""Tables of rows: their columns, and the two orders in which rows lie in files."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.history.latest import order_keys
from dtoss.history.schema import OWN, TIME_TYPES, Schema


def rows_of(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table as rows of a schema: its columns in order, nulls for attributes that the table lacks."""
    columns: dict[str, Any] = {}
    for column in schema.arrow:
        if column.name in table.column_names:
            columns[column.name] = _cast(table.column(column.name), column.type, column.name)
        elif column.name == "deleted":
            columns[column.name] = pa.chunked_array([pa.repeat(pa.scalar(False), len(table))])
        elif column.name in OWN:
            raise InputError(f"rows have no column {column.name}: {', '.join(OWN[:-1])} are wanted")
        else:
            columns[column.name] = pa.chunked_array([pa.nulls(len(table), column.type)])
    columns["deleted"] = columns["deleted"].fill_null(False)
    for name in ("id", "t"):
        if columns[name].null_count:
            raise InputError(f"{columns[name].null_count} rows have no {name}: every row needs one")
    if schema.t_type == "double" and not bool(pc.all(pc.is_finite(columns["t"])).as_py() in (True, None)):
        raise InputError("a time is not finite: every row needs one")
    if schema.t_type == "double":
        columns["t"] = pc.add(columns["t"], 0.0)  # -0.0 is the same time as 0.0
    for name in ("x", "y"):
        columns[name] = columns[name].fill_null(float("nan"))
    rows = pa.table(columns, schema=schema.arrow)
    x, y, deleted = (rows.column(name).to_numpy(zero_copy_only=False) for name in ("x", "y", "deleted"))
    nowhere = (~np.isfinite(x) | ~np.isfinite(y)) & ~deleted
    if nowhere.any():
        raise InputError(f"{int(nowhere.sum())} rows have no position: only a deletion may have none")
    return rows


def t_numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return times as the numbers that they are stored as: int64 microseconds, int64 or float64, (n,)."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy())


def sorted_rows(rows: pa.Table, order: Literal["time", "object"]) -> pa.Table:
    """Return rows sorted by (t, id), or by (id, t), and then by (x, y, deleted, attributes), so that ties are settled.

    Cost O(n log n); the columns after the second are looked at only where both are equal.
    """
    by = time_order(rows) if order == "time" else object_order(rows)
    return rows if (by[1:] > by[:-1]).all() else rows.take(pa.array(by))


def time_order(rows: pa.Table) -> NDArray[np.int64]:
    """Return the numbers of the rows in the order of (t, id, all else), int64 (n,)."""
    return _order(rows, ("t", "id"))


def object_order(rows: pa.Table) -> NDArray[np.int64]:
    """Return the numbers of the rows in the order of (id, t, all else), int64 (n,)."""
    return _order(rows, ("id", "t"))


def _order(rows: pa.Table, first: tuple[str, str]) -> NDArray[np.int64]:
    major, minor = (_keys(rows.column(name)) for name in first)
    by, equal = _by_both(major, minor)
    if not equal.any():
        return by
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    group = np.cumsum(np.append(True, ~equal))[tied]
    some = rows.take(pa.array(by[tied]))
    rest = ("x", "y", "deleted", *rows.column_names[len(OWN) :])
    keys = [order_keys(some.column(name).combine_chunks()) for name in rest]
    by[tied] = by[tied[np.lexsort((*reversed(keys), group))]]
    return by


def _by_both(major: NDArray[np.int64], minor: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order of rows by two keys, int64 (n,), and which are as the next one, bool (n - 1,); ties anyhow."""
    if len(major):
        low, least = int(major.min()), int(minor.min())
        span, wide = int(major.max()) - low + 1, int(minor.max()) - least + 1
        if span * wide < 1 << 63:
            # one number for both: sorted in vector registers, ten times as fast
            both = (major - low) * wide + (minor - least)
            by = np.argsort(both).astype(np.int64)
            ordered = both[by]
            return by, ordered[1:] == ordered[:-1]
    by = np.lexsort((minor, major)).astype(np.int64)
    return by, (major[by[1:]] == major[by[:-1]]) & (minor[by[1:]] == minor[by[:-1]])


def _keys(column: pa.ChunkedArray) -> NDArray[np.int64]:
    if column.num_chunks == 1:
        return order_keys(column.chunk(0))
    return order_keys(column.combine_chunks())


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.tz is None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))  # a time without zone is UTC
        if column.type == pa.timestamp("ns", "UTC") and kind == TIME_TYPES["timestamp"]:
            column = pc.floor_temporal(column, unit="microsecond")  # as Spark reads them
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"column {name!r} cannot be kept as {kind}: {str(error).splitlines()[0]}") from None
