"""Vectors made by several threads are those of one."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.geometry.space import space_of
from dtoss.queries.threads import SHARED_FROM, query_vectors


@pytest.mark.parametrize("crs", [None, "none", "EPSG:32633"])
def test_threads_make_the_same_vectors(crs):
    space = space_of(crs)
    rng = np.random.default_rng(4)
    for rows in (0, 1, SHARED_FROM, 3 * SHARED_FROM + 1):
        at = rng.uniform([-180, -90], [180, 90], (rows, 2)) if crs is None else rng.uniform(4e5, 6e5, (rows, 2))
        one, several = query_vectors(at, space, 1), query_vectors(at, space, 3)
        assert one.shape == (rows, space.dimension)
        assert one.tobytes() == several.tobytes() == space.vectors(at).tobytes()
