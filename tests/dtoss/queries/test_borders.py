"""Borders belong: places on them, as numbers were written, against shapely, boxes, and rational numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import shapely

import dtoss
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_settings import Rows
from tests import oracles
from tests.examples import examples

SPHERE = space_of()
KINDS = ["spherical", "planar"]


def box(west, south, east, north, **said):
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring], **said}


def count_each(places, shapes, edges):
    """How many of some places each shape holds: counted, listed, and as fences."""
    index = dtoss.build(np.arange(len(places)), places)
    counts = index.count_within(shapes, edges=edges)
    hits = index.within(shapes, edges=edges)
    assert np.bincount(hits.query, minlength=len(shapes)).tolist() == counts.tolist()
    rows = [{"id": f"{i:04}", "polygon": shape, "edges": edges} for i, shape in enumerate(shapes)]
    table, bad = check_subscriptions(rows)
    assert bad == []
    built = build(table, SPHERE, {}, False)
    found = Matcher(built, np.ones(len(shapes), np.bool_)).match(Rows(np.asarray(places, float)))
    assert np.bincount(found.subscription, minlength=len(shapes)).tolist() == counts.tolist()
    return counts.tolist()


@pytest.mark.parametrize("edges", KINDS)
@pytest.mark.parametrize("lon", [-122.405, 8.5, -122.4, 0.0, 90.0, 179.99999])
def test_zones_that_share_a_meridian_hold_all_that_lies_on_it(lon, edges):
    """As boxes do, and as the numbers say that were written."""
    lat = np.round(np.random.default_rng(0).uniform(37.74, 37.78, 500), 5)
    places = np.stack([np.full(500, lon), lat], axis=1)
    shapes = [box(lon - 0.025, 37.7, lon, 37.8), box(lon, 37.7, min(lon + 0.025, 180.0), 37.8)]
    assert dtoss.build(np.arange(500), places).count_box([lon - 0.025, 37.7, lon, 37.8]).tolist() == [500]
    assert count_each(places, shapes, edges) == [500, 500]
    half = [box(lon - 0.025, 37.7, lon, 37.76), box(lon - 0.025, 37.76, lon, 37.8)]
    assert count_each(places, half, edges) == [(lat <= 37.76).sum(), (lat >= 37.76).sum()]


@pytest.mark.parametrize("edges", KINDS)
def test_all_longitudes_of_five_digits_are_on_the_meridian_that_they_name(edges):
    """A sample of 36 million, each with a zone to the west and one to the east of it."""
    rng = np.random.default_rng(1)
    count = examples(400)
    lon = np.round(rng.uniform(-179.9, 179.9, count), 5)
    index = dtoss.build(np.arange(count), np.stack([lon, np.round(rng.uniform(-60, 60, count), 5)], axis=1))
    shapes = [box(round(x - 0.01, 5), -80.0, x, 80.0) for x in lon.tolist()]
    shapes += [box(x, -80.0, round(x + 0.01, 5), 80.0) for x in lon.tolist()]
    hits = index.within(shapes, edges=edges)
    found = set(zip(hits.query.tolist(), hits.id.tolist(), strict=True))
    assert {(i, i) for i in range(count)} | {(count + i, i) for i in range(count)} <= found


@pytest.mark.parametrize("edges", KINDS)
def test_the_equator_the_antimeridian_and_poles_belong(edges):
    lon = np.round(np.random.default_rng(2).uniform(10.0, 20.0, 300), 5)
    level = np.stack([lon, np.zeros(300)], axis=1)
    assert count_each(level, [box(10, 0, 20, 5), box(10, -5, 20, 0)], edges) == [300, 300]
    seam = [[180.0, 1.0], [-180.0, 2.0], [7.0, 90.0], [-50.0, -90.0]]
    shapes = [box(170, 0, 180, 5), box(-180, 0, -170, 5), box(-60, 80, 60, 90), box(100, -90, 110, -80)]
    assert count_each(seam, shapes, edges) == [2, 2, 1, 1]


FINER = pytest.mark.deep("digits between those of make test")


@pytest.mark.parametrize("digits", [0, *(pytest.param(digits, marks=FINER) for digits in (1, 3)), 5])
def test_straight_edges_are_decided_as_shapely_does_in_the_plane(digits):
    """Rounded corners and rounded places, many of them on edges; grids whose cells share edges with other corners."""
    rng = np.random.default_rng(digits)
    size = 10.0 ** (1 - digits) * 4
    around = np.array([-122.0, 37.0])
    places = np.unique(np.round(around + rng.uniform(-size, size, (600, 2)), digits), axis=0)
    index = dtoss.build(np.arange(len(places)), places)
    shapes = []
    while len(shapes) < examples(120):
        ring = np.round(around + rng.uniform(-size, size, (int(rng.integers(3, 7)), 2)), digits)
        shape = shapely.Polygon(ring)
        if shape.is_valid and shape.area > 0:
            shapes.append(shape)
    xs, ys = (np.round(middle + np.linspace(-size, size, 5), digits).tolist() for middle in around)
    shapes += [shapely.box(w, s, e, n) for w, e in pairwise(xs) for s, n in pairwise(ys)]
    exact = whole_numbers(places)
    expected = [np.flatnonzero([exactly_in(shape, place) for place in exact]).tolist() for shape in shapes]
    hits = index.within(shapes)
    assert [hits.id[hits.query == i].tolist() for i in range(len(shapes))] == expected
    assert count_each(places, [shapely.geometry.mapping(shape) for shape in shapes], "planar") == list(
        map(len, expected)
    )


def whole_numbers(places):
    """Places as pairs of whole numbers of 2^-60 degrees, in which doubles from 2^-8 on are exact."""
    exact = [[Fraction(float(c)) * 2**60 for c in place] for place in places]
    assert {c.denominator for place in exact for c in place} == {1}
    return [[c.numerator for c in place] for place in exact]


def exactly_in(shape, place):
    """Whether a place is in a polygon of shapely's, or on its border: in whole numbers, along a ray to the east."""
    x, y = place
    odd = False
    corners = whole_numbers(shape.exterior.coords)
    for (ax, ay), (bx, by) in pairwise(corners):
        turn = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        if turn == 0 and min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by):
            return True
        if (ay > y) != (by > y):
            odd ^= (turn > 0) == (by > ay)
    return odd


def test_zones_of_arcs_that_share_an_edge_lose_no_object_between_them():
    """Places as near an arc as doubles come are in one of two neighbours at the least; corners are in both."""
    rng = np.random.default_rng(5)
    between = 0
    for _ in range(examples(200)):
        a, b = np.round(rng.uniform([-60, -50], [60, 50], (2, 2)), 3)
        u, v = SPHERE.vectors(np.array([a, b]))
        normal = np.cross(u, v) / np.linalg.norm(np.cross(u, v))
        beside = (u + v) / np.linalg.norm(u + v) + 0.1 * np.array([normal, -normal])
        left, right = np.round(SPHERE.positions(beside / np.linalg.norm(beside, axis=1)[:, None]), 3)
        share = rng.uniform(0.3, 0.7, (20, 1))
        along = u + share * (v - u)
        places = np.concatenate([SPHERE.positions(along / np.linalg.norm(along, axis=1)[:, None]), [a, b]])
        index = dtoss.build(np.arange(len(places)), places)
        shapes = [np.array([a, b, left]), np.array([b, a, right])]
        hits = index.within(shapes, edges="spherical")
        held = [hits.id[hits.query == row].tolist() for row in (0, 1)]
        assert held == [np.flatnonzero(oracles.in_polygon(SPHERE, [ring], places)).tolist() for ring in shapes]
        assert set(held[0]) | set(held[1]) == set(range(len(places)))
        assert {20, 21} <= set(held[0]) & set(held[1])
        between += len(set(held[0]) ^ set(held[1]))
    assert between > 100


WIDE = box(-100, -40, 100, 40)


def test_an_edge_of_more_than_half_the_longitudes_goes_where_geojson_says():
    """The polygon and the box of the same corners are the same; what goes the other way is told."""
    rng = np.random.default_rng(6)
    places = np.round(rng.uniform([-180, -90], [180, 90], (3_000, 2)), 2)
    index = dtoss.build(np.arange(3_000), places)
    wanted = index.box([-100, -40, 100, 40]).id.tolist()
    with pytest.warns(UserWarning, match="spans 200 degrees: it goes through longitude 0, as GeoJSON says"):
        assert index.within(WIDE).id.tolist() == wanted
    assert count_each(places, [WIDE], "planar") == [len(wanted)]
    assert 500 < len(wanted) < 1_000
    corners = np.array(WIDE["coordinates"][0], float)
    with pytest.warns(UserWarning, match="spans 200 degrees: it goes the short way, over the antimeridian"):
        other = index.count_within(corners)
    assert other.tolist() == index.count_within(WIDE, edges="spherical").tolist() != [len(wanted)]
    assert index.count_within(corners, edges="planar").tolist() == [len(wanted)]
    fence, bad = check_subscriptions([{"id": "f", "polygon": WIDE}])
    assert bad == []
    matcher = Matcher(build(fence, SPHERE, {}, False), np.ones(1, np.bool_))
    assert matcher.match(Rows(np.array([[0.0, 0.0], [170.0, 0.0]]))).row.tolist() == [0]


def test_all_of_the_world_and_rings_round_it():
    """Straight polygons that fit in no hemisphere: parts of 90 degrees decide as one; a hole stays one."""
    rng = np.random.default_rng(7)
    places = np.concatenate(
        [np.round(rng.uniform([-180, -90], [180, 90], (2_000, 2)), 1), [[0, 0], [90, 0], [-90, 45]]]
    )
    world, hole = box(-180, -90, 180, 90), box(-90, -45, 90, 45)["coordinates"][0]
    belt = {"type": "Polygon", "coordinates": [*world["coordinates"], hole]}
    x, y = places.T
    strictly = (np.abs(x) < 90) & (np.abs(y) < 45)
    assert count_each(places, [world, belt], "planar") == [len(places), int((~strictly).sum())]


def test_edges_are_what_a_shape_says_they_are():
    """A member of GeoJSON, an option; an array is of arcs; what is neither is refused."""
    index = dtoss.build([1], [[0.0, 50.5]])
    square = box(-20, 40, 20, 50.2)
    ring = square["coordinates"][0]
    assert index.count_within(square).tolist() == [0]
    assert index.count_within({**square, "edges": "spherical"}).tolist() == [1]
    assert index.count_within({"type": "Feature", "geometry": {**square, "edges": "spherical"}}).tolist() == [1]
    assert index.count_within({**square, "edges": "spherical"}, edges="planar").tolist() == [0]
    assert index.count_within(np.array(ring)).tolist() == [1]
    assert index.count_within(shapely.Polygon(ring)).tolist() == [0]
    assert index.count_within([shapely.Polygon(ring)], edges="spherical").tolist() == [1]
    with pytest.raises(ValueError, match="edges is 'round'"):
        index.count_within({**square, "edges": "round"})
    with pytest.raises(ValueError, match="zone 1: its edges are spherical, those before it are planar"):
        index.count_within([shapely.Polygon(ring).wkb, {**square, "edges": "spherical"}])
    assert as_polygons(square, SPHERE)[0].straight is not None
