"""Rows as callers have them, frames and arrays, as rows that are matched."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.frames.arrow_tables import read_column, table_of
from dtoss.frames.coordinates import locate_rows
from dtoss.geometry.space import Space, as_positions
from dtoss.watch.watch_settings import Rows

ID_OF_ROWS, TIME_OF_ROWS = "id", "t"
"""The columns of ids and of times, in rows that callers give."""
_TICKS = 1_000_000
_NANOS = 1_000
"""Of a microsecond."""
_LAST_SECOND = 9e12


@dataclass(frozen=True)
class FrameRows:
    """Rows, and what is known of their columns."""

    rows: Rows  # Those, with the attributes that were asked for
    time: pa.DataType | None  # The Arrow type of their times, float64 for seconds; None where there are none
    # The Arrow types of what conditions may name: all columns but those of the position and the time
    types: Mapping[str, pa.DataType]


def given_rows(frame: Any, space: Space, text: str | None, wanted: Collection[str] | None = None) -> FrameRows:
    """Return the rows of a frame.

    ``frame``: as :func:`dtoss.frames.arrow_tables.table_of`: lon and lat, or x and y, or points; ``id`` and ``t`` where
    it has them; ``text``: the column of texts; None where there is none; ``wanted``: the columns that become
    attributes; None for all.
    """
    table = table_of(frame)
    if table is None:
        raise TypeError(f"rows are {type(frame).__name__}: a table of Arrow or pandas, or a dictionary, is wanted")
    at = locate_rows(table)
    if at is None:
        names = ", ".join(map(str, table.names)) or "none"
        raise InputError(f"no column says where rows are: lon and lat, or x and y, are wanted; there are {names}")
    positions = as_positions(at.positions, space)
    named = {str(name): name for name in table.names if name not in at.columns}
    columns = {name: read_column(table, real) for name, real in named.items() if _is_read(name, text, wanted)}
    for name, column in columns.items():
        if len(column) != len(positions):
            raise InputError(f"column {name!r} has {len(column)} values, and there are {len(positions)} positions")
    t, time = _times(columns[TIME_OF_ROWS]) if TIME_OF_ROWS in columns else (None, None)
    if text is not None and text not in columns:
        raise InputError(f"no column is called {text!r}, which was named as the text of rows")
    attributes = {name: column for name, column in columns.items() if name not in (ID_OF_ROWS, TIME_OF_ROWS)}
    ids = _ids(columns[ID_OF_ROWS]) if ID_OF_ROWS in columns else None
    types = {name: column.type for name, column in attributes.items()}
    if ids is not None:
        types[ID_OF_ROWS] = ids.type
    rows = Rows(positions, ids, t, None if text is None else _texts(columns[text], text), attributes)
    return FrameRows(rows, time, types)


def _is_read(name: str, text: str | None, wanted: Collection[str] | None) -> bool:
    return wanted is None or name in wanted or name in (ID_OF_ROWS, TIME_OF_ROWS, text)


def _ids(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        return _cast(column, pa.int64(), "ids")
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise InputError(f"column {ID_OF_ROWS!r} is of type {column.type}: whole numbers or texts are wanted")


def _texts(column: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(test(kind) for test in known):
        raise InputError(f"column {name!r} is of type {kind}: texts are wanted")
    return column.cast(pa.string())


def _times(column: pa.Array) -> tuple[NDArray[np.int64], pa.DataType]:
    """Return times as microseconds since 1970, and the type that they are given back in."""
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise InputError(f"row {row} has no {TIME_OF_ROWS}: leave such rows out")
    kind = column.type
    if pa.types.is_null(kind):  # of no rows
        return np.zeros(0, np.int64), pa.float64()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moments(column), pa.timestamp("us", getattr(kind, "tz", None))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        seconds = np.asarray(column.to_numpy(zero_copy_only=False))
        wrong = ~((seconds >= -_LAST_SECOND) & (seconds <= _LAST_SECOND))
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(f"row {row} has {TIME_OF_ROWS} {seconds[row]}: seconds since 1970, up to 9e12, are wanted")
        if pa.types.is_integer(kind):
            return seconds.astype(np.int64) * _TICKS, pa.float64()
        return np.rint(seconds.astype(np.float64) * _TICKS).astype(np.int64), pa.float64()
    raise InputError(f"column {TIME_OF_ROWS!r} is of type {kind}: times, or seconds since 1970, are wanted")


def _moments(column: pa.Array) -> NDArray[np.int64]:
    """Return times and dates as microseconds since 1970, down to the next whole one."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return np.asarray(column.cast(pa.int64()).to_numpy()) // _NANOS
    try:
        return np.asarray(column.cast(pa.timestamp("us", getattr(kind, "tz", None))).cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:
        raise InputError(
            f"column {TIME_OF_ROWS!r} has times so far from 1970 that 64 bits do not hold their microseconds: "
            "leave them out"
        ) from None


def times_as(micros: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return microseconds since 1970 as times of a type, which is that of timestamps or of seconds."""
    if pa.types.is_timestamp(kind):
        return micros.cast(kind)
    # times after 2255 have more microseconds than a float64 has digits for
    return pc.divide(micros.cast(pa.float64(), safe=False), pa.scalar(float(_TICKS)))


def with_types(rows: Rows, types: Mapping[str, pa.DataType]) -> Rows:
    """Return rows whose attributes are of these types, and no others."""
    attributes = {}
    for name, kind in types.items():
        if name == ID_OF_ROWS and name not in rows.attributes:
            if rows.ids is None:
                raise InputError(f"a condition names {ID_OF_ROWS!r}, and the rows have no ids")
            continue
        if name not in rows.attributes:
            there = ", ".join(rows.attributes) or "none"
            raise InputError(f"a condition names {name!r}, and the rows have no such column; they have {there}")
        attributes[name] = _cast(rows.attributes[name], kind, f"column {name!r}")
    return Rows(rows.positions, rows.ids, rows.t, rows.text, attributes)


def _cast(column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        raise InputError(f"{name} cannot be {kind}: {' '.join(str(error).split())[:200]}") from None
