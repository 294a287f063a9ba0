"""Rings cut by the box of a tile: against shapely's intersections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry import LineString, Point, Polygon, box

from dtoss.geometry.space import space_of
from dtoss.tiles.map_frame import Frame, frame_of
from dtoss.tiles.rings import rings_on_map
from dtoss.tiles.tile_clipping import BUFFER, clipped_lines, clipped_polygons, thin_for_zoom, tile_box

pytestmark = pytest.mark.checked
UNIT_SQUARE = Frame(space_of("none"), (0.0, 1.0, 1.0))
"""A plane whose places are those of the map's square, with y up."""


def rings_of(rings, owners=None):
    """Rings of places of the map's square, y down and clockwise to the eye where they are outer ones."""
    flipped = [np.array(ring, float) * [1, -1] + [0, 1] for ring in rings]
    closed = [np.concatenate([ring[::-1], ring[-1:]]) for ring in flipped]
    first = np.cumsum([0] + [len(ring) for ring in closed])
    owners = range(len(rings) + 1) if owners is None else owners
    return rings_on_map(UNIT_SQUARE, np.concatenate(closed), first, np.array(list(owners)))


@st.composite
def stars(draw, most=40):
    """The corners of a star-shaped polygon about anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(3, most))
    centre, size = rng.uniform(0.3, 0.7, 2), draw(st.sampled_from([0.3, 0.05, 0.002]))
    angle = 2 * np.pi * (np.arange(n) + 0.4 * rng.random(n)) / n
    return centre + size * rng.uniform(0.1, 1.0, (n, 1)) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@settings(deadline=None)
@given(stars(), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_the_part_of_a_polygon_in_a_tile(corners, z, seed):
    """Its area is that of the intersection, to half a unit along its border; so is the length of its border."""
    rng = np.random.default_rng(seed)
    x, y = (corners[rng.integers(len(corners))] * 2**z).astype(int).tolist()
    tile, made = tile_box(z, x, y), rings_of([corners])
    units = (corners * 2**z - [x, y]) * 4096
    whole, frame = Polygon(units).buffer(0), box(*((tile.box.reshape(2, 2) * 2**z - [x, y]) * 4096).ravel())
    wanted = whole.intersection(frame)
    # parts of a ring hang together along the sides
    near = wanted.boundary.union(frame.exterior)
    cut = clipped_polygons(made, tile)
    assert abs(cut.area.sum() / 2 - wanted.area) <= 2.0 * wanted.length + 16
    for i in range(len(cut.polygon)):
        points = cut.points[cut.first[i] : cut.first[i + 1]]
        assert (points[0] != points[-1]).any()
        assert all(frame.buffer(0.5).covers(Point(point)) for point in points.tolist())
        assert all(near.distance(Point(point)) < 1.5 for point in points.tolist())
    lines = clipped_lines(made, tile)
    border = LineString(np.concatenate([units, units[:1]])).intersection(frame)
    found = [lines.points[lines.first[i] : lines.first[i + 1]] for i in range(len(lines.polygon))]
    assert all(border.distance(Point(point)) < 1.5 for line in found for point in line.tolist())
    length = sum(LineString(line).length for line in found)
    assert length <= border.length + 2.0 * len(corners) + 2
    assert length >= border.length - 4.0 * len(corners) - 2 - 1.5 * sum(map(len, found))


def square(west, north, east, south):
    return [(west, north), (east, north), (east, south), (west, south)]


def test_holes_stand_behind_the_rings_that_they_are_in():
    """Each hole behind its own outer ring, whatever the order that they came in; and a hole that fills a tile."""
    outer, other = square(0.1, 0.1, 0.4, 0.4), square(0.5, 0.5, 0.9, 0.9)
    first, second = square(0.2, 0.2, 0.3, 0.3)[::-1], square(0.6, 0.6, 0.7, 0.7)[::-1]
    made = rings_of([first, outer, second, other], [0, 4])
    cut = clipped_polygons(made, tile_box(0, 0, 0))
    assert (cut.area > 0).tolist() == [True, False, True, False]
    boxes = [cut.points[cut.first[i] : cut.first[i + 1]] for i in range(4)]
    for ring, hole in (boxes[:2], boxes[2:]):
        assert Polygon(ring).contains(Polygon(hole))
    inside = clipped_polygons(made, tile_box(6, 16, 16))
    assert len(inside.polygon) == 0


@pytest.mark.parametrize("z", [0, 4, 12])
def test_a_tile_reaches_a_little_beyond_its_sides_and_never_beyond_the_map(z):
    """So that outlines of neighbouring tiles meet, and globes can close their poles at the map's rim."""
    for x, y in ((0, 0), (2**z - 1, 2**z - 1), (2**z // 2, 2**z // 3)):
        xmin, ymin, xmax, ymax = tile_box(z, x, y).box.tolist()
        edge = BUFFER / 4096 / 2**z
        assert (xmin, xmax) == pytest.approx((x / 2**z - edge, (x + 1) / 2**z + edge), abs=1e-15)
        assert (ymin, ymax) == pytest.approx((max(y / 2**z - edge, 0), min((y + 1) / 2**z + edge, 1)), abs=1e-15)


def test_a_ring_over_the_antimeridian_stands_at_both_edges():
    """And a tile beside it has none of it."""
    space = space_of()
    lonlat = np.array([(170.0, 0.0), (-170.0, 0.0), (-170.0, 9.0), (170.0, 9.0), (170.0, 0.0)])
    made = rings_on_map(frame_of(space, None), space.vectors(lonlat), np.array([0, 5]), np.array([0, 1]))
    west, east = (clipped_polygons(made, tile_box(3, x, 3)) for x in (0, 7))
    assert west.area.sum() == pytest.approx(east.area.sum(), rel=1e-3)
    assert west.points[:, 0].min() == -BUFFER
    assert east.points[:, 0].max() == 4096 + BUFFER
    assert west.area.sum() / 2 == pytest.approx((10 / 45 * 4096 + BUFFER) * 9.1 / 45 * 4096, rel=0.01)
    assert len(clipped_polygons(made, tile_box(3, 4, 3)).area) == 0


def test_a_ring_round_a_pole_is_closed_over_it():
    """Round either, and round both: what it holds is what lies on its left, in each tile once."""
    space, around = space_of(), np.linspace(0.0, 2.0 * np.pi, 7)
    for tilt, south in ((0.3, False), (0.3, True), (1.4, False)):
        ring = np.stack(
            [np.sin(tilt) * np.cos(around), np.sin(tilt) * np.sin(around), np.full(7, np.cos(tilt))], axis=1
        )
        ring[-1] = ring[0]
        ring = ring[::-1] * [1, 1, -1] if south else ring
        made = rings_on_map(frame_of(space, None), ring, np.array([0, 7]), np.array([0, 1]), tolerance=1e-4)
        assert made.winding.tolist() == [-1 if south else 1]
        assert made.turned_out.tolist() == [south]
        whole = clipped_polygons(made, tile_box(0, 0, 0))
        rim = float(made.points[:, 1].mean())
        share = 1 - rim if south else rim
        assert whole.area.sum() / 2 == pytest.approx(share * 4096 * (4096 + 2 * BUFFER), rel=0.02)
        poles = [clipped_polygons(made, tile_box(3, x, 7 if south else 0)) for x in range(8)]
        assert all(len(cut.area) >= 1 for cut in poles)
        assert all(cut.area.sum() > 0 for cut in poles)
        lines = clipped_lines(made, tile_box(0, 0, 0))
        assert lines.points[:, 1].min() > 0
        assert lines.points[:, 1].max() < 4096


def test_thinned_rings_look_the_same_up_to_their_zoom():
    """From a fraction of the points; ends of rings stay, and so do sharp corners."""
    angle = np.linspace(0.0, 2.0 * np.pi, 900, endpoint=False)
    round_one = 0.5 + 0.2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    made = rings_of([round_one, square(0.1, 0.1, 0.2, 0.2)])
    few = thin_for_zoom(made, 1)
    assert len(few.points) < len(made.points) / 3
    assert (few.points[few.first[:-1]] == made.points[made.first[:-1]]).all()
    assert (few.points[few.first[1:] - 1] == made.points[made.first[1:] - 1]).all()
    assert few.points[few.first[1] :] == pytest.approx(made.points[made.first[1] :])
    for z, x, y in ((0, 0, 0), (1, 0, 1), (1, 1, 0)):
        as_it_is, as_it_looks = (clipped_polygons(one, tile_box(z, x, y)) for one in (made, few))
        ring = Polygon(as_it_is.points[as_it_is.first[0] : as_it_is.first[1]])
        corners = as_it_looks.points[as_it_looks.first[0] : as_it_looks.first[1]].tolist()
        assert all(ring.exterior.distance(Point(corner)) < 1.5 for corner in corners)
        assert as_it_looks.area.sum() == pytest.approx(as_it_is.area.sum(), abs=2 * ring.length)
