"""Queries far from all objects, where discs cross many sites at once and other partitions are walked from the last."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of


def nearest(space, at, queries, k):
    """Return the ids and distances of the k nearest by looking at all objects, in the order (distance, id)."""
    sites, asked = space.vectors(at), space.vectors(queries)
    far = distance(asked[:, None], sites[None])
    order = np.lexsort([np.broadcast_to(np.arange(len(at)), far.shape), far], axis=1)[:, :k]
    return order, np.take_along_axis(far, order, axis=1)


def places(rng, plane, low, high):
    """Return places on rays from the middle, near and far, in the order of their angles, and those at random."""
    middle, wide = (low + high) / 2, (high - low).max()
    angle = np.sort(rng.uniform(0, 2 * np.pi, 150))
    far = rng.choice([0.6, 0.71, 2.0, 9.0] if plane else [0.6, 1.0, 3.0], 150) * wide
    along = middle + far[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([along, rng.permutation(along)])


@cache
def seen_from_far(kind):
    """(positions, queries, {k: the nearest}), for all numbers of partitions."""
    rng = np.random.default_rng(7)
    low, high = ([10.0, 40.0], [14.0, 43.0]) if kind == "sphere" else ([0.0, 0.0], [100.0, 100.0])
    at = rng.uniform(low, high, (2000, 2))
    if kind == "grid":
        at = np.round(at / 5.0) * 5.0
    queries = places(rng, kind != "sphere", at.min(axis=0), at.max(axis=0))
    space = space_of(metric=None if kind == "sphere" else "plane")
    return at, queries, {k: nearest(space, at, queries, k) for k in (1, 2, 8, 40)}


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
@pytest.mark.parametrize("kind", ["square", "grid", "sphere"])
def test_from_far_outside(kind, partitions):
    """From outside the bounds of the plane, and across the sea; on a grid many objects are as far."""
    at, queries, expected = seen_from_far(kind)
    index = dtoss.build(np.arange(2000), at, metric=None if kind == "sphere" else "plane", partitions=partitions)
    for k, (ids, far) in expected.items():
        for rows in (slice(None), slice(3, 9)):
            hits = index.knn(queries[rows], k)
            assert np.array_equal(hits.id.reshape(-1, k), ids[rows])
            assert np.array_equal(hits.distance.reshape(-1, k), far[rows])
        near = index.knn(queries, k, max_distance=float(np.median(far)))
        assert len(near) == int((far <= np.median(far)).sum())
