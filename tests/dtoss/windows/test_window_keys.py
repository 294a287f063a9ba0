"""Keys of places: regions, sites and polygons against the plain test of each, and what overlaps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons, rings_together
from dtoss.geometry.space import space_of
from dtoss.windows.keys import MOST_SITES, site_keys
from dtoss.windows.storage.keys_file import polygon_keys
from tests.dtoss.strategies import lonlat
from tests.dtoss.windows.window_streams import nearest_of
from tests.examples import examples

SPHERE, PLANE = space_of("EPSG:4326"), space_of(None, "plane")


def square(x, y, side=1.0):
    """Return the rings of one polygon."""
    return [[[x, y], [x + side, y], [x + side, y + side], [x, y + side]]]


def wrapped(rings):
    """Return rings with longitudes from -180 to 180."""
    return [[[(x + 180) % 360 - 180, y] for x, y in ring] for ring in rings]


def keys_of(space, *shapes, edges="spherical"):
    return polygon_keys(space, rings_together([list(shape) for shape in shapes], edges))


def held_by(keys, space, shapes, positions, edges="spherical"):
    """Return the keys of each position, and those of the plain test."""
    labels = keys.of(positions)
    parts = [as_polygons({"type": "MultiPolygon", "coordinates": shape}, space, edges) for shape in shapes]
    vectors = space.vectors(positions)
    plain = [np.any([inside(vectors, part, positions) for part in shape], axis=0) for shape in parts]
    expected = [[i for i, held in enumerate(plain) if held[row]] for row in range(len(positions))]
    if labels.first is None:
        return [[key] if key >= 0 else [] for key in labels.key.tolist()], [found[:1] for found in expected]
    first = labels.first.tolist()
    return [labels.key[a:b].tolist() for a, b in pairwise(first)], expected


@settings(max_examples=examples(25), deadline=None)
@given(lonlat(60), st.integers(1, 6), st.booleans(), st.integers(0, 9))
def test_a_place_has_the_keys_of_the_polygons_that_hold_it(positions, count, apart, seed):
    rng = np.random.default_rng(seed)
    west, south = rng.integers(-18, 19, count) * 10.0, rng.integers(-8, 8, count) * 10.0
    if apart:
        west = np.arange(count) * 10.0 - 20.0
        south[:] = 0.0
    shapes = [[square(x, y, 10.0)] for x, y in zip(west.tolist(), south.tolist(), strict=True)]
    shapes = [
        [[[[(x + 180) % 360 - 180, y] for x, y in ring] for ring in rings] for rings in shape] for shape in shapes
    ]
    keys = keys_of(SPHERE, *shapes)
    assert keys.count == count
    assert keys.single or not apart
    found, expected = held_by(keys, SPHERE, shapes, positions)
    assert found == expected


@pytest.mark.parametrize(("space", "edges"), [(SPHERE, "spherical"), (SPHERE, "planar"), (PLANE, "planar")])
@pytest.mark.parametrize(
    ("shapes", "overlap"),
    [
        ([[square(0, 0)], [square(1, 0)], [square(0, 1)], [square(1, 1)]], None),
        ([[square(0, 0)], [square(5, 5)]], None),
        ([[square(0, 0)], [square(0.5, 0.5)]], (0, 1)),
        ([[square(0, 0)], [square(0, 0)]], (0, 1)),
        ([[square(0, 0)], [square(3, 3)], [square(0.2, 0.2, 0.1)]], (0, 2)),
        ([[square(0, 0, 2)], [square(2, 0, 2), square(-1, -1, 2)]], (0, 1)),
        ([[square(0, 0), square(0.5, 0.5)]], None),
        ([[square(0, 0, 3) + square(1, 1)], [square(1, 1)]], None),
        ([[square(0, 0, 3)], [square(0, 1)]], (0, 1)),
    ],
    ids=["tiles", "apart", "across", "equal", "within", "part", "of itself", "in a hole", "along an edge"],
)
def test_polygons_that_share_borders_only_do_not_overlap(space, edges, shapes, overlap):
    keys = keys_of(space, *shapes, edges=edges)
    assert keys.overlap == overlap
    assert keys.single == (overlap is None)
    positions = np.array([[x, y] for x in (-0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0) for y in (0.0, 0.25, 1.0, 1.5)])
    found, expected = held_by(keys, space, shapes, positions, edges)
    assert found == expected
    keys.check(["rows", "objects"])
    if overlap is None:
        keys.check(["flow"])
    else:
        with pytest.raises(ValueError, match=f"polygons {overlap[0]} and {overlap[1]} overlap; leave out flow"):
            keys.check(["rows", "flow"])


def test_a_polygon_that_is_none_is_named_by_its_number():
    with pytest.raises(InputError, match="there are no polygons"):
        keys_of(PLANE)
    with pytest.raises(InputError, match="polygon 1 is empty"):
        keys_of(PLANE, [square(0, 0)], [])
    with pytest.raises(InputError, match=r"^polygon 1: "):
        keys_of(PLANE, [square(0, 0)], [[[[0.0, 0.0], [1.0, 1.0]]]])
    with pytest.raises(InputError, match=r"^polygon 0: "):
        keys_of(SPHERE, [[[[0.0, 0.0], [1.0, 100.0], [1.0, 0.0]]]])


def test_digests_tell_other_keys_apart():
    one, other = keys_of(PLANE, [square(0, 0)]), keys_of(PLANE, [square(0, 0, 2)])
    assert one.digest == keys_of(PLANE, [square(0, 0)]).digest
    assert len({one.digest, other.digest, site_keys(PLANE, np.zeros((1, 2))).digest}) == 3


@settings(max_examples=examples(25), deadline=None)
@given(lonlat(40), lonlat(8))
def test_a_place_has_the_nearest_site_and_of_equal_ones_the_first(positions, sites):
    if len(sites) == 0:
        with pytest.raises(InputError, match="there are no sites"):
            site_keys(SPHERE, sites)
        return
    keys, nearest = site_keys(SPHERE, sites), nearest_of(SPHERE, sites, [0.0] * len(sites))
    assert keys.of(positions).key.tolist() == [nearest(x, y)[0] for x, y in positions.tolist()]


def test_more_sites_than_are_keys_are_refused():
    sites = np.stack([np.arange(MOST_SITES + 1.0), np.zeros(MOST_SITES + 1)], axis=1)
    with pytest.raises(InputError, match="20,001 different sites, and at most 20,000"):
        site_keys(PLANE, sites)
