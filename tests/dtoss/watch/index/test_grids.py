"""Frames, covers and levels: rectangles hold their places, cells hold their rectangles, a sample chooses the levels."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of
from dtoss.watch.index import cell_frame
from dtoss.watch.index.build_index import MOST_GRID_LEVELS, build, chosen_levels
from dtoss.watch.index.cell_frame import FINEST_LEVEL, GLOBE, frame_of, grid_positions
from dtoss.watch.index.covers import circle_rects, polygon_rects
from dtoss.watch.matching import grid_search
from dtoss.watch.subscription import CIRCLE
from tests.dtoss.watch.place_worlds import EARTH, RADII, SPHERE, SPOTS, asked, away, star, table_of


def plain(kernel):
    """A kernel as Python, in checked mode checked."""
    return getattr(kernel, "py_func", kernel)


row_of, column_of, columns_of = (plain(one) for one in (cell_frame.row_of, cell_frame.column_of, cell_frame.columns_of))
in_rectangle = plain(grid_search.in_rectangle)


def in_rects(rects, places):
    """Whether each place is in the rectangle of its row."""
    pairs = zip(rects, places.tolist(), strict=True)
    return [bool(in_rectangle(x, y, rect, True)) for rect, (x, y) in pairs]


@pytest.mark.checked
def test_cells_of_the_globe_grow_fewer_towards_the_poles():
    for level in (0, 1, 5):
        rows = 1 << level
        counts = [columns_of(GLOBE, level, row) for row in range(rows)]
        assert counts == counts[::-1]
        assert counts[rows // 2] == max(counts) <= 2 * rows
        assert min(counts) >= 1
        assert [row_of(GLOBE, level, y) for y in (-90.0, 90.0)] == [0, rows - 1]
        assert row_of(GLOBE, level, 1e9) == rows - 1
        for count in counts:
            assert [column_of(GLOBE, count, x) for x in (-180.0, 180.0)] == [0, count - 1]
    square = frame_of(space_of("none", "plane"), np.array([[1.0, 2.0, 5.0, 3.0]]))
    assert columns_of(square, 3, 0) == 8
    assert column_of(square, 8, -7.0) == 0


def test_frames_of_planes_hold_all_rectangles():
    plane = space_of("none", "plane")
    assert frame_of(plane, np.zeros((0, 4))).side == 1.0
    assert frame_of(plane, np.array([[3.0, 4.0, 3.0, 4.0]])).side == 1.0
    square = frame_of(plane, np.array([[0.0, 0.0, 8.0, 1.0], [-2.0, 5.0, 0.0, 6.0]]))
    assert (square.x, square.y) == (-2.0, 0.0)
    assert square.side >= 10.0


@pytest.mark.parametrize("seed", range(3))
def test_rectangles_hold_circles(seed):
    rng = np.random.default_rng(seed)
    centres = np.array([SPOTS[i] for i in rng.integers(len(SPOTS), size=300)])
    radius = np.array(RADII)[rng.integers(len(RADII), size=300)]
    rects = circle_rects(centres, SPHERE.vectors(centres), radius, SPHERE)
    for share in (0.0, 0.7, 1.0):
        angle = np.degrees(np.minimum(radius * share / EARTH, np.pi))
        border = np.concatenate(
            [away(*spot, [a], rng.uniform(0, 7, 1)) for spot, a in zip(centres.tolist(), angle.tolist(), strict=True)]
        )
        assert all(in_rects(rects, border))


@pytest.mark.parametrize("edges", ["spherical", "planar"])
@pytest.mark.parametrize("seed", range(3))
def test_rectangles_hold_the_edges_of_polygons(seed, edges):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        spot = SPOTS[rng.integers(len(SPOTS))]
        ring = star(rng, SPHERE, spot, float(rng.choice([1e-4, 1.0, 30.0, 80.0])))
        shapes = as_polygons({"type": "Polygon", "coordinates": [ring]}, SPHERE, edges)
        begins, ends = (shapes[0].straight or shapes[0]).edges()
        share = rng.random((len(begins), 1))
        along = begins * share + ends * (1 - share)
        along = along if edges == "planar" else SPHERE.positions(along)
        along = grid_positions(SPHERE, along, SPHERE.vectors(along))
        rects = polygon_rects(shapes, SPHERE)
        held = [in_rects(np.repeat(rect[None], len(along), axis=0), along) for rect in rects]
        assert np.any(held, axis=0).all(), json.dumps(ring)


def circles(lon, lat, radius):
    """A table of circles."""
    rows = zip(lon.tolist(), lat.tolist(), radius.tolist(), strict=True)
    return table_of([asked(f"{i:05}", CIRCLE, x=x, y=y, radius=r) for i, (x, y, r) in enumerate(rows)])


def test_sizes_choose_the_levels():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(-10, 10, 4000), rng.uniform(-10, 10, 4000)
    small = build(circles(lon, lat, np.full(4000, 50.0)), SPHERE, {}, False).arrays
    large = build(circles(lon, lat, np.full(4000, 50_000.0)), SPHERE, {}, False).arrays
    assert small["grid/levels"].max() > large["grid/levels"].max()
    mixed = build(circles(lon, lat, np.where(np.arange(4000) % 10, 50.0, 2e6)), SPHERE, {}, False).arrays
    assert 1 <= len(mixed["grid/levels"]) <= MOST_GRID_LEVELS
    # no circle takes a mass of cells, and none is left out
    assert len(mixed["grid/marks"]) < 40 * 4000
    assert set(mixed["grid/marks"][:, 0].tolist()) == set(range(4000))


def test_where_rows_are_counts():
    rng = np.random.default_rng(0)
    rects = np.concatenate([rng.uniform(0, 1, (3000, 2))] * 2, axis=1) + np.array([0, 0, 0.02, 0.02])
    near = chosen_levels(rects, GLOBE, rng.uniform(0, 1, (5000, 2)))
    away_from = chosen_levels(rects, GLOBE, rng.uniform(40, 80, (5000, 2)))
    assert near.levels.max() >= away_from.levels.max()
    assert chosen_levels(rects, GLOBE, only=9).levels.tolist() == [9]
    assert chosen_levels(rects[:0], GLOBE).levels.tolist() == [0]


def test_places_of_no_size_have_the_finest_levels_to_choose_from():
    plane = space_of("none", "plane")
    table = circles(np.zeros(5), np.zeros(5), np.zeros(5))
    built = build(table, plane, {"id": pa.int64()}, text=False)
    assert built.arrays["grid/levels"].max() <= FINEST_LEVEL
    assert len(built.arrays["grid/marks"]) == 5


def test_a_few_far_or_large_places_do_not_make_the_cells_of_a_plane_large():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 1000, (1000, 2))
    rects = np.concatenate([corners, corners + 1.0], axis=1)
    rects[[3, 500]] = [[-1e12, -1e12, 1e12, 1e12], [1e9, 1e9, 1e9, 1e9]]
    square = frame_of(space_of("none", "plane"), rects)
    assert 900 < square.side < 1010
    assert 0 <= square.x < 10


def test_places_at_one_spot_are_not_looked_at_by_rows_elsewhere():
    rects = np.tile([1.0, 1.0, 1.0001, 1.0001], (10_000, 1))
    assert chosen_levels(rects, GLOBE).levels.min() >= 12


@pytest.mark.parametrize("radius", [1e90, 1e300, 1.7e308])
def test_circles_of_a_plane_may_be_as_large_as_numbers_are(radius):
    plane = space_of("none", "plane")
    centres = np.array([[0.0, 0.0], [1e90, 0.0], [5.0, 5.0]])
    rects = circle_rects(centres, centres, np.full(3, radius), plane)
    assert np.isfinite(rects).all()
    square = frame_of(plane, rects)
    assert np.isfinite([square.x, square.y, square.side]).all()
    assert len(chosen_levels(rects, square).index) == 3
