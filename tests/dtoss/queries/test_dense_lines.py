"""Objects densely on a line: answers are those of brute force, though bisectors run half round the Earth side by side.

A site may be hardly nearer than another to a far corner of a cell, and cut off half of what lies beside the cell's own
site: a cell without that edge is where a walk ends too early.
"""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from tests import oracles
from tests.dtoss.scenes import rows

BOUNDS = [-1e7, -1e7, 1e7, 1e7]
SPACINGS = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 3e-9, 1e-9, 1e-10, 1e-11, 1e-12)
"""Degrees: from 111 m to 0.1 micrometres."""


def _meridian(i, _):
    return np.stack([np.full(len(i), 12.345678), i], axis=1)


def _equator(i, _):
    return np.stack([i, np.zeros(len(i))], axis=1)


def _parallel(i, _):
    return np.stack([100.3 + i, np.full(len(i), 41.7)], axis=1)


def _tilted(i, _):
    return np.stack([13.4 + 0.6 * i, 52.5 + 0.8 * i], axis=1)


def _great_circle(i, _):
    one, other = np.array([0.36, -0.48, 0.8]), np.array([0.8, 0.6, 0.0])
    x, y, z = np.cos(np.radians(i)) * one[:, None] + np.sin(np.radians(i)) * other[:, None]
    return np.degrees(np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1))


def _at_random(i, rng):
    return _meridian(rng.uniform(i[0], i[-1], len(i)), rng)


def _lattice(i, _):
    side = i[: int(len(i) ** 0.5)]
    return np.stack([13.4 + np.tile(side, len(side)), 52.5 + np.repeat(side, len(side))], axis=1)


def _strip(i, _):
    return np.stack([13.4 + np.tile(i[:3], len(i) // 3), 12.5 + np.repeat(i[: len(i) // 3], 3)], axis=1)


def _crowd(i, rng):
    return np.array([13.4, 52.5]) + rng.normal(0.0, (i[1] - i[0]) * len(i) ** 0.5, (len(i), 2))


def _two_lines(i, rng):
    return np.concatenate([_meridian(i[::2], rng), _meridian(i[1::2], rng) + np.array([3 * (i[1] - i[0]), 0.0])])


def _cross(i, rng):
    return np.concatenate([_meridian(i[::2], rng), _equator(i[1::2], rng) + np.array([12.345678, 0.0])])


LINES = {
    "meridian": _meridian,
    "equator": _equator,
    "parallel": _parallel,
    "tilted": _tilted,
    "great circle": _great_circle,
    "at random": _at_random,
    "lattice": _lattice,
    "strip": _strip,
    "crowd": _crowd,
    "two lines": _two_lines,
    "cross": _cross,
}


def line(name, n, spacing, shuffled=False):
    rng = np.random.default_rng(7)
    positions = LINES[name]((np.arange(n) - n // 2) * spacing, rng)
    return rng.permutation(positions) if shuffled else positions


def strayed(index, positions):
    """Return how many objects are not the nearest one at their own place, or are not found there at all."""
    vectors = index.space.vectors(positions)
    _, lowest, same = np.unique(vectors, axis=0, return_index=True, return_inverse=True)
    own = lowest[same.reshape(-1)]
    nearest, there = index.knn(positions, 1, max_distance=0.0), index.range(positions, 0.0)
    found = np.full(len(own), -1)
    found[nearest.query] = nearest.id
    seen = np.full(len(own), -1)
    seen[there.query[::-1]] = there.id[::-1]
    return int((index.knn(positions, 1).id != own).sum() + (found != own).sum() + (seen != own).sum())


def beside(positions, spacing, count, rng):
    """Return own places of objects, and places beside them, from far less than the spacing to 10 degrees away."""
    some = rng.choice(len(positions), count)
    bearing, far = rng.uniform(0, 2 * np.pi, count), spacing * 10.0 ** rng.uniform(-2, 5, count)
    away = np.minimum(far, 10.0) * np.stack([np.cos(bearing), np.sin(bearing)])
    return np.concatenate([positions[some], positions[some] + away.T])


def check(index, positions, places):
    ids = range(len(positions))
    for k in (1, 2, 8):
        assert rows(index.knn(places, k)) == oracles.knn(index.space, ids, positions, places, k)


@pytest.mark.parametrize("spacing", [1e-7, 1e-9])
@pytest.mark.parametrize("shuffled", [False, True])
def test_each_of_20_000_objects_on_a_meridian_is_found(shuffled, spacing):
    """11 mm apart 24 had another object nearest to their own place, up to 33 mm away; 0.1 mm apart a quarter had."""
    positions = line("meridian", 20_000, spacing, shuffled)
    assert strayed(dtoss.build(range(20_000), positions, partitions=1), positions) == 0


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(
    ("name", "n", "spacing"),
    [("meridian", 800, 3e-9), ("at random", 800, 3e-9), ("at random", 2000, 1e-9), ("tilted", 1000, 1e-7)],
)
def test_dense_lines_are_as_brute_force_says(name, n, spacing, partitions):
    positions = line(name, n, spacing)
    index = dtoss.build(range(n), positions, partitions=partitions)
    assert strayed(index, positions) == 0
    check(index, positions, beside(positions, spacing, 10, np.random.default_rng(1)))


@pytest.mark.parametrize("shift", [0.0, 1000.0, 1e6])
@pytest.mark.parametrize("spacing", [1e-3, 1e-5])
def test_a_long_cell_is_cut_by_all_that_stand_beside_its_site(spacing, shift):
    """In a plane: bounds of 10,000 km round a row of objects 1 mm apart make cells a billion times as long as wide."""
    positions = line("meridian", 600, spacing) + np.array([-89.4691347, 60.1]) + shift
    index = dtoss.build(range(600), positions, metric="plane", bounds=BOUNDS, partitions=1)
    assert strayed(index, positions) == 0
    check(index, positions, beside(positions, spacing, 10, np.random.default_rng(2)))


@pytest.mark.deep("20,000 objects each; the same with some hundred in make test")
@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("name", LINES)
def test_all_dense_lines(name, spacing):
    """Sorted and shuffled; and a few are asked for beside them."""
    for shuffled in (False, True):
        positions = line(name, 20_000, spacing, shuffled)
        index = dtoss.build(range(len(positions)), positions, partitions=1)
        assert strayed(index, positions) == 0
    check(index, positions, beside(positions, spacing, 8, np.random.default_rng(3)))


@pytest.mark.deep("5,000 objects each; the same with some hundred in make test")
@pytest.mark.parametrize("shift", [0.0, 1000.0, 1e6])
@pytest.mark.parametrize("spacing", [1e-1, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("name", LINES)
def test_all_dense_lines_of_the_plane(name, spacing, shift):
    positions = line(name, 5000, spacing) + shift
    index = dtoss.build(range(len(positions)), positions, metric="plane", bounds=BOUNDS, partitions=1)
    assert strayed(index, positions) == 0
    check(index, positions, beside(positions, spacing, 8, np.random.default_rng(4)))
