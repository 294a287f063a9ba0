"""Many places of one question: blocks are read once for all of them, and rows are compared by a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.hilbert import curve_keys
from dtoss.history.query.block_pairs import Places, time_keys
from dtoss.history.query.block_queries import BlockQueries
from dtoss.history.query.found_rows import FoundRows, in_order, joined_found
from dtoss.history.query.place_batches import NeighbourQuery, near
from dtoss.history.query.query_intervals import Spans
from dtoss.history.query.read_plan import plan
from dtoss.history.query.scan_blocks import Scan

TOGETHER_FROM = 8
"""Places from which on they are asked together."""
_AT_ONCE = 1024
"""Places that are asked together, neighbours along a curve."""


def near_many(
    scan: Scan, centres: NDArray[np.float64], radii: NDArray[np.float64], spans: Spans, what: NeighbourQuery
) -> FoundRows:
    """Return the rows that answer places, in order: those of :mod:`dtoss.history.query.range_query` and ``nearest``.

    ``centres``: float64 (m, dimension); ``radii``: float64 (m,).
    """
    places = Places(centres, radii, time_keys(spans.first), time_keys(spans.last))
    order = np.argsort(curve_keys(np.ascontiguousarray(centres)), kind="stable")
    parts = []
    for begin in range(0, len(order), _AT_ONCE):
        some = order[begin : begin + _AT_ONCE]
        parts += [replace(one, question=some[one.question]) for one in near(scan, places.take(some), what)]
    return in_order(joined_found(parts, scan.names, scan.version.schema))


def facts_of_many(scan: Scan, asked: BlockQueries) -> dict[str, Any]:
    """Return what each order would read for all of the places, as the facts of a plan."""
    return dict(plan(scan.version, asked).facts)
