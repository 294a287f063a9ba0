"""The shores of the Earth for maps, coarse.

Natural Earth 1:110m land (public domain), cut at the antimeridian and rounded to 0.001 degrees. Small islands are
missing, and coasts are off by up to some 20 km.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


@cache
def land_geometry() -> dict[str, Any]:
    """Return the land as a GeoJSON MultiPolygon in lon, lat degrees, -180 to 180."""
    geometry: dict[str, Any] = json.loads(files(__package__).joinpath("land_110m.geojson").read_text())["geometry"]
    return geometry


@cache
def land_outline() -> tuple[NDArray[np.float64], ...]:
    """Return the shore lines as closed rings of lon, lat degrees, shape (v, 2) each, the largest land first.

    The Caspian Sea is a ring of its own, after the land around it.
    """
    return tuple(np.array(ring, dtype=np.float64) for part in land_geometry()["coordinates"] for ring in part)
