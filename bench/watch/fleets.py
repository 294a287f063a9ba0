"""A town full of moving objects, and circles at places of the same town: what streams of a watch are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.watch.subscription import CIRCLE, SUBSCRIPTION_SCHEMA

BEGIN = 1_700_000_000
TOWN = (-73.97, 40.74)
SPREAD = 0.05
"""Degrees of the normal distribution around the middle of the town."""
STEP = 0.0002
"""Degrees that an object moves by from row to row, about: some 20 metres."""
_METRES_A_DEGREE = 111_195.0


def places(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return places in the town, float64 (count, 2)."""
    return np.stack([rng.normal(TOWN[0], SPREAD, count), rng.normal(TOWN[1], SPREAD, count)], axis=1)


def radius_of(matches: float, subscriptions: int) -> float:
    """Return the radius in metres with which so many of the circles hold a place, in the mean."""
    # the mean density of places at places is that of a normal distribution of twice the variance
    variance = (SPREAD * _METRES_A_DEGREE) ** 2 * np.cos(np.radians(TOWN[1]))
    return float(np.sqrt(matches * 4.0 * variance / subscriptions))


def circles(rng: np.random.Generator, ids: range, events: int, radius: float) -> pa.Table:
    """Return circles of about a radius, all of which want the same events."""
    count = len(ids)
    at = places(rng, count)
    made: dict[str, Any] = {
        "id": [f"f{number:07}" for number in ids],
        "kind": np.full(count, CIRCLE),
        "x": at[:, 0],
        "y": at[:, 1],
        "radius": radius * rng.uniform(0.8, 1.2, count),
        "events": np.full(count, events),
    }
    return pa.table(
        [pa.array(made[f.name], f.type) if f.name in made else pa.nulls(count, f.type) for f in SUBSCRIPTION_SCHEMA],
        SUBSCRIPTION_SCHEMA,
    )


def moved(rng: np.random.Generator, at: np.ndarray, rows: int, number: int) -> pa.Table:
    """Return rows of objects that have moved, each of another one; ``at`` is where they are then."""
    chosen = rng.permutation(len(at))[:rows]
    at[chosen] += rng.normal(0.0, STEP, (len(chosen), 2))
    t = BEGIN + 10 * number + rng.integers(0, 10, len(chosen))
    return pa.table({"id": chosen, "lon": at[chosen, 0], "lat": at[chosen, 1], "t": t})


def written(folder: Path, name: str, table: pa.Table) -> Path:
    """Write rows as a file that appears whole, and return its path."""
    hidden, path = folder / f".{name}", folder / f"{name}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(path)
    return path
