"""Columns of geometries in Arrow tables, by GeoArrow's types or GeoParquet's metadata, and short names of their CRS."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dtoss.geometry.space import LONLAT, NO_CRS, Space, same_crs

if TYPE_CHECKING:
    import pyproj


NO_CRS_SAID = "unknown"
"""In place of the name of a CRS: geometries, and nobody says in which they are."""


def crs_name(crs: Any) -> str | None:
    """Return the name of a CRS: "EPSG:32610" or another authority's where it is that one exactly, else its WKT.

    ``crs``: what pyproj reads (an object, text, PROJJSON), "none", or None, which is None. The axes are lon, lat or x,
    y whatever order it says, so OGC:CRS84 is EPSG:4326.

    Examples
    --------
    >>> crs_name("OGC:CRS84"), crs_name(32610), crs_name(None)
    ('EPSG:4326', 'EPSG:32610', None)
    """
    if crs is None or (isinstance(crs, str) and crs.lower() == NO_CRS):
        return None if crs is None else NO_CRS
    import pyproj
    from pyproj.exceptions import CRSError

    try:
        return _name(pyproj.CRS.from_user_input(crs))
    except CRSError as error:
        raise ValueError(f"crs {short(str(crs))} is not one that pyproj reads: {str(error).splitlines()[0]}") from None


@lru_cache(maxsize=64)
def _name(crs: pyproj.CRS) -> str:
    import pyproj

    authority = crs.to_authority()
    for named in (LONLAT, ":".join(authority) if authority else LONLAT):
        # the nearest entry of an authority may be another CRS
        if pyproj.CRS.from_user_input(named).equals(crs, ignore_axis_order=True):
            return named
    return str(crs.to_wkt())


def short(crs: str) -> str:
    """Return the name of a CRS for a message: one line, not the whole WKT."""
    line = " ".join(crs.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


def agree_crs(crs: Any, found: str | None, whose: str, way_out: str) -> str | None:
    """Return the CRS that is named and the one that was found, which are the same; either may be None.

    ``whose``: what the second one belongs to, for the message.
    """
    if crs is None or found is None:
        return found if crs is None else crs
    if not same_crs(crs_name(crs) or NO_CRS, found):
        raise ValueError(f"crs {short(str(crs))} is not {short(found)} of {whose}: {way_out}")
    return crs if isinstance(crs, str) else found


def check_crs(crs: str | None, space: Space, what: str = "the zones", whose: str = "the index") -> None:
    """Check that the CRS of zones or places is that of a space; nothing is ever transformed in silence."""
    if crs is None:
        return
    if crs == NO_CRS_SAID:
        if space.crs == NO_CRS:
            return
        raise ValueError(
            f"{what} name no CRS and {whose} is in {short(space.crs)}: gdf.set_crs({short(space.crs)!r}) says that "
            "they are in it"
        )
    if not same_crs(crs, space.crs):
        way = "gdf.set_crs(None, allow_override=True) says that they are in its plane"
        if space.crs != NO_CRS:
            way = f"transform them first, gdf.to_crs({short(space.crs)!r})"
        raise ValueError(f"{what} are in {short(crs)} and {whose} in {short(space.crs)}: {way}")


PREFIX = "geoarrow."
EXTENSION_NAME, EXTENSION_TOLD = b"ARROW:extension:name", b"ARROW:extension:metadata"


@dataclass(frozen=True)
class GeoColumn:
    """A column of geometries."""

    values: pa.Array  # As they are stored
    # "point", "wkb", "wkt", or the name of what is no point, such as "polygon": https://geoarrow.org/format.html
    encoding: str
    crs: str | None  # As :func:`dtoss.frames.geo_columns.crs_name`; None where the column says none
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
