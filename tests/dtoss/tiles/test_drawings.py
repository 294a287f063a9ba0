"""Places as a page draws them: what is filled is what they hold, wherever on the map, and edges are where it ends."""

from __future__ import annotations

import numpy as np
import pytest
from shapely import contains_xy
from shapely.geometry import MultiLineString, Point, Polygon
from shapely.ops import unary_union

from dtoss.geometry.distance import distance
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of
from dtoss.queries.covered import boxes_of
from dtoss.tiles.drawings import TILE_PIXELS, drawn_boxes, drawn_circles, drawn_polygons
from dtoss.tiles.map_frame import frame_of, mercator

SPHERE, UTM, PLANE = space_of(), space_of("EPSG:32633"), space_of("none")
FRAME = frame_of(SPHERE, None)
ZOOM = 4.0
PIXEL = 360.0 / (TILE_PIXELS * 2.0**ZOOM)
CIRCLES = [
    (0, 0, 4e5), (179.9, 10, 5e5), (-180, -60, 9e5), (20, 88, 9e5), (20, -85, 1.5e6), (60, 20, 1.1e7), (0, 90, 3e6),
    (-30, -90, 2e6), (100, 10, 1.5e7), (-70, 75, 1.9e7), (33, 70, 2.0e6), (-179, 68, 4e5),
]  # fmt: skip
BOXES = [
    [-10, -10, 10, 10], [170, -20, -170, 15], [-180, -5, 180, 5], [-180, 60, 180, 90], [30, -90, 40, -50],
    [179, 1, -179, 2], [-180, -90, 180, 90], [10, 70, -10, 80],
]  # fmt: skip
SHAPES = [
    [[[10, 40], [30, 40], [30, 55], [10, 55]], [[15, 44], [25, 44], [25, 50], [15, 50]]],
    [[[170, -10], [-170, -10], [-165, 20], [175, 20]], [[178, 0], [-178, 0], [-178, 9], [178, 9]]],
    [[[0, 60], [120, 60], [-120, 60]]],
    [[[0, 50], [-120, 50], [120, 50]], [[0, 75], [120, 75], [-120, 75]]],
    [[[0, -60], [90, -60], [180, -60], [-90, -60]]],
    [[[-179, 60], [179, 60], [179, 62], [-179, 62]]],
]
RNG = np.random.default_rng(0)
PLACES = np.concatenate([
    np.stack([RNG.uniform(-180, 180, 3_000), np.degrees(np.arcsin(RNG.uniform(-0.99, 0.99, 3_000)))], axis=1),
    np.stack([RNG.uniform(170, 190, 1_000), RNG.uniform(-70, 70, 1_000)], axis=1),
])  # fmt: skip
PLACES[:, 0] -= np.where(PLACES[:, 0] > 180, 360.0, 0.0)


def filled(drawing, places):
    """Which places the fill of a drawing holds, by shapely, at any whole turns."""
    area = unary_union([Polygon(rings[0], rings[1:]).buffer(0) for rings in drawing.fill])
    found = np.zeros(len(places), bool)
    for turn in (-360.0, 0.0, 360.0):
        found |= contains_xy(area, places[:, 0] + turn, places[:, 1])
    return found


def away(drawing, places, by):
    """Which places are further from each edge than so many degrees."""
    if not drawing.edges:
        return np.ones(len(places), bool)
    band = MultiLineString(drawing.edges).buffer(by)
    near = np.zeros(len(places), bool)
    for turn in (-360.0, 0.0, 360.0):
        near |= contains_xy(band, places[:, 0] + turn, places[:, 1])
    return ~near


def check(drawing, held, places=PLACES):
    """Hold a drawing to which places it has to hold, but for those within two pixels of an edge."""
    sure = away(drawing, places, 2 * PIXEL) & (np.abs(places[:, 1]) < 84)
    assert sure.mean() > 0.8
    assert (filled(drawing, places)[sure] == held[sure]).all()


@pytest.mark.parametrize(("lon", "lat", "radius"), CIRCLES)
def test_circles_hold_what_is_within_their_radius(lon, lat, radius):
    centre = SPHERE.vectors(np.array([[lon, lat]], float))
    (drawing,) = drawn_circles(FRAME, SPHERE, centre, np.array([radius]), ZOOM)
    vectors = SPHERE.vectors(PLACES)
    far = distance(vectors, np.repeat(centre, len(vectors), axis=0))
    check(drawing, far <= radius)
    corners = np.concatenate([np.array(line) for line in drawing.edges])
    corners = corners[np.abs(corners[:, 1]) < 84]
    corners[:, 0] = (corners[:, 0] + 180) % 360 - 180
    rim = distance(SPHERE.vectors(corners), np.repeat(centre, len(corners), axis=0))
    assert len(corners) > 2  # a parallel is straight on the map
    assert np.abs(rim - radius).max() < 1.5 * PIXEL * 111_200


def test_no_edge_goes_along_the_sides_of_the_map():
    """Fills round a pole do, edges end there."""
    centres = SPHERE.vectors(np.array([[lon, lat] for lon, lat, _ in CIRCLES], float))
    drawings = drawn_circles(FRAME, SPHERE, centres, np.array([radius for *_, radius in CIRCLES]), ZOOM)
    drawings += drawn_boxes(FRAME, SPHERE, np.array([BOXES[2], BOXES[3], BOXES[6]], float), ZOOM)
    for drawing in drawings:
        for line in drawing.edges:
            steps = np.abs(np.diff(np.array(line), axis=0))
            assert not ((steps[:, 0] == 0) & (steps[:, 1] > 20)).any()


def test_a_circle_of_no_radius_is_nothing_and_one_of_all_is_the_map():
    centres = SPHERE.vectors(np.array([[3.0, 4.0], [3.0, 4.0]]))
    nothing, all_ = drawn_circles(FRAME, SPHERE, centres, np.array([0.0, 3e7]), ZOOM)
    assert (nothing.fill, nothing.edges) == ([], [])
    assert filled(all_, PLACES[np.abs(PLACES[:, 1]) < 84]).all()
    assert all_.edges == []
    assert drawn_circles(FRAME, SPHERE, centres[:0], np.zeros(0), ZOOM) == []


@pytest.mark.parametrize("box", BOXES)
def test_boxes_hold_what_the_search_finds_in_them(box):
    (drawing,) = drawn_boxes(FRAME, SPHERE, np.array([box], float), ZOOM)
    ((shape,),) = boxes_of([box], SPHERE)
    check(drawing, shape.holds(PLACES, SPHERE.vectors(PLACES)))


STRAIGHT = [
    [[[-20.0, 40.0], [30.0, 40.0], [30.0, 60.0], [-20.0, 50.0]], [[0.0, 45.0], [10.0, 45.0], [5.0, 50.0]]],
    [[[-100.0, -40.0], [100.0, -40.0], [100.0, 40.0], [-100.0, 40.0]]],
    [[[150.0, -20.0], [180.0, -20.0], [180.0, 10.0], [150.0, 10.0]]],
    [[[-170.0, -70.0], [170.0, -70.0], [170.0, 75.0], [-170.0, 75.0]], [[-95.0, -50.0], [95.0, -50.0], [0.0, 60.0]]],
]


@pytest.mark.parametrize(
    ("rings", "edges"), [*((rings, "spherical") for rings in SHAPES), *((rings, "planar") for rings in STRAIGHT)]
)
def test_polygons_hold_what_the_search_finds_in_them(rings, edges):
    """With holes, over the antimeridian, round both poles; also where two are one shape."""
    polygons = as_polygons({"type": "Polygon", "coordinates": rings}, SPHERE, edges)
    (drawing,) = drawn_polygons(FRAME, [polygons], ZOOM)
    held = inside(SPHERE.vectors(PLACES), polygons[0], PLACES)
    assert held.any()
    check(drawing, held)
    other = as_polygons([[-100.0, 0.0], [-80.0, 0.0], [-90.0, 20.0]], SPHERE)
    both, again = drawn_polygons(FRAME, [[*polygons, *other], polygons], ZOOM)
    check(both, held | inside(SPHERE.vectors(PLACES), other[0]))
    assert again == drawing


def test_shapes_of_a_projected_crs_stand_where_their_places_do():
    """The map bends their edges; a plane without a CRS is a square."""
    rng = np.random.default_rng(1)
    places = np.stack([rng.uniform(3e5, 7e5, 2_000), rng.uniform(4e6, 6e6, 2_000)], axis=1)
    frame = frame_of(UTM, None)
    circle = drawn_circles(frame, UTM, np.array([[5e5, 5e6]]), np.array([2e5]), ZOOM)[0]
    box = drawn_boxes(frame, UTM, np.array([[4e5, 4.5e6, 6e5, 5.9e6]]), ZOOM)[0]
    triangle = as_polygons([[3e5, 4e6], [7e5, 4.2e6], [5e5, 6e6]], UTM)
    (shape,) = drawn_polygons(frame, [triangle], ZOOM)
    lonlat = frame.lonlat_of(places)
    for drawing, held in (
        (circle, np.linalg.norm(places - [5e5, 5e6], axis=1) <= 2e5),
        (box, (places >= [4e5, 4.5e6]).all(axis=1) & (places <= [6e5, 5.9e6]).all(axis=1)),
        (shape, inside(places, triangle[0])),
    ):
        sure = away(drawing, lonlat, 2 * PIXEL)
        assert sure.mean() > 0.6
        assert (filled(drawing, lonlat)[sure] == held[sure]).all()
    plane = frame_of(PLANE, np.array([0.0, 0.0, 100.0, 100.0]))
    (drawing,) = drawn_boxes(plane, PLANE, np.array([[10.0, 20.0, 30.0, 60.0]]), 6.0)
    wanted = plane.lonlat_of(np.array([[10.0, 20.0], [30.0, 60.0]]))
    got = np.array(drawing.edges[0])
    assert np.abs(np.concatenate([got.min(axis=0), got.max(axis=0)]) - wanted.ravel()).max() < 1e-2


def test_edges_have_as_few_corners_as_a_zoom_shows():
    """Seen from afar a circle has a few, and is off by less than half a pixel on the map."""
    centre = SPHERE.vectors(np.array([[10.0, 50.0]]))
    counts = []
    for zoom in (4.0, 8.0, 12.0):
        (drawing,) = drawn_circles(FRAME, SPHERE, centre, np.array([20_000.0]), zoom)
        counts.append(len(drawing.edges[0]))
        exact = drawn_circles(FRAME, SPHERE, centre, np.array([20_000.0]), 16.0)[0].edges[0]
        scale = TILE_PIXELS * 2.0**zoom
        rim = MultiLineString([mercator(np.array(exact)) * scale])
        off = max(rim.distance(Point(place)) for place in mercator(np.array(drawing.edges[0])) * scale)
        assert off < 0.75
    assert counts[0] < counts[1] < counts[2] < 260
