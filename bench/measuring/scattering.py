"""Places scattered around others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

KM_OF_DEGREE = 111.195


def scattered(rng: np.random.Generator, middles: Floats, km: float) -> Floats:
    """Return places around middles."""
    north = rng.normal(0, km / KM_OF_DEGREE, len(middles))
    lat = np.clip(middles[:, 1] + north, -90, 90)
    east = rng.normal(0, km / KM_OF_DEGREE, len(middles)) / np.cos(np.radians(np.clip(middles[:, 1], -89, 89)))
    return np.column_stack([(middles[:, 0] + east + 180) % 360 - 180, lat])
