"""Texts of subscriptions: strict JSON in one line, columns of ids and conditions, and all as people write them.

Polygons of subscriptions and of windows as they are kept: GeoJSON that says what its edges are.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from datetime import datetime as datetime_type
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.frames.geojson_members import read_json
from dtoss.geometry.polygons import BY_VECTORS, SPHERICAL, Polygon, polygons_in, rings_of, rings_together
from dtoss.geometry.space import Space
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, COMPLEMENT, POLYGON, WANTS, said_of_stay


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()  # of numpy
    raise TypeError(f"a value of type {type(value).__name__}")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain_value)


def json_text(value: Any) -> str:
    """Return a value as JSON in a line without blanks; times as ISO 8601, numbers and arrays of numpy as their own."""
    text = _ENCODER.encode(value)
    text.encode()  # half a character cannot be written
    return text


def polygon_text(polygons: Sequence[Sequence[Any]], edges: str) -> str:
    """Return the rings of polygons as GeoJSON, two numbers a corner; edges by vectors go without saying."""
    corners = [[np.asarray(ring, np.float64)[:, :2].tolist() for ring in rings] for rings in polygons]
    shape: dict[str, Any] = {"type": "MultiPolygon", "coordinates": corners}
    if len(corners) == 1:
        shape = {"type": "Polygon", "coordinates": corners[0]}
    return json_text(shape if edges == BY_VECTORS else {**shape, "edges": edges})


def edges_kept(shape: Mapping[str, Any]) -> str:
    """Return what the edges of kept GeoJSON are: where it does not say, it is older than that it could."""
    return str(shape.get("edges", BY_VECTORS))


def edges_column(texts: pa.Array) -> pa.Array:
    """Return what the edges of each kept text are; null where it is no polygon."""
    said = pc.match_substring(texts, '"edges":"')
    return pc.if_else(said, pc.extract_regex(texts, '"edges":"(?P<edges>[a-z]+)"').field("edges"), BY_VECTORS)


def with_arcs(texts: pa.Array) -> pa.Array:
    """Return kept texts whose edges are great-circle arcs by today's rule, where they did not say what they are."""
    of_before = pc.equal(edges_column(texts), BY_VECTORS)
    said = pc.replace_substring_regex(texts, r"\}$", f',"edges":"{SPHERICAL}"}}')
    return pc.if_else(of_before, said, texts)


def polygons_kept(texts: Sequence[str], space: Space) -> list[list[Polygon]]:
    """Return the polygons of each of some kept texts; those of a kind are made at once."""
    shapes = [read_json(text) for text in texts]
    kinds = [edges_kept(shape) for shape in shapes]
    found: list[list[Polygon]] = [[] for _ in shapes]
    for edges in dict.fromkeys(kinds):
        rows = [row for row, kind in enumerate(kinds) if kind == edges]
        made = polygons_in(rings_together([rings_of(shapes[row]) for row in rows], edges), space)
        for row, polygons in zip(rows, made, strict=True):
            found[row] = polygons
    return found


LONGEST_ID = 1_000
"""Characters of an id of a subscription."""
LONGEST_QUOTED = 100_000
"""Characters of a condition, of words and of meta, each."""
_LARGEST_ID = 2**63
"""A larger number is read as a fraction by many, and is no id; text may be."""
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)


def texts_of(values: Sequence[Any] | pa.Array | None, count: int, name: str, reasons: dict[int, str]) -> pa.Array:
    """Return a column as text; what is none, or is too long, is null, and named. Cost O(n).

    ``values``: none where there is no such column.
    """
    if values is None:
        return pa.nulls(count, pa.string())
    found = _plain(values)
    if found is None:
        kept = []
        for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
            if value is not None and not (isinstance(value, str) and _encodes(value)):
                reasons.setdefault(row, f"{name} is {_short(value)}: a text is wanted")
                value = None
            kept.append(value)
        found = pa.array(kept, pa.string())
    return _bounded(found, name, LONGEST_QUOTED, reasons)


def ids_of(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return ids as text, whole numbers as their decimal digits; what is no id is null, and named. Cost O(n).

    ``values``: none where there is no such column.
    """
    if values is None:
        values = [None] * count
    found = _plain(values, numbers=True)
    if found is None:
        kept: list[str | None] = []
        for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
            good = isinstance(value, str) or (_is_whole(value) and abs(int(value)) <= _LARGEST_ID)
            if value is not None and not (good and _encodes(str(value))):
                reasons.setdefault(row, f"id is {_short(value)}: a text or a whole number is wanted")
            kept.append(str(value) if good and _encodes(str(value)) else None)
        found = pa.array(kept, pa.string())
    missing = pc.or_(found.is_null(), pc.equal(found, "").fill_null(True))
    for row in np.flatnonzero(missing.to_numpy(zero_copy_only=False)).tolist():
        reasons.setdefault(row, "there is no id")
    return _bounded(found, "id", LONGEST_ID, reasons)


def metas_of(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return what is given back with each event as JSON; what cannot be written so is null, and named. Cost O(n).

    ``values``: none where there is no such column. A text in a column of Arrow that reads as an object or a list is
    one.
    """
    if values is None:
        return pa.nulls(count, pa.string())
    of_arrow = isinstance(values, pa.Array)
    kept: list[str | None] = []
    for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
        said = None
        if value is not None:
            try:
                said = _json(value, of_arrow)
            except (TypeError, ValueError, RecursionError) as error:
                reasons.setdefault(row, f"meta is {_short(value)}: JSON cannot hold it: {' '.join(str(error).split())}")
        kept.append(said)
    return _bounded(pa.array(kept, pa.string()), "meta", LONGEST_QUOTED, reasons)


def _json(value: Any, of_arrow: bool) -> str:
    if of_arrow and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json_text(read_json(value))
        except ValueError:
            pass
    return json_text(value)


def _plain(values: Sequence[Any] | pa.Array, *, numbers: bool = False) -> pa.Array | None:
    """Return a column of nothing but text at once, or of whole numbers; None where it is another one."""
    try:
        found = values if isinstance(values, pa.Array) else pa.array(values)
        kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        good = any(is_it(kind) for is_it in _TEXTS) or (numbers and pa.types.is_integer(kind))
        return found.cast(pa.string()) if good else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bounded(found: pa.Array, name: str, most: int, reasons: dict[int, str]) -> pa.Array:
    long = pc.greater(pc.utf8_length(found), most).fill_null(False)
    rows = np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist()
    if not rows:
        return found
    for row in rows:
        size = len(found[row].as_py())
        reasons.setdefault(row, f"{name} has {size:,} characters: at most {most:,} are kept, make it shorter")
    return pc.if_else(long, pa.scalar(None, pa.string()), found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


LONGEST_SHOWN = 100
"""Characters of a value that an error shows."""


_START = datetime_type(1970, 1, 1, tzinfo=UTC)
_KILOMETRE = 1000.0


def write_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return subscriptions as rows that people may write, and their version.

    expires is ISO 8601 where the year has four digits, else seconds. What is not there is left out. Cost O(n).
    """
    return [_row(row) for row in table.to_pylist()]


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"id": row["id"]}
    kind = row["kind"]
    if kind == CIRCLE:
        said["circle"] = [row["x"], row["y"], row["radius"]]
    elif kind == BOX:
        said["box"] = [row[name] for name in ("west", "south", "east", "north")]
    elif kind == POLYGON:
        shape = read_json(row["polygon"])
        said["polygon"] = {**shape, "edges": edges_kept(shape)}
    elif kind == AROUND:
        said["around"] = {"object": row["object"], "metres": row["radius"]}
    said |= {name: row[name] for name in ("where", "words") if row[name] is not None}
    said["events"] = [name for name, bit in WANTS.items() if row["events"] & bit]
    if row["events"] & COMPLEMENT:
        said["outside"] = True
    said |= said_of_stay(row["stay"])
    if row["expires"] is not None:
        said["expires"] = _time(row["expires"])
    if row["meta"] is not None:
        said["meta"] = read_json(row["meta"])
    if row["version"] is not None:
        said["version"] = row["version"]
    return said


def _time(microseconds: int) -> str | float:
    try:
        return (_START + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return microseconds / 1e6


def place_in_words(row: Mapping[str, Any], metres: bool) -> str:
    """Return the place of a row of :func:`write_rows` in words.

    ``metres``: whether lengths are metres; else they are units of the CRS.

    Examples
    --------
    >>> place_in_words({"circle": [8.0, 50.5, 1500.0]}, True), place_in_words({}, True)
    ('within 1.5 km of 8, 50.5', 'everywhere')
    """
    if row.get("outside"):
        return f"outside: {place_in_words({name: row[name] for name in row if name != 'outside'}, metres)}"
    if "circle" in row:
        x, y, radius = row["circle"]
        return f"within {_length(radius, metres)} of {x:.7g}, {y:.7g}"
    if "box" in row:
        west, south, east, north = row["box"]
        return f"from {west:.7g}, {south:.7g} to {east:.7g}, {north:.7g}"
    if "polygon" in row:
        shape = row["polygon"]
        parts = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
        corners = sum(len(ring) for rings in parts for ring in rings)
        pieces = f" in {len(parts):,} parts" if len(parts) > 1 else ""
        return f"a polygon of {corners:,} corners{pieces}"
    if "around" in row:
        return f"within {_length(row['around']['metres'], metres)} of object {row['around']['object']}"
    return "everywhere"


def _length(length: float, metres: bool) -> str:
    if not metres:
        return f"{length:.7g} units"
    return f"{length / _KILOMETRE:.7g} km" if length >= _KILOMETRE else f"{length:.7g} m"
