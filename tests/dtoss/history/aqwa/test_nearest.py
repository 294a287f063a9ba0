"""The rectangle of section 5 is the one that all cells give, and it holds the k nearest points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.history.aqwa_knn import nearest_rectangle
from bench.history.aqwa_run import even_grid
from dtoss.history.aqwa.aqwa_grid import Grid, PointCounts
from tests.dtoss.history.aqwa.paper import nearest_cells
from tests.examples import examples


@settings(max_examples=examples(80), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=40),
    st.tuples(st.integers(-8, 56), st.integers(-8, 56)),
    st.integers(1, 12),
)
def test_it_is_that_of_all_cells(points, place, k):
    """Places on lines, in the middle of cells and outside of the grid; empty cells, equal points, too few."""
    grid = even_grid([0, 0, 24, 24], 24)
    counts = PointCounts.of(grid, np.array(points, float).reshape(-1, 2))
    cells = [(max(y - 1, 0), max(x - 1, 0)) for x, y in points]
    at = (place[0] / 2, place[1] / 2)
    assert nearest_rectangle(grid, counts, at, k) == nearest_cells(grid, cells, at, k)


@pytest.mark.parametrize("kind", ["even", "heap", "line", "corner"])
def test_it_holds_the_answer(kind):
    rng = np.random.default_rng(5)
    points = {
        "even": rng.uniform(0, 100, (2_000, 2)),
        "heap": np.clip(50 + rng.normal(0, 1, (2_000, 2)), 0, 100),
        "line": np.column_stack([rng.uniform(0, 100, 2_000), np.full(2_000, 7.0)]),
        "corner": np.full((2_000, 2), 100.0),
    }[kind]
    grid = even_grid([0, 0, 100, 100], 200)
    counts = PointCounts.of(grid, points)
    for k in (1, 8, 64, 2_000):
        for place in np.concatenate([points[:5], rng.uniform(-50, 150, (10, 2))]):
            part = nearest_rectangle(grid, counts, tuple(place), k)
            distance = np.hypot(*(points - place).T)
            answer = points[distance <= np.sort(distance)[k - 1]]
            rows, columns = grid.cells(answer)
            assert ((rows >= part.top) & (rows < part.bottom)).all()
            assert ((columns >= part.left) & (columns < part.right)).all()


def test_cells_that_are_as_near_are_gone_through_by_row():
    """The one with a point that comes first is wide, and beyond those that are looked at first."""
    lines = np.arange(25.0)
    grid = Grid(np.append(lines[:17], 100.0), lines)
    points = np.array([[7.5, 12.5], [50.0, 11.5]])
    rows, columns = grid.cells(points)
    cells = list(zip(rows.tolist(), columns.tolist(), strict=True))
    expected = nearest_cells(grid, cells, (12.0, 12.0), 1)
    assert nearest_rectangle(grid, PointCounts.of(grid, points), (12.0, 12.0), 1) == expected == grid.everything


def test_an_open_border_is_infinitely_far():
    """Cells at the rim of leaves without a border may have their points anywhere."""
    grid = Grid(np.array([-np.inf, 0.0, 1.0, 2.0, np.inf]), np.array([-np.inf, 0.0, 1.0, 2.0, np.inf]))
    counts = PointCounts.of(grid, np.array([[0.5, 0.5], [-1e9, 0.5]]))
    assert nearest_rectangle(grid, counts, (0.5, 0.5), 1) != grid.everything
    assert nearest_rectangle(grid, counts, (-3.0, 0.5), 1) == grid.everything


def test_what_cannot_be_asked_is_named():
    grid = even_grid([0, 0, 1, 1], 2)
    counts = PointCounts.of(grid, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="k is 0: give 1 or more"):
        nearest_rectangle(grid, counts, (0.0, 0.0), 0)
    with pytest.raises(ValueError, match="is not finite"):
        nearest_rectangle(grid, counts, (np.nan, 0.0), 1)
    assert nearest_rectangle(grid, counts, (0.0, 0.0), 4) == grid.everything
