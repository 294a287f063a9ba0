"""The workloads that subscriptions are measured on: circles at places of real rides and of cities, and rows there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.measuring.points import missing, positions
from datasets.cities.places import cities
from dtoss.geometry.curve import curve_keys, radix_order
from dtoss.geometry.space import space_of
from dtoss.watch.subscription import CIRCLE, INSIDE, SCHEMA

Floats = NDArray[np.float64]

KM_OF_DEGREE = 111.195
TOWN_KM = 7.6
"""Standard deviation of the way from a city's centre to a place in it."""
_BOROUGH_KM = 4.0
_NEW_YORK = (-73.98, 40.74)
_CORNERS = 60_000


@dataclass(frozen=True)
class World:
    """Circles and rows.

    Parameters
    ----------
    name
        To be printed.
    centres, radius
        float64 (n, 2) in degrees and (n,) in metres.
    rows
        float64 (m, 2) in degrees, in the order of a space-filling curve.
    """

    name: str
    centres: Floats
    radius: Floats
    rows: Floats

    def table(self, some: slice | NDArray[np.int64] = slice(None)) -> pa.Table:
        """Return the circles, or some of them, as a table of subscriptions."""
        return circles(self.centres[some], self.radius[some])


def circles(centres: Floats, radius: Floats) -> pa.Table:
    """Return circles as a table of subscriptions."""
    count = len(radius)
    held = {
        "id": pa.array(np.arange(count)).cast(pa.string()),
        "kind": pa.array(np.full(count, CIRCLE, np.uint8)),
        "x": pa.array(centres[:, 0]),
        "y": pa.array(centres[:, 1]),
        "radius": pa.array(radius),
        "events": pa.array(np.full(count, INSIDE, np.uint8)),
    }
    return pa.table([held.get(one.name, pa.nulls(count, one.type)) for one in SCHEMA], schema=SCHEMA)


def log_uniform(rng: np.random.Generator, low: float, high: float, count: int) -> Floats:
    """Return radii whose logarithms are uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def in_curve_order(places: Floats) -> Floats:
    """Return places along a space-filling curve."""
    return np.ascontiguousarray(places[radix_order(curve_keys(space_of().vectors(places)))])


def scattered(rng: np.random.Generator, middles: Floats, km: float) -> Floats:
    """Return places around middles."""
    north = rng.normal(0, km / KM_OF_DEGREE, len(middles))
    lat = np.clip(middles[:, 1] + north, -90, 90)
    east = rng.normal(0, km / KM_OF_DEGREE, len(middles)) / np.cos(np.radians(middles[:, 1]))
    return np.column_stack([(middles[:, 0] + east + 180) % 360 - 180, lat])


def rides(rng: np.random.Generator, count: int, seed: int) -> Floats:
    """Return places where rides begin: real ones, or made ones where the data is not there."""
    if missing("uber") is None:
        return positions("uber", count, seed)
    corners = scattered(np.random.default_rng(7), np.full((_CORNERS, 2), _NEW_YORK), _BOROUGH_KM)
    return scattered(rng, corners[rng.integers(_CORNERS, size=count)], 0.02)


def towns(rng: np.random.Generator, count: int) -> Floats:
    """Return places in and around cities of the world."""
    known = cities()
    at = rng.integers(len(known), size=count)
    return scattered(rng, np.column_stack([known.lon[at], known.lat[at]]), TOWN_KM)


def streets(rows: int, scale: float = 1.0) -> World:
    """100,000 circles of 10 to 60 m where rides begin."""
    rng = np.random.default_rng(0)
    count = int(100_000 * scale)
    return World(
        "100k at rides, 10-60 m",
        rides(rng, count, 0),
        log_uniform(rng, 10, 60, count),
        in_curve_order(rides(rng, rows, 1)),
    )


def districts(rows: int, scale: float = 1.0) -> World:
    """A million circles of 100 m to 10 km at cities."""
    rng = np.random.default_rng(1)
    count = int(1_000_000 * scale)
    radius = log_uniform(rng, 100, 10_000, count)
    return World("1 M at cities, .1-10 km", towns(rng, count), radius, in_curve_order(towns(rng, rows)))


def mixed(rows: int, scale: float = 1.0) -> World:
    """A million circles of 10 m to 3 km at cities, and 300 of 100 to 1,000 km."""
    rng = np.random.default_rng(2)
    count = int(1_000_000 * scale)
    radius = np.concatenate([log_uniform(rng, 10, 3_000, count - 300), log_uniform(rng, 100_000, 1_000_000, 300)])
    return World("1 M of 10 m-3 km, 300 of 100-1,000 km", towns(rng, count), radius, in_curve_order(towns(rng, rows)))


def crowded(rows: int, scale: float = 1.0) -> World:
    """100,000 circles of 200 to 600 m where rides begin: hundreds hold each row."""
    rng = np.random.default_rng(3)
    count = int(100_000 * scale)
    return World(
        "100k at rides, 200-600 m",
        rides(rng, count, 0),
        log_uniform(rng, 200, 600, count),
        in_curve_order(rides(rng, rows, 1)),
    )


WORLDS: dict[str, Callable[..., World]] = {"streets": streets, "districts": districts, "mixed": mixed}
