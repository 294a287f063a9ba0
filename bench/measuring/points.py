"""The positions that every benchmark of queries uses: objects, and queries near them.

Real sets are read from the folder named by DTOSS_DATA and never passed on; `uniform` is made here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from datasets.cities.geonames import cities
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.geometry.space import space_of

DATA = Path(os.environ.get("DTOSS_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
FILES = {
    "taxi": "cabspotting_sf.parquet",
    "uber": "uber_nyc_apr_may_2014.parquet",
    "gowalla": "gowalla_checkins.parquet",
    "cities500": "cities500.parquet",
    "aircraft": "aircraft_adsb.parquet",
    "earthquakes": "earthquakes_usgs_month.parquet",
    "ships": "ais_piraeus.parquet",
}
KINDS = ("taxi", "uber", "uniform")
KM_OF_DEGREE = 111.195
OBJECTS = 1_000_000
QUERIES = 100_000
NEAR = 1e-4
"""Standard deviation in degrees, about 10 m, of the way from an object to a query."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Objects and queries, lon and lat in degrees, with the unit vectors that other libraries are given.

    Parameters
    ----------
    objects, queries : float64 (n, 2) and (m, 2); the queries are in the order of a space-filling curve.
    shuffled : float64 (m, 2): the same queries in random order.
    vectors, query_vectors, shuffled_vectors : the same on the unit sphere, float64 (n, 3) and (m, 3).
    """

    kind: str
    objects: Floats
    queries: Floats
    shuffled: Floats
    vectors: Floats
    query_vectors: Floats
    shuffled_vectors: Floats


def missing(kind: str) -> str | None:
    """Return why a set cannot be had here, or None."""
    if kind in FILES and not (DATA / FILES[kind]).exists():
        return f"{FILES[kind]} is not in the folder that DTOSS_DATA names"
    return None


def lonlat_in(table: pa.Table) -> Floats:
    """Return the positions of rows, float64 (n, 2)."""
    return np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])


def lonlat_of(kind: str) -> Floats:
    """Return all positions of a real set, float64 (n, 2)."""
    return lonlat_in(pq.read_table(DATA / FILES[kind], columns=["lon", "lat"]))


def accesses_of(name: str) -> tuple[Floats, NDArray[np.int64]]:
    """Return all positions of a file, float64 (n, 2), and their seconds since 1970, int64 (n,)."""
    table = pq.read_table(DATA / f"{name}.parquet", columns=["t", "lon", "lat"])
    return lonlat_in(table), table["t"].to_numpy().astype("datetime64[s]").astype(np.int64)


def positions(kind: str, count: int, seed: int = 0) -> Floats:
    """Return positions of a set in random order, float64 (count, 2).

    Raises
    ------
    ValueError
        If a real set has fewer rows.
    """
    rng = np.random.default_rng(seed)
    if kind == "uniform":
        return np.column_stack([rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))])
    every = lonlat_of(kind)
    if len(every) < count:
        raise ValueError(f"{count} positions of {kind}: its file has {len(every)} rows")
    return every[rng.choice(len(every), count, replace=False)]


def metres(lonlat: Floats) -> Floats:
    """Return positions in metres, as UTM zone 10 has them."""
    import pyproj

    change = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:32610", always_xy=True)
    return np.column_stack(change.transform(lonlat[:, 0], lonlat[:, 1]))


def beside(objects: Floats, count: int, seed: int = 1) -> Floats:
    """Return queries near objects drawn at random, float64 (count, 2)."""
    rng = np.random.default_rng(seed)
    moved = objects[rng.choice(len(objects), count)] + rng.normal(0, NEAR, (count, 2))
    return np.column_stack([(moved[:, 0] + 180) % 360 - 180, np.clip(moved[:, 1], -90, 90)])


def near(kind: str, objects: Floats, count: int, seed: int = 1) -> Floats:
    """Return queries of a set, float64 (count, 2): near objects drawn at random; for the uniform set, anywhere."""
    return positions(kind, count, seed) if kind == "uniform" else beside(objects, count, seed)


def points(kind: str, objects: int = OBJECTS, queries: int = QUERIES) -> Points:
    """Return a set with its queries; the same each time."""
    space = space_of()
    at = positions(kind, objects)
    shuffled = near(kind, at, queries)
    vectors = space.vectors(shuffled)
    order = radix_order(curve_keys(vectors))
    return Points(
        kind=kind,
        objects=at,
        queries=shuffled[order],
        shuffled=shuffled,
        vectors=space.vectors(at),
        query_vectors=np.ascontiguousarray(vectors[order]),
        shuffled_vectors=vectors,
    )


def radius_for(hits: float, count: Callable[[float], float]) -> float:
    """Return the radius in metres at which `count`, the mean number of hits, comes within 1 % of `hits`, if any does.

    Positions that many objects share make the count jump; then it is the radius at the jump.
    """
    low, high = 0.01, 2e7
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        mean = count(middle)
        if abs(mean - hits) <= 0.01 * hits:
            return middle
        low, high = (middle, high) if mean < hits else (low, middle)
    return high


def scattered(rng: np.random.Generator, middles: Floats, km: float) -> Floats:
    """Return places around middles."""
    north = rng.normal(0, km / KM_OF_DEGREE, len(middles))
    lat = np.clip(middles[:, 1] + north, -90, 90)
    east = rng.normal(0, km / KM_OF_DEGREE, len(middles)) / np.cos(np.radians(np.clip(middles[:, 1], -89, 89)))
    return np.column_stack([(middles[:, 0] + east + 180) % 360 - 180, lat])


def streets(rng: np.random.Generator, count: int) -> Floats:
    """Return places along sixty made streets of a city, as taxis report them: with five decimals, many at one place."""
    corners = rng.uniform(-0.05, 0.05, (60, 2))
    which = rng.integers(0, 60, count)
    along = np.where((which % 2 == 0)[:, None], [1.0, 0.2], [-0.2, 1.0]) * rng.exponential(0.01, (count, 1))
    return np.round(np.array([-122.4, 37.77]) + corners[which] + along + rng.normal(0, 2e-5, (count, 2)), 5)


def in_cities(rng: np.random.Generator, count: int, km: float) -> Floats:
    """Return places around cities of the world, as many of each as it has people."""
    known = cities()
    middles = np.column_stack([known.lon, known.lat])
    return scattered(rng, middles[rng.choice(len(middles), count, p=known.population / known.population.sum())], km)
