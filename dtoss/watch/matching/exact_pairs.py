"""The exact test of pairs of a row and a subscription, and how far the row is from the centre.

For candidates that words have found; those of a grid are tested where they are found, in
:mod:`dtoss.watch.matching.grid_search`. What rounding leaves open there is decided here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.distance import SPHERE, Place
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygon_tables import FACT_COLUMNS, Areas
from dtoss.queries.kernels.zone_kernel import IN, OUT, Tables, polygon_holds
from dtoss.watch.index.covers import squared_chords
from dtoss.watch.index.grid_kernel import PLACE_FACTS
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.grid_search import UNSURE_FROM, in_rectangle, within_circle
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON

_NO_AREAS = Areas(
    np.zeros((0, FACT_COLUMNS)),
    np.zeros((0, 5, 5)),
    np.zeros((0, 3)),
    np.zeros((0, 3)),
    np.zeros((0, 4)),
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    np.zeros(0, np.int32),
)


def areas_in(built: SubscriptionIndex) -> Areas:
    """Return the tables of a built index's polygons, empty ones where it has none."""
    return built.areas if "areas/facts" in built.arrays else _NO_AREAS


def recheck_unsure(
    built: SubscriptionIndex,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64],
    row: NDArray[np.int64],
    far: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return which hits hold: those that rounding left open are tested again in exact arithmetic.

    ``row``: int64 (m,). The row of each hit; ``far``: float64 (m,). The distances; below -1 they name a polygon, and
    are set to NaN.
    """
    kept = np.ones(len(row), np.bool_)
    unsure = np.flatnonzero(far <= UNSURE_FROM)
    if len(unsure):
        numbers = (UNSURE_FROM - far[unsure]).astype(np.int64)
        for number in np.unique(numbers).tolist():
            mine = unsure[numbers == number]
            places = np.ascontiguousarray(vectors[row[mine]])
            kept[mine] = inside(places, built.polygon(number), positions[row[mine]])
        far[unsure] = np.nan
    return kept


def held_pairs(
    built: SubscriptionIndex,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64],
    row: NDArray[np.int64],
    subscription: NDArray[np.int32],
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which pairs hold, bool (m,), and the distances, NaN where a place has no centre. Cost O(m).

    ``row``, ``subscription``: int64 and int32 (m,). The pairs.
    """
    arrays: dict[str, Any] = dict(built.arrays)
    far = np.empty(len(row))
    facts = np.zeros((len(row), 4))
    facts[:, : vectors.shape[1]] = arrays["vectors"][subscription]
    facts[:, 3] = squared_chords(np.nan_to_num(arrays["radius"][subscription]), built.space)
    measure_pairs(
        row, subscription, positions, vectors, facts,
        arrays["kind"], arrays["radius"], arrays["boxes"], arrays["parts"], *areas_in(built), far,
    )  # fmt: skip
    held = far != -1.0
    # of a polygon in parts, only one part may be in doubt: all of it is asked again
    for at in np.flatnonzero(far <= UNSURE_FROM).tolist():
        parts = range(arrays["parts"][subscription[at]], arrays["parts"][subscription[at] + 1])
        mine = slice(row[at], row[at] + 1)
        place = np.ascontiguousarray(vectors[mine])
        held[at] = any(bool(inside(place, built.polygon(part), positions[mine])[0]) for part in parts)
        far[at] = np.nan
    return held, far


@kernel
def _in_parts(tables, first, last, site):
    """Return -1 if no part of a polygon holds a place, NaN if one does, else the number of a part in doubt."""
    found = -1.0
    for part in range(first, last):
        held = polygon_holds(tables, part, site)
        if held == IN:
            return np.nan
        if held != OUT:
            found = UNSURE_FROM - part
    return found


@kernel(
    "void(int64[::1], int32[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], Array(uint8, 1, 'C',"
    " readonly=True), Array(float64, 1, 'C', readonly=True), Array(float64, 2, 'C', readonly=True), Array(int64, 1,"
    " 'C', readonly=True), Array(float64, 2, 'C', readonly=True), Array(float64, 3, 'C', readonly=True),"
    " Array(float64, 2, 'C', readonly=True), Array(float64, 2, 'C', readonly=True), Array(float64, 2, 'C',"
    " readonly=True), Array(int64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), Array(int32, 1, 'C',"
    " readonly=True), float64[::1])"
)
def measure_pairs(
    rows: Any, subs: Any, positions: Any, vectors: Any, centres: Any, kind: Any, radius: Any, boxes: Any, parts: Any,
    facts: Any, sides: Any, begins: Any, ends: Any, flat: Any, strip: Any, listed: Any, edges: Any, far: Any,
) -> None:  # fmt: skip
    """Write the distance of each pair, NaN where a place without a centre holds the row, -1 where none does.

    Below that it is a polygon of which rounding leaves unsure whether it holds the row.
    """
    tables = Tables(
        pointer(facts), pointer(sides), pointer(begins), pointer(ends), pointer(flat), pointer(strip), pointer(listed),
        pointer(edges),
    )  # fmt: skip
    dimension = vectors.shape[1]
    for i in range(rows.size):
        row, sub = rows[i], subs[i]
        what = kind[sub]
        z = vectors[row, 2] if dimension == SPHERE else 0.0
        place = Place(vectors[row, 0], vectors[row, 1], z, dimension)
        if what in (CIRCLE, AROUND):
            far[i] = within_circle(place, shift(pointer(centres), PLACE_FACTS * i), pointer(radius), sub, np.inf)
        elif what == BOX:
            held = in_rectangle(
                positions[row, 0], positions[row, 1], shift(pointer(boxes), PLACE_FACTS * sub), dimension == SPHERE
            )
            far[i] = np.nan if held else -1.0
        elif what == POLYGON:
            lifted = Place(place.x, place.y, place.z if dimension == SPHERE else 1.0, SPHERE)
            far[i] = _in_parts(tables, parts[sub], parts[sub + 1], lifted)
        else:
            far[i] = np.nan
