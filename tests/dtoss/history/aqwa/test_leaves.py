"""The paper's method on leaves that are there: borders of any kind, rows on them, and nothing but halves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.history.aqwa.aqwa_grid import PointCounts
from dtoss.history.aqwa.aqwa_partitions import Rule, grid_of_leaves, paper_cuts
from tests.examples import examples

WORLD = [-np.inf, -np.inf, np.inf, np.inf]


def cuts_of(places, leaves, asked, rule, lines=1000, before=0):
    """Return what the paper does with leaves of some places."""
    box = [*places.min(axis=0), *places.max(axis=0)] if len(places) else [0, 0, 0, 0]
    grid = grid_of_leaves(leaves, box, lines)
    return paper_cuts(grid, PointCounts.of(grid, places), leaves, asked, rule, before)


def owners(places, cells):
    """Return for each place the leaves that have it."""
    return [[number for number, (x0, y0, x1, y1) in cells.items() if x0 < x <= x1 and y0 < y <= y1] for x, y in places]


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 200))
def test_every_row_stays_in_one_leaf(seed, count):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 12, (count, 2)) * rng.choice([1.0, 0.1])
    leaves = np.array([[-np.inf, -np.inf, 0.5, np.inf], [0.5, -np.inf, np.inf, 0.3], [0.5, 0.3, np.inf, np.inf]])
    corner = places[rng.integers(0, count, 80)]
    asked = np.hstack([corner, corner + rng.uniform(0, 2, (80, 1))])
    done = cuts_of(places, leaves, asked, Rule(1), lines=20)
    assert all(len(own) == 1 for own in owners(places, done.cells))
    assert len(done.cells) == 3 + len(done.cuts)
    standing = {0, 1, 2}
    for cut in done.cuts:
        standing.remove(cut.part)
        standing |= {cut.first, cut.second}
    assert standing == set(done.cells)
    boxes = {number: tuple(cell) for number, cell in enumerate(leaves.tolist())}
    for cut, at in zip(done.cuts, done.at, strict=True):
        x0, y0, x1, y1 = boxes[cut.part]
        boxes[cut.first] = (x0, y0, x1, at) if cut.across_rows else (x0, y0, at, y1)
        boxes[cut.second] = (x0, at, x1, y1) if cut.across_rows else (at, y0, x1, y1)
    assert {number: boxes[number] for number in done.cells} == done.cells
    again = cuts_of(places, np.array(list(done.cells.values())), asked, Rule(1), lines=20)
    assert again.cuts == ()


def test_a_hotspot_is_cut_out_and_the_rest_is_left_alone():
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 100, (10_000, 2))
    leaves = np.array([[-np.inf, -np.inf, 50, np.inf], [50, -np.inf, np.inf, np.inf]])
    done = cuts_of(places, leaves, np.tile([10.0, 10.0, 12.0, 12.0], (100, 1)), Rule(50))
    assert len(done.cuts) >= 2
    assert 1 in done.cells
    hot = [box for box in done.cells.values() if box[0] < 11 <= box[2] and box[1] < 11 <= box[3]]
    rows = sum(1 for x, y in places if hot[0][0] < x <= hot[0][2] and hot[0][1] < y <= hot[0][3])
    assert rows < 300
    assert done.saved[0] > 2 * done.cuts[0].points


@pytest.mark.parametrize("places", [np.zeros((0, 2)), np.zeros((5, 2)), np.array([[1.0, 2.0]])])
def test_nothing_can_be_cut_where_there_is_one_place_or_none(places):
    done = cuts_of(places, np.array([WORLD]), np.tile([0.0, 0.0, 3.0, 3.0], (20, 1)), Rule(0))
    assert done.cuts == ()
    assert done.cells == {0: tuple(WORLD)}


def test_no_question_no_cut_and_an_empty_leaf_is_named():
    places = np.arange(20.0).reshape(-1, 2)
    assert cuts_of(places, np.array([WORLD]), np.zeros((0, 4)), Rule(0)).cuts == ()
    with pytest.raises(ValueError, match="leaf 1 has the box"):
        cuts_of(places, np.array([WORLD, [1.0, 0.0, 1.0, 9.0]]), np.zeros((0, 4)), Rule(0))


def test_the_oldest_question_knows_how_many_were_before_it():
    """Three questions pay for a cut, but not where a cycle and the next end between the first and the last."""
    places = np.arange(200.0).reshape(-1, 2)
    asked = np.tile([0.0, 0.0, 3.0, 3.0], (3, 1))
    rule = Rule(0, fade_every=2, fading=100.0)
    assert len(cuts_of(places, np.array([WORLD]), asked, rule).cuts) > 0
    assert cuts_of(places, np.array([WORLD]), asked, rule, before=1).cuts == ()
