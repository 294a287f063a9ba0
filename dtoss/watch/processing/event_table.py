"""Events as rows of a file: which columns there are, and how a file of them is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.commits.file_entry import write_entry
from dtoss.commits.folder import Folder
from dtoss.names import unused_name
from dtoss.watch.watch_folder import EVENTS
from dtoss.watch.watch_settings import Settings

EVENT_KINDS = ("dwell", "cross", "leave", "enter", "inside", "reset")
"""In the order in which a row's events stand."""
DWELLS, CROSSES, LEAVES, ENTERS, INSIDES, RESETS = range(6)
ORDINAL_BITS = 32
"""An event's number is that of its file in the batch, shifted by so many bits, and its row there."""
_MARKED = 16
"""Numbers up to so many times as high as there are of them are marked in an array, and not sorted."""
_RISING = ("batch", "number", "version", "object", "t")
"""Columns whose values are much like those before: their differences take little room and time."""
_CODED = pa.dictionary(pa.int32(), pa.string())
_RESERVED = {
    "batch", "number", "kind", "subscription", "version", "object", "t", "x", "y", "distance", "reason", "meta",
    "id", "lon", "lat", "t_before", "t_cross", "near", "near_x", "near_y", "near_lon", "near_lat",
}  # fmt: skip
"""Names that events have, in files and as lines."""


def carried_as(carry: Sequence[str]) -> dict[str, str]:
    """Return what columns that are carried along are called in events: those that events have get an underscore behind.

    Examples
    --------
    >>> carried_as(["speed", "kind"])
    {'speed': 'speed', 'kind': 'kind_'}
    """
    taken = {*_RESERVED, *(name.lower() for name in carry)}
    found: dict[str, str] = {}
    for name in dict.fromkeys(carry):
        found[name] = unused_name(name, taken) if name.lower() in _RESERVED else name
        taken.add(found[name].lower())
    return found


CROSS_COLUMNS = ("t_before", "t_cross")
"""Of events where a subscription wants ``cross``: the time of the row before, and when the place was met."""


OTHER_COLUMN = "near"
"""Of events where a subscription wants pairs: the other object."""
OTHER_PLACE = ("near_x", "near_y")
"""And where that was last."""


def event_schema(settings: Settings, carry: Sequence[str], crosses: bool = False, pairs: bool = False) -> pa.Schema:
    """Return the columns of a file of events: those of all, of crosses, of pairs, and those that are carried."""
    ids = pa.int64() if settings.id_type == "int64" else pa.string()
    return pa.schema(
        [
            ("batch", pa.int64()),
            ("number", pa.int64()),
            ("kind", _CODED),
            ("subscription", _CODED),
            ("version", pa.int64()),
            ("object", ids),
            ("t", pa.int64()),
            ("x", pa.float64()),
            ("y", pa.float64()),
            ("distance", pa.float64()),
            ("reason", _CODED),
            ("meta", _CODED),
            *((name, pa.int64()) for name in CROSS_COLUMNS if crosses),
            *((name, ids) for name in (OTHER_COLUMN,) if pairs),
            *((name, pa.float64()) for name in OTHER_PLACE if pairs),
            *((fresh, settings.columns[name]) for name, fresh in carried_as(carry).items()),
        ]
    )


@dataclass
class EventWriter:
    """Numbers events as they come, and gives them on as tables."""

    schema: pa.Schema
    batch: int  # The number of the commit
    ordinal: int  # Of the file in its batch
    keep: Callable[[pa.Table], None]
    rows: int = 0  # Given on so far

    def add(self, columns: dict[str, Any], row: Any = None, number: Any = None) -> None:
        """Give events on; those of their columns that are missing are null. Of which rows they are does not count."""
        count = len(columns["kind"])
        if count == 0:
            return
        columns["batch"] = np.full(count, self.batch)
        columns["number"] = (self.ordinal << ORDINAL_BITS) + np.arange(self.rows, self.rows + count)
        made = [event_column(columns.get(column.name), column.type, count) for column in self.schema]
        self.keep(pa.Table.from_arrays(made, schema=self.schema))
        self.rows += count


@dataclass
class EventFile:
    """A file of events that is being written, in memory, compressed."""

    schema: pa.Schema
    group_rows: int  # At most so many are a group of rows
    rows: int = 0
    _sink: Any = field(default_factory=pa.BufferOutputStream, init=False)
    _writer: Any = field(default=None, init=False)

    def keep(self, events: pa.Table) -> None:
        """Write a table of events."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink,
                self.schema,
                compression="zstd",
                compression_level=1,
                write_page_checksum=True,
                **_as_written(self.schema),
            )
        self._writer.write_table(events, row_group_size=self.group_rows)
        self.rows += len(events)

    def close(self, folder: Folder) -> dict[str, Any] | None:
        """Write the file to a watch's folder and return what a commit says of it; None where there is no event."""
        if self._writer is None:
            return None
        self._writer.close()
        return write_entry(folder, self._sink.getvalue(), self.rows, "parquet", EVENTS)


def _as_written(schema: pa.Schema) -> dict[str, Any]:
    """Return how columns are encoded, and of which bounds are noted: those that readers look for."""
    rising = {name for name in _RISING if pa.types.is_integer(schema.field(name).type)}
    positions = {"x", "y", "distance", *OTHER_PLACE}
    return {
        "column_encoding": dict.fromkeys(sorted(rising), "DELTA_BINARY_PACKED"),
        "use_dictionary": [name for name in schema.names if name not in rising | positions],
        "write_statistics": ["batch", "number", "t"],
    }


def event_column(values: Any, kind: pa.DataType, count: int) -> Any:
    """Return a column of events as a file has it: null where there is nothing, or not a number."""
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, np.ndarray):
        return pa.array(values, kind, mask=np.isnan(values) if values.dtype.kind == "f" else None)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == kind else values.cast(kind)


def kinds_of(codes: NDArray[Any]) -> pa.Array:
    """Return the names of kinds by their numbers."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(EVENT_KINDS))


def coded(columns: Sequence[pa.Array], rows: NDArray[Any]) -> pa.Array:
    """Return some values of a column of text, each distinct one of these rows once in a dictionary."""
    if sum(len(column) - column.null_count for column in columns) == 0:
        return pa.nulls(len(rows), _CODED)
    distinct, back = _distinct(rows, sum(len(column) for column in columns))
    parts, first = [], 0
    for column in columns:
        mine = distinct[np.searchsorted(distinct, first) : np.searchsorted(distinct, first + len(column))]
        parts.append(column.take(pa.array(mine - first)).cast(pa.string()))
        first += len(column)
    values = pa.concat_arrays(parts).dictionary_encode()
    return pa.DictionaryArray.from_arrays(values.indices.take(pa.array(back)), values.dictionary)


def _distinct(rows: NDArray[Any], most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct ones of numbers below a bound, rising, and the place of each number among them."""
    if most > _MARKED * len(rows):
        return np.unique(rows, return_inverse=True)
    there = np.zeros(most, np.bool_)
    there[rows] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - 1)[rows]
