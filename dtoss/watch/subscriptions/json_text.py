"""JSON as subscriptions are kept: strict, in one line, the same wherever it is made.

Polygons of subscriptions and of windows as they are kept: GeoJSON that says what its edges are.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.frames.geojson_members import read_json
from dtoss.geometry.polygons import Polygon, polygons_in, rings_of, rings_together
from dtoss.geometry.space import Space
from dtoss.geometry.straight_edges import BY_VECTORS, SPHERICAL


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()  # of numpy
    raise TypeError(f"a value of type {type(value).__name__}")


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


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
