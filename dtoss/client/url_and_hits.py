"""Questions and hits as they are on the wire: parameters of a URL, Arrow streams, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arrow_stream import stream_of
from dtoss.client.http_connections import ARROW_MEDIA, Answer
from dtoss.column_rows import one_chunk
from dtoss.errors import DtossError
from dtoss.geometry.space import Space
from dtoss.hits import Hits
from dtoss.kinds.kind import Kind
from dtoss.names import position_names

OURS = ("query", "id", "distance")
"""Columns of hits that are no attributes."""
FARTHEST = 1e100
"""More than any two places are apart: what is said for a radius without end, since numbers on the wire are finite."""


def target(route: str, parameters: Mapping[str, Any]) -> str:
    """Return a route with its parameters, without those that are None; floats keep all their digits.

    Examples
    --------
    >>> target("/knn", {"k": 8, "where": "a = 'b c'", "snapshot": None, "max_distance": 0.1})
    '/knn?k=8&where=a%20%3D%20%27b%20c%27&max_distance=0.1'
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    texts = (f"{name}={quote(_text(value), safe='')}" for name, value in given.items())
    return route + "?" * bool(given) + "&".join(texts)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def parameters_of(
    kind: Kind[Any], given: Mapping[str, Any], count: int
) -> tuple[NDArray[np.float64] | None, dict[str, Any]]:
    """Return the radius of each place, where the kind takes one, and the parameters that all share."""
    radius, shared = None, dict[str, Any]()
    for one in kind.parameters:
        value = given[one.name]
        if one.each:
            radius = np.minimum(one.value(value, count), FARTHEST)
        elif one.whole or value is None:
            shared[one.name] = value
        elif np.ndim(value):
            raise ValueError(f"{one.name} is an array: a server takes one for all positions")
        else:
            shared[one.name] = float(np.minimum(one.value(value, 1), FARTHEST)[0])
    return radius, shared


def table_bytes(names: Sequence[str], columns: Sequence[NDArray[np.float64]]) -> bytes:
    """Return an Arrow stream of columns of numbers."""
    arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
    return stream_of(pa.record_batch(arrays, names=list(names)))


def id_text(object_id: Any, string_ids: bool) -> str | None:
    """Return an id as it stands in a path, None where no object can have it.

    Examples
    --------
    >>> id_text(7.0, False), id_text(np.int64(7), False), id_text("a", True), id_text("7", False), id_text(True, False)
    (None, '7', 'a', None, None)
    """
    if string_ids != isinstance(object_id, str) or isinstance(object_id, (bool, float)):
        return None
    if string_ids:
        try:
            str.encode(object_id)
        except UnicodeEncodeError:
            return None
        return str(object_id)
    try:
        number = int(object_id)
    except (ValueError, OverflowError):
        return None
    return str(number) if number == object_id else None


def boxes_json(boxes: NDArray[np.float64]) -> bytes:
    """Return the body of a question about boxes."""
    return json.dumps({"boxes": boxes.tolist()}).encode()


def geojson(polygons: Sequence[Sequence[Any]], edges: str) -> bytes:
    """Return the body of a question about a shape, from the rings of its polygons and what their edges are."""
    rings = [[np.asarray(ring, np.float64)[:, :2].tolist() for ring in polygon] for polygon in polygons]
    return json.dumps({"type": "MultiPolygon", "edges": edges, "coordinates": rings}).encode()


def table_of(answer: Answer) -> pa.Table:
    """Return the table in an answer."""
    if answer.kind != ARROW_MEDIA:
        raise DtossError(
            f"the server's answer is of type {answer.kind}: {ARROW_MEDIA} is wanted; is it a server of dtoss?"
        )
    try:
        return pa.ipc.open_stream(answer.body).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise DtossError(f"the server's answer is no Arrow stream: {error}") from None


def column_of(answer: Answer, name: str) -> NDArray[Any]:
    """Return a column of the table in an answer: numbers, or an object array of texts."""
    table = table_of(answer)
    if name not in table.column_names:
        raise DtossError(f"the server's answer has no column {name}, only {', '.join(table.column_names)}")
    return _array(table[name])


@dataclass(frozen=True)
class FromServer:
    """What hits of a server know of their objects: not where they are, unless their columns say so."""

    space: Space

    @property
    def crs(self) -> str:
        """The CRS of positions."""
        return self.space.crs

    @property
    def names(self) -> tuple[str, str]:
        """How the two coordinates are called."""
        return position_names(self.space.geographic)

    def positions_of(self, ids: NDArray[Any]) -> NDArray[np.float64]:
        """Raise ValueError, which says how a server is asked for positions."""
        first, second = self.names
        raise ValueError(f"hits of a server carry positions where they are asked for: columns=[{first!r}, {second!r}]")


def hits_of(answer: Answer, queries: int, space: Space, first: int = 0) -> Hits:
    """Return the hits in an answer."""
    table = table_of(answer)
    lacking = [name for name in ("id", "distance") if name not in table.column_names]
    if lacking:
        raise DtossError(f"the server's answer has no column {lacking[0]}, only {', '.join(table.column_names)}")
    if "query" in table.column_names:
        query = _array(table["query"])
        query += first
    else:
        every = int((table.schema.metadata or {}).get(b"every", b"0"))
        query = np.repeat(np.arange(first, first + queries), every)
    if len(query) != len(table):
        raise DtossError(f"the server's answer has {len(table):,} hits of {len(query):,}")
    attributes = {name: one_chunk(table[name]) for name in table.column_names if name not in OURS}
    return Hits(query, _array(table["id"]), _array(table["distance"]), attributes, FromServer(space))


def hits_of_document(answer: Answer, string_ids: bool, space: Space) -> Hits:
    """Return the hits of one question in an answer of JSON, without attributes."""
    found = answer.document().get("hits")
    if not isinstance(found, list):
        raise DtossError("the server's answer holds no hits: is it a server of dtoss?")
    ids = np.array([hit["id"] for hit in found], dtype=object if string_ids else np.int64)
    distance = np.array([hit["distance"] for hit in found], dtype=np.float64)
    return Hits(np.zeros(len(found), np.int64), ids, distance, {}, FromServer(space))


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return an array of its own, which callers may change, as those of an index in process."""
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        texts: NDArray[Any] = one_chunk(column).to_numpy(zero_copy_only=False).astype(object)
        return texts
    numbers: NDArray[Any] = column.to_numpy()
    return numbers if numbers.flags.writeable else numbers.copy()
