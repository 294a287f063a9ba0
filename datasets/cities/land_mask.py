"""The land of the earth, coarse (:mod:`dtoss.export.land`): a mask to keep made-up people out of the sea."""

import json
from functools import cache
from typing import Any

import numpy as np
import shapely  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import ArrayLike, NDArray

from dtoss.export.land import land_geometry


@cache
def land() -> Any:
    """Return the land as one prepared shapely MultiPolygon in lon, lat degrees, -180 to 180."""
    shape = shapely.from_geojson(json.dumps(land_geometry()))
    shapely.prepare(shape)
    return shape


def on_land(lon: ArrayLike, lat: ArrayLike) -> NDArray[np.bool_]:
    """Say which positions lie on land; 2 million a second.

    ``lon``, ``lat``: degrees, shape (n,). Longitudes outside -180..180 and NaN are not on land.

    Examples
    --------
    >>> on_land([116.4, -30.0], [39.9, 40.0]).tolist()
    [True, False]
    """
    found: NDArray[np.bool_] = shapely.contains_xy(
        land(), np.asarray(lon, dtype=np.float64), np.asarray(lat, dtype=np.float64)
    )
    return found
