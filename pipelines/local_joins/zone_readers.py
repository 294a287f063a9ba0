"""Files of zones: GeoJSON by JSON alone, GeoParquet by Arrow, and what GDAL reads by pyogrio."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.frames.geo_columns import NO_CRS_SAID, check_crs, crs_name, short
from dtoss.frames.geojson_members import members_of, read_json
from dtoss.frames.polygon_frames import Zones, rings_of_values, zones_of
from dtoss.geometry.space import NO_CRS, Space
from dtoss.names import did_you_mean

JSON_SUFFIXES = (".geojson", ".json")
PARQUET_SUFFIXES = (".parquet", ".geoparquet", ".pq")
DEGREES = (180.0, 90.0)
"""Coordinates up to these may be longitudes and latitudes."""


@dataclass(frozen=True)
class NamedZones:
    """The zones of a file, in its order."""

    zones: Zones  # A shape for each row
    names: list[Any]  # What each is called: the values of a property, or the numbers of the rows
    bare: bool = False  # Whether the file could not name a CRS, or did not: its numbers are then taken as the store's


def read_zones(path: str, by: str | None = None) -> NamedZones:
    """Return the zones of a file.

    ``by``: the property by which zones are called; the number of the row, from 0, when None.
    """
    suffix = Path(path).suffix.lower()
    try:
        if suffix in JSON_SUFFIXES:
            return _geojson(path, by)
        return _parquet(path, by) if suffix in PARQUET_SUFFIXES else _by_gdal(path, by)
    except (ValueError, OSError, pa.ArrowException) as error:
        why = str(error.strerror if isinstance(error, OSError) and error.strerror else error) or type(error).__name__
        raise InputError(f"{path}: {' '.join(why.split())}") from None


def check_zones(found: NamedZones, space: Space, path: str) -> None:
    """Check that the zones of a file are where a store's objects are; nothing is transformed."""
    check_crs(found.zones.crs, space, f"the zones of {path}")
    corners = found.zones.rings.corners
    if not found.bare or space.geographic or space.crs == NO_CRS or not len(corners):
        return
    if (abs(corners) <= DEGREES).all():
        raise ValueError(
            f"{path} names no CRS, so its numbers are taken in {short(space.crs)} of the store, and they look like "
            f'degrees: transform them, or name the CRS that they are in ("crs", as GDAL writes it)'
        )


def read_shape(path: str, option: str = "") -> Any:
    """Return what a GeoJSON file holds; ``option`` names it in messages."""
    try:
        return read_json(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"{option}{path} is not a GeoJSON file: {error}") from None


def _geojson(path: str, by: str | None) -> NamedZones:
    members = members_of(Path(path).read_bytes(), path)
    features = [feature for _, feature in members.objects()]
    shapes = [feature.get("geometry") if feature.get("type") == "Feature" else feature for feature in features]
    rings = rings_of_values(shapes)
    properties = [_member(feature, "properties") for feature in features]
    names = _names(by, [*dict.fromkeys(name for one in properties for name in one)], len(features))
    if by is not None and names is None:
        names = [one.get(by) for one in properties]
    return NamedZones(Zones(rings, crs_name(members.crs)), names or list(range(len(features))), members.crs is None)


def _member(one: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that is an object, an empty one where it is none."""
    found = one.get(name)
    return found if isinstance(found, Mapping) else {}


def _parquet(path: str, by: str | None) -> NamedZones:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    about = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    shapes = {about.get("primary_column", "")} & set(schema.names)
    others = [name for name in schema.names if name not in about.get("columns", {})]
    names = _names(by, others, 0)
    wanted = [*(shapes or schema.names), *([by] if by is not None and shapes else [])]
    table = pq.read_table(path, columns=list(dict.fromkeys(wanted)))
    found = zones_of(table.select([*shapes]) if shapes else table)
    if found is None:
        raise ValueError("it holds no polygons")
    named = table[by].to_pylist() if names is None and by is not None else list(range(len(found)))
    return NamedZones(found, named, found.crs is None)


def _by_gdal(path: str, by: str | None) -> NamedZones:
    if not Path(path).exists():
        raise ValueError("there is no such file")
    pyogrio = need("pyogrio", f"reading {path}", "geo")
    try:
        layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
        if len(layers) != 1:
            raise ValueError(f"it has {len(layers)} layers of geometries ({', '.join(layers)}): one is wanted")
        about = pyogrio.read_info(path, layer=layers[0])
        names = _names(by, [str(name) for name in about["fields"]], 0)
        columns = [] if names is not None or by is None else [by]
        stated, _, shapes, fields = need("pyogrio.raw", f"reading {path}", "geo").read(
            path, layer=layers[0], columns=columns, datetime_as_string=True
        )
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        raise ValueError(f"it is nothing that GDAL reads: {str(error).splitlines()[0]}") from None
    if shapes is None:
        raise ValueError("it holds no geometries")
    rings = rings_of_values(shapes)
    named = fields[0].tolist() if columns else list(range(len(shapes)))
    return NamedZones(Zones(rings, crs_name(stated["crs"]) or NO_CRS_SAID), named)


def _names(by: str | None, properties: Iterable[str], rows: int) -> list[Any] | None:
    """Return the numbers of rows without a property to call them by, None where there is such a property."""
    if by is None:
        return list(range(rows))
    known = list(properties)
    if by in known:
        return None
    raise ValueError(f"zones have no property {by!r}; they have {', '.join(known) or 'none'}{did_you_mean(by, known)}")
