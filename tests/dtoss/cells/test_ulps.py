"""Areas and neighbours of sites an ulp apart, on the sphere: exact, in any number of partitions."""

import numpy as np
import pytest

import dtoss
from dtoss.cells.rim import drawn_rim_cells
from dtoss.queries.one_cell import drawn_cell
from tests import oracles, ulps


@pytest.mark.parametrize("first", [70, 90])
def test_areas_and_neighbours_equal_those_of_exact_arithmetic(first):
    """Larger in ``make check-data``: `python -m tests.long.ulps`."""
    for seed in range(first, first + 20):
        assert ulps.differences(seed) == []


def test_a_cell_between_two_sites_that_a_third_one_cuts():
    """Of a lune with the site on it, not of the one on the other side of the Earth."""
    assert ulps.differences(1583) == []


def test_a_lune_of_no_width_holds_its_site():
    """Its corners are two poles and, on either side, the place of the site."""
    site, others = np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, -2e-16, 0.0], [1.0, 3e-16, 0.0]])
    cell = drawn_rim_cells(site, np.array([0, 2]), others)
    assert cell.area == pytest.approx(0.0, abs=1e-15)
    assert cell.owner.tolist() == [0, 0, 1, 1]
    assert cell.corners[[1, 3]] == pytest.approx(np.repeat(site, 2, axis=0), abs=1e-15)
    assert cell.corners[[0, 2]] == pytest.approx(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]), abs=1e-15)


@pytest.mark.parametrize(
    ("more", "drawn"), [([], True), ([[1.0, 1e-15, 0.0]], False), ([[1.0, 1e-3, 1e-3 + 1e-15]], False)]
)
def test_a_cell_is_drawn_without_exact_arithmetic_where_no_two_sites_are_crowded(more, drawn):
    """Neither its site and a candidate, nor two candidates, a few ulps apart."""
    square = [[1.0, y, z] for y in (-1e-3, 1e-3) for z in (-1e-3, 1e-3)]
    others = np.array([*square, *more])
    others /= np.linalg.norm(others, axis=1)[:, None]
    assert (drawn_cell(np.array([1.0, 0.0, 0.0]), others, np.zeros(4), 1e-9) is not None) == drawn


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_site_exactly_between_two_others_has_a_cell_of_no_width(partitions):
    """The outer ones have half the sphere each: two hemispheres leave a lune of 3e-17 between them, not a whole one."""
    places = [[0.0, -1e-15], [0.0, 0.0], [0.0, 1e-15]]
    index = dtoss.build(np.arange(3), places, partitions=partitions)
    whole = 4.0 * np.pi * dtoss.geometry.distance.EARTH_RADIUS**2
    assert [index.area(i) / whole for i in range(3)] == pytest.approx([0.5, 0.0, 0.5], abs=1e-15)
    assert index.neighbours(1).tolist() == [0, 2]


def test_the_exact_cells_of_an_octahedron():
    """A sixth of the sphere each, four edges of a cube's; two sites have halves, one has all."""
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    area, edges = oracles.exact_cells(corners)
    assert area == pytest.approx(4 * np.pi / 6, rel=1e-15)
    assert edges == pytest.approx({(i, j): np.arccos(1 / 3) for i in range(6) for j in range(6) if (i - j) % 3 != 0})
    area, edges = oracles.exact_cells(corners[:2])
    assert area == pytest.approx(2 * np.pi, rel=1e-15)
    assert edges == pytest.approx({(0, 1): 2 * np.pi, (1, 0): 2 * np.pi})
    assert oracles.exact_cells(corners[:1])[0].tolist() == [4 * np.pi]
