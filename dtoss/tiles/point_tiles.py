"""Tiles of objects: of a sample a point a pixel, and all of them with their ids where a tile holds few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.row_runs import offsets
from dtoss.tiles import mvt
from dtoss.tiles.classes import MOST_CLASSES, UNKNOWN
from dtoss.tiles.sample import KEY_BITS, Sample, gather_bits, run_of

OBJECTS_LAYER = "objects"
PIXELS = 9
"""A tile has 2^9 pixels a side: objects of one pixel are one point."""
SHARING_LEVELS = 4
"""How many objects of the sample share a pixel: 1, 2 to 3, 4 to 15, more."""
_FEW_SHARE, _MANY_SHARE = 4, 16
"""From how many objects of a pixel on the levels after the second begin."""
_PIXEL_UNITS = 8
"""Units of a tile that a pixel is wide: its middle stands for it."""
_UNIT_BITS = 12
"""A tile has 2^12 units a side."""
_BUCKETS = (MOST_CLASSES + 1) * SHARING_LEVELS


@dataclass(frozen=True)
class ShownPoints:
    """Which objects of a sample are shown, and as what."""

    # uint8 (n,), :data:`.classes.UNKNOWN` where there is none; None shows all alike
    classes: NDArray[np.uint8] | None = None
    kept: NDArray[np.bool_] | None = None  # bool (n,): those that satisfy a condition; None shows all


def rows_of(sample: Sample, z: int, x: int, y: int) -> slice:
    """Return which objects of a sample a tile holds. Cost O(log n)."""
    first, last = run_of(z, x, y)
    begin = int(np.searchsorted(sample.keys, first, side="left"))
    return slice(begin, int(np.searchsorted(sample.keys, last, side="right")))


def sampled_tile(sample: Sample, shown: ShownPoints, z: int, x: int, y: int) -> bytes:
    """Return a tile of a sample: a MultiPoint for each class and level; each pixel once, as most objects there are.

    Properties are ``level`` (:data:`SHARING_LEVELS`), ``objects``, the sum of those that its points stand for, and
    ``class`` where classes are shown and known. Cost O(n) for the n objects of the tile.
    """
    rows = rows_of(sample, z, x, y)
    count = rows.stop - rows.start
    classes = np.zeros(0, np.uint8) if shown.classes is None else shown.classes[rows]
    kept = np.zeros(0, np.bool_) if shown.kept is None else shown.kept[rows]
    points, bucket = np.empty((count, 2), np.int32), np.empty(count, np.uint8)
    objects = np.zeros(_BUCKETS, np.int64)
    filled = _pixels(
        sample.keys[rows], operand(classes), operand(kept), 2 * (KEY_BITS - z - PIXELS), points, bucket, objects
    )
    order = np.argsort(bucket[:filled], kind="stable")
    size = np.bincount(bucket[:filled], minlength=_BUCKETS)
    there = np.flatnonzero(size)
    # what nobody knows the class of is drawn below all others
    there = np.concatenate(
        [there[there >= MOST_CLASSES * SHARING_LEVELS], there[there < MOST_CLASSES * SHARING_LEVELS]]
    )
    begin = np.cumsum(size) - size
    order = np.concatenate([order[begin[one] : begin[one] + size[one]] for one in there.tolist()] or [order])
    first = offsets(size[there])
    found = there // SHARING_LEVELS
    columns: list[tuple[str, Any]] = [("level", there % SHARING_LEVELS), ("objects", objects[there])]
    if shown.classes is not None:
        columns.append(("class", np.where(found == MOST_CLASSES, -1, found)))
    features = mvt.Features(
        mvt.POINTS, np.arange(len(there) + 1), first, np.ascontiguousarray(points[order]), tuple(columns)
    )
    return mvt.layer(OBJECTS_LAYER, features)


def whole_tile(
    keys: NDArray[np.uint64], ids: pa.Array, classes: NDArray[np.uint8] | None, z: int, x: int, y: int
) -> bytes:
    """Return a tile with a Point for each object that stands in it.

    ``keys``: uint64 (n,), of objects in the tile or beyond it: :func:`.sample.keys_of`; ``classes``: uint8 (n,), or
    None.
    """
    first, last = run_of(z, x, y)
    inside = np.flatnonzero((keys >= first) & (keys <= last))
    points = np.empty((len(inside), 2), np.int32)
    _places(operand(keys[inside]), z, points)
    texts = ids.take(pa.array(inside)).cast(pa.large_string())
    columns: list[tuple[str, Any]] = [("id", texts)]
    if classes is not None:
        found = classes[inside].astype(np.int64)
        columns.append(("class", np.where(found == UNKNOWN, -1, found)))
    one_each = np.arange(len(inside) + 1)
    return mvt.layer(OBJECTS_LAYER, mvt.Features(mvt.POINTS, one_each, one_each, points, tuple(columns)))


@kernel
def _level(count):
    """Return the level of so many objects."""
    if count >= _MANY_SHARE:
        return 2 + 1
    if count >= _FEW_SHARE:
        return 2
    return 1 if count >= 2 else 0


@kernel("int64(uint64[::1], uint8[::1], bool_[::1], int64, int32[:, ::1], uint8[::1], int64[::1])")
def _pixels(keys, classes, kept, shift, points, bucket, objects):
    """Write a point for each pixel that holds objects; returns how many.

    Keys ascend, so those of a pixel stand together. ``shift`` is how many bits a pixel's keys differ in. ``bucket``
    gets the class of most of the pixel's objects, the lowest of equals, and its level; ``objects`` their sum.
    """
    seen = np.zeros(MOST_CLASSES + 1, np.int64)
    filled, i = 0, 0
    mask = np.uint64((1 << PIXELS) - 1)
    half = np.uint64(shift // 2)
    while i < keys.size:
        pixel = keys[i] >> np.uint64(shift)
        seen[:] = 0
        count = 0
        at = keys[i]
        while i < keys.size and keys[i] >> np.uint64(shift) == pixel:
            if kept.size == 0 or kept[i]:
                count += 1
                one = 0
                if classes.size:
                    one = min(int(classes[i]), MOST_CLASSES)
                seen[one] += 1
            i += 1
        if count == 0:
            continue
        most = 0
        for one in range(1, MOST_CLASSES + 1):
            if seen[one] > seen[most]:
                most = one
        place = most * SHARING_LEVELS + _level(count)
        bucket[filled] = np.uint8(place)
        objects[place] += count
        points[filled, 0] = np.int32(
            ((gather_bits(at) >> half) & mask) * np.uint64(_PIXEL_UNITS) + np.uint64(_PIXEL_UNITS // 2)
        )
        points[filled, 1] = np.int32(
            ((gather_bits(at >> np.uint64(1)) >> half) & mask) * np.uint64(_PIXEL_UNITS) + np.uint64(_PIXEL_UNITS // 2)
        )
        filled += 1
    return filled


@kernel("void(uint64[::1], int64, int32[:, ::1])")
def _places(keys, z, points):
    """Write where keys stand in a tile of a zoom that holds them, in units of the tile."""
    shift = np.uint64(KEY_BITS - z - _UNIT_BITS)
    mask = np.uint64((1 << _UNIT_BITS) - 1)
    for i in range(keys.size):
        points[i, 0] = np.int32((gather_bits(keys[i]) >> shift) & mask)
        points[i, 1] = np.int32((gather_bits(keys[i] >> np.uint64(1)) >> shift) & mask)
