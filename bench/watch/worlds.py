"""The workloads that subscriptions are measured on: circles at places of real rides and of towns, and rows there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.measuring.points import lonlat_of, missing, positions, scattered
from datasets.cities.geonames import cities
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.geometry.space import space_of
from dtoss.watch.subscription import CIRCLE, INSIDE, SUBSCRIPTION_SCHEMA

Floats = NDArray[np.float64]

RIDE_KM, TOWN_KM, SPRAWL_KM = 0.1, 2.0, 12.0
"""Standard deviation of the way from a ride, a town, and one of fewer towns, to a place there."""
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
        float64 (m, 2) in degrees.
    order
        What order they are in, to be printed; that of a space-filling curve if nothing else is said.
    """

    name: str
    centres: Floats
    radius: Floats
    rows: Floats
    order: str = "rows in order"

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
    return pa.table(
        [held.get(one.name, pa.nulls(count, one.type)) for one in SUBSCRIPTION_SCHEMA], schema=SUBSCRIPTION_SCHEMA
    )


def log_uniform(rng: np.random.Generator, low: float, high: float, count: int) -> Floats:
    """Return radii whose logarithms are uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def in_curve_order(places: Floats) -> Floats:
    """Return places along a space-filling curve."""
    return np.ascontiguousarray(places[radix_order(curve_keys(space_of().vectors(places)))])


def rides(rng: np.random.Generator, count: int, seed: int, km: float = 0.0) -> Floats:
    """Return places where rides begin, or so near: real ones, or made ones where the data is not there."""
    if missing("uber") is None:
        found = positions("uber", count, seed)
    else:
        corners = scattered(np.random.default_rng(7), np.full((_CORNERS, 2), _NEW_YORK), _BOROUGH_KM)
        found = scattered(rng, corners[rng.integers(_CORNERS, size=count)], 0.02)
    return scattered(rng, found, km) if km else found


@cache
def _middles() -> tuple[Floats, float]:
    """Return where the towns of the world are, and how far they reach: fewer and larger ones without the data."""
    if not missing("cities500"):
        return lonlat_of("cities500"), TOWN_KM
    known = cities()
    return np.column_stack([known.lon, known.lat]), SPRAWL_KM


def towns(rng: np.random.Generator, count: int) -> Floats:
    """Return places in and around towns of the world."""
    middles, km = _middles()
    return scattered(rng, middles[rng.integers(len(middles), size=count)], km)


def streets(rows: int, scale: float = 1.0) -> World:
    """100,000 circles of 10 to 60 m near where rides begin, and rows there."""
    rng = np.random.default_rng(0)
    count = int(100_000 * scale)
    return World(
        "100k near rides, 10-60 m",
        rides(rng, count, 0, RIDE_KM),
        log_uniform(rng, 10, 60, count),
        in_curve_order(rides(rng, rows, 1, RIDE_KM)),
    )


def corners(rows: int, scale: float = 1.0) -> World:
    """100,000 circles of 10 to 60 m at the very places of rides, many at one place, and rows there."""
    rng = np.random.default_rng(0)
    count = int(100_000 * scale)
    radius = log_uniform(rng, 10, 60, count)
    return World("100k at rides, 10-60 m", rides(rng, count, 0), radius, in_curve_order(rides(rng, rows, 1)))


def crowded(rows: int, scale: float = 1.0) -> World:
    """100,000 circles of 40 to 120 m at the very places of rides: a hundred hold each row."""
    rng = np.random.default_rng(3)
    count = int(100_000 * scale)
    radius = log_uniform(rng, 40, 120, count)
    return World("100k at rides, 40-120 m", rides(rng, count, 0), radius, in_curve_order(rides(rng, rows, 1)))


def districts(rows: int, scale: float = 1.0) -> World:
    """A million circles of 100 m to 10 km at towns."""
    rng = np.random.default_rng(1)
    count = int(1_000_000 * scale)
    radius = log_uniform(rng, 100, 10_000, count)
    return World(f"{_said(count)} at towns, .1-10 km", towns(rng, count), radius, in_curve_order(towns(rng, rows)))


def mixed(rows: int, scale: float = 1.0) -> World:
    """A million circles of 10 m to 3 km at towns, and 300 of 100 to 1,000 km."""
    rng = np.random.default_rng(2)
    count = int(1_000_000 * scale)
    radius = np.concatenate([log_uniform(rng, 10, 3_000, count - 300), log_uniform(rng, 100_000, 1_000_000, 300)])
    name = f"{_said(count)}: 10 m-3 km, and 300 of 100-1,000 km"
    return World(name, towns(rng, count), radius, in_curve_order(towns(rng, rows)))


def _said(count: int) -> str:
    return f"{count / 1e6:g} M" if count >= 1_000_000 else f"{count / 1e3:g}k"


def elsewhere(world: World) -> World:
    """Return the circles of a world, and rows that are anywhere in the rectangle that most of them lie in."""
    rng = np.random.default_rng(4)
    low, high = np.quantile(world.centres, 0.01, axis=0), np.quantile(world.centres, 0.99, axis=0)
    rows = in_curve_order(rng.uniform(low, high, world.rows.shape))
    return replace(world, rows=rows, order="rows anywhere around")


def shuffled(world: World) -> World:
    """Return a world whose rows come in no order."""
    rows = np.random.default_rng(5).permutation(world.rows)
    return replace(world, rows=rows, order="rows in no order")


WORLDS: dict[str, Callable[..., World]] = {
    "streets": streets,
    "districts": districts,
    "half": lambda rows, scale=1.0: districts(rows, scale / 2),
    "mixed": mixed,
    "corners": corners,
    "crowded": crowded,
}
