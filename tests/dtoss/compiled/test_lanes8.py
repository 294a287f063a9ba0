"""Eight numbers at once give what numpy gives, bit for bit."""

import numpy as np
import pytest
from numba import njit

from dtoss.compiled import lanes8
from dtoss.compiled.lanes8 import above, equal, lanes_at, put_lanes, roots, splat, where
from dtoss.compiled.pointers import bits_set, pointer

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e308, -1e-308]


def pairs():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 6, 8)) * 10.0 ** rng.integers(-9, 9, (2, 6, 8))
    b[0, ::2] = a[0, ::2]
    return [*zip(a, b, strict=True), (np.array(SPECIAL), np.array(SPECIAL[::-1])), (np.array(SPECIAL), np.ones(8))]


@njit
def _arithmetic(a, b, x, out):
    p, q = lanes_at(pointer(a), 0), lanes_at(pointer(b), 0)
    put_lanes(pointer(out), 0, p + q)
    put_lanes(pointer(out), 8, p - q)
    put_lanes(pointer(out), 16, p * q)
    put_lanes(pointer(out), 24, p / q)
    put_lanes(pointer(out), 32, x - p)
    put_lanes(pointer(out), 40, p * x)
    put_lanes(pointer(out), 48, lanes8.larger(p, q))
    put_lanes(pointer(out), 56, roots(p))
    return a, b, out


@pytest.mark.parametrize("pair", pairs())
def test_arithmetic_is_that_of_single_numbers(pair):
    a, b = pair
    out = np.zeros(64)
    _arithmetic(a, b, 0.3, out)
    with np.errstate(all="ignore"):
        theirs = [
            a + b,
            a - b,
            a * b,
            a / b,
            0.3 - a,
            a * 0.3,
            np.where(a > b, a, b),
            np.sqrt(a),
        ]
    for row, expected in zip(out.reshape(8, 8), theirs, strict=True):
        same = (row.view(np.int64) == expected.view(np.int64)) | (np.isnan(row) & np.isnan(expected))
        assert same.all()


@njit
def _masks(a, b, out):
    p, q = lanes_at(pointer(a), 0), lanes_at(pointer(b), 0)
    more, same = above(p, q), equal(p, q)
    put_lanes(pointer(out), 0, where(more, p, splat(7.0)))
    return more, same, bits_set(more), a, b, out


@pytest.mark.parametrize("pair", pairs())
def test_masks_have_a_bit_for_each_lane(pair):
    a, b = pair
    out = np.zeros(8)
    more, same, count, *_ = _masks(a, b, out)
    assert more == sum(1 << i for i in range(8) if a[i] > b[i])
    assert same == sum(1 << i for i in range(8) if a[i] == b[i])
    assert count == (a > b).sum()
    assert out.tolist() == np.where(a > b, a, 7.0).tolist()


@njit
def _folds(a):
    p = lanes_at(pointer(a), 0)
    return lanes8.least(p), lanes8.greatest(p), lanes8.total(p), a


def test_folds_go_over_all_lanes():
    """The sum is by halves: the same on any processor."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        a = rng.normal(size=8)
        least, greatest, total, _ = _folds(a)
        half = a[:4] + a[4:]
        assert (least, greatest) == (a.min(), a.max())
        assert total == (half[0] + half[2]) + (half[1] + half[3])


@njit
def _looked_up(table, places, out):
    whole = lanes8.whole(lanes_at(pointer(places), 0))
    put_lanes(pointer(out), 0, whole)
    put_lanes(pointer(out), 8, lanes8.entries(pointer(table), whole))
    return table, places, out


def test_entries_are_looked_up_by_whole_places():
    """What stands behind the point is left out, toward 0."""
    out = np.zeros(16)
    table = np.random.default_rng(7).normal(size=9)
    _looked_up(table, np.array([0.0, 0.99, 1.0, 2.5, 3.4999, 8.0, 7.999, -0.5]), out)
    assert out[:8].tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 8.0, 7.0, 0.0]
    assert out[8:].tolist() == table[[0, 0, 1, 2, 3, 8, 7, 0]].tolist()
