"""The exact test of pairs of a row and a subscription, whatever its place is."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.position import SPHERE, Place
from dtoss.queries.kernels.zone_kernel import IN, OUT, Tables, polygon_holds
from dtoss.watch.index.grid_kernel import PLACE_FACTS
from dtoss.watch.matching.grid_search import UNSURE_FROM, in_rectangle, within_circle
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON


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
def test_pairs(
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
