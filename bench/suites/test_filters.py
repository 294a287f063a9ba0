"""kNN among the objects that satisfy a condition, against kNN among all: 1 % match, at random or all in one corner.

python -m pytest bench/suites/test_filters.py -q --benchmark-only -p no:cacheprovider
"""

from __future__ import annotations

from itertools import count
from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial import cKDTree

import dtoss
from bench.measuring.points import KINDS, missing, points
from dtoss.geometry.distance import EARTH_RADIUS, distance

pytestmark = [pytest.mark.timeout(1200), pytest.mark.benchmark(timer=process_time)]
K = 8
SHARE = 100
BLOCK = 20


@pytest.fixture(scope="module", params=KINDS)
def world(request):
    """An index of objects with a lot, drawn from 100, and a place in the order of distance from one of them."""
    if missing(request.param):
        pytest.skip(missing(request.param))
    at = points(request.param)
    n = len(at.objects)
    far = ((at.vectors - at.vectors[0]) ** 2).sum(axis=1)
    corner = np.empty(n, np.int64)
    corner[np.argsort(far, kind="stable")] = np.arange(n)
    columns = {"lot": np.random.default_rng(5).integers(SHARE, size=n), "corner": corner}
    index = dtoss.build(np.arange(n), at.objects, columns=columns, threads=2)
    return SimpleNamespace(at=at, index=index, columns=columns, turn=count(1), kind=request.param)


def condition(world, how):
    """A condition that was not asked before, and which objects satisfy it: 1 % of them."""
    turn = next(world.turn)
    if how == "random":
        lot = turn % SHARE
        return f"lot = {lot} and corner >= {-turn}", world.columns["lot"] == lot
    last = len(world.index) // SHARE + turn
    return f"corner < {last}", world.columns["corner"] < last


@pytest.mark.parametrize("how", ["random", "corner"])
def test_batch(world, how, race):
    """A condition asked for the first time, all that it needs included, for 100,000 queries."""
    asked = []

    def fresh():
        asked.append(condition(world, how))
        return world.index.knn(world.at.queries, K, where=asked[-1][0])

    last = race(
        world.kind,
        f"knn k={K}, 1 % match, {how}",
        len(world.at.queries),
        fresh,
        {"no condition": lambda: world.index.knn(world.at.queries, K)},
        goals={"no condition": 1 / 2},
    )
    hits, matching = last["ours"], asked[-1][1]
    rows = np.flatnonzero(matching)
    assert matching[hits.id].all()
    chords = cKDTree(world.at.vectors[rows]).query(world.at.query_vectors, K)[0]
    far = hits.distance.reshape(-1, K)
    np.testing.assert_allclose(far, 2 * EARTH_RADIUS * np.arcsin(chords / 2), rtol=1e-9, atol=1e-7)
    assert (distance(world.at.query_vectors[hits.query], world.at.vectors[hits.id]) == hits.distance).all()
    ordered = np.sort(hits.id.reshape(-1, K), axis=1)
    assert (ordered[:, 1:] != ordered[:, :-1]).all()


@pytest.mark.parametrize("how", ["random", "corner"])
def test_one_query(world, how, race):
    """One query by itself with a condition that was asked before, in blocks of a few."""
    text, matching = condition(world, how)
    world.index.knn(world.at.queries, K, where=text)
    places = world.at.shuffled[:BLOCK]
    last = race(
        world.kind,
        f"one query, k={K}, 1 % match, {how}",
        BLOCK,
        lambda: [world.index.knn(place, K, where=text) for place in places],
        {"no condition": lambda: [world.index.knn(place, K) for place in places]},
        goals={"no condition": 1 / 10},
        at_most=400.0,
        rounds=100,
        warm=5,
    )
    assert all(len(hits) == K and matching[hits.id].all() for hits in last["ours"])


@pytest.mark.parametrize("how", ["random", "corner"])
def test_first_call(world, how, race):
    """One query with a condition asked for the first time: at most 50 ms."""
    asked = []

    def first():
        asked.append(condition(world, how))
        return world.index.knn(world.at.shuffled[0], K, where=asked[-1][0])

    last = race(world.kind, f"first call, k={K}, 1 % match, {how}", 1, first, {}, at_most=50_000.0, rounds=15, warm=2)
    assert len(last["ours"]) == K
    assert asked[-1][1][last["ours"].id].all()
