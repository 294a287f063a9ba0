"""Pairs of rows and subscriptions: which of the rows lie in the places, and how far from their centres."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygon_tables import FACT_COLUMNS, Areas
from dtoss.watch.index.covers import squared_chords
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.grid_search import UNSURE_FROM
from dtoss.watch.matching.pair_kernel import test_pairs

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


def settled(
    built: SubscriptionIndex,
    positions: NDArray[np.float64],
    vectors: NDArray[np.float64],
    row: NDArray[np.int64],
    far: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return which hits hold, once those of which rounding left it open are told in rational numbers.

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
    test_pairs(
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
