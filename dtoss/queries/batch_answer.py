"""Answering batches: who is near, or how many are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.queries.knn_batch import knn_batch
from dtoss.queries.open_snapshot import OpenSnapshot
from dtoss.queries.range_batch import range_batch
from dtoss.queries.raw_hits import RawHits


def answer(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: int,
    threads: int = 1,
    *,
    places: bool = True,
    ordered: bool = True,
) -> RawHits:
    """Answer a batch: the k nearest for k > 0, all within the radius for 0, only their number for -1.

    ``queries``: (m, dimension) vectors; ``radius``: float64 (m,). Metres on the sphere, CRS units in the plane;
    ``threads``: A batch is split among so many; the answer is the same; ``ordered``: whether hits within a radius are
    wanted in the order (distance, id).
    """
    if k > 0:
        return knn_batch(opened, queries, radius, k, threads, places)
    return range_batch(opened, queries, radius, threads, k < 0, places, ordered)
