"""Answers as bytes: the JSON of hits and of one object, and the headers that every answer has, on both ways."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.arrow_stream import stream_of
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.names import position_names
from dtoss.partition import Partition
from dtoss.queries.cell_of import cell_at, outline_at
from dtoss.queries.find_by_id import Place
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.problems import Problem

JSON_TYPE = b"application/json"
"""Content type of JSON."""
ARROW_TYPE = b"application/vnd.apache.arrow.stream"
"""Content type of an Arrow IPC stream."""
HITS_A_PIECE = 1_000
"""Hits that are made into JSON at a time: other threads wait for so long at most."""


class Hit(msgspec.Struct):
    """A hit without attributes."""

    id: int | str
    distance: float


class HitOfMany(msgspec.Struct):
    """A hit without attributes, and the query that it is of."""

    query: int
    id: int | str
    distance: float


encode = msgspec.json.Encoder().encode


def rows_json(hits: Hits, *, query: bool = False, text_ids: bool = False) -> bytes:
    """Return hits with their attributes as rows of JSON, separated by commas, without brackets."""
    ids: list[Any] = hits.id.tolist()
    if text_ids:
        ids = list(map(str, ids))
    names = [*(["query"] if query else []), "id", "distance", *hits.columns]
    columns = [*([hits.query.tolist()] if query else []), ids, hits.distance.tolist()]
    columns += [json_values(column) for column in hits.columns.values()]
    if names == ["id", "distance"]:
        return encode(list(map(Hit, *columns)))[1:-1]
    if names == ["query", "id", "distance"]:
        return encode(list(map(HitOfMany, *columns)))[1:-1]
    return orjson.dumps([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])[1:-1]


def json_values(column: pa.Array) -> Sequence[Any]:
    """Return values of an attribute as JSON knows them.

    Times are ISO 8601, decimals and durations text, bytes base64; NaN becomes null when it is written.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return json_values(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return _moments(column)
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return [None if value is None else str(value) for value in column.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    if pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values: list[Any] = column.to_pylist()
        return values
    return [
        None if value is None else orjson.Fragment(orjson.dumps(value, default=str)) for value in column.to_pylist()
    ]


def json_value(column: pa.Array, row: int) -> object:
    """Return one value of an attribute as :func:`json_values` does, in a fraction of the time."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_large_string(kind):
        return column[row].as_py()
    if pa.types.is_timestamp(kind) and kind.unit in _TICKS:
        ticks, spec = _TICKS[kind.unit]
        value = column[row].value
        if value is None:
            return None
        with suppress(OverflowError):  # a year that Python does not know
            text = (_EPOCH + timedelta(microseconds=value * ticks)).isoformat(timespec=spec)
            return text if kind.tz is None else text + "Z"
    return json_values(column.slice(row, 1))[0]


_EPOCH = datetime(1970, 1, 1)
_TICKS = {"s": (1_000_000, "seconds"), "ms": (1_000, "milliseconds"), "us": (1, "microseconds")}
"""Microseconds of a unit, and what Python calls as many digits."""


def _moments(column: pa.Array) -> Sequence[Any]:
    zoned = column.type.tz is not None
    if zoned:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    texts: list[Any] = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ" if zoned else "%Y-%m-%dT%H:%M:%S").to_pylist()
    return texts


def etag(served: ServedSnapshot, target: bytes, arrow: bool = False) -> bytes:
    """Return the ETag of the answer to a path and query: equal ones have equal answers of one snapshot."""
    return b'"%s-%08x"' % (served.name.encode(), crc32(target, arrow))


def headers_of(
    served: ServedSnapshot, length: int | None, tag: bytes | None, kind: bytes = JSON_TYPE
) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer; without a length it is sent in chunks, without a tag it is not to be kept."""
    headers = [(b"content-type", kind)]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    if tag is not None:
        headers.append((b"etag", tag))
    return [
        *headers,
        *served.headers,
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept"),
    ]


class ObjectQuestion(msgspec.Struct, frozen=True):
    """Asks for an object by the text of its id.

    That is no kind of question: it is about no place, and nothing is merged, as one server has all of the answer.
    """

    text: str
    arrow: bool = False
    neighbours: bool = True
    cell: bool = False
    text_ids: bool = False
    where: str | None = None  # One that does not satisfy it is none; None for any
    columns: tuple[str, ...] | None = None  # The attributes that are told; None for all


def no_object(served: ServedSnapshot, text: str) -> Problem:
    """Return what is said of an id that no object has."""
    return Problem(404, f"no object has the id {text!r} in snapshot {served.name}", limit="id", value=text)


def id_of(index: Index, text: str) -> int | str:
    """Return the id that a text in a path means."""
    if index.string_ids:
        return text
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise KeyError(f"no object has the id {text!r}")
    return int(text)


def seen_at(served: ServedSnapshot, text: str, where: str | None) -> Place:
    """Return where an object is."""
    seen = None if where is None else served.conditions.get(where)
    place = served.index.place_of(id_of(served.index, text))
    if seen is not None and not seen.holds(np.array([place.partition.number]), np.array([place.item]))[0]:
        raise KeyError(f"no object has the id {text!r}")
    return place


def object_answer(served: ServedSnapshot, asked: ObjectQuestion) -> tuple[bytes, tuple[float, float]]:
    """Return an object as JSON, or as an Arrow stream of one row; and its position."""
    index = served.index
    object_id, place = id_of(index, asked.text), seen_at(served, asked.text, asked.where)
    partition, item, _ = place
    x, y = partition.positions[item].tolist()
    at = dict(zip(position_names(index.space.geographic), (x, y), strict=True))
    seen = seen_of(partition, asked.columns)
    if asked.arrow:
        columns = {"id": pa.array([object_id], pa.large_string() if index.string_ids else pa.int64())}
        columns |= {name: pa.array([value]) for name, value in at.items()}
        columns |= {name: column.slice(item, 1) for name, column in seen}
        return stream_of(pa.table(columns).replace_schema_metadata({"snapshot": served.name})), (x, y)
    told: dict[str, Any] = {"snapshot": served.name, "id": str(object_id) if asked.text_ids else object_id, **at}
    told["attributes"] = {name: json_value(column, item) for name, column in seen}
    # both tell of objects that are not seen
    if asked.neighbours and asked.where is None:
        ids = cell_at(served.cells, place).neighbours.tolist()
        told["neighbours"] = list(map(str, ids)) if asked.text_ids else ids
    if asked.cell and asked.where is None:
        outline, area = outline_at(served.cells, place)
        corners = index.space.positions(outline).tolist()
        told["cell"] = {"type": "Polygon", "coordinates": [[*corners, *corners[:1]]] if corners else []}
        told["area"] = area
    return orjson.dumps(told), (x, y)


def seen_of(partition: Partition, columns: Sequence[str] | None) -> Iterator[tuple[str, pa.Array]]:
    """Yield the attributes of a partition that are seen, with their names; all where None are named."""
    return ((name, column) for name, column in partition.attributes.items() if columns is None or name in columns)
