"""The test of a polygon by its strips gives what the test of every edge gives: corners and edges included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of
from dtoss.queries.covered import shape_of
from tests.examples import examples

MIDDLES = {"sphere": [(0.0, 0.0), (179.9, 10.0), (20.0, 89.5), (-60.0, -30.0)], "plane": [(0.0, 0.0), (1e9, -7.0)]}


@pytest.mark.checked
@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(MIDDLES)), st.integers(0, 10**6), st.integers(3, 40), st.floats(-6.0, 0.5))
def test_strips_and_all_edges_agree(metric, seed, corners, size):
    """Stars of all sizes, at a pole and the antimeridian, asked at their corners, edges, and round about."""
    rng = np.random.default_rng(seed)
    space = space_of(metric=metric)
    middle = np.array(MIDDLES[metric][seed % len(MIDDLES[metric])])
    turn = np.sort(rng.choice(720, corners, replace=False)) * np.pi / 360
    reach = rng.uniform(0.3, 1.0, corners) * 10**size
    ring = middle + np.stack([reach * np.cos(turn), reach * np.sin(turn)], axis=1)
    places = [ring, (ring + np.roll(ring, 1, axis=0)) / 2, middle + rng.normal(0, reach.max(), (200, 2))]
    if metric == "sphere":
        ring = np.stack([(ring[:, 0] + 180.0) % 360.0 - 180.0, np.clip(ring[:, 1], -90.0, 90.0)], axis=1)
        places = [np.clip(part, [-180.0, -90.0], [180.0, 90.0]) for part in [ring, *places]]
    try:
        polygons = as_polygons(ring.tolist(), space)
    except ValueError:
        return  # a star that crosses itself, or has no inside
    asked = np.concatenate(places)
    vectors = space.vectors(asked)
    for polygon in polygons:
        found = shape_of(polygon, worth_tables=0).holds(asked, vectors)
        assert found.tolist() == inside(vectors, polygon).tolist()
