"""Searches over many blocks, where crowds, gaps and ties lie, against brute force."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import dtoss
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import in_partitions


def crowds(rng, n):
    """Points whose density spans twelve orders of magnitude, and a few far away."""
    centres = rng.uniform(-800, 800, (12, 2))
    spread = 10.0 ** rng.uniform(-7, 2, 12)
    which = rng.integers(0, 12, n)
    points = centres[which] + rng.normal(size=(n, 2)) * spread[which, None]
    points[: n // 50] = rng.uniform(-1000, 1000, (n // 50, 2))
    return points


def lattice(rng, n):
    side = int(np.sqrt(n)) + 1
    return np.stack(np.divmod(rng.permutation(side * side)[:n], side), axis=1).astype(float)


def line(rng, n):
    return np.stack([rng.permutation(n) * 0.5, np.full(n, 3.0)], axis=1)


def ring(rng, n):
    """Points round a place that none is near to: all of them tie but for rounding."""
    angle = rng.uniform(0.0, 2 * np.pi, n)
    return 100.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def stacks(rng, n):
    """Many objects on some sites, one on the others."""
    sites = rng.uniform(-100, 100, (n // 3, 2))
    return sites[np.minimum(rng.geometric(0.05, n), n // 3) - 1]


SHAPES = {"crowds": crowds, "lattice": lattice, "line": line, "ring": ring, "stacks": stacks}


def rows(hits):
    return list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))


class World(NamedTuple):
    """Objects, places that are asked about, and what is near those: nearest[k] of all, of some, within a distance."""

    ids: np.ndarray
    positions: np.ndarray
    kept: np.ndarray
    queries: np.ndarray
    near: float
    nearest: dict
    within: dict


def world(space, ids, positions, kept, queries, radii):
    """Have all that is asked answered by brute force, once for all numbers of partitions."""
    some, few = positions[kept], ids[kept]
    nearest = {
        k: (
            oracles.knn(space, ids, positions, queries, k),
            oracles.knn(space, few, some, queries, k),
            oracles.knn(space, ids, positions, queries, k, radii[1]),
        )
        for k in (1, 2, 7, 40, 300)
    }
    within = {
        radius: (
            oracles.within(space, ids, positions, queries, radius),
            oracles.within(space, few, some, queries, radius),
        )
        for radius in radii
    }
    return World(ids, positions, kept, queries, radii[1], nearest, within)


def check(made, index):
    queries = made.queries
    for k, (expected, of_some, near) in made.nearest.items():
        assert rows(index.knn(queries, k)) == expected
        alone = [(i, hit.id.tolist()) for i, hit in enumerate(index.knn(query, k) for query in queries[::7])]
        assert alone == [(i, [row[1] for row in expected if row[0] == 7 * i]) for i in range(len(alone))]
        assert rows(index.knn(queries, k, where="kept")) == of_some
        assert rows(index.knn(queries, k, max_distance=made.near)) == near
    for radius, (expected, of_some) in made.within.items():
        assert rows(index.range(queries, radius)) == expected
        counts = np.bincount([q for q, _, _ in expected], minlength=len(queries))
        assert index.count(queries, radius).tolist() == counts.tolist()
        assert rows(index.range(queries, radius, where="kept")) == of_some


@cache
def flat(shape):
    """A world in the plane."""
    rng = np.random.default_rng(11)
    n = 1500
    positions = SHAPES[shape](rng, n)
    ids = rng.permutation(n)
    kept = rng.uniform(size=n) < 0.6
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = (high - low).max()
    queries = np.concatenate(
        [
            positions[rng.integers(0, n, 8)],
            positions[rng.integers(0, n, 8)] + rng.normal(size=(8, 2)) * span * 1e-4,
            rng.uniform(low, high, (8, 2)),
            # outside the bounds, near and far
            rng.uniform(low - span, high + span, (8, 2)),
            [[0.0, 0.0], high + 100 * span, low - 100 * span],
        ]
    )
    return world(space_of("none"), ids, positions, kept, queries, (0.0, span * 1e-3, span / 20, 2 * span))


@pytest.mark.parametrize(("shape", "partitions"), in_partitions(SHAPES, "crowds"))
def test_in_the_plane(shape, partitions):
    made = flat(shape)
    index = dtoss.build(made.ids, made.positions, crs="none", partitions=partitions, columns={"kept": made.kept})
    check(made, index)


@cache
def round_world(shape):
    """A world on the sphere."""
    rng = np.random.default_rng(12)
    n = 1500
    if shape == "poles":
        lat = np.where(rng.uniform(size=n) < 0.5, 89.9, -89.9) + rng.uniform(-0.1, 0.1, n)
        positions = np.stack([rng.uniform(-180, 180, n), np.clip(lat, -90, 90)], axis=1)
    else:
        plane = SHAPES[shape](rng, n)
        plane = (plane - plane.mean(axis=0)) / np.abs(plane).max()
        # across the antimeridian
        positions = np.stack([(plane[:, 0] * 30.0 + 360.0) % 360.0 - 180.0, plane[:, 1] * 30.0], axis=1)
    ids = rng.permutation(n)
    kept = rng.uniform(size=n) < 0.4
    near = positions[rng.integers(0, n, 12)] + rng.normal(size=(12, 2)) * 1e-3
    near[:, 0], near[:, 1] = (near[:, 0] + 180.0) % 360.0 - 180.0, np.clip(near[:, 1], -90, 90)
    anywhere = np.stack([rng.uniform(-180, 180, 8), np.degrees(np.arcsin(rng.uniform(-1, 1, 8)))], axis=1)
    queries = np.concatenate([positions[:6], near, anywhere, [[0.0, 90.0], [0.0, -90.0], [180.0, 0.0], [0.0, 0.0]]])
    return world(space_of(), ids, positions, kept, queries, (0.0, 2e3, 4e5, 2.1e7))


@pytest.mark.parametrize(
    ("shape", "partitions"), in_partitions(["crowds", "lattice", "line", "ring", "poles"], "poles")
)
def test_on_the_sphere(shape, partitions):
    made = round_world(shape)
    check(made, dtoss.build(made.ids, made.positions, partitions=partitions, columns={"kept": made.kept}))


@pytest.mark.parametrize("shape", ["crowds", "lattice", "ring", "stacks"])
@pytest.mark.parametrize("crs", ["none", "EPSG:4326"])
def test_batches_that_go_round_a_town_from_afar(shape, crs):
    rng = np.random.default_rng(13)
    n = 2000
    town = SHAPES[shape](rng, n)
    town = (town - town.mean(axis=0)) / np.abs(town).max()
    angle, far = np.sort(rng.uniform(0, 2 * np.pi, 120)), np.repeat([1.5, 4.0, 40.0], 40)
    queries = np.stack([far * np.cos(angle), far * np.sin(angle)], axis=1)
    ids = rng.permutation(n)
    index = dtoss.build(ids, town, crs=crs)
    for k in (2, 8, 50):
        assert rows(index.knn(queries, k)) == oracles.knn(index.space, ids, town, queries, k)
