"""Points and questions of a rectangle by look-ups equal direct counts, whatever the rectangle and however faded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.history.aqwa_run import even_grid
from dtoss.history.aqwa.aqwa_grid import Grid, PointCounts, QueryCounters, Rectangle
from tests.dtoss.history.aqwa.paper import overlapping, points_in, weight
from tests.examples import examples

SIZE = 9
CASES = 6_000


def a_rectangle(rng, size=SIZE):
    """Any rectangle of at least one cell."""
    top, left = rng.integers(0, size, 2)
    return Rectangle(int(top), int(left), int(rng.integers(top, size)) + 1, int(rng.integers(left, size)) + 1)


def test_four_counters_equal_direct_counts_in_6000_cases():
    rng = np.random.default_rng(18)
    grid = even_grid([0, 0, SIZE, SIZE], SIZE)
    cases = 0
    while cases < CASES:
        fade_every = int(rng.choice([1, 3, 7, 1_000]))
        counters = QueryCounters(grid, fade_every, 2.0)
        questions = []
        for _ in range(20):
            questions.append(a_rectangle(rng))
            counters.add(questions[-1])
            for part in (a_rectangle(rng), a_rectangle(rng), grid.everything):
                assert counters.overlapping(*part) == overlapping(part, questions, fade_every, 2.0)
                cases += 1


def test_many_rectangles_are_counted_at_once():
    rng = np.random.default_rng(3)
    counters = QueryCounters(even_grid([0, 0, SIZE, SIZE], SIZE), 4, 2.0)
    for _ in range(10):
        counters.add(a_rectangle(rng))
    parts = [a_rectangle(rng) for _ in range(50)]
    assert counters.overlapping(*np.array(parts).T).tolist() == [float(counters.overlapping(*part)) for part in parts]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 9), st.sampled_from([2.0, 4.0, 10.0]), st.integers(1, 60), st.integers(0, 30))
def test_fading_is_its_closed_form(fade_every, fading, asked, before):
    """A question counts in full until its cycle and the next have ended, and then a c-th of that each cycle.

    Whoever begins late knows how many were asked before.
    """
    counters = QueryCounters(even_grid([0, 0, 1, 1], 1), fade_every, fading, before)
    for _ in range(asked):
        counters.add(Rectangle(0, 0, 1, 1))
    weights = [weight(number, before + asked, fade_every, fading) for number in range(before, before + asked)]
    assert float(counters.overlapping(0, 0, 1, 1)) == pytest.approx(sum(weights), rel=1e-12)
    assert max(weights) == 1.0
    assert sum(weights) <= fade_every + fade_every * fading / (fading - 1)


def test_a_question_outside_of_the_grid_counts_as_time_and_nowhere():
    grid = even_grid([0, 0, 4, 4], 4)
    counters = QueryCounters(grid, 2, 2.0)
    for _ in range(6):
        counters.add(grid.touched([5, 5, 6, 6]))
    assert counters.asked == 6
    assert counters.overlapping(*grid.everything) == 0


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_points_are_those_of_the_cells(first, second, random):
    """Cells are (x0, x1]; places on lines, on the border and equal ones count once; batches add up."""
    grid = even_grid([0, 0, 6, 6], 6)
    both = [np.array(places, float).reshape(-1, 2) for places in (first, second)]
    counts = PointCounts.of(grid, both[0]).with_more(PointCounts.of(grid, both[1]))
    cells = [(max(int(y) - 1, 0), max(int(x) - 1, 0)) for places in both for x, y in places]
    rng = np.random.default_rng(random.randrange(1 << 30))
    for part in (grid.everything, *(a_rectangle(rng, 6) for _ in range(5))):
        assert counts.within(*part) == points_in(part, cells)
        assert counts.cells(part).sum() == points_in(part, cells)
    rows, columns = grid.cells(np.concatenate(both))
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == cells


def test_a_box_touches_the_cells_that_its_places_are_in():
    grid = even_grid([0, 0, 10, 10], 10)
    assert grid.touched([0, 0, 0, 0]) == Rectangle(0, 0, 1, 1)
    assert grid.touched([1, 2, 1.5, 2.5]) == Rectangle(1, 0, 3, 2)  # x = 1 is in the first column
    assert grid.touched([-9, -9, 99, 99]) == grid.everything
    assert grid.touched([11, 0, 12, 1]) == Rectangle(0, 0, 0, 0)
    assert grid.touched([3, 3, 2, 4]) == Rectangle(0, 0, 0, 0)
    open_ended = Grid(np.array([-np.inf, 0.0, np.inf]), np.array([-np.inf, np.inf]))
    assert open_ended.touched([-1e300, 5, -1e299, 6]) == Rectangle(0, 0, 1, 1)
    assert open_ended.box(Rectangle(0, 1, 1, 2)) == (0.0, -np.inf, np.inf, np.inf)


def test_what_a_grid_cannot_have_is_named():
    with pytest.raises(
        ValueError, match=r"place \(7, 1\) is not within x 0 to 4, y 0 to 4; make the grid over a larger"
    ):
        even_grid([0, 0, 4, 4], 4).cells(np.array([[1.0, 1.0], [7.0, 1.0]]))
    with pytest.raises(ValueError, match="not within"):
        even_grid([0, 0, 4, 4], 4).cells(np.array([[np.nan, 1.0]]))
    with pytest.raises(ValueError, match="has no area"):
        even_grid([0, 0, 0, 4])
    with pytest.raises(ValueError, match="0 cells an axis"):
        even_grid([0, 0, 1, 4], 0)
