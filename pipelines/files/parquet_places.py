"""Places in Parquet: coordinates in columns, points of GeoParquet, and points as GeoArrow writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.ids import LARGEST
from pipelines.files.text_values import numbers

_BUFFER = 1 << 20
"""Bytes of a column that are read ahead; a whole row group may be as large as the file."""
Found = tuple[pa.Array, pa.Array, pa.Array]


@dataclass(frozen=True)
class Point:
    """A column of points.

    Parameters
    ----------
    name
        Of the column.
    wkb
        Whether they are well-known binary; else a struct of x and y, or pairs.
    crs
        What the file states, None where it says nothing.
    """

    name: str
    wkb: bool
    crs: str | None


def point_of(schema: pa.Schema) -> Point | None:
    """Return the column of points that the metadata of GeoParquet, or the type of GeoArrow, names; None without one.

    Raises
    ------
    InputError
        If the geometries are no points, or are encoded in a way that is not read.
    """
    from pipelines.rows.geoparquet_in import crs_of, primary_points

    if b"geo" in (schema.metadata or {}):
        name, about = primary_points(schema)
        return Point(name, about["encoding"] == "WKB", crs_of(about))
    for field in schema:
        told = field.metadata or {}
        extension = told.get(b"ARROW:extension:name", b"").decode()
        if extension in ("geoarrow.point", "geoarrow.wkb"):
            about = json.loads(told.get(b"ARROW:extension:metadata") or b"{}")
            return Point(field.name, extension == "geoarrow.wkb", _geoarrow_crs(about))
    return None


def _geoarrow_crs(about: dict[str, object]) -> str | None:
    from pipelines.rows.geoparquet_in import crs_of

    stated = about.get("crs")
    return stated if stated is None or isinstance(stated, str) else crs_of({"crs": stated})


def parquet_batches(
    files: Sequence[str],
    filesystem: fs.FileSystem,
    schema: pa.Schema,
    names: Sequence[str],
    point: Point | None,
    rows: int,
) -> tuple[pa.DataType, Callable[[], Iterator[Found]]]:
    """Return the type of the ids, and what makes a stream of ids, x and y.

    Parameters
    ----------
    files
        On their file system.
    filesystem
        Where they are.
    schema
        The columns of all files.
    names
        The columns of the id and of the coordinates, or of the points.
    point
        How points are encoded; None for coordinates.
    rows
        Of a batch.

    Raises
    ------
    InputError
        If a column is of a type that is of no use.
    """
    kind = _id_type(names[0], schema.field(names[0]).type)
    if point is None:
        for name in names[1:]:
            _check_coordinate(name, schema.field(name).type)

    def batches() -> Iterator[Found]:
        for file in files:
            try:
                for found in _columns(file, filesystem, schema, names, rows):
                    ids = _ids(found[0], kind)
                    yield (ids, *(map(_coordinates, found[1:]) if point is None else _points(found[1], point)))
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"{file} cannot be read as parquet: {str(error).splitlines()[0]}") from None

    return kind, batches


def _columns(
    file: str, filesystem: fs.FileSystem, schema: pa.Schema, names: Sequence[str], rows: int
) -> Iterator[list[pa.Array]]:
    """Yield columns of a file, null where it has none; names that differ in case only are one, as Spark reads them."""
    with pq.ParquetFile(filesystem.open_input_file(file), buffer_size=_BUFFER, pre_buffer=False) as reader:
        there = {name.casefold(): name for name in reader.schema_arrow.names}
        own = [there.get(name.casefold()) for name in names]
        read = [name for name in dict.fromkeys(own) if name is not None]
        for batch in reader.iter_batches(rows, columns=read):
            yield [
                pa.nulls(len(batch), schema.field(name).type) if mine is None else batch.column(mine)
                for name, mine in zip(names, own, strict=True)
            ]


def _id_type(name: str, kind: pa.DataType) -> pa.DataType:
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


def _check_coordinate(name: str, kind: pa.DataType) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or _is_text(kind)):
        raise InputError(f"column {name!r} is {kind}: coordinates are numbers")


def _ids(ids: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_uint64(ids.type) or _is_long(ids.type):
        import pyarrow.compute as pc

        largest = LARGEST if pa.types.is_uint64(ids.type) else Decimal(LARGEST)
        ids = pc.if_else(pc.greater(ids, pa.scalar(largest, ids.type)), None, ids)
    return ids.cast(kind)


def _coordinates(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return numbers(values) if _is_text(values.type) else values.cast(pa.float64(), safe=False)


def _points(column: pa.Array, point: Point) -> tuple[pa.Array, pa.Array]:
    """Return the x and y of points, null where there is no point or an empty one."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if point.wkb:
        from pipelines.rows.geoparquet_in import wkb_points

        column = wkb_points(column)
    if pa.types.is_struct(column.type):
        x, y = (column.field(name) for name in ("x", "y"))
        if column.null_count == 0:
            return x, y
        import pyarrow.compute as pc

        return tuple(pc.struct_field(column, name) for name in ("x", "y"))
    if not pa.types.is_fixed_size_list(column.type):
        raise InputError(f"column {point.name!r} is {column.type}: points as WKB, struct or pairs are wanted")
    import pyarrow.compute as pc

    return tuple(pc.list_element(column, at).cast(pa.float64()) for at in (0, 1))
