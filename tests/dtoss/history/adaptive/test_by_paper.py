"""The paper's cuts as decisions on leaves: nothing but halves, every row once, and nothing the second time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.column_rows import join_rows
from dtoss.history.adaptive.by_paper import boxes_of, decide_by_paper
from dtoss.history.adaptive.cost import Points, Prices, run_of
from dtoss.history.adaptive.rewrite_decisions import Leaf
from dtoss.history.questions import Questions, no_questions
from tests.examples import examples

ROW_BYTES = 10.0
PRICES = Prices(request=0.0, block_rows=8, least=40.0)
PLAIN = (np.zeros(1, np.int8), np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1), np.ones(1))
"""Kind, version, ids and interval, which the paper does not know."""
EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)


def a_question(number, low, high, reach=0.0):
    """Return one of one piece."""
    return Questions(
        np.array([number]), *PLAIN, np.array([0, 1]),
        np.array([low], float), np.array([high], float), np.array([reach]),
    )  # fmt: skip


def leaves_of(parts):
    """Return leaves of rows and cells, and what loads them."""
    leaves = [Leaf(run_of(points, np.arange(len(points)), PRICES), cell, 0, len(points)) for points, cell in parts]
    return leaves, lambda numbers: parts[numbers[0]][0]


def a_part(positions, cell):
    """Return rows by time and their cell."""
    return Points(np.arange(len(positions), dtype=float), positions, positions, ROW_BYTES), cell


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 5))
def test_each_row_is_in_one_part_of_its_cell_and_the_second_time_nothing_is_cut(seed, lost):
    """Also deletions, which have no place."""
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 9, (100, 2)).astype(float), rng.integers(9, 17, (60, 2)).astype(float)
    left[0], right[0] = 0.0, 16.0  # so lines are at whole numbers, where rows are
    left[1 : lost + 1] = np.nan
    parts = [a_part(left, (-np.inf, -np.inf, 8.5, np.inf)), a_part(right, (8.5, -np.inf, np.inf, np.inf))]
    corner = rng.integers(0, 16, 2)
    questions = join_rows([a_question(1 + i, corner, corner + 1) for i in range(30)])
    leaves, load = leaves_of(parts)
    decision = decide_by_paper(leaves, questions, load, PRICES)
    after = [part for number, part in enumerate(parts) if number not in {one.leaves[0] for one in decision.rewritings}]
    for one in decision.rewritings:
        assert len(one.parts) > 1
        assert one.regret > 2 * one.size
        assert np.array_equal(np.sort(np.concatenate([rows for rows, _ in one.parts])), np.arange(len(one.points)))
        for rows, (x0, y0, x1, y1) in one.parts:
            places = one.points.positions[rows]
            places = places[~np.isnan(places[:, 0])]
            assert len(places) * ROW_BYTES > PRICES.least
            assert ((places > (x0, y0)) & (places <= (x1, y1))).all()
            after.append((one.points.positions[rows], (x0, y0, x1, y1)))
    again, load_again = leaves_of([part if isinstance(part[0], Points) else a_part(*part) for part in after])
    assert decide_by_paper(again, questions, load_again, PRICES).rewritings == []


def test_a_hotspot_is_cut_out_of_its_leaf():
    rng = np.random.default_rng(1)
    parts = [a_part(rng.uniform(0, 10, (1_000, 2)), (-np.inf, -np.inf, 10, np.inf))]
    parts.append(a_part(rng.uniform(10, 20, (1_000, 2)), (10, -np.inf, np.inf, np.inf)))
    leaves, load = leaves_of(parts)
    questions = join_rows([a_question(1 + i, (2, 2), (3, 3)) for i in range(40)])
    decision = decide_by_paper(leaves, questions, load, PRICES)
    assert [one.leaves for one in decision.rewritings] == [(0,)]
    assert decision.looked == 2 * sum(leaf.run.size for leaf in leaves)
    assert decide_by_paper(leaves, questions.take(np.array([0])), load, PRICES).rewritings == []
    assert decide_by_paper(leaves, no_questions(2), load, PRICES).rewritings == []
    assert decide_by_paper([], questions, load, PRICES).rewritings == []


def test_a_question_is_the_box_around_its_pieces():
    one = a_question(1, (0, 0), (1, 2), 0.5)
    two = Questions(
        np.array([2]), *PLAIN, np.array([0, 2]),
        np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[1.0, 1.0], [6.0, 7.0]]), np.zeros(2),
    )  # fmt: skip
    nowhere = Questions(
        np.array([3]), *PLAIN, np.zeros(2, np.int64),
        np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0),
    )  # fmt: skip
    found = list(boxes_of(join_rows([one, two, nowhere])))
    assert found == [(-0.5, -0.5, 1.5, 2.5), (0.0, 0.0, 6.0, 7.0), EVERYWHERE]


@pytest.mark.parametrize("lat", [0.0, 37.0, 89.9, 90.0, -90.0, -60.0])
@pytest.mark.parametrize("lon", [0.0, -122.4, 90.0, 179.99, -180.0])
@pytest.mark.parametrize("reach", [1e-6, 1e-3, 0.3, 1.2, 2.0])
def test_on_the_sphere_it_has_all_places_that_are_asked(lon, lat, reach):
    """Discs at poles and across the antimeridian too."""
    at = vectors(np.array([[lon, lat]]))[0]
    (box,) = boxes_of(a_question(1, at, at, reach))
    rng = np.random.default_rng(0)
    turned = rng.normal(0, 1, (4_000, 3))
    near = at + turned / np.linalg.norm(turned, axis=1)[:, None] * rng.uniform(0, reach, (4_000, 1))
    near /= np.linalg.norm(near, axis=1)[:, None]
    near = near[np.linalg.norm(near - at, axis=1) <= reach]
    assert len(near) > 100
    places = np.degrees(np.stack([np.arctan2(near[:, 1], near[:, 0]), np.arcsin(np.clip(near[:, 2], -1, 1))], axis=1))
    assert (places >= np.array(box[:2]) - 1e-9).all()
    assert (places <= np.array(box[2:]) + 1e-9).all()
    if reach == 1e-3 and lat == 37.0 and lon == -122.4:
        assert box[2] - box[0] < 0.5


def vectors(lonlat):
    """Return unit vectors of degrees."""
    lon, lat = np.radians(lonlat).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def test_no_more_is_rewritten_at_once_than_is_said_and_the_rest_comes_next():
    rng = np.random.default_rng(3)
    parts = [a_part(rng.uniform(0, 10, (500, 2)), (-np.inf, -np.inf, 10, np.inf))]
    parts.append(a_part(rng.uniform(10, 20, (500, 2)), (10, -np.inf, np.inf, np.inf)))
    leaves, load = leaves_of(parts)
    questions = join_rows([a_question(1 + i, *((2, 2), (3, 3)) if i % 2 else ((12, 12), (13, 13))) for i in range(60)])
    assert [one.leaves for one in decide_by_paper(leaves, questions, load, PRICES).rewritings] == [(0,), (1,)]
    first = decide_by_paper(leaves, questions, load, PRICES, most=1.0)
    assert [one.leaves for one in first.rewritings] == [(0,)]
