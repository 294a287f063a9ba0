"""Formats of files that are read whole as tables, a file a task: Arrow IPC, GeoJSON of points, GPX.

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
from dtoss.frames.geo_columns import crs_name, short
from dtoss.frames.geojson_members import members_of
from dtoss.geometry.space import LONLAT

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
