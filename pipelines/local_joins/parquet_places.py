"""Places in Parquet: coordinates in columns, or points in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.ids import LARGEST
from pipelines.local_joins.text_values import ID_TYPES, numbers, whole_numbers
from pipelines.rows.paths import parts_of, type_at
from pipelines.rows.point_columns import points

_BUFFER = 1 << 20
"""Bytes of a column that are read ahead; a whole row group may be as large as the file."""
Found = tuple[pa.Array, pa.Array, pa.Array]


def parquet_batches(
    files: Sequence[str],
    filesystem: fs.FileSystem,
    schema: pa.Schema,
    names: Sequence[str],
    pointed: bool,
    rows: int,
    id_type: str | None = None,
) -> tuple[pa.DataType, Callable[[], Iterator[Found]]]:
    """Return the type of the ids, and what makes a stream of ids, x and y."""
    types = [_type_of(schema, name) for name in names]
    kind = id_type_of(names[0], types[0]) if id_type is None else ID_TYPES[id_type]
    if not pointed:
        for name, found in zip(names[1:], types[1:], strict=True):
            check_numbers(name, found)

    def batches() -> Iterator[Found]:
        for file in files:
            try:
                for found in _columns(file, filesystem, names, types, rows):
                    ids = _ids(found[0], kind)
                    yield (ids, *(_points(found[1]) if pointed else map(_coordinates, found[1:])))
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"{file} cannot be read as parquet: {str(error).splitlines()[0]}") from None

    return kind, batches


def _columns(
    file: str, filesystem: fs.FileSystem, names: Sequence[str], types: Sequence[pa.DataType], rows: int
) -> Iterator[list[pa.Array]]:
    """Yield columns of a file, null where it has none; names that differ in case only are one, as Spark reads them."""
    with pq.ParquetFile(filesystem.open_input_file(file), buffer_size=_BUFFER, pre_buffer=False) as reader:
        own = reader.schema_arrow
        there = {name.casefold(): name for name in own.names}
        paths = [
            (there[name.casefold()],) if name.casefold() in there else parts_of(name) if type_at(own, name) else None
            for name in names
        ]
        read = [path[0] if len(path) == 1 else ".".join(path) for path in dict.fromkeys(paths) if path is not None]
        for batch in reader.iter_batches(rows, columns=read):
            yield [
                pa.nulls(len(batch), kind) if path is None else _field(batch, path)
                for path, kind in zip(paths, types, strict=True)
            ]


def _field(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    column = batch.column(path[0])
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def _type_of(schema: pa.Schema, name: str) -> pa.DataType:
    kind = type_at(schema, name)
    assert kind is not None  # it was looked for
    return kind


def id_type_of(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the type of ids that are read from a column: int64 or string."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or _is_long(kind):
        return pa.int64()
    if _is_text(kind):
        return pa.string()
    raise InputError(f"column {name!r} is {kind}: ids are integers or strings, cast it first")


def _is_long(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and (kind.precision, kind.scale) == (20, 0)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def check_numbers(name: str, kind: pa.DataType, what: str = "coordinates are numbers") -> None:
    """Check that numbers are read from a column of some type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or _is_text(kind)):
        raise InputError(f"column {name!r} is {kind}: {what}")


def _ids(ids: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if _is_text(ids.type) and pa.types.is_integer(kind):
        return whole_numbers(ids.cast(pa.string()))
    if pa.types.is_integer(kind) and (pa.types.is_uint64(ids.type) or _is_long(ids.type)):
        largest = LARGEST if pa.types.is_uint64(ids.type) else Decimal(LARGEST)
        ids = pc.if_else(pc.greater(ids, pa.scalar(largest, ids.type)), None, ids)
    return ids.cast(kind)


def _coordinates(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return numbers(values) if _is_text(values.type) else values.cast(pa.float64(), safe=False)


def _points(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the x and y of points, null where there is no point or an empty one."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    found = points(column)
    if found.null_count == 0:
        return found.field("x"), found.field("y")
    return pc.struct_field(found, "x"), pc.struct_field(found, "y")
