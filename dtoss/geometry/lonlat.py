"""Vectors of any CRS as longitude and latitude, for maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.geometry.space import LONLAT, NO_CRS, Space, space_of

if TYPE_CHECKING:
    pass


def to_lonlat(space: Space, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon and lat of vectors, float64 (n, 2), whatever the CRS; coordinates as they are where there is none."""
    if space.metric == "sphere":
        return space_of().positions(vectors)
    if space.crs == NO_CRS:
        return np.array(vectors)
    transform = pyproj.Transformer.from_crs(space.crs, LONLAT, always_xy=True).transform
    return np.stack(transform(vectors[:, 0], vectors[:, 1]), axis=1)
