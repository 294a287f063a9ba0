"""The footers of Parquet files: one set of columns for all of them, or a line that says which file does not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError

_SAME = {
    "large_string": "string", "string_view": "string", "large_binary": "binary", "binary_view": "binary",
    "date64[ms]": "date32[day]",
}  # fmt: skip
"""Types of Arrow that Parquet writes alike."""


def footer(filesystem: fs.FileSystem, file: str) -> pa.Schema:
    """Return the columns of a Parquet file, from its last bytes."""
    try:
        return pq.read_schema(file, filesystem=filesystem)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as parquet: {str(error).splitlines()[0]}") from None


def union(schemas: Sequence[pa.Schema], files: Sequence[str], *, strict: bool = False) -> tuple[pa.Schema, bool]:
    """Return the columns of all files, in the order in which they are met, and whether some files lack some of them.

    Names that differ in case only are one column, as Spark reads them.
    """
    found: dict[str, tuple[pa.Field, str, str]] = {}
    lengths = set()
    last: pa.Schema | None = None
    for file, schema in zip(files, schemas, strict=True):
        if last is not None and schema.equals(last):
            continue
        last = schema
        lengths.add(len({name.casefold() for name in schema.names}))
        for field in schema:
            shape = _shape(field.type)
            if "decimal256" in shape:
                raise InputError(
                    f"column {field.name!r} of {file} is {field.type}: at most 38 digits are read, write fewer or text"
                )
            before, its_shape, where = found.setdefault(field.name.casefold(), (field, shape, file))
            if shape != its_shape:
                raise InputError(
                    f"column {field.name!r} is {before.type} in {where} and {field.type} in {file}: "
                    "files that are read together have one type of it"
                )
    differ = lengths != {len(found)} and bool(found)
    if differ and strict:
        raise _lacking(schemas, files, [field.name for field, _, _ in found.values()])
    geo = _geo(schemas, files)
    fields = [field for field, _, _ in found.values()]
    return pa.schema(fields, metadata=None if geo is None else {b"geo": geo}), differ


def _lacking(schemas: Sequence[pa.Schema], files: Sequence[str], names: list[str]) -> InputError:
    for file, schema in zip(files, schemas, strict=True):
        there = {name.casefold() for name in schema.names}
        if missing := [name for name in names if name.casefold() not in there]:
            return InputError(f"{file} has no column {', '.join(missing)}, which other files have (--schema strict)")
    raise AssertionError("no file lacks a column")


def _shape(kind: pa.DataType) -> str:
    """Return a text that is the same for types that Spark reads as the same from Parquet."""
    if pa.types.is_dictionary(kind):
        return _shape(kind.value_type)
    if pa.types.is_timestamp(kind):
        return f"timestamp[{'ns' if kind.unit == 'ns' else 'us'}{'' if kind.tz is None else ', UTC'}]"
    if pa.types.is_duration(kind):
        return "int64"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_shape(kind.key_type)}, {_shape(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{_shape(kind.value_type)}>"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    return _SAME.get(str(kind), str(kind))


def _geo(schemas: Sequence[pa.Schema], files: Sequence[str]) -> bytes | None:
    """Return the metadata of GeoParquet of the first file that has some."""
    first: tuple[bytes, object, str] | None = None
    known: set[bytes] = set()
    for file, schema in zip(files, schemas, strict=True):
        data = (schema.metadata or {}).get(b"geo")
        if data is None or data in known:
            continue
        known.add(data)
        try:
            geo = json.loads(data)
            about = geo["columns"][geo["primary_column"]]
            # the box of a file is its own
            facts = (geo["primary_column"], about["encoding"], about.get("crs", "OGC:CRS84"))
        except (ValueError, KeyError, TypeError):
            raise InputError(f"the metadata of GeoParquet in {file} is damaged") from None
        if first is None:
            first = (data, facts, file)
        elif facts != first[1]:
            raise InputError(
                f"{first[2]} and {file} state different CRS, encodings or geometry columns: files read together "
                "have one"
            )
    return None if first is None else first[0]
