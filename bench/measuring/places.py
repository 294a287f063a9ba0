"""Kinds of places that people ask about, and the orders in which they ask.

A ratio that holds where objects stand says little of the yard behind the street: searches begin with what is dense
where the query stands. And an order that suits our curve says little of one that suits another index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import dtoss
from bench.measuring.points import lonlat_of, missing
from datasets.tables.command import say
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order

Floats = NDArray[np.float64]
WORLDS = ("taxi", "uber", "gowalla", "cities500", "sphere", "plane")
SIDE = 1_000_000.0
"""Of the square of the made plane, in metres."""
METRE = np.degrees(1.0 / EARTH_RADIUS)
"""Degrees of latitude in a metre."""
BESIDE = {"2 m beside": 2.0, "20 m beside": 20.0, "200 m beside": 200.0}
PLACES = ("at objects", *BESIDE, "in the box", "far outside", "at ranks")
RANK = 100
"""Objects on a site that is a rank."""
STRIPS = 300
"""Strips of latitude, or of y."""
HILBERT_BITS = 16


@dataclass(frozen=True)
class World:
    """Objects, float64 (n, 2): lon and lat in degrees, or x and y in metres where ``planar``."""

    name: str
    objects: Floats
    planar: bool


def worlds(names: Sequence[str], objects: int) -> Iterator[World]:
    """Yield those that are there, with so many objects; of the others it is said why they are not."""
    for name in names:
        if why := missing(name):
            say(f"{name}: {why}")
        else:
            yield world(name, objects)


def indexed(w: World) -> tuple[dtoss.Index, Floats]:
    """Return the index of a world, and the vectors of its objects, of which rivals build their trees."""
    index = dtoss.build(np.arange(len(w.objects)), w.objects, metric="plane" if w.planar else None, threads=2)
    return index, np.ascontiguousarray(index.space.vectors(w.objects))


def world(name: str, count: int, seed: int = 0) -> World:
    """Return so many objects of a set in random order; all of a real set that has fewer."""
    rng = np.random.default_rng(seed)
    if name == "plane":
        return World(name, rng.uniform(0, SIDE, (count, 2)), True)
    if name == "sphere":
        lat = np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
        return World(name, np.column_stack([rng.uniform(-180, 180, count), lat]), False)
    every = lonlat_of(name)
    return World(name, every[rng.permutation(len(every))[:count]], False)


def places(world: World, kind: str, count: int, seed: int = 1) -> Floats | None:
    """Return places of a kind in random order, float64 (count, 2); None where the set has none.

    The box of a real set is that of its middle 99 %: some objects stand at sea.
    """
    rng = np.random.default_rng(seed)
    at = world.objects
    if kind == "at objects":
        return at[rng.choice(len(at), count)]
    if kind in BESIDE:
        return _moved(world, at[rng.choice(len(at), count)], BESIDE[kind], rng)
    if kind == "at ranks":
        sites, size = np.unique(at, axis=0, return_counts=True)
        ranks = sites[size >= RANK]
        return None if len(ranks) == 0 else _moved(world, ranks[rng.choice(len(ranks), count)], 20.0, rng)
    low, high = np.quantile(at, [0.005, 0.995], axis=0)
    if kind == "in the box":
        return rng.uniform(low, high, (count, 2))
    if world.name == "sphere":
        return None  # nothing is outside
    wide = (high - low).max()
    angle, far = rng.uniform(0, 2 * np.pi, count), rng.uniform(1.0, 10.0, count) * wide
    away = (low + high) / 2 + far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return away if world.planar else _legal(away)


def _moved(world: World, at: Floats, metres: float, rng: np.random.Generator) -> Floats:
    angle = rng.uniform(0, 2 * np.pi, len(at))
    step = metres * np.column_stack([np.cos(angle), np.sin(angle)])
    if world.planar:
        return at + step
    step[:, 0] /= np.maximum(np.cos(np.radians(at[:, 1])), 1e-3)
    return _legal(at + step * METRE)


def _legal(at: Floats) -> Floats:
    return np.column_stack([(at[:, 0] + 180) % 360 - 180, np.clip(at[:, 1], -90, 90)])


def _our_curve(at: Floats, vectors: Floats) -> NDArray[np.int64]:
    box = np.array([*at.min(axis=0), *at.max(axis=0)]) if vectors.shape[1] == 2 else None
    return radix_order(curve_keys(np.ascontiguousarray(vectors), box)).astype(np.int64)


def _another_curve(at: Floats, vectors: Floats) -> NDArray[np.int64]:
    """Along Hilbert's curve over lon and lat, as databases sort."""
    low, high = at.min(axis=0), at.max(axis=0)
    x, y = ((at - low) / np.maximum(high - low, 1e-300) * (2**HILBERT_BITS - 1)).astype(np.int64).T
    key = np.zeros(len(at), np.int64)
    for bit in range(HILBERT_BITS - 1, -1, -1):
        right, up = (x >> bit) & 1, (y >> bit) & 1
        key = key << 2 | (3 * right) ^ up
        # the quarter is turned: flipped where it is the last, and mirrored in the lower half
        flip = (up == 0) & (right == 1)
        x, y = np.where(flip, ~x, x), np.where(flip, ~y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
    return np.argsort(key, kind="stable")


def _strips(at: Floats, vectors: Floats) -> NDArray[np.int64]:
    """In strips of latitude that hold as many places each, from west to east."""
    rank = np.argsort(np.argsort(at[:, 1], kind="stable"), kind="stable")
    return np.lexsort([at[:, 0], rank * STRIPS // len(at)])


def _random(at: Floats, vectors: Floats) -> NDArray[np.int64]:
    return np.arange(len(at))


ORDERS: dict[str, Callable[[Floats, Floats], NDArray[np.int64]]] = {
    "our curve": _our_curve,
    "Hilbert": _another_curve,
    "strips": _strips,
    "random": _random,
}
"""Rows of places (m, 2) and their vectors (m, dimension), in each order."""
