"""Mapbox Vector Tiles 2.1: features as the bytes of a layer, and nothing of what they mean.

A tile is a message of protobuf. Its numbers are varints, 7 bits a byte; what varies in length has its length before
it. Geometries are commands with steps from one point to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand

EXTENT = 4096
"""Units of a tile's side."""
POINTS, LINES, POLYGONS = 1, 2, 3
"""Kinds of geometry, as the specification numbers them."""
MOVE_TO, LINE_TO, CLOSE_PATH = 1, 2, 7
"""Commands of a geometry."""
LAYER_FEATURE, LAYER_NAME, LAYER_KEY, LAYER_VALUE, LAYER_EXTENT, LAYER_VERSION = 0x12, 0x0A, 0x1A, 0x22, 0x28, 0x78
"""Tags of the fields of a layer: number and kind of each."""
FEATURE_ID, FEATURE_TAGS, FEATURE_KIND, FEATURE_GEOMETRY = 0x08, 0x12, 0x18, 0x22
"""Tags of the fields of a feature."""
VALUE_TEXT, VALUE_UINT = 0x0A, 0x28
"""Tags of the two kinds of values that are written."""
TILE_LAYER = 0x1A
"""Tag of a layer in a tile."""
_BITS, _LOW, _MORE = 7, 0x7F, 0x80
"""Of a byte of a varint: how many bits of the number, which they are, and the bit that says that more follow."""
_SIGN_BIT = 63
_COUNT_BIT = 3
"""A command's repetitions begin at this bit."""
_LENGTH_ROOM = 5
"""Bytes that a length takes at most."""


@dataclass(frozen=True)
class Features:
    """The features of one layer."""

    kind: int  # ``POINTS``, ``LINES`` or ``POLYGONS``
    # int64 (f + 1,). The parts of feature i are ``first[i]:first[i + 1]``: rings, lines, or one part of all points
    first: NDArray[np.int64]
    # int64 (parts + 1,). The points of a part. A ring is not closed here: its first point does not stand at its end
    part_first: NDArray[np.int64]
    # int32 (p, 2): x to the right, y down, 0 to :data:`EXTENT` inside the tile. Outer rings run clockwise on the
    # screen, holes the other way
    points: NDArray[np.int32]
    # Name and values of each property: int64 (f,), not negative, -1 where a feature has none; or Arrow large strings
    columns: tuple[tuple[str, Any], ...] = ()
    ids: NDArray[np.uint64] | None = None  # uint64 (f,), or None


def layer(name: str, features: Features) -> bytes:
    """Return a tile with one layer; no bytes if it has no features. Cost O(points + properties)."""
    count = len(features.first) - 1
    if count == 0:
        return b""
    tags, keys, values = _properties(features, count)
    ids = np.zeros(0, np.uint64) if features.ids is None else features.ids
    parts = len(features.part_first) - 1
    # varints of 32 bits take 5 bytes at most, those of ids and lengths 10
    room = 10 * len(features.points) + 10 * parts + (50 + 10 * tags.shape[1]) * count
    out = np.empty(room, np.uint8)
    filled = _encode(
        features.kind, operand(features.first), operand(features.part_first), operand(features.points), ids, tags, out
    )
    head = bytes([LAYER_NAME]) + _sized(name.encode())
    tail = bytes([LAYER_EXTENT]) + _varint(EXTENT) + bytes([LAYER_VERSION]) + b"\x02"
    body = b"".join([head, out[:filled].tobytes(), keys, values, tail])
    return bytes([TILE_LAYER]) + _sized(body)


def _properties(features: Features, count: int) -> tuple[NDArray[np.int64], bytes, bytes]:
    """Return where the value of each property of each feature stands, -1 where there is none; keys; all values."""
    tags = np.empty((count, len(features.columns)), np.int64)
    keys, values, filled = [], [], 0
    for column, (name, given) in enumerate(features.columns):
        keys.append(bytes([LAYER_KEY]) + _sized(name.encode()))
        if isinstance(given, np.ndarray):
            known, at = np.unique(given, return_inverse=True)
            tags[:, column] = np.where(given < 0, -1, filled + at)
            written = [_sized(bytes([VALUE_UINT]) + _varint(max(value, 0))) for value in known.tolist()]
            values.append(b"".join(bytes([LAYER_VALUE]) + value for value in written))
            filled += len(known)
        else:
            tags[:, column] = filled + np.arange(count)
            values.append(_texts(given))
            filled += count
    return tags, b"".join(keys), b"".join(values)


def _texts(texts: Any) -> bytes:
    """Return the values of Arrow large strings without nulls."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    _, offsets, data = array.buffers()
    first = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    letters = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    out = np.empty(int(first[-1] - first[0]) + 22 * len(array), np.uint8)
    return out[: _encode_texts(operand(first), letters, out)].tobytes()


def _varint(number: int) -> bytes:
    """Return a varint.

    Examples
    --------
    >>> _varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


@kernel
def _put(out, at, number):
    """Write a varint and return what follows it."""
    while number > _LOW:
        out[at] = np.uint8((number & _LOW) | _MORE)
        number >>= _BITS
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@kernel
def _put_id(out, at, number):
    """Write a varint of 64 bits without a sign, and return what follows it."""
    while number > np.uint64(_LOW):
        out[at] = np.uint8((number & np.uint64(_LOW)) | np.uint64(_MORE))
        number >>= np.uint64(_BITS)
        at += 1
    out[at] = np.uint8(number)
    return at + 1


@kernel
def _width(number):
    """Return how many bytes a varint takes."""
    wide = 1
    left = number >> _BITS
    while left > 0:
        left >>= _BITS
        wide += 1
    return wide


@kernel
def _zigzag(number):
    """Return a number without a sign: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (number << 1) ^ (number >> _SIGN_BIT)


@kernel
def _geometry(kind, part_first, points, begin, end, out, at):
    """Write the commands of the parts ``begin:end`` and return what follows them."""
    x, y = np.int64(0), np.int64(0)
    for part in range(begin, end):
        first, last = part_first[part], part_first[part + 1]
        moved = last - first if kind == POINTS else 1
        at = _put(out, at, (moved << _COUNT_BIT) | MOVE_TO)
        for point in range(first, last):
            if point == first + moved:
                at = _put(out, at, ((last - first - moved) << _COUNT_BIT) | LINE_TO)
            at = _put(out, at, _zigzag(np.int64(points[point, 0]) - x))
            at = _put(out, at, _zigzag(np.int64(points[point, 1]) - y))
            x, y = np.int64(points[point, 0]), np.int64(points[point, 1])
        if kind == POLYGONS:
            at = _put(out, at, (1 << _COUNT_BIT) | CLOSE_PATH)
    return at


@kernel(
    "int64(int64, int64[::1], int64[::1], int32[:, ::1], uint64[::1], int64[:, ::1], uint8[::1])",
)
def _encode(kind, first, part_first, points, ids, tags, out):
    """Write all features; returns how many bytes. What has a length is written behind room for it, and moved up."""
    at = 0
    for feature in range(first.size - 1):
        # the length of a feature takes 5 bytes at most, and so does that of its geometry
        body = at + 1 + _LENGTH_ROOM
        end = body
        if ids.size:
            out[end] = FEATURE_ID
            end = _put_id(out, end + 1, ids[feature])
        size = 0
        for column in range(tags.shape[1]):
            if tags[feature, column] >= 0:
                size += _width(column) + _width(tags[feature, column])
        if size:
            out[end] = FEATURE_TAGS
            end = _put(out, end + 1, size)
            for column in range(tags.shape[1]):
                if tags[feature, column] >= 0:
                    end = _put(out, end, column)
                    end = _put(out, end, tags[feature, column])
        out[end] = FEATURE_KIND
        out[end + 1] = np.uint8(kind)
        out[end + 2] = FEATURE_GEOMETRY
        end += 2 + 1
        drawn = end + _LENGTH_ROOM
        size = _geometry(kind, part_first, points, first[feature], first[feature + 1], out, drawn) - drawn
        end = _put(out, end, size)
        for byte in range(size):
            out[end + byte] = out[drawn + byte]
        end += size
        size = end - body
        out[at] = LAYER_FEATURE
        at = _put(out, at + 1, size)
        for byte in range(size):
            out[at + byte] = out[body + byte]
        at += size
    return at


@kernel("int64(int64[::1], uint8[::1], uint8[::1])")
def _encode_texts(first, letters, out):
    """Write texts as values of a layer; returns how many bytes."""
    at = 0
    for text in range(first.size - 1):
        size = first[text + 1] - first[text]
        out[at] = LAYER_VALUE
        at = _put(out, at + 1, 1 + _width(size) + size)
        out[at] = VALUE_TEXT
        at = _put(out, at + 1, size)
        for byte in range(size):
            out[at + byte] = letters[first[text] + byte]
        at += size
    return at
