"""Regions, pivots, assignment and lambda."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.building.certificate import furthest_past
from dtoss.building.reach import choose_reach
from dtoss.geometry.rounding import BORDER
from dtoss.geometry.space import space_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.pivots import choose_pivots
from dtoss.partitioning.regions import LISTED, Regions
from tests.dtoss.scenes import random_sphere, taxis
from tests.examples import examples


def some_regions(rng, count, dimension, weighted=True):
    pivots = random_sphere(rng, count) if dimension == 3 else rng.uniform(0, 100, (count, 2))
    scale = 0.05 / count if dimension == 3 else 500.0 / count
    return Regions(pivots, rng.uniform(-1, 0, count) * scale if weighted else np.zeros(count))


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 400])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_region_is_the_least_power(dimension, count, weighted):
    """Against all powers; 400 is more than the borders that are listed; the order of the vectors changes nothing."""
    rng = np.random.default_rng(21)
    regions = some_regions(rng, count, dimension, weighted)
    vectors = random_sphere(rng, 3000) if dimension == 3 else rng.uniform(-50, 150, (3000, 2))
    power = ((vectors[:, None] - regions.pivots[None]) ** 2).sum(axis=2) - regions.weights
    assert (regions.nearest(vectors) == power.argmin(axis=1)).all()
    shuffle = rng.permutation(3000)
    assert (regions.nearest(vectors[shuffle]) == regions.nearest(vectors)[shuffle]).all()


def test_ties_go_to_the_lowest_number():
    """A place on a border."""
    regions = Regions(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0]]), np.zeros(3))
    assert regions.nearest(np.array([[0.0, -5.0], [0.0, 0.0]])).tolist() == [0, 0]


@pytest.mark.parametrize("dimension", [2, 3])
def test_past_a_border_is_a_signed_distance(dimension):
    """Zero on the border, positive beyond it, and no steeper than distance: the certificate rests on that."""
    rng = np.random.default_rng(22)
    regions = some_regions(rng, 12, dimension)
    vectors = random_sphere(rng, 500) if dimension == 3 else rng.uniform(0, 100, (500, 2))
    home = regions.nearest(vectors)
    for i in range(12):
        past = regions.past(vectors, i)
        assert ((past <= 1e-9).all(axis=1) == (home == i)).all()
        others = np.delete(past, i, axis=1)
        step = np.linalg.norm(vectors - vectors[::-1], axis=1)
        assert (np.abs(others - others[::-1]) <= step[:, None] + 1e-9).all()
        assert furthest_past(vectors, regions, i) == pytest.approx(past.max(axis=1), abs=1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 7, 64]),
    st.sampled_from([2, 3]),
    st.sampled_from([0.0, 0.02, 0.5]),
)
def test_copies_go_to_all_who_must_know(seed, count, dimension, reach):
    """An object goes to its region and to every j with f_j(o) >= -lambda_j, each once."""
    rng = np.random.default_rng(seed)
    regions = some_regions(rng, count, dimension)
    vectors = random_sphere(rng, 200) if dimension == 3 else rng.uniform(0, 100, (200, 2))
    reaches = np.full(count, reach * (1.0 if dimension == 3 else 50.0)) * rng.uniform(0, 1, count)
    sent = assign(vectors, regions, reaches)
    assert (sent.home == regions.nearest(vectors)).all()
    found = set(zip(sent.row.tolist(), sent.partition.tolist(), strict=True))
    assert len(found) == len(sent.row)
    expected = set()
    doubtful = set()
    for r in range(200):
        past = regions.past(vectors[r : r + 1], int(sent.home[r]))[0]
        expected |= {(r, j) for j in range(count) if past[j] >= -reaches[j]}
        doubtful |= {(r, j) for j in range(count) if abs(past[j] + reaches[j]) < 1e-9}
    assert found - doubtful == expected - doubtful


def near_pivots(seed, dimension, spacing):
    """Pivots so near each other that far away rounding says which is nearest, and places near, far and opposite."""
    rng = np.random.default_rng(seed)
    if dimension == 3:
        pivots = space_of().vectors([10.0, 50.0] + rng.uniform(-1, 1, (12, 2)) * np.degrees(spacing))
        pivots = np.unique(pivots, axis=0)
        middle = pivots[0]
        far = space_of().vectors([-170.0, -50.0] + rng.uniform(-1, 1, (200, 2)) * np.degrees(spacing))
        places = np.concatenate([far, random_sphere(rng, 100), -pivots])
    else:
        middle = np.array([300.0, -7.0])
        pivots = np.unique(middle + rng.uniform(-1, 1, (12, 2)) * spacing, axis=0)
        places = middle + rng.normal(size=(300, 2)) * 10.0 ** rng.uniform(-9, 6, (300, 1))
    near = middle + rng.normal(size=(50, dimension)) * spacing
    weights = -rng.uniform(0, 1, len(pivots)) * spacing**2 * (seed % 2)
    return Regions(np.ascontiguousarray(pivots), weights), np.concatenate([places, near, pivots])


def borders_one_by_one(regions):
    """Yield the nearest borders of each region, of those with all others: (region, others, distances)."""
    pivots, weights = regions.pivots, regions.weights
    for i in range(len(regions)):
        others = np.delete(np.arange(len(regions)), i)
        length2 = ((pivots[others] - pivots[i]) ** 2).sum(axis=1)
        length = np.sqrt(length2)
        far = 0.5 * length + (weights[i] - weights[others]) / (2.0 * length)
        far -= BORDER * (length2 + (np.abs(weights[others]) + np.abs(weights[i]))) / length
        steep = np.maximum(4.0 * BORDER / length * far, 0.0)
        far = np.where(far > 0.0, 2.0 * far / (1.0 + np.sqrt(1.0 + steep)), far)
        nearest = np.lexsort((others, far))[:LISTED]
        yield i, others[nearest], far[nearest]


@settings(max_examples=examples(40, 12))
@given(
    st.integers(0, 2**32),
    st.sampled_from([2, 3]),
    st.sampled_from([2, 40, 257, 258, 600]),
    st.sampled_from([0.0, 1e-14, 1e-4, 1.0, 100.0]),
    st.sampled_from(["towns", "grid", "one heavy"]),
)
def test_the_nearest_borders_are_those_of_all(seed, dimension, count, heavy, kind):
    """To the bit, where groups are searched: in towns, with ties, and where one pivot outweighs its neighbours."""
    rng = np.random.default_rng(seed)
    if kind == "grid":
        side = int(np.ceil(count ** (1 / dimension)))
        pivots = np.stack(np.meshgrid(*[np.arange(float(side))] * dimension), -1).reshape(-1, dimension)[:count]
    else:
        towns = rng.normal(size=(count // 40 + 1, dimension))
        pivots = towns[rng.integers(0, len(towns), count)] + rng.normal(0.0, 0.01, (count, dimension))
    weights = heavy * rng.uniform(-1.0, 1.0, count) * (rng.random(count) < 0.01 if kind == "one heavy" else 1.0)
    regions = Regions(rng.permutation(pivots), weights)
    for i, others, distances in borders_one_by_one(regions):
        assert np.array_equal(regions.borders.order[i], others)
        assert np.array_equal(regions.borders.distance[i], distances)


def test_a_heavy_pivot_far_away_is_among_the_nearest_borders():
    """Its group is left out by no corner, though all places of it are further than the last border that is listed."""
    pivots = np.stack(np.meshgrid(np.arange(40.0), np.arange(40.0)), -1).reshape(-1, 2)
    weights = np.where((pivots == 30.0).all(axis=1), 1500.0, 0.0)
    regions = Regions(pivots, weights)
    for i, others, distances in borders_one_by_one(regions):
        assert np.array_equal(regions.borders.order[i], others)
        assert np.array_equal(regions.borders.distance[i], distances)
    assert np.flatnonzero(weights)[0] in regions.borders.order[0]


def exactly_past(regions, vector, i, j):
    """How much larger than that of j the power of i is, halved, in rational numbers: ``|p_j - p_i| f_j(x)``."""

    def power(n):
        pivot = regions.pivots[n].tolist()
        squares = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(vector.tolist(), pivot, strict=True))
        return squares - Fraction(float(regions.weights[n]))

    return (power(i) - power(j)) / 2


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("spacing", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_region_owns_nothing_beyond_the_tolerance_of_its_borders(dimension, spacing):
    """In rational numbers; and what :meth:`past` says of a vector is within the same. A fixed 1e-11 is not."""
    beyond = 0.0
    for seed in (1, 2):
        regions, vectors = near_pivots(seed, dimension, spacing)
        home = regions.nearest(vectors)
        for i in range(len(regions)):
            past, tolerance = regions.past(vectors, i), regions.tolerance(vectors, i)
            length = np.linalg.norm(regions.pivots - regions.pivots[i], axis=1)
            for r in np.flatnonzero(home == i).tolist():
                for j in range(len(regions)):
                    if j == i:
                        continue
                    truly = float(exactly_past(regions, vectors[r], i, j)) / length[j]
                    assert truly <= 0.5 * tolerance[r, j]
                    assert abs(past[r, j] - truly) <= 0.5 * tolerance[r, j]
                    beyond = max(beyond, truly)
    assert beyond > 1e-11 or spacing > 1e-9


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("spacing", [1e-6, 1e-9, 1e-14])
def test_the_region_of_a_far_place_does_not_depend_on_what_was_asked_before(dimension, spacing):
    """Pivots that rounding does not tell apart from there: the least computed power, ties to the lowest number."""
    rng = np.random.default_rng(3)
    regions, vectors = near_pivots(4, dimension, spacing)
    power = ((vectors[:, None] - regions.pivots[None]) ** 2).sum(axis=2) - regions.weights
    order = rng.permutation(np.repeat(np.arange(len(vectors)), 3))
    assert (regions.nearest(vectors[order]) == power.argmin(axis=1)[order]).all()


def test_balanced_pivots_balance():
    """On crowded data the largest partition is at most 1.09 of the mean and the deviation at most 4 %."""
    rng = np.random.default_rng(23)
    vectors = space_of().vectors(taxis(rng, 400_000))
    for count in (7, 32):
        regions = choose_pivots(vectors[rng.choice(len(vectors), 4000 * count, replace=False)], count)
        sizes = np.bincount(regions.nearest(vectors), minlength=count)
        assert len(regions) == count
        assert sizes.max() <= 1.09 * sizes.mean()
        assert sizes.std() <= 0.04 * sizes.mean()


def test_pivots_do_not_depend_on_the_order_of_the_sample():
    """Bit for bit, for both methods."""
    rng = np.random.default_rng(24)
    vectors = space_of().vectors(taxis(rng, 20_000))
    for method in ("balanced", "spread"):
        one = choose_pivots(vectors, 9, method=method, seed=5)
        two = choose_pivots(vectors[rng.permutation(len(vectors))], 9, method=method, seed=5)
        assert one.pivots.tobytes() == two.pivots.tobytes()
        assert one.weights.tobytes() == two.weights.tobytes()
        assert one.digest == two.digest


def test_spread_takes_the_set_with_the_largest_sum_of_distances():
    """More sets, a larger sum; no weights."""
    rng = np.random.default_rng(25)
    sites = rng.uniform(0, 100, (5000, 2))

    def spread(regions):
        return np.linalg.norm(regions.pivots[:, None] - regions.pivots[None], axis=2).sum()

    few = choose_pivots(sites, 8, method="spread", seed=1, candidates=1)
    many = choose_pivots(sites, 8, method="spread", seed=1, candidates=500)
    assert spread(many) > spread(few)
    assert (many.weights == 0).all()


@pytest.mark.parametrize("method", ["balanced", "spread"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
def test_more_partitions_than_sites(method, n):
    """As many pivots as distinct sites, one at least, all distinct."""
    rng = np.random.default_rng(26)
    vectors = space_of().vectors(np.repeat(rng.integers(0, 5, (n, 2)) * 1.0, 2, axis=0))
    regions = choose_pivots(vectors, 64, method=method)
    assert len(regions) == max(len(np.unique(vectors, axis=0)), 1)
    assert len(np.unique(regions.pivots, axis=0)) == len(regions)


def test_all_on_one_line_and_most_on_one_place():
    """Lines balance; a place that outweighs a partition leaves the others what there is."""
    line = np.stack([np.linspace(0, 100, 10_000), np.zeros(10_000)], axis=1)
    regions = choose_pivots(line, 16)
    sizes = np.bincount(regions.nearest(line), minlength=16)
    assert sizes.max() <= 1.05 * sizes.mean()
    crowd = np.concatenate([np.zeros((9000, 2)), np.random.default_rng(27).uniform(1, 100, (1000, 2))])
    regions = choose_pivots(crowd, 8)
    assert np.bincount(regions.nearest(crowd), minlength=len(regions)).sum() == 10_000


@pytest.mark.parametrize(("arguments", "words"), [({"partitions": 0}, "partitions is 0"), ({"method": "x"}, "'x'")])
def test_wrong_arguments_are_named(arguments, words):
    """ValueError with the value."""
    with pytest.raises(ValueError, match=words):
        choose_pivots(np.zeros((3, 2)), **({"partitions": 2} | arguments))


def test_lambda_certifies_almost_all_with_few_copies():
    """Uniform objects, 50,000 a partition: at least 98 % certified with at most 5 % copied; never over 10 %."""
    rng = np.random.default_rng(28)
    vectors = random_sphere(rng, 200_000)
    regions = choose_pivots(vectors[:32_000], 4)
    reach = choose_reach(vectors[:32_000], len(vectors), regions)
    assert (reach > 0).all()
    assert len(assign(vectors, regions, reach).row) <= 0.05 * len(vectors)
    crowded = space_of().vectors(taxis(rng, 3000))
    many = choose_pivots(crowded, 64)
    reach = choose_reach(crowded, len(crowded), many)
    assert len(assign(crowded, many, reach).row) <= 0.13 * len(crowded)
    assert choose_reach(crowded, len(crowded), choose_pivots(crowded, 1)).tolist() == [np.inf]


@given(st.integers(0, 2**32 - 1))
def test_a_place_on_a_border_has_one_region_whatever_was_asked_before(seed):
    """Borders through pivots and sites, where powers tie within rounding: all orders give the brute force region."""
    rng = np.random.default_rng(seed)
    grid = space_of().vectors(
        np.stack([rng.integers(-3, 4, 12) * 0.1 + 180 * rng.integers(0, 2), rng.integers(-3, 4, 12) * 0.1], 1) % 181
        - 0.5
    )
    pivots = np.unique(grid, axis=0)[:6]
    gaps = ((pivots[:, None] - pivots[None]) ** 2).sum(axis=2)
    weights = -gaps[0] * rng.choice([0.0, 1.0], len(pivots))  # the border with the first pivot goes through the pivot
    regions = Regions(np.ascontiguousarray(pivots), weights)
    powers = ((grid[:, None] - pivots[None]) ** 2).sum(axis=2) - weights
    alone = [int(regions.nearest(place[None])[0]) for place in grid]
    for _ in range(5):
        order = rng.permutation(np.repeat(np.arange(len(grid)), 3))
        assert regions.nearest(grid[order]).tolist() == [alone[i] for i in order]
    assert all(powers[i, region] <= powers[i].min() + 1e-15 for i, region in enumerate(alone))


@pytest.mark.parametrize("dimension", [2, 3])
def test_copies_go_to_all_who_must_know_behind_the_listed_borders_too(dimension):
    """Of 300 partitions 256 borders of each are listed: those that know far are copied to from behind the others."""
    rng = np.random.default_rng(31)
    regions = some_regions(rng, 300, dimension)
    vectors = random_sphere(rng, 100) if dimension == 3 else rng.uniform(0, 100, (100, 2))
    reaches = rng.choice([0.0, 2.0 if dimension == 3 else 150.0], 300)
    sent = assign(vectors, regions, reaches)
    assert (sent.home == regions.nearest(vectors)).all()
    found = np.zeros((100, 300), np.int64)
    np.add.at(found, (sent.row, sent.partition), 1)
    past = np.stack([regions.past(vectors[r : r + 1], int(home))[0] for r, home in enumerate(sent.home)])
    clear = np.abs(past + reaches) > 1e-9
    assert (found == (past >= -reaches))[clear].all()
    listed = regions.borders.order[sent.home]
    behind = np.ones((100, 300), np.bool_)
    np.put_along_axis(behind, listed, False, axis=1)
    assert (found * behind).sum() > 1000  # those behind are what this test is about
