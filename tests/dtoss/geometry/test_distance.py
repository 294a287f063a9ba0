"""The one distance function: right, and the same bits wherever it is used."""

import numpy as np
import pytest
from numba import njit

from dtoss.compiled.lanes8 import WIDTH, lanes_at, put_lanes
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import EARTH_RADIUS, chord_of, distance, sphere_distance, sphere_distances
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


@njit(error_model="numpy")
def _eight_at_a_time(chords2, sums2, out):
    for t in range(0, len(out), WIDTH):
        found = sphere_distances(lanes_at(pointer(chords2), t), lanes_at(pointer(sums2), t))
        put_lanes(pointer(out), t, found)
    return chords2, sums2, out


def test_eight_at_a_time_get_the_same_bits():
    """Near, far, opposite, the same place, and between two entries of the table; what is no number harms no other."""
    rng = np.random.default_rng(7)
    a, b = unit(rng, 40_000), unit(rng, 40_000)
    b[:20_000] = a[:20_000] + 10.0 ** rng.uniform(-9, 0.5, (20_000, 1)) * b[:20_000]
    b /= np.linalg.norm(b, axis=1)[:, None]
    b[::100], b[1::100] = a[::100], -a[1::100]
    half = np.arange(64) / 64.0  # the shorter one of difference and sum over the longer one, exactly
    other, none = np.full(64, 0.5), np.zeros(64)
    a = np.concatenate([a, np.column_stack([half, other, none]), np.column_stack([other, half, none])])
    b = np.concatenate([b, np.column_stack([-half, other, none]), np.column_stack([-other, half, none])])
    apart, along = a - b, a + b
    chords2, sums2 = (x * x + y * y + z * z for x, y, z in (apart.T, along.T))
    gone = np.flatnonzero(np.arange(len(a)) % 40 == 39)
    chords2[gone], sums2[gone[::2]] = np.nan, -1.0
    found = np.full(len(a), -1.0)
    _eight_at_a_time(chords2, sums2, found)
    known = np.delete(np.arange(len(a)), gone)
    assert (found[known].view(np.int64) == distance(a, b)[known].view(np.int64)).all()


def test_chords_of_radii():
    """Half round the Earth is the diameter; more is not more."""
    assert float(chord_of(0.0)) == 0.0
    assert float(chord_of(np.pi * EARTH_RADIUS)) == pytest.approx(2.0, abs=1e-15)
    assert float(chord_of(1e9)) == 2.0
    assert float(chord_of(1000.0)) == pytest.approx(1000.0 / EARTH_RADIUS, rel=1e-8)
