"""The one distance function: right, and the same bits wherever it is used."""

import numpy as np
import pytest
from numba import njit

from dtoss.geometry.distance import EARTH_RADIUS, chord_of, distance, sphere_distance
from dtoss.geometry.space import space_of
from tests import oracles


def unit(rng, n):
    v = rng.normal(size=(n, 3))
    return v / np.linalg.norm(v, axis=1)[:, None]


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-6, 1e-3, 0.03, 0.1, 1.0])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_great_circle_distance_against_long_double(scale, side):
    """Within a few ulps of 2 R atan2(|a - b|, |a + b|) for near, far and antipodal vectors."""
    rng = np.random.default_rng(3)
    a = unit(rng, 5000)
    b = a + scale * rng.normal(size=a.shape)
    b = side * b / np.linalg.norm(b, axis=1)[:, None]
    u, v = a.astype(np.longdouble), b.astype(np.longdouble)
    less, more = np.sqrt(((u - v) ** 2).sum(axis=1)), np.sqrt(((u + v) ** 2).sum(axis=1))
    true = 2 * np.longdouble(EARTH_RADIUS) * np.arctan2(less, more)
    found = distance(a, b)
    assert (np.abs(found - true) <= 1e-15 * true + 1e-300).all()


def test_from_degrees_within_a_micrometre():
    """From lon, lat to metres the error is below a micrometre or 1e-9."""
    rng = np.random.default_rng(4)
    a = np.stack([rng.uniform(-180, 180, 5000), rng.uniform(-90, 90, 5000)], axis=1)
    b = a + 10.0 ** rng.uniform(-7, 1, (5000, 1)) * rng.normal(size=a.shape)
    b = np.stack([np.clip(b[:, 0], -180, 180), np.clip(b[:, 1], -90, 90)], axis=1)
    space = space_of()
    true = oracles.true_distance(space, a, b)
    error = np.abs(distance(space.vectors(a), space.vectors(b)) - true)
    assert (error <= np.maximum(1e-9 * true, 1e-6)).all()


def test_equal_positions_are_zero_apart_and_it_is_symmetric():
    """Exactly."""
    a = unit(np.random.default_rng(5), 1000)
    assert (distance(a, a) == 0.0).all()
    assert (distance(a, a[::-1]) == distance(a[::-1], a)).all()


def test_a_kernel_gets_the_same_bits():
    """Engines and oracles agree bit for bit because both call this function."""

    @njit
    def in_kernel(a, b):
        out = np.empty(len(a))
        for i in range(len(a)):
            out[i] = sphere_distance(a[i, 0], a[i, 1], a[i, 2], b[i, 0], b[i, 1], b[i, 2])
        return out

    rng = np.random.default_rng(6)
    a, b = unit(rng, 20_000), unit(rng, 20_000)
    b[:10_000] = a[:10_000] + 1e-4 * b[:10_000]
    b /= np.linalg.norm(b, axis=1)[:, None]
    assert (in_kernel(a, b) == distance(a, b)).all()


def test_chords_of_radii():
    """Half round the Earth is the diameter; more is not more."""
    assert float(chord_of(0.0)) == 0.0
    assert float(chord_of(np.pi * EARTH_RADIUS)) == pytest.approx(2.0, abs=1e-15)
    assert float(chord_of(1e9)) == 2.0
    assert float(chord_of(1000.0)) == pytest.approx(1000.0 / EARTH_RADIUS, rel=1e-8)
