"""Polygons in well-known binary: of any byte order, with heights or not, with or without an SRID."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

WKB_KINDS = {
    1: "Point", 2: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString", 6: "MultiPolygon",
    7: "GeometryCollection",
}  # fmt: skip
"""Of geometries, by the last digit of their number."""
HAS_Z, HAS_M, HAS_SRID = 0x80000000, 0x40000000, 0x20000000
"""Flags of the extended form; the standard one adds thousands instead."""


def polygons_of_wkb(data: bytes) -> list[list[NDArray[np.float64]]]:
    """Return the rings of each polygon of a Polygon or MultiPolygon, float64 (v, 2) each; empty ones are left out.

    Examples
    --------
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    >>> data = struct.pack("<BIII8d", 1, 3, 1, 4, *(c for corner in corners for c in corner))
    >>> [[ring.tolist() for ring in rings] for rings in polygons_of_wkb(data)]
    [[[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]
    """
    try:
        found, end = _read(memoryview(data), 0)
    except (struct.error, ValueError) as error:
        if isinstance(error, WrongKind):
            raise
        raise ValueError(f"{len(data)} bytes are not well-known binary: {error}") from None
    if end != len(data):
        raise ValueError(f"{len(data)} bytes are not well-known binary: it ends after {end}")
    return found


class WrongKind(ValueError):
    """A geometry that is no polygon."""


def _read(data: Any, at: int) -> tuple[list[list[NDArray[np.float64]]], int]:
    order, kind, wide, at = _head(data, at)
    if kind == 3:
        rings, at = _rings(data, at, order, wide)
        return [rings] if rings else [], at
    if kind != 6:
        raise WrongKind(
            f"a shape of type {WKB_KINDS.get(kind, kind)!r} is not searched within: Polygon or MultiPolygon is wanted"
        )
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    polygons = []
    for _ in range(count):
        inner_order, inner, inner_wide, at = _head(data, at)
        if inner != 3:
            raise ValueError(f"a part of type {inner} in a MultiPolygon")
        rings, at = _rings(data, at, inner_order, inner_wide)
        if rings:
            polygons.append(rings)
    return polygons, at


def _head(data: Any, at: int) -> tuple[str, int, int, int]:
    """Return the byte order, the kind, how many numbers a corner has, and where what follows begins."""
    if at >= len(data) or data[at] > 1:
        raise ValueError(f"no byte order at {at}")
    order = "<" if data[at] else ">"
    (number,) = struct.unpack_from(f"{order}I", data, at + 1)
    plain = number & 0x0FFFFFFF
    thousands, kind = divmod(plain, 1000)
    wide = 2 + bool(number & HAS_Z) + bool(number & HAS_M) + (0, 1, 1, 2)[thousands if thousands < 4 else 0]
    return order, kind, wide, at + (9 if number & HAS_SRID else 5)


def _rings(data: Any, at: int, order: str, wide: int) -> tuple[list[NDArray[np.float64]], int]:
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    rings = []
    for _ in range(count):
        (corners,) = struct.unpack_from(f"{order}I", data, at)
        at += 4
        size = 8 * corners * wide
        if at + size > len(data):
            raise ValueError(f"a ring of {corners} corners goes past the end")
        values = np.frombuffer(data, f"{order}f8", corners * wide, at).reshape(corners, wide)
        rings.append(values[:, :2].astype(np.float64))
        at += size
    return [ring for ring in rings if len(ring)], at
