"""Columns of geometries in Arrow tables: GeoArrow's extension types, and what a GeoParquet file says of its columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dtoss.frames.crs_names import crs_name
from dtoss.geometry.space import LONLAT

PREFIX = "geoarrow."
EXTENSION_NAME, EXTENSION_TOLD = b"ARROW:extension:name", b"ARROW:extension:metadata"


@dataclass(frozen=True)
class GeoColumn:
    """A column of geometries."""

    values: pa.Array  # As they are stored
    # "point", "wkb", "wkt", or the name of what is no point, such as "polygon": https://geoarrow.org/format.html
    encoding: str
    crs: str | None  # As :func:`dtoss.frames.crs_names.crs_name`; None where the column says none
    edges: str | None = None  # As the column says; None where it does not: straight ones


def geo_column(values: Any, field: pa.Field | None = None, file: bytes | None = None) -> GeoColumn | None:
    """Return a column as one of geometries, None where nothing says that it is one.

    ``file``: what a GeoParquet file says of all its columns, as JSON: the metadata "geo" of its schema.
    """
    said = _said(values.type, field)
    if said is None and field is not None and file is not None:
        said = _of_file(field.name, file)
    if said is None:
        return None
    if isinstance(values.type, pa.BaseExtensionType):
        values = (
            pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
            if isinstance(values, pa.ChunkedArray)
            else values.storage
        )
    encoding, crs, edges = said
    return GeoColumn(whole(values), encoding, crs_name(crs), edges)


def whole(column: Any) -> pa.Array:
    """Return an Arrow column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks()


def of_capsules(column: Any) -> GeoColumn | None:
    """Return an array of another Arrow library, by the C data interface, as :func:`geo_column` does."""
    if hasattr(column, "__arrow_c_array__"):
        return geo_column(pa.array(column), pa.field(_Schema(column.__arrow_c_array__()[0])))
    kind = getattr(column, "type", None)
    if hasattr(column, "__arrow_c_stream__") and hasattr(kind, "__arrow_c_schema__"):
        return geo_column(pa.chunked_array(column), pa.field(kind))
    return None


class _Schema:
    """A schema in a capsule, as Arrow takes it; metadata of an array's field are in no other way to be had."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> Any:
        return self._capsule


def _said(kind: pa.DataType, field: pa.Field | None) -> tuple[str, Any, str | None] | None:
    """Return the encoding, the CRS and the edges that a type or the metadata of its field name."""
    if isinstance(kind, pa.BaseExtensionType):
        name = kind.extension_name
        told = kind.__arrow_ext_serialize__() if name.startswith(PREFIX) else b""
    else:
        metadata = (field.metadata if field is not None else None) or {}
        name, told = metadata.get(EXTENSION_NAME, b"").decode(), metadata.get(EXTENSION_TOLD, b"")
    if not name.startswith(PREFIX):
        return None
    about = json.loads(told or b"{}")
    return name.removeprefix(PREFIX), about.get("crs"), about.get("edges")


def _of_file(name: str, file: bytes) -> tuple[str, Any, str | None] | None:
    """Return encoding, CRS and edges of a column of GeoParquet, whose CRS is OGC:CRS84 where none is named."""
    column = json.loads(file).get("columns", {}).get(name)
    if column is None:
        return None
    return column.get("encoding", "WKB").lower(), column.get("crs", LONLAT), column.get("edges")
