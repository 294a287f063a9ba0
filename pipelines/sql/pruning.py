"""Which partitions may hold an object whose coordinates satisfy filters: those whose balls reach into the box of them.

All objects of a partition lie in a ball round its pivot, as the manifest says: its radius is the way to the furthest
owned site, a chord on the sphere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from dtoss.names import position_names
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest

PLACE_TOLERANCE = 1e-9
"""Of radians, and of a planar coordinate and a radius relatively: far more than rounding makes of either."""


def concerned(
    manifest: Mapping[str, Any], filters: Sequence[Filter], box: Sequence[float] | None = None
) -> dict[int, int]:
    """Return how many objects the partitions hold that may be in a box and satisfy all filters, by their numbers.

    Partitions without objects are left out. Positions of a projected CRS that are compared on the sphere rule none out.

    ``box``: as in :meth:`dtoss.Index.box`; everything when None.
    """
    space = space_of_manifest(dict(manifest))
    pivots = regions_of_manifest(dict(manifest)).pivots
    names = position_names(space.geographic)
    low, high = _box(filters, names)
    # across the antimeridian it is two
    west, south, east, north = box or (-math.inf, -math.inf, math.inf, math.inf)
    sides = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    kept = {}
    for entry, pivot in zip(manifest["partitions"], np.asarray(pivots).tolist(), strict=True):
        if not entry["objects"]:
            continue
        reach = float(entry["furthest"])
        if space.metric == "plane":
            spans = [_around(value, reach + PLACE_TOLERANCE * (abs(value) + reach)) for value in pivot]
        elif space.geographic:
            spans = _spans_on_sphere(pivot, reach)
        else:
            spans = [(-math.inf, math.inf)] * len(names)
        reached = all(_meet(span, (low[axis], high[axis])) for axis, span in enumerate(spans))
        if reached and any(_meet(spans[0], side) for side in sides) and _meet(spans[1], (south, north)):
            kept[int(entry["number"])] = int(entry["objects"])
    return kept


def _box(filters: Sequence[Filter], names: tuple[str, str]) -> tuple[list[float], list[float]]:
    """Return the least and the greatest values of both coordinates."""
    low, high = [-math.inf, -math.inf], [math.inf, math.inf]
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1 or path[0] not in names:
            continue
        axis = names.index(path[0])
        if isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            low[axis] = max(low[axis], float(one.value))
        if isinstance(one, (EqualTo, LessThan, LessThanOrEqual)):
            high[axis] = min(high[axis], float(one.value))
    return low, high


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _around(middle: float, reach: float) -> tuple[float, float]:
    return middle - reach, middle + reach


def _spans_on_sphere(pivot: Sequence[float], chord: float) -> list[tuple[float, float]]:
    """Return the spans of lon and lat, in degrees, of a cap round a pivot; all of lon where it may cross the border.

    A cap of angle a round latitude b that holds no pole spans asin(sin a / cos b) of longitude to both sides.
    """
    x, y, z = pivot
    angle = 2.0 * math.asin(min(chord / 2.0, 1.0)) + PLACE_TOLERANCE
    lat = math.atan2(z, math.hypot(x, y))
    lats = _around(math.degrees(lat), math.degrees(angle) + PLACE_TOLERANCE)
    if abs(lat) + angle >= math.pi / 2.0 - PLACE_TOLERANCE:
        return [(-180.0, 180.0), lats]
    lons = _around(
        math.degrees(math.atan2(y, x)), math.degrees(math.asin(math.sin(angle) / math.cos(lat)) + PLACE_TOLERANCE)
    )
    # what lies beyond the antimeridian has a longitude of the other sign
    return [lons if lons[0] > -180.0 and lons[1] < 180.0 else (-180.0, 180.0), lats]
