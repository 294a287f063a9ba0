"""What files of rows are asked for, held against their footers and first lines: what is wrong is said before Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.delimited.record_batches import read_text_rows
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns, attribute_names, check_found, leaves, type_at
from dtoss.snapshots.column_types import is_text
from pipelines.rows.delimited_frame import check_said, layout_in
from pipelines.rows.inputs import Inputs, Worker, columns_of_log, look
from pipelines.rows.row_sources import blocks_of
from pipelines.rows.table_formats import PACKED, TABLE_FORMATS, crs_taken, point_of

FIRST_BYTES = 1 << 20
"""Of text that is looked at, of all files together."""
FIRST_ROWS = 10_000
_TIMES = (
    pa.types.is_timestamp, pa.types.is_date, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary,
    pa.types.is_duration, pa.types.is_time, pa.types.is_null,
)  # fmt: skip
"""Types that may be times; of some of them Spark has the last word."""
_OF_ROW, _OF_OBJECT = "id", "uid"
"""The column of ids where none is named; what readers of raw formats call the object where rows have an id, too."""


@dataclass(frozen=True)
class First:
    """The columns of files, as far as they are known without Spark."""

    names: tuple[str, ...]
    nested: tuple[str, ...] = ()  # Paths to fields of their structs
    whole: bool = True  # Whether other rows can have no other columns
    schema: pa.Schema | None = None  # Their types, of Parquet
    rows: tuple[dict[str, Any], ...] = ()  # The first rows, where they were asked for

    def has(self, name: str) -> bool:
        """Return whether a name, or a path, is that of a column or of a field."""
        return (
            name in self.names or name in self.nested or (self.schema is not None and bool(type_at(self.schema, name)))
        )


def look_at(
    paths: Sequence[str],
    columns: Columns,
    *,
    schema: str = "union",
    numbers: Mapping[str, Any] | None = None,
    session: Worker | None = None,
) -> Inputs:
    """Return what is at paths, once all that needs no Spark is found to be right.

    ``columns``: which columns mean what, and how text is written; ``session``: as :func:`pipelines.rows.inputs.look`.
    """
    check_said(columns)
    inputs = look(paths, schema=schema, encoding=columns.encoding, session=session)
    check_columns(inputs, columns, numbers)
    return inputs


def check_columns(
    inputs: Inputs,
    columns: Columns,
    numbers: Mapping[str, Any] | None = None,
    others: Mapping[str, str | None] | None = None,
) -> None:
    """Check that files have the columns that are named, as far as their footers and first lines tell.

    ``inputs``: what is read; nothing is known of files that only Spark can reach.
    """
    columns, first = columns_of_log(columns, inputs.roles), first_of(inputs, columns)
    if first is None:
        return
    point = None
    if first.schema is not None:
        point = point_of(first.schema, columns)
        crs_taken(point, columns.crs)
    always = [("--id", columns.id)]
    if columns.geometry is not None:
        always.append(("--geometry", columns.geometry))
    elif point is None and columns.deleted is None:
        always += zip(("--x", "--y"), columns.coordinates(first.names), strict=True)
    some = [("--time", columns.time), ("--deleted", columns.deleted)]
    numbers = {option: name for option, name in (numbers or {}).items() if isinstance(name, str)}
    some += [*numbers.items(), *(others or {}).items()]
    named = {name for _, name in some}
    some += [("--columns", name) for name in attribute_names(columns.attributes) if name not in named]
    for option, name in [*always, *(some if first.whole else ())]:
        if name is not None and not first.has(name):
            check_found(name, option, first.names, first.nested)
    if first.schema is not None:
        axes = () if point is not None else columns.coordinates(first.names)
        _check_types(first.schema, columns, axes, [*numbers.values()])


def _check_types(schema: pa.Schema, columns: Columns, axes: Sequence[str], numbers: Sequence[str]) -> None:
    kind = None if columns.id is None else type_at(schema, columns.id)
    if columns.id is not None and kind is not None and not pa.types.is_null(kind):
        id_type_of(columns.id, kind)
    for names, what in ((axes, "coordinates are numbers"), (numbers, "numbers are wanted")):
        for name in names:
            if (found := type_at(schema, name)) is not None and not pa.types.is_null(found):
                check_numbers(name, found, what)
    time = None if columns.time is None else type_at(schema, columns.time)
    if time is not None and not any(is_kind(time) for is_kind in _TIMES):
        raise InputError(f"column {columns.time!r} is {time}: times are timestamps, dates, numbers or text")


def first_of(inputs: Inputs, columns: Columns, rows: int = 0) -> First | None:
    """Return the columns of files, by footers and first lines, and their first rows; None where they are not known."""
    if not inputs.places:
        return None
    folders = [one.partition("=")[0] for above in inputs.folders for one in above.split("/") if "=" in one]
    try:
        if inputs.kind == "parquet" or inputs.kind in TABLE_FORMATS:
            if inputs.schema is None:
                return None
            names = dict.fromkeys([*inputs.schema.names, *folders])
            some = _parquet_rows(inputs, rows) if rows else ()
            return First(tuple(names), tuple(leaves(inputs.schema)), schema=inputs.schema, rows=some)
        read = _json if inputs.kind == "json" else _text
        found = read(inputs, columns, rows)
    except (InputError, OSError, EOFError, ValueError, LookupError, pa.ArrowException):
        return None  # the reader says what is wrong
    return found and First(
        tuple(dict.fromkeys([*found.names, *folders])), found.nested, found.whole, found.schema, found.rows
    )


def _parquet_rows(inputs: Inputs, rows: int) -> tuple[dict[str, Any], ...]:
    """Return the first rows of the first file, in the columns of ids alone."""
    filesystem, file = inputs.places[0]
    if inputs.kind != "parquet":
        some = next((batch for batch in TABLE_FORMATS[inputs.kind].rows(filesystem, file) if len(batch)), None)
        return () if some is None else tuple(some.slice(0, rows).to_pylist())
    with pq.ParquetFile(filesystem.open_input_file(file), pre_buffer=False) as reader:
        names = [name for name in (_OF_ROW, _OF_OBJECT) if name in reader.schema_arrow.names]
        batch = next(reader.iter_batches(rows, columns=names), None)
    return () if batch is None else tuple(batch.to_pylist())


def _text(inputs: Inputs, columns: Columns, rows: int) -> First:
    layout = layout_in(inputs, columns)
    some: list[dict[str, Any]] = []
    for place in inputs.places if rows else ():
        for part in read_text_rows(blocks_of(place), layout, list(dict.fromkeys(layout.names)), file=place[1]):
            some += part.rows.slice(0, rows - len(some)).to_pylist()
            if len(some) >= rows:
                return First(tuple(layout.names), rows=tuple(some))
    return First(tuple(layout.names), rows=tuple(some))


def _json(inputs: Inputs, columns: Columns, many: int) -> First | None:
    if columns.multiline:
        return None
    left, whole = FIRST_BYTES, True
    rows: list[dict[str, Any]] = []
    for filesystem, file in inputs.places:
        if left <= 0:
            whole = False
            break
        data = _begin(filesystem, file, left + 1)
        cut = len(data) > left
        lines = data.split(b"\n")
        for line in lines[:-1] if cut else lines:
            with suppress(ValueError, RecursionError):  # that is a bad row
                one = json.loads(line.decode("utf-8-sig", "replace"))
                rows += [row for row in (one if isinstance(one, list) else [one]) if isinstance(row, dict)]
        whole, left = whole and not cut, left - len(data)
    if not rows:
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    nested = dict.fromkeys(path for row in rows for path in _paths(row))
    return First(tuple(names), tuple(nested), whole, rows=tuple(rows[:many]))


def _begin(filesystem: fs.FileSystem, file: str, size: int) -> bytes:
    packed = "detect" if file.lower().endswith(PACKED) else None
    with filesystem.open_input_stream(file, compression=packed) as stream:
        return bytes(stream.read(size))


def _paths(row: dict[str, Any], above: str = "") -> list[str]:
    found = []
    for name, value in row.items():
        written = f"`{name}`" if "." in name else name
        found += [f"{above}{written}", *(_paths(value, f"{above}{written}.") if isinstance(value, dict) else ())]
    return found


def said_of_ids(inputs: Inputs, columns: Columns) -> str | None:
    """Return what is odd about ids: those of rows are taken for those of objects, which stand beside them and repeat.

    By the first rows alone; None where nothing is.
    """
    first = None if columns.id != _OF_ROW else first_of(inputs, columns)
    if first is not None and {_OF_ROW, _OF_OBJECT} <= set(first.names):
        first = first_of(inputs, columns, FIRST_ROWS)
    if first is None or not first.rows:
        return None
    both = [(row.get(_OF_ROW), row.get(_OF_OBJECT)) for row in first.rows]
    rows, objects = ({pair[at] for pair in both} for at in (0, 1))
    if len(rows) < len(both) or len(objects) >= len(both):
        return None
    return (
        f"each row has an {_OF_ROW} of its own, and {_OF_OBJECT} repeats ({len(objects):,} in the first {len(both):,} "
        f"rows): --id {_OF_OBJECT} makes objects of these"
    )


def id_type_of(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type of ids that are read from a column: int64 or string."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or _is_long(kind):
        return pa.int64()
    if is_text(kind):
        return pa.string()
    raise InputError(f"column {name!r} is {kind}: ids are integers or strings, cast it first")


def _is_long(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and (kind.precision, kind.scale) == (20, 0)


def check_numbers(name: str, kind: pa.DataType, what: str = "coordinates are numbers") -> None:
    """Check that numbers are read from a column of some type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or is_text(kind)):
        raise InputError(f"column {name!r} is {kind}: {what}")
