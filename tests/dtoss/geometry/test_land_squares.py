"""Longitude and latitude exchanged are noticed, where land tells."""

import warnings

import numpy as np
import pytest
import shapely

import dtoss
from datasets.cities.geonames import land
from dtoss.geometry.land_squares import land_squares, look_swapped

CITIES = {"New York": (-74.0, 40.7), "London": (-0.1, 51.5), "Paris": (2.35, 48.85)}


def test_the_squares_are_those_of_the_outline():
    """A square is land where it touches any."""
    west, south = np.meshgrid(np.arange(-180.0, 180.0), np.arange(-90.0, 90.0))
    expected = shapely.intersects(land(), shapely.box(west, south, west + 1.0, south + 1.0))
    assert (land_squares() == expected).all()


@pytest.mark.parametrize("city", CITIES)
def test_a_build_warns_of_exchanged_axes(city):
    """Legal positions, all in the sea or in Antarctica: one warning, and the index is built all the same."""
    rng = np.random.default_rng(0)
    positions = rng.normal(CITIES[city], 0.05, (5000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dtoss.build(np.arange(5000), positions)
    with pytest.warns(UserWarning, match=r"look swapped: 0% of 1000 .* 100% .*lon comes before lat") as said:
        index = dtoss.build(np.arange(5000), positions[:, ::-1])
    assert len(index) == 5000
    assert [warning.filename for warning in said] == [__file__]


@pytest.mark.parametrize(
    ("lon", "lat"),
    [
        (-40.0, 30.0),  # ships in the Atlantic, and exchanged
        (30.0, -40.0),
        (0.0, -85.0),  # the south pole is land
        (180.0, 90.0),
        (-180.0, -90.0),
    ],
)
def test_places_that_say_nothing(lon, lat):
    """Nor do fewer than twenty positions, or ones in the plane."""
    assert look_swapped(np.full(20, lon), np.full(20, lat)) is None


def test_few_positions_and_planes_say_nothing():
    """There is no land in a plane."""
    assert look_swapped(np.full(20, 40.7), np.full(20, -74.0)) is not None
    assert look_swapped(np.full(19, 40.7), np.full(19, -74.0)) is None
    dtoss.build(np.arange(20), np.tile([40.7, -74.0], (20, 1)), crs="none")
