"""Formats of files that are read whole as tables, Arrow IPC, GeoJSON of points, GPX; and columns of points in them.

A format is its name, how names of its files end, the columns of a file, and its rows. One more is one more entry here,
and needs nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.frames.geo_columns import EXTENSION_NAME, EXTENSION_TOLD, NO_CRS_SAID, PREFIX, crs_name, short
from dtoss.frames.geojson_members import members_of
from dtoss.geometry.space import LONLAT, NO_CRS, same_crs
from dtoss.rows.input_columns import Columns, Unfitting, check_found, leaves, type_at

PACKED = (".gz", ".bz2", ".zst")
"""Endings of packed files."""
ROWS = 1 << 16
_FIX = ("trkpt", "rtept", "wpt")
"""Elements of GPX that are places."""


@dataclass(frozen=True)
class TableFormat:
    """A format whose files are tables."""

    shown: str  # Its name in messages
    endings: tuple[str, ...]  # How names of its files end, the usual one first
    look: Callable[[fs.FileSystem, str], pa.Schema]  # The columns of a file
    rows: Callable[[fs.FileSystem, str], Iterator[pa.RecordBatch]]  # Its rows, in these columns
    # What text in columns is meant to be, unless another column is the time
    meant: Mapping[str, str] = field(default_factory=dict)


def _stream(filesystem: fs.FileSystem, file: str) -> pa.NativeFile:
    packed = "detect" if file.lower().endswith(PACKED) else None
    return filesystem.open_input_stream(file, compression=packed)


def _arrow_batches(filesystem: fs.FileSystem, file: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an IPC file, or of a stream; the first one is empty and says the columns."""
    if not file.lower().endswith(PACKED):
        with filesystem.open_input_file(file) as opened:
            try:
                reader = pa.ipc.open_file(opened)
            except pa.ArrowInvalid:
                reader = None
            if reader is not None:
                yield _empty(reader.schema)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
                return
    with _stream(filesystem, file) as stream, pa.ipc.open_stream(stream) as batches:
        yield _empty(batches.schema)
        yield from batches


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _first_schema(filesystem: fs.FileSystem, file: str) -> pa.Schema:
    return next(_arrow_batches(filesystem, file)).schema


def of_records(
    shown: str,
    endings: tuple[str, ...],
    records: Callable[[fs.FileSystem, str], Iterable[dict[str, Any]]],
    known: Mapping[str, pa.DataType],
    **others: Any,
) -> TableFormat:
    """Return a format of files that hold a record for each row; columns are of the type of all their values."""

    def table(filesystem: fs.FileSystem, file: str) -> pa.Table:
        rows = list(records(filesystem, file))
        names = dict.fromkeys([*known, *(name for row in rows for name in row)])
        columns = {name: _column([row.get(name) for row in rows], known.get(name)) for name in names}
        return pa.table({name: values for name, values in columns.items() if name in known or values.type != pa.null()})

    def batches(*place: Any) -> Iterator[pa.RecordBatch]:
        return iter(table(*place).to_batches(max_chunksize=ROWS))

    return TableFormat(shown, endings, lambda *place: table(*place).schema, batches, **others)


def _column(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    if kind is not None:
        return pa.array(values, kind)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # of several types: their text, as JSON lines have it
        texts = [
            one if one is None or isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in values
        ]
        return pa.array(texts, pa.string())


def _features(filesystem: fs.FileSystem, file: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each feature: its id, its properties, and lon and lat of its point."""
    with _stream(filesystem, file) as stream:
        members = members_of(stream.read(), file)
    # RFC 7946 fixes the CRS
    if members.crs is not None and crs_name(members.crs) != LONLAT:
        raise InputError(
            f"{file} states the CRS {short(str(members.crs))}, and lon and lat of WGS 84 are wanted: transform it"
        )
    for number, feature in members.objects():
        if feature.get("type") != "Feature":
            raise InputError(
                f"{members.place(number)} is no feature: a collection of features, or one a line, is wanted"
            )
        properties = feature.get("properties")
        record = dict(properties) if isinstance(properties, dict) else {}
        if "id" in feature:
            record.setdefault("id", feature["id"])
        yield record | _place_of(feature.get("geometry"))


def _place_of(geometry: Any) -> dict[str, float | None]:
    """Return lon and lat of a point, None where a geometry is none."""
    place = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    try:
        lon, lat = (float(one) for one in (place or ())[:2] if type(one) in (int, float))
    except (TypeError, ValueError, OverflowError):
        return {"lon": None, "lat": None}
    return {"lon": lon, "lat": lat}


def _fixes(filesystem: fs.FileSystem, file: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each place of a track, a route or by itself: called as that is, or as the file."""
    stem = PurePosixPath(file).name.partition(".")[0]
    names: list[str | None] = [None]
    with _stream(filesystem, file) as stream:
        try:
            for event, element in ElementTree.iterparse(stream, ("start", "end")):
                tag = element.tag.rpartition("}")[2]
                if event == "start" and tag in ("trk", "rte"):
                    names.append(None)
                elif event == "end" and tag in _FIX:
                    yield _fix(element, tag, names[-1], stem)
                    element.clear()
                elif event == "end" and tag == "name" and len(names) > 1 and names[-1] is None:
                    names[-1] = (element.text or "").strip() or None
                elif event == "end" and tag in ("trk", "rte"):
                    names.pop()
        except ElementTree.ParseError as error:
            raise InputError(f"{file} is no GPX: {error}") from None


def _fix(element: ElementTree.Element, tag: str, track: str | None, stem: str) -> dict[str, Any]:
    inside = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in element}
    own = inside.get("name") if tag == "wpt" else None
    record: dict[str, Any] = {"id": own or track or stem}
    for axis in ("lon", "lat"):
        record[axis] = _number(element.get(axis))
    record["t"] = inside.get("time") or None
    return record | {name: _number(inside.get(name)) for name in ("ele", "speed", "course", "hdop") if name in inside}


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


_PLACE = {"lon": pa.float64(), "lat": pa.float64()}
TABLE_FORMATS = {
    "geojson": of_records("GeoJSON points", (".geojson", ".geojsonl", ".geojsons"), _features, _PLACE),
    "gpx": of_records(
        "GPX", (".gpx",), _fixes, {"id": pa.string(), **_PLACE, "t": pa.string()}, meant={"t": "timestamp"}
    ),
    "arrow": TableFormat("Arrow IPC", (".arrow", ".arrows", ".feather", ".ipc"), _first_schema, _arrow_batches),
}
"""Formats by their names."""


def types_meant(kind: str, time: str | None) -> dict[str, str]:
    """Return what text in files of a kind is meant to be: of a column that is the time, unless another one is."""
    meant = TABLE_FORMATS[kind].meant if kind in TABLE_FORMATS else {}
    return {name: what for name, what in meant.items() if time in (None, name)}


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
