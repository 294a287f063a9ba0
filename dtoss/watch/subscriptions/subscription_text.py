"""Subscriptions as people write them, and their places in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dtoss.frames.geojson_members import read_json
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, COMPLEMENT, POLYGON, WANTS, said_of_stay
from dtoss.watch.subscriptions.json_text import edges_kept

_START = datetime(1970, 1, 1, tzinfo=UTC)
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
