"""Small worlds in which several objects are as near to a place as the nearest one, within rounding.

Objects in pairs an ulp apart, on decimal lattices, in a crowd on the border of the bounds, and anywhere; places within,
between two objects, and up to a million times outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dtoss
from dtoss.kinds.kind import Search
from dtoss.shards.merge_answers import Together, answered_by
from dtoss.shards.share import Share

Floats = NDArray[np.float64]
PLACES = 16


def _pairs(rng: np.random.Generator, n: int) -> Floats:
    some = rng.uniform([-180.0, -90.0], [180.0, 90.0], (max(n // 2, 1), 2)) * rng.choice([1.0, 1e-3, 1.0])
    beside = np.nextafter(some, rng.choice([-np.inf, np.inf], some.shape))
    beside = np.where(rng.random(some.shape) < 0.3, some, beside)
    return np.concatenate([some, beside])[: max(n, 2)]


def _lattice(rng: np.random.Generator, n: int) -> Floats:
    return np.round(rng.integers(0, 6, (n, 2)) * 0.1 + rng.integers(-50, 50, 2) * 0.1, 1)


def _border(rng: np.random.Generator, n: int) -> Floats:
    at = rng.uniform(-1.0, 1.0, (n, 2))
    at[np.arange(n), rng.integers(0, 2, n)] = rng.choice([-1.0, 1.0], n)
    crowd = rng.random(n) < 0.6
    inward = rng.integers(0, 4, (n, 2)) * np.array([-(2.0**-53), 2.0**-52])
    return np.where(crowd[:, None], np.array([1.0, rng.uniform(-1.0, 1.0)]) + inward, at)


def _anywhere(rng: np.random.Generator, n: int) -> Floats:
    return rng.uniform([-180.0, -90.0], [180.0, 90.0], (n, 2))


KINDS = {"pairs": _pairs, "lattice": _lattice, "border": _border, "anywhere": _anywhere}


@dataclass(frozen=True)
class World:
    """Objects, places to ask about and the metric; ``bounds`` of the plane, the tight box of the objects or None."""

    metric: str
    ids: NDArray[np.int64]
    positions: Floats
    places: Floats
    bounds: list[float] | None


def world(kind: str, metric: str, seed: int) -> World:
    """Return the world of a kind and a seed: the same one in every run."""
    rng = np.random.default_rng([list(KINDS).index(kind), metric == "plane", seed])
    at = KINDS[kind](rng, int(rng.integers(2, 29)))
    low, high = at.min(axis=0), at.max(axis=0)
    far = max(float((high - low).max()), 1e-9) * 10.0 ** rng.uniform(-0.5, 6.0, PLACES)
    turn = rng.uniform(0.0, 2.0 * np.pi, PLACES)
    turn = np.where(rng.random(PLACES) < 0.4, np.round(turn / (np.pi / 4)) * (np.pi / 4), turn)
    places = (low + high) / 2 + far[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1).round(15)
    few = PLACES // 4
    places[:few] = rng.uniform(low, high, (few, 2))
    places[few : 2 * few] = (at[rng.integers(0, len(at), few)] + at[rng.integers(0, len(at), few)]) / 2
    bounds = None
    if metric == "sphere":
        at, places = _on_globe(at), _on_globe(places)
        across = at[rng.integers(0, len(at), 4)]
        places[-4:] = np.stack([across[:, 0] % 360.0 - 180.0, -across[:, 1]], axis=1)
    elif seed % 3 == 0 and (low < high).all():
        bounds = [*low.tolist(), *high.tolist()]
    return World(metric, rng.permutation(len(at)), at, places, bounds)


def _on_globe(at: Floats) -> Floats:
    return np.stack([(at[:, 0] + 180.0) % 360.0 - 180.0, np.clip(at[:, 1], -90.0, 90.0)], axis=1)


def wrong(w: World, partitions: int) -> list[str]:
    """Return by which ways the nearest object of a place is not the first of the two nearest, a line each."""
    index = dtoss.build(w.ids, w.positions, metric=w.metric, partitions=partitions, bounds=w.bounds)
    two = index.knn(w.places, 2)
    first, far = two.id[::2], two.distance[::2]
    told = {
        "a batch": index.knn(w.places, 1),
        "threads": index.knn(w.places, 1, threads=2),
        "no further": index.knn(w.places, 1, max_distance=far.max()),
        "within as far": [index.range(place, d).id[0] for place, d in zip(w.places, far.tolist(), strict=True)],
        "by itself": [index.knn(place, 1).id[0] for place in w.places],
        "located": index.locate(w.places),
        "located by itself": [index.locate(place)[0] for place in w.places],
        "servers": _told(index, Search(w.places, np.full(len(w.places), np.inf), 1)).column("id").to_numpy(),
    }
    lines = []
    for way, found in told.items():
        ids = np.asarray(getattr(found, "id", found))
        for at in np.flatnonzero(ids != first).tolist():
            lines.append(f"{way}: {ids[at]} and not {first[at]} at {w.places[at].tolist()}")
        if hasattr(found, "distance") and found.distance.tolist() != far.tolist():
            lines.append(f"{way}: other distances")
    return lines


def _told(index: dtoss.Index, asked: Search) -> pa.Table:
    """Return what two servers that hold every other partition each say, as the first of them asks both."""
    server_of = np.arange(len(index.parts)) % 2
    shares = [Share(index, set(np.flatnonzero(server_of == one).tolist())) for one in (0, 1)]

    async def ask(asks: Sequence[tuple[int, Any]]) -> list[Any]:
        return [answered_by(shares[one], asked) for one, asked in asks]

    return asyncio.run(Together(shares[0], 0, server_of, ask).hits(asked))
