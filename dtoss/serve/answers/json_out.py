"""Answers as bytes: the JSON of hits, and the headers that every answer has, the same on both ways."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.hits import Hits
from dtoss.serve.answers.open_snapshots import ServedSnapshot

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
