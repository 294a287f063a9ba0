"""Places of the access log, rounded before they are written: to digits, or to a grid of so many metres."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import Space

Floats: TypeAlias = NDArray[Any]
Rounding: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Returns coordinates, float64 (n,) each, as they are kept."""
A_DEGREE = EARTH_RADIUS * np.pi / 180.0
"""Metres of a degree of latitude."""


def rounding_of(space: Space, digits: int | None, grid: float | None) -> Rounding | None:
    """Return how places are kept; None where they are kept as they are.

    ``grid``: metres between the places that are kept, or units of a CRS that is not in degrees.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> lon, lat = rounding_of(space_of(), None, 1000.0)(np.array([2.3522]), np.array([48.8566]))
    >>> lon.round(4).tolist(), lat.round(4).tolist()
    ([2.3512], [48.8601])
    """
    if digits is not None and grid is not None:
        raise ValueError("places are rounded to digits or to a grid: give --access-round or --log-places")
    if grid is not None and not 0.0 < grid < np.inf:
        raise ValueError(f"--log-places is {grid:g}: a length above 0 is wanted")
    if digits is not None:
        return lambda x, y: (np.round(x, digits), np.round(y, digits))
    if grid is None:
        return None
    return (lambda x, y: _on_sphere(x, y, grid)) if space.geographic else (lambda x, y: (_to(x, grid), _to(y, grid)))


def _on_sphere(lon: Floats, lat: Floats, metres: float) -> tuple[Floats, Floats]:
    """Return degrees on a grid of parallels, each cut into as many equal parts as are no shorter than asked for."""
    step = metres / A_DEGREE
    on = np.clip(_to(lat, step), -90.0, 90.0)
    parts = np.maximum(np.floor(360.0 * np.cos(np.radians(on)) / step), 1.0)
    east = _to(lon, 360.0 / parts)
    return np.where(east > 180.0, east - 360.0, np.where(east < -180.0, east + 360.0, east)), on


def _to(values: Floats, step: float | Floats) -> Floats:
    found: Floats = np.round(values / step) * step + 0.0
    return found
