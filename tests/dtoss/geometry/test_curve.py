"""Order along the curve: a Hilbert curve indeed, and the same for any order of the input."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.geometry.hilbert import curve_keys, curve_order, radix_order
from dtoss.geometry.space import space_of
from tests.examples import examples


def test_the_curve_goes_from_cell_to_neighbouring_cell():
    """On a 32 x 32 grid consecutive places are one step apart and each is visited once."""
    grid = np.stack(np.meshgrid(np.arange(32.0), np.arange(32.0)), axis=-1).reshape(-1, 2)
    box = np.array([-0.5, -0.5, 31.5, 31.5])
    along = grid[np.argsort(curve_keys(grid, box))]
    assert (np.abs(np.diff(along, axis=0)).sum(axis=1) == 1).all()


def test_near_on_the_sphere_is_near_on_the_curve():
    """Mean distance of neighbours in curve order is a small multiple of the mean spacing."""
    rng = np.random.default_rng(7)
    v = rng.normal(size=(20_000, 3))
    v /= np.linalg.norm(v, axis=1)[:, None]
    along = v[np.argsort(curve_keys(v))]
    spacing = np.sqrt(4 * np.pi / len(v))
    assert np.linalg.norm(np.diff(along, axis=0), axis=1).mean() < 3 * spacing


@given(st.lists(st.integers(0, 2**62), max_size=300))
def test_radix_order_is_a_stable_sort(keys):
    """As numpy's stable argsort."""
    keys = np.array(keys, dtype=np.int64)
    assert radix_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_radix_order_of_few_values():
    """Digits that all rows share are passed over, and ties keep their order."""
    keys = np.random.default_rng(8).integers(0, 3, 5000) << 40
    assert radix_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32 - 1), st.integers(0, 60))
def test_order_depends_on_the_objects_alone(seed, n):
    """Shuffled objects come in the same order; objects on one place in the order of their ranks."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(0, 3, (n, 2)).astype(float)
    ranks = rng.permutation(n)
    order = curve_order(vectors, ranks)
    shuffle = rng.permutation(n)
    again = shuffle[curve_order(vectors[shuffle], ranks[shuffle])]
    assert order.tolist() == again.tolist()
    for a, b in pairwise(order.tolist()):
        if (vectors[a] == vectors[b]).all():
            assert ranks[a] < ranks[b]


def test_many_objects_with_one_key():
    """Places closer than the curve's resolution, thousands with one key: sorted by vector, then rank."""
    rng = np.random.default_rng(9)
    vectors = np.concatenate([[[0.0, 0.0], [1e12, 1e12]], rng.integers(0, 40, (3000, 2)) * 1e-3])
    ranks = rng.permutation(len(vectors))
    order = curve_order(vectors, ranks)
    expected = np.lexsort((ranks, vectors[:, 1], vectors[:, 0], curve_keys(vectors)))
    assert order.tolist() == expected.tolist()


def test_coarse_keys_are_the_keys_without_their_end():
    """Of the plane and of the sphere: the last 16 bits are 0, the others as they were."""
    rng = np.random.default_rng(4)
    for vectors in (rng.uniform(-5, 5, (2000, 2)), space_of().vectors(rng.uniform(-90, 90, (2000, 2)))):
        fine, coarse = curve_keys(vectors), curve_keys(vectors, coarse=True)
        assert (coarse == fine >> 16 << 16).all()
        assert (coarse != fine).any()
