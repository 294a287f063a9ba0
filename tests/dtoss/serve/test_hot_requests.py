"""What is read of a target at once, and what is left to the framework, which says what is wrong with it."""

from __future__ import annotations

import pytest

from dtoss.geometry.space import space_of
from dtoss.serve.requests.hot_requests import read_target, reading_of

READING = reading_of(space_of(), 1_000, 1_000, 8_192)


@pytest.mark.parametrize(
    ("target", "radius"),
    [
        (b"/range?lon=1&lat=2&radius=5.5", 5.5),
        (b"/range?lon=1&lat=2&radius=0", 0.0),
        (b"/knn?lon=1&lat=2&k=3&max_distance=7", 7.0),
        (b"/range?lon=1&lat=2&radius=-1", None),
        (b"/range?lon=1&lat=2&radius=inf", None),
        (b"/knn?lon=1&lat=2&max_distance=nan", None),
        (b"/range?lon=1&lat=2&radius=5&radius=6", None),
    ],
)
def test_radii_that_are_none_are_left_to_the_framework(target, radius):
    found = read_target(target, READING)
    assert (None if found is None else found.radius) == radius
