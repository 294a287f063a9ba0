"""The dissertation's competitors answer as ours does, and send as many messages as it says."""

from __future__ import annotations

import numpy as np
import pytest

import dtoss
from bench.measuring.points import streets
from bench.peers.d_movies import DMovies, next_inside
from bench.peers.first_discs import ALONE, BY_COUNT, IN_A_BATCH, discs_asked, expected_distance, first_radii
from bench.peers.rt_can import RtCan, messages_by_3_4_6
from dtoss.queries.open_snapshot import keys_of


def worlds(objects):
    """Objects of towns, of which some share a place, and a thousand places: at objects, between and outside; radii."""
    rng = np.random.default_rng(0)
    towns = rng.uniform(0, 1e9, (20, 2))
    at = np.where(
        rng.random((objects, 1)) < 0.5, rng.uniform(0, 1e9, (objects, 2)), towns[rng.integers(0, 20, objects)]
    )
    at += rng.normal(0, 1e6, at.shape)
    at[:20] = at[20:40]
    places = np.concatenate([rng.uniform(-1e8, 1.1e9, (500, 2)), at[rng.integers(0, objects, 500)]])
    return at, places, rng.uniform(0, 3e7, 1_000)


def assert_as_ours(rival, objects, places, radius):
    """Ranges and nearest neighbours, with ties by id; a k beyond all objects too."""
    index = dtoss.build(np.arange(len(objects)), objects, crs="none", partitions=8)
    ours, theirs = index.range(places, radius), rival.range(places, radius)
    assert len(ours) > 1_000
    assert np.array_equal(
        *(np.unique(one.query * len(objects) + row) for one, row in ((ours, ours.id), (theirs, theirs.row)))
    )
    assert len(ours) == len(theirs.row)
    for k, some in ((1, places), (7, places), (len(objects) + 1, places[:2])):
        ours, theirs = index.knn(some, k), rival.knn(some, k)
        assert np.array_equal(ours.query, theirs.query)
        assert np.array_equal(ours.id, theirs.row)


@pytest.mark.parametrize("nodes", [1, 8])
@pytest.mark.parametrize("rival", [DMovies, RtCan])
def test_rivals_answer_as_ours(rival, nodes):
    objects, places, radius = worlds(2_000)
    assert_as_ours(rival(objects, nodes), objects, places, radius)


def test_objects_that_move_are_found_where_they_are():
    """Also in the zone of another node."""
    objects, places, radius = worlds(2_000)
    trees, ids = RtCan(objects, 8), np.arange(0, 2_000, 20)
    moved = objects.copy()
    moved[ids] = objects[ids[::-1]] + 1e5
    trees.move(ids, moved[ids])
    assert_as_ours(trees, moved, places, radius)


def test_the_next_code_inside_a_box_is_that_of_an_enumeration():
    rng, width = np.random.default_rng(1), np.arange(16)
    spread = (width & 1) | (width & 2) << 1 | (width & 4) << 2 | (width & 8) << 3
    codes = spread[:, None] | spread << 1
    for x, y in rng.integers(0, 16, (200, 2, 2)):
        inside = np.sort(codes[x.min() : x.max() + 1, y.min() : y.max() + 1], axis=None)
        for code in rng.integers(inside[0], inside[-1] + 1, 5):
            if (later := inside[inside > code]).size:
                assert next_inside(code, inside[0], inside[-1]) == later[0]


def test_messages_are_those_of_3_4_6():
    """28.14 million to find the nodes of 6 % of 67 million objects, of 128 nodes; no path here is longer."""
    told = messages_by_3_4_6(0.06 * 67e6, 128)
    assert told.finding == pytest.approx(28.14e6)
    assert told.telling == pytest.approx(3 * 5 * 4.02e6)
    trees = RtCan(np.random.default_rng(0).uniform(0, 1, (200, 2)), 128)
    zones = np.arange(128)
    far = np.array([trees.hops(np.full(128, zone), zones) for zone in zones])
    assert far.max() == np.log2(128)
    assert (far == 0).sum() == 128
    assert DMovies(trees.objects, 128).range(np.zeros((3, 2)), np.ones(3)).messages == 3 * 2 * 127


def test_a_number_of_nodes_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="12 nodes"):
        RtCan(np.zeros((5, 2)), 12)


def indexed_streets():
    """Objects of streets, their index, and places at some of them and anywhere, in the order of a batch."""
    rng = np.random.default_rng(0)
    objects = streets(rng, 3_000)
    index = dtoss.build(np.arange(3_000), objects, crs="none", partitions=1)
    near = objects[rng.integers(0, 3_000, 300)] + 1e-6
    anywhere = rng.uniform(objects.min(axis=0), objects.max(axis=0), (300, 2))
    return objects, index, *(at[np.argsort(keys_of(index.engine.opened, at))] for at in (near, anywhere))


def test_the_estimate_of_3_3_2_is_right_of_uniform_objects():
    """In a rectangle too."""
    objects = np.random.default_rng(0).uniform(0, [1.0, 4.0], (20_000, 2))
    at = np.random.default_rng(1).uniform([0.1, 0.1], [0.9, 3.9], (1_000, 2))
    index = dtoss.build(np.arange(20_000), objects, crs="none", partitions=1)
    for k in (4, 64):
        true = index.knn(at, k).distance.reshape(-1, k)[:, -1].mean()
        assert true == pytest.approx(expected_distance(objects, k), rel=0.05)


def test_discs_grow_by_a_step_until_they_hold_k():
    objects, index, _, at = indexed_streets()
    step = expected_distance(objects, 8) / 8
    true = index.knn(at, 8).distance.reshape(-1, 8)[:, -1]
    discs = discs_asked(index, at, 8, step)
    assert discs.max() > 8
    assert (discs * step >= true).all()
    assert ((discs - 1) * step < true).all()


def test_first_discs_are_those_that_are_asked_for():
    """By ed(k) the given one; ours comes nearer, and nearer still with what was wrong for the place before."""
    objects, index, *asked = indexed_streets()
    far = expected_distance(objects, 8)
    for at in asked:
        true = index.knn(at, 8).distance.reshape(-1, 8)[:, -1]
        by_count, alone, in_a_batch = (first_radii(index, at, 8, way, far) for way in (BY_COUNT, ALONE, IN_A_BATCH))
        assert by_count == pytest.approx(np.full(300, far))
        off = [np.abs(np.log(first / true)).mean() for first in (by_count, alone, in_a_batch)]
        assert off[1] < 0.8 * off[0]
        assert off[2] < 0.8 * off[1]
