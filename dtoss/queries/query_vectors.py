"""The vectors of a batch's positions, made by several threads where they are many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.queries.threads import in_pieces

SHARED_FROM = 4096
"""Positions from which on threads share the work."""


def query_vectors(places: NDArray[np.float64], space: Space, threads: int) -> NDArray[np.float64]:
    """Return the vectors (n, dimension) of legal positions (n, 2): as :meth:`dtoss.geometry.space.Space.vectors`."""
    # positions of such a CRS are transformed together: an error names the row
    if threads == 1 or len(places) < SHARED_FROM or space.to_lonlat:
        return space.vectors(places)
    vectors = np.empty((len(places), space.dimension))

    def some(a: int, b: int) -> None:
        vectors[a:b] = space.vectors(places[a:b])

    in_pieces(len(places), threads, some, SHARED_FROM // 2)
    return vectors
