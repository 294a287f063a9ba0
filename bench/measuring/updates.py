"""What the benchmarks of cycles merge: a million taxis of 100 cities, and a share of them that has moved by 300 m."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datasets.cities.geonames import travel
from datasets.cities.taxis import make_fleet
from datasets.fleet import fleet_at

OBJECTS = 1_000_000
CITIES = 100
PERIOD = 60
"""Seconds between two reports of a taxi."""
METRES = 300.0
"""How far a taxi drives between two reports."""
TOWN = 0.5
"""Degrees from a city's centre in which its taxis are."""
ALONE = 2.0
"""Degrees from a city's centre to the nearest other one, for its taxis to be told by their places."""


@dataclass(frozen=True)
class World:
    """Taxis at one moment: id (0, 1, 2 and so on), uid, t, lon, lat, occupied.

    Parameters
    ----------
    rows
        A row each, by id.
    city
        Of those that lie alone the one that has the share of taxis nearest to a hundredth.
    taxis
        int64 (m,). The ids of those.
    """

    rows: pa.Table
    city: str
    taxis: NDArray[np.int64]


def world(objects: int = OBJECTS, cities: int = CITIES, seed: int = 0) -> World:
    """Return the taxis; the same each time."""
    fleet = make_fleet(objects, cities, seed=seed)
    rows = pa.Table.from_batches(fleet_at(fleet, 0.0)).combine_chunks()
    centre = np.stack([fleet.lon[:, 0], fleet.lat[:, 0]], axis=1)
    between = np.abs(centre[:, None] - centre[None]).max(axis=2) + np.diag(np.full(len(centre), np.inf))
    far = between.min(axis=1) >= ALONE
    chosen = int(np.where(far, np.abs(np.diff(fleet.share, prepend=0.0) - 0.01), np.inf).argmin())
    away = np.abs(places(rows) - centre[chosen]).max(axis=1)
    return World(rows, fleet.cities[chosen], np.flatnonzero(away < TOWN))


def places(rows: pa.Table) -> NDArray[np.float64]:
    """Return where they are, float64 (n, 2), lon and lat."""
    return np.stack([rows["lon"].to_numpy(), rows["lat"].to_numpy()], axis=1)


def reporting(rng: np.random.Generator, count: int, share: float) -> NDArray[np.int64]:
    """Return which taxis report: so large a share of them, at random and in no order, one at least."""
    return rng.permutation(count)[: max(round(share * count), 1)]


def reports(rng: np.random.Generator, rows: pa.Table, which: NDArray[np.int64], cycle: int) -> pa.Table:
    """Return a newer row of some taxis: so many periods later, and `METRES` from where ``rows`` has them."""
    some = rows.take(pa.array(which))
    bearing = rng.uniform(0.0, 2 * np.pi, len(which))
    lon, lat = travel(*places(some).T, bearing, np.full(len(which), METRES))
    later = some["t"].to_numpy() + np.timedelta64(PERIOD * cycle, "s")
    columns = {"t": pa.array(later).cast(rows.schema.field("t").type), "lon": lon, "lat": lat}
    for name, values in columns.items():
        some = some.set_column(some.column_names.index(name), name, pa.array(values))
    return some
