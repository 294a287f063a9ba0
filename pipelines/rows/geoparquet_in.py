"""Columns of points in files: which one it is, and in which CRS."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.frames.geo_columns import EXTENSION_NAME, EXTENSION_TOLD, NO_CRS_SAID, PREFIX, short
from dtoss.geometry.space import LONLAT, NO_CRS, same_crs
from dtoss.rows.input_columns import Columns, Unfitting, check_found, leaves, type_at

_NEVER_STATED = "OGC:CRS84"
"""The CRS of GeoParquet that has no word of it; null is another thing: it says that nobody knows."""


@dataclass(frozen=True)
class Point:
    """A column of points."""

    name: str
    # What the file states: :data:`dtoss.frames.polygon_frames.NO_CRS_SAID` where it says that its CRS is not known,
    # None where it says nothing
    crs: str | None
    covering: frozenset[str] = frozenset()  # Columns that say no more than the points


def point_of(schema: pa.Schema, columns: Columns) -> Point | None:
    """Return the column of points that is to be read; None where coordinates are.

    That is the one that is named, or else, where no coordinates are named and there is no lon and lat, the one that the
    metadata of GeoParquet or of GeoArrow tell of.
    """
    if columns.geometry is not None:
        if type_at(schema, columns.geometry) is None:
            check_found(columns.geometry, "--geometry", schema.names, leaves(schema))
        return _told(schema, columns.geometry) or Point(columns.geometry, None)
    if columns.x is not None or columns.y is not None or {"lon", "lat"} <= set(schema.names):
        return None
    if b"geo" in (schema.metadata or {}):
        return _told(schema, json.loads(schema.metadata[b"geo"])["primary_column"])
    return next((told for field in schema if (told := _told(schema, field.name)) is not None), None)


def _told(schema: pa.Schema, name: str) -> Point | None:
    """Return what the metadata of a file say of a column; None where they say nothing."""
    geo = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    if (about := geo.get("columns", {}).get(name)) is not None:
        kinds = set(about.get("geometry_types") or ["Point"])
        if not kinds <= {"Point", "Point Z"}:
            raise InputError(f"geometry column {name!r} holds {', '.join(sorted(kinds))}: points are wanted")
        if about["encoding"] not in ("point", "WKB"):
            raise InputError(f"geometry column {name!r} is encoded as {about['encoding']}: WKB or point is wanted")
        boxes = about.get("covering", {}).get("bbox", {}).values()
        return Point(name, crs_of(about), frozenset(path[0] for path in boxes))
    field = schema.field(name) if name in schema.names else None
    told = (None if field is None else field.metadata) or {}
    extension = told.get(EXTENSION_NAME, b"").decode()
    if extension in (f"{PREFIX}point", f"{PREFIX}wkb", f"{PREFIX}wkt"):
        stated = json.loads(told.get(EXTENSION_TOLD) or b"{}").get("crs")
        return Point(name, crs_of({"crs": stated}) if stated is not None else None)
    return None


def crs_of(about: dict[str, Any]) -> str:
    """Return the name of a geometry column's CRS: lon and lat where none is stated, NO_CRS_SAID where null."""
    if "crs" not in about:
        return _NEVER_STATED
    stated = about["crs"]
    if stated is None:
        return NO_CRS_SAID
    import pyproj
    from pyproj.exceptions import CRSError

    try:
        read = pyproj.CRS.from_user_input(stated) if isinstance(stated, str) else pyproj.CRS.from_json_dict(stated)
        return read.to_string()
    except CRSError:
        raise InputError("the CRS that the file states is not one that pyproj reads: name it (--crs)") from None


def crs_taken(point: Point | None, asked: str | None) -> str | None:
    """Return the CRS of positions: what the user says, else what the file does; None where neither does."""
    if point is None or point.crs is None:
        return asked
    if asked is None:
        if point.crs == NO_CRS_SAID:
            raise Unfitting(
                f"geometry column {point.name!r} has no known CRS (crs is null): say it, --crs {LONLAT} where it holds "
                f"degrees, or --crs {NO_CRS} for a plane without one"
            )
        return point.crs
    if point.crs == NO_CRS_SAID or asked.lower() == NO_CRS or same_crs(asked, point.crs):
        return asked
    raise Unfitting(
        f"--crs is {short(asked)} and geometry column {point.name!r} is in {short(point.crs)}: leave --crs out, or "
        "transform the points first"
    )
