"""The land of the earth, coarse: a mask to keep made-up people out of the sea, and an outline for plots.

Natural Earth 1:110m land (public domain), cut at the antimeridian and rounded to 0.001 degrees. Small islands
are missing, and coasts are off by up to some 20 km.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import ArrayLike, NDArray

__all__ = ["land", "land_outline", "on_land"]


@cache
def land() -> Any:
    """Return the land as one prepared shapely MultiPolygon in lon, lat degrees, -180 to 180."""
    feature = json.loads((Path(__file__).parent / "land_110m.geojson").read_text())
    shape = shapely.from_geojson(json.dumps(feature["geometry"]))
    shapely.prepare(shape)
    return shape


def on_land(lon: ArrayLike, lat: ArrayLike) -> NDArray[np.bool_]:
    """Say which positions lie on land; 2 million a second.

    Parameters
    ----------
    lon, lat
        Degrees, shape (n,). Longitudes outside -180..180 and NaN are not on land.

    Examples
    --------
    >>> on_land([116.4, -30.0], [39.9, 40.0]).tolist()
    [True, False]
    """
    found: NDArray[np.bool_] = shapely.contains_xy(
        land(), np.asarray(lon, dtype=np.float64), np.asarray(lat, dtype=np.float64)
    )
    return found


@cache
def land_outline() -> tuple[NDArray[np.float64], ...]:
    """Return the shore lines as closed rings of lon, lat degrees, shape (v, 2) each, the largest land first.

    The Caspian Sea is a ring of its own, after the land around it.
    """
    rings = [ring for part in land().geoms for ring in (part.exterior, *part.interiors)]
    return tuple(shapely.get_coordinates(ring) for ring in rings)
