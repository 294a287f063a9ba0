"""Ranges of thousands of hits, in order and in none, against brute force."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.partition import FAN
from dtoss.queries.open_snapshot import balls_of_runs
from tests.dtoss.queries.test_many_blocks import SHAPES
from tests.dtoss.scenes import room_for
from tests.examples import examples

EVERYWHERE = 2.1e7


def spread(shape, geographic, n, seed=5):
    """Positions of a shape, in the plane or on the sphere across the antimeridian."""
    rng = np.random.default_rng(seed)
    points = SHAPES[shape](rng, n)
    if not geographic:
        return rng, points
    points = (points - points.mean(axis=0)) / np.abs(points).max()
    return rng, np.stack([(points[:, 0] * 40.0 + 360.0) % 360.0 - 180.0, points[:, 1] * 40.0], axis=1)


def expected(space, ids, positions, queries, radii):
    """Rows (query, distance, id) of brute force, in order; reported distances are those of one function."""
    far = distance(space.vectors(queries)[:, None], space.vectors(positions)[None])
    rows = []
    for q, radius in enumerate(radii):
        near = np.flatnonzero(far[q] <= radius)
        rows += sorted(zip([q] * len(near), far[q, near].tolist(), ids[near].tolist(), strict=True))
    return rows


def rows(hits):
    return list(zip(hits.query.tolist(), hits.distance.tolist(), hits.id.tolist(), strict=True))


class Long(NamedTuple):
    """Objects, what is asked of them, and (query, distance, rank of the id) of the answers: of all, of those kept."""

    ids: np.ndarray
    positions: np.ndarray
    kept: np.ndarray
    queries: np.ndarray
    radii: np.ndarray
    of_all: np.ndarray
    of_kept: np.ndarray


@cache
def long_world(shape, geographic, strings):
    """A world with its answers by brute force, once for all numbers of partitions."""
    n = 4000
    rng, positions = spread(shape, geographic, n)
    ids = rng.permutation(n)
    if strings:
        ids = np.array([f"{i:x}" for i in ids], dtype=object)
    kept = rng.uniform(size=n) < 0.7
    space = space_of(None if geographic else "none")
    vectors = space.vectors(positions)
    far = distance(vectors[:200, None], vectors[None])
    queries = np.repeat(positions[rng.integers(0, n, 6)], 6, axis=0)
    queries[::2] = np.clip(queries[::2] + rng.normal(size=queries[::2].shape) * 0.3, -180, 180)
    radii = np.tile([0.0, *np.quantile(far, [0.02, 0.2, 0.6]), far.max(), np.inf], 6)
    order = rng.permutation(len(queries))
    queries, radii = queries[order], radii[order]
    far = distance(space.vectors(queries)[:, None], vectors[None])
    query, row = np.nonzero(far <= radii[:, None])
    wanted = in_order(np.stack([query, far[query, row], ranks(ids, ids[row])], axis=1))
    return Long(ids, positions, kept, queries, radii, wanted, wanted[kept[np.argsort(ids)][wanted[:, 2].astype(int)]])


def ranks(ids, some):
    """The place of each of some ids among all of them in order."""
    kind = str if ids.dtype == object else ids.dtype
    return np.searchsorted(np.sort(ids.astype(kind)), some.astype(kind))


def in_order(table):
    return table[np.lexsort(table.T[::-1])]


ONE = pytest.mark.deep("a single partition has no borders, at which ranges go wrong; seven are quick")


OTHER_IDS = pytest.mark.deep("ids of the other type; each shape has numbers in one metric, and texts in the other")


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=ONE), 7])
@pytest.mark.parametrize(
    ("shape", "geographic", "strings"),
    [
        pytest.param(shape, geographic, strings, marks=() if (at + geographic) % 2 == strings else OTHER_IDS)
        for (at, shape), geographic, strings in product(enumerate(SHAPES), (False, True), (False, True))
    ],
)
def test_long_answers(shape, geographic, strings, partitions):
    """From nothing to all objects, of batches and one by one, with a mask and without, in order and in none."""
    made = long_world(shape, geographic, strings)
    ids, queries, radii = made.ids, made.queries, made.radii
    crs, columns = None if geographic else "none", {"kept": made.kept, "row": np.arange(len(ids))}
    index = dtoss.build(ids, made.positions, crs=crs, partitions=partitions, columns=columns)

    def table(hits):
        return np.stack([hits.query, hits.distance, ranks(ids, hits.id)], axis=1)

    for where, wanted in ((None, made.of_all), ("kept", made.of_kept)):
        counts = np.bincount(wanted[:, 0].astype(int), minlength=len(queries))
        assert np.array_equal(index.count(queries, radii, where=where), counts)
        assert np.array_equal(table(index.range(queries, radii, where=where)), wanted)
        any_order = index.range(queries, radii, where=where, order="none")
        assert (np.diff(any_order.query) >= 0).all()
        assert np.array_equal(in_order(table(any_order)), wanted)
        assert any_order == index.range(queries, radii, where=where, order="none")
        for order in ("distance", "none"):
            taken = index.range(queries, radii, where=where, order=order, columns=["row"])
            assert np.array_equal(ids[taken.columns["row"].to_numpy()], taken.id)
            assert np.array_equal(in_order(table(taken)), wanted)
        for q in range(0, len(queries), 5):
            alone = table(index.range(queries[q], radii[q], where=where))
            assert np.array_equal(alone, wanted[wanted[:, 0] == q] * [0.0, 1.0, 1.0])


@pytest.mark.parametrize("radius", [0.0, 1.0, 3e6, 1.2e7, EVERYWHERE, np.inf])
def test_discs_beyond_the_series_of_the_chord(radius):
    """Where chords alone no longer give distances, up to half round the Earth and beyond."""
    rng = np.random.default_rng(8)
    n = 3000
    positions = np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)
    positions[1::2] = positions[::2]
    ids = rng.permutation(n)
    index = dtoss.build(ids, positions, partitions=3)
    queries = np.concatenate([positions[:5], -positions[:5] * [0.5, 1.0], [[0.0, 90.0], [180.0, 0.0]]] * 2)
    wanted = expected(index.space, ids, positions, queries, np.full(len(queries), radius))
    assert rows(index.range(queries, radius)) == wanted
    assert index.count(queries, radius).sum() == len(wanted)
    assert sorted(rows(index.range(queries, radius, order="none"))) == wanted


@pytest.fixture(scope="module")
def many_hits():
    """(index, queries, radii, hits of them that are those of brute force)."""
    rng, positions = spread("crowds", False, 3000)
    index = dtoss.build(np.arange(3000), positions, crs="none", partitions=3)
    queries = np.repeat(positions[:40], 30, axis=0)[rng.permutation(1200)]
    radii = rng.choice([0.0, 1.0, 40.0, 500.0], 1200)
    wanted = index.range(queries, radii)
    assert wanted.distance.size > 10_000
    assert rows(wanted) == expected(index.space, np.arange(3000), positions, queries, radii)
    return index, queries, radii, wanted


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.deep("1 and 3 are in make test")), 3])
def test_answers_larger_than_what_is_written_at_a_time(many_hits, threads):
    """Whatever the memory that kernels write to holds: a query with more has its own, and none is written over."""
    index, queries, radii, wanted = many_hits
    before = [column.copy() for column in (wanted.query, wanted.id, wanted.distance)]
    with room_for(written=64):
        for order in ("distance", "none"):
            found = index.range(queries, radii, threads=threads, order=order)
            assert sorted(rows(found)) == rows(wanted)
            if order == "distance":
                assert rows(found) == rows(wanted)
        assert index.count(queries, radii, threads=threads).sum() == len(wanted)
    # what was answered before is as it was
    for column, kept in zip((wanted.query, wanted.id, wanted.distance), before, strict=True):
        assert column.tolist() == kept.tolist()


@pytest.mark.parametrize("order", ["id", "", None, "NONE", 3])
def test_an_order_that_is_none_of_ours_is_named(order):
    index = dtoss.build([1], [[0.0, 0.0]])
    with pytest.raises(ValueError, match="'distance', 'none'") as error:
        index.range([0.0, 0.0], 1.0, order=order)
    assert repr(order) in str(error.value)


@given(st.integers(0, 600), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(50))
def test_balls_of_runs_hold_those_of_their_blocks(blocks, seed):
    """At each level, of every run, the last one among them."""
    rng = np.random.default_rng(seed)
    balls = np.column_stack([rng.normal(size=(blocks, 3)), rng.uniform(0, 0.1, blocks)])
    runs = balls_of_runs(balls)
    length, at = FAN, 0
    while -(-blocks * FAN // length) > FAN:
        count = -(-blocks // length)
        own = runs[at : at + count][np.arange(blocks) // length]
        assert (np.linalg.norm(balls[:, :3] - own[:, :3], axis=1) + balls[:, 3] <= own[:, 3]).all()
        at += count
        length *= FAN
    assert at == len(runs)


@pytest.mark.checked
@pytest.mark.parametrize("strings", [False, True])
def test_a_disc_of_many_blocks_among_stacks_and_ties(strings):
    """Small enough for kernels as Python: runs within the disc and across its border, all kinds of blocks, no room."""
    rng = np.random.default_rng(3)
    positions = np.concatenate([rng.uniform(0, 100, (200, 2)), np.round(rng.uniform(0, 10, (100, 2))) * 10])
    positions = np.concatenate([positions, np.repeat(positions[:12], 12, axis=0)])
    n = len(positions)
    ids = rng.permutation(n)
    if strings:
        ids = np.array([f"{i:x}" for i in ids], dtype=object)
    kept = rng.uniform(size=n) < 0.7
    index = dtoss.build(ids, positions, crs="none", partitions=1, columns={"kept": kept})
    assert index.sites > FAN * FAN
    queries = np.array([[50.0, 50.0], [20.0, 30.0], [150.0, 50.0], [50.0, 50.0]] * 5)
    radii = np.tile([60.0, 45.0, 90.0, np.inf], 5)
    for where, some in ((None, np.ones(n, np.bool_)), ("kept", kept)):
        wanted = expected(index.space, ids[some], positions[some], queries, radii)
        assert rows(index.range(queries, radii, where=where)) == wanted
        assert sorted(rows(index.range(queries, radii, where=where, order="none"))) == wanted
        assert rows(index.range(queries, radii, where=where, columns=["kept"])) == wanted
        assert index.count(queries, radii, where=where).sum() == len(wanted)
