"""Files of subscriptions: JSON lines, GeoJSON and Parquet, each read whole and checked before anything changes.

Geometries of frames and files as the places of subscriptions.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.errors import DtossError, InputError
from dtoss.frames.coordinates import points_of
from dtoss.frames.geo_columns import NO_CRS_SAID, check_crs, crs_name, geo_column
from dtoss.frames.geojson_members import Members, members_of
from dtoss.frames.polygon_frames import GEOMETRY_NAMES
from dtoss.geometry.space import Space
from dtoss.snapshots.store_location import filesystem_of, hide_keys
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.forms import RADII
from dtoss.watch.subscriptions.validation import Against, Bad, check_subscriptions, checked_table

_PARQUET_MARK = b"PAR1"
_MARK = b"\xef\xbb\xbf"
_BEGINS = (b"{", b"[", b"\x1e")
"""How JSON of subscriptions begins."""
_CHECKED_EVERY = 100
"""Rows of what was sent after which it is looked whether anybody waits."""
_SHAPES = ("Polygon", "MultiPolygon")


@dataclass(frozen=True)
class Bounds:
    """How much of what a stranger has sent is read."""

    rows: int  # Subscriptions, at the most
    text: int  # Characters of a condition, and of words
    check: Callable[[], None]  # Is called now and then; what it raises ends the reading


@dataclass(frozen=True)
class Read:
    """What files hold."""

    table: pa.Table  # The good subscriptions, of :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`
    bad: tuple[Bad, ...]  # The others, in the order of the files

    @property
    def rows(self) -> int:
        """How many there are, good and bad."""
        return len(self.table) + len(self.bad)


def read_files(
    paths: Sequence[str],
    space: Space | None = None,
    schema: Mapping[str, pa.DataType] | None = None,
    *,
    text: bool | None = None,
    time: bool | None = None,
    allow_everything: bool = False,
) -> Read:
    """Return the subscriptions of files. Cost O(n), and all of a file is in memory.

    ``paths``: paths or URIs. Parquet is known by its first bytes; other files hold JSON: a subscription or a GeoJSON
    Feature on each line, or a FeatureCollection. A Polygon or MultiPolygon of a Feature is the place, and a Point with
    a property radius or metres the circle; its other properties are the rest of a row; ``space``: of the places;
    degrees when None; ``schema``: types of the columns that a condition may name; None where they are not known;
    ``text``: whether rows have a text; None where that is not known; ``time``: whether rows have a time, and are of
    objects that move; None where that is not known.
    """
    if not paths:
        raise InputError("no files are given: name at least one with subscriptions")
    against = Against(space or Against().space, schema, text, time, allow_everything)
    tables: list[pa.Table] = []
    bad: list[Bad] = []
    for path in paths:
        with _uncollected():
            table, wrong, lines = _of_file(str(path), against)
        if len(tables):
            table, twice = _not_before(table, tables, str(path), lines)
            wrong = sorted([*wrong, *twice], key=lambda one: one.row)
        tables.append(table)
        bad += wrong
    return Read(pa.concat_tables([SUBSCRIPTION_SCHEMA.empty_table(), *tables]), tuple(bad))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of circles from looking at millions of rows, none of which is in one, time and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def read_body(data: bytes, against: Against, bounds: Bounds, name: str = "the body") -> Read:
    """Return the subscriptions of JSON that somebody has sent, as :func:`read_files` those of a file; Parquet is none.

    ``name``: what it is called in messages.
    """
    if data[:4] == _PARQUET_MARK:
        raise InputError(f"{name} is Parquet: JSON is wanted, a subscription on each line or a list of them")
    if (begin := data.removeprefix(_MARK).lstrip()[:1]) and begin not in _BEGINS:
        raise InputError(f"{name} is no JSON: a subscription on each line is wanted, a list of them, or GeoJSON")
    with _uncollected():
        table, bad, _ = _of_bytes(data, name, against, bounds)
    return Read(table, tuple(bad))


def _of_file(path: str, against: Against) -> tuple[pa.Table, list[Bad], list[int]]:
    """Return the good subscriptions of a file, the bad ones, and the lines of the good ones."""
    return _of_bytes(_bytes_of(path), path, against)


def _of_bytes(
    data: bytes, path: str, against: Against, bounds: Bounds | None = None
) -> tuple[pa.Table, list[Bad], list[int]]:
    name = hide_keys(path)
    lines: list[int] = []
    try:
        if data[:4] == _PARQUET_MARK:
            table = _parquet(data, against.space)
            lines += range(1, len(table) + 1)
            good, bad = checked_table(table, against, file=name)
        else:
            broken: dict[int, str] = {}
            members = _members(data, name)
            if members.crs is not None:
                check_crs(crs_name(members.crs), against.space, "the places", _WHOSE)
            records = _note_broken(members, lines, broken)
            if bounds is not None:
                records = _bounded(records, bounds, name, lines, broken)
            good, bad = check_subscriptions(map(_record_of, records), against, file=name, lines=lines)
            bad = [replace(one, reason=broken.get(one.row, one.reason)) for one in bad] if broken else bad
    except DtossError:
        raise
    except (ValueError, pa.ArrowException) as error:
        raise InputError(f"{name} cannot be read: {' '.join(str(error).split())}") from None
    gone = {one.row for one in bad}
    return good, bad, [line for line in lines if line not in gone] if gone else lines


def _bounded(
    records: Iterator[Any], bounds: Bounds, name: str, numbers: list[int], broken: dict[int, str]
) -> Iterator[Any]:
    """Yield records within bounds; what is wrong with one is noted before."""
    for row, record in enumerate(records):
        if row >= bounds.rows:
            raise InputError(f"{name} holds more than {bounds.rows:,} subscriptions: send them in several requests")
        if row % _CHECKED_EVERY == 0:
            bounds.check()
        said = record if isinstance(record, dict) else {}
        if said.get("type") == "Feature" and isinstance(said.get("properties"), dict):
            said = said["properties"]
        for field in ("where", "words"):
            text = said.get(field)
            if isinstance(text, str) and len(text) > bounds.text:
                broken[numbers[row]] = f"{field} has {len(text):,} characters: at most {bounds.text:,} are allowed"
                record = None
        yield record


def _bytes_of(path: str) -> bytes:
    try:
        if "://" not in path:
            return Path(path).read_bytes()
        filesystem, place = filesystem_of(path, files=True)
        with filesystem.open_input_stream(place) as stream:
            return bytes(stream.read())
    except IsADirectoryError:
        raise InputError(f"{hide_keys(path)} is a folder: name its files") from None
    except FileNotFoundError:
        raise InputError(f"{hide_keys(path)} is not there: a file of subscriptions is wanted") from None
    except OSError as error:
        raise InputError(f"{hide_keys(path)} cannot be read: {' '.join(str(error).split())}") from None


def _members(data: bytes, name: str) -> Members:
    begin = data.removeprefix(_MARK).lstrip()[:1]
    if not begin:
        raise InputError(f"{name} is empty: a subscription on each line is wanted")
    if begin not in _BEGINS:
        raise InputError(
            f"{name} is no JSON and no Parquet: JSON lines, GeoJSON or Parquet is wanted; DuckDB and pandas make "
            "Parquet of CSV with the columns id, lon, lat, radius"
        )
    return members_of(data, name)


def _note_broken(members: Members, numbers: list[int], broken: dict[int, str]) -> Iterator[Any]:
    """Yield members; the number of each, and what is wrong with it, are noted as it is taken."""
    for number, value, wrong in members.each:
        numbers.append(number)
        if wrong is not None:
            broken[number] = wrong
        yield value


def _record_of(one: Any) -> Any:
    """Return a Feature as a row; what is none as it is."""
    if not isinstance(one, dict) or one.get("type") != "Feature":
        return one
    geometry, properties = one.get("geometry"), one.get("properties") or {}
    if not isinstance(properties, dict):
        return properties
    row = dict(properties)
    if one.get("id") is not None:
        row.setdefault("id", one["id"])
    if geometry is None:
        return row
    kind = geometry.get("type") if isinstance(geometry, dict) else None
    if kind in _SHAPES:
        return _with(row, "polygon", geometry)
    if kind == "Point":
        radii = [row.pop(name) for name in RADII if name in row]
        centre = geometry.get("coordinates")
        x_y = list(centre[:2]) if isinstance(centre, list) else [centre]
        return _with(row, "circle", [*x_y, *radii])
    return _with(row, "polygon", geometry)


def _with(row: dict[str, Any], name: str, place: Any) -> dict[str, Any]:
    if row.get(name) is not None:
        row["geometry"] = place  # a place too many, which is named
    else:
        row[name] = place
    return row


def _parquet(data: bytes, space: Space) -> pa.Table:
    """Return the table of a Parquet file, a column of geometries as polygons or as the centres of circles."""
    import pyarrow.parquet as pq

    return place_geometries(pq.read_table(pa.BufferReader(data)), space)


def _not_before(
    table: pa.Table, before: Iterable[pa.Table], path: str, lines: Sequence[int]
) -> tuple[pa.Table, list[Bad]]:
    """Return a table without the ids that stand in files before, and those rows."""
    ids = pa.concat_arrays(
        [chunk for one in before for chunk in one.column("id").chunks] or [pa.array([], pa.string())]
    )
    again = pc.is_in(table.column("id"), ids).to_numpy()
    bad = [
        Bad(
            hide_keys(path),
            lines[row],
            name := table.column("id")[row].as_py(),
            f"the id {name!r} stands in a file before",
        )
        for row in np.flatnonzero(again).tolist()
    ]
    return table.filter(pa.array(~again)), bad


_WHOSE = "the watch"


def place_geometries(table: pa.Table, space: Space) -> pa.Table:
    """Return a table whose column of geometries, if it has one, is one of polygons, or of the centres of circles.

    ``table``: of subscriptions; points are centres where there is a column radius or metres.
    """
    name = next((name for name in GEOMETRY_NAMES if name in table.column_names), None)
    if name is None or set(SUBSCRIPTION_SCHEMA.names) <= set(table.column_names):
        return table
    at = table.schema.get_field_index(name)
    said = (table.schema.metadata or {}).get(b"geo")
    read = geo_column(table.column(at), table.schema.field(at), said)
    if read is not None:
        check_crs(read.crs or NO_CRS_SAID, space, "the places", _WHOSE)
    reach = next((one for one in RADII if one in table.column_names), None)
    if reach is not None and read is not None:
        centres, _ = points_of(read, missing=True)
        none = np.isnan(centres[:, 0])
        table = table.remove_column(at)
        for axis, values in (("x", centres[:, 0]), ("y", centres[:, 1])):
            table = table.append_column(axis, pa.array(values, mask=none))
    else:
        values = table.column(at) if read is None else pa.chunked_array([read.values])
        table = table.set_column(at, "polygon", values)
        if read is not None and read.edges is not None and "edges" not in table.column_names:
            said = pc.if_else(values.is_valid(), read.edges, pa.scalar(None, pa.string()))
            table = table.append_column("edges", said)
    # the boxes round geometries, which GeoParquet may keep beside them
    return table.drop_columns(["bbox"]) if "bbox" in table.column_names else table
