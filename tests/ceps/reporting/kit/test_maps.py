"""Maps: what is cut off, what is drawn as one, and the bar of scale."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.path import Path

from ceps.reporting.kit.maps import Ground, clipped, crowded_view, map_chart, thinned, whole_view
from tests.ceps.reporting.reading import Reading


def area(ring):
    """Signed area of a polygon (v, 2)."""
    if not len(ring):
        return 0.0
    after = np.roll(ring, -1, axis=0)
    return float((ring[:, 0] * after[:, 1] - ring[:, 1] * after[:, 0]).sum() / 2)


@settings(deadline=None)
@given(st.integers(4, 12), st.integers(0, 10_000))
def test_clipping_cuts_what_a_fine_grid_says(corners, seed):
    """The area of a star within a window, against the share of dots that lie in both."""
    rng = np.random.default_rng(seed)
    turn = 2 * np.pi * (np.arange(corners) + rng.uniform(0, 0.9, corners)) / corners  # no two further apart than pi
    ring = rng.uniform(0.2, 2.0, corners)[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    window = (-0.7, -0.9, 0.8, 0.6)
    part = clipped(ring, window)
    assert not len(part) or (part.min(axis=0) >= np.array(window[:2]) - 1e-12).all()
    assert not len(part) or (part.max(axis=0) <= np.array(window[2:]) + 1e-12).all()
    x, y = np.meshgrid(np.linspace(-0.7, 0.8, 121)[:-1] + 0.00625, np.linspace(-0.9, 0.6, 121)[:-1] + 0.00625)
    inside = Path(np.concatenate([ring, ring[:1]])).contains_points(np.column_stack([x.ravel(), y.ravel()]))
    assert abs(abs(area(part)) - inside.mean() * 1.5 * 1.5) < 0.06


def ground_of(count, groups, seed=0):
    """Squares side by side on a grid, groups at random."""
    rng = np.random.default_rng(seed)
    side = int(np.sqrt(count))
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    corner = np.column_stack([x.ravel(), y.ravel()]).astype(np.float64) - side / 2
    square = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0)])
    group = rng.integers(0, groups, len(corner))
    names = [f"server {n}" for n in range(groups)]
    return Ground(names, group, [[square + one] for one in corner], None, np.ones(len(corner)), on_earth=False)


def painted(html, rows, columns):
    """The group at each cell of a map drawn in runs, -1 for none."""
    found = np.full((rows, columns), -1)
    for group, data in re.findall(r'<path stroke="var\(--s(\d+)\)" d="([^"]+)"', html):
        for x, y, wide in re.findall(r"M(-?\d+) (-?\d+)\.5h(\d+)", data):
            if 0 <= int(y) < rows:
                found[int(y), max(int(x), 0) : max(int(x) + int(wide), 0)] = int(group)
    return found


def test_areas_of_one_group_as_one_cover_the_same_ground():
    """In runs, each cell of the map has the group of the square that it lies in; the page stays below its bytes."""
    ground = ground_of(400, 7)
    view = (-10.0, -10.0, 10.0, 10.0)
    html = map_chart("A map.", ground, view, most_bytes=100)
    rows = 0
    pitch = float(re.search(r"scale\(([\d.]+)\)", html)[1])
    rows = round(1000 / pitch)
    got = painted(html, rows, rows)
    middle = (np.arange(rows) + 0.5) * 20 / rows
    column, row = np.floor(middle).astype(int), np.floor(20 - middle).astype(int)
    wanted = ground.group_of.reshape(20, 20)[row[:, None], column[None, :]]
    assert (got == wanted).mean() > 0.85
    clear = (np.abs(middle % 1 - 0.5) < 0.25)[:, None] & (np.abs(middle % 1 - 0.5) < 0.25)[None, :]
    np.testing.assert_array_equal(got[clear], wanted[clear])
    small = map_chart("A map.", ground_of(10_000, 60), (-50.0, -50.0, 50.0, 50.0), most_bytes=60_000)
    assert len(small) < 61_000


def test_few_areas_are_drawn_each():
    """One path a group with one closed ring an area, in the colour it is given, with its name to point at."""
    ground = replace(ground_of(25, 3), colours=np.array([5, 1, 0]))
    html = map_chart("A map.", ground, (-3.0, -3.0, 3.0, 3.0))
    assert html.count("z") >= 25
    for group, colour in enumerate((5, 1, 0)):
        data = re.search(rf'<path fill="var\(--s{colour}\)" d="([^"]+)"><title>server {group}</title>', html)[1]
        assert data.count("z") == (ground.group_of == group).sum()
    assert Reading.of(html).labels == ["A map."]


def test_places_are_dots_where_there_are_no_areas():
    """Each place within the view once, in the colour of its group."""
    places = np.array([(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (50.0, 50.0)])
    ground = Ground(["a", "b"], np.array([0, 1, 1, 0]), (), places, np.array([1.0, 2.0, 3.0, 4.0]))
    html = map_chart("A map.", ground, (-1.0, -1.0, 11.0, 11.0))
    assert len(re.findall(r"M\d+ \d+h0", html)) == 3


@pytest.mark.parametrize(
    ("view", "on_earth", "text"),
    [((-180.0, -60.0, 180.0, 60.0), True, "5,000 km"), ((2.0, 48.0, 2.5, 49.0), True, "5 km"),
     ((2.0, 48.0, 2.01, 48.01), True, "100 m"), ((0.0, 0.0, 40.0, 40.0), False, "5")],
)  # fmt: skip
def test_the_bar_is_as_long_as_it_says(view, on_earth, text):
    """Its share of the width is its length over that of the parallel in the middle."""
    ground = Ground([], np.empty(0, np.int64), (), np.zeros((0, 2)), np.empty(0), on_earth=on_earth)
    html = map_chart("A map.", ground, view)
    wide, shown = re.search(
        r'class="bar" style="width:([\d.]+)%"></div><div class="scale">([\d,.]+ ?k?m?)', html
    ).groups()
    assert shown.strip() == text
    length = float(shown.split()[0].replace(",", "")) * (1000 if "km" in shown else 1)
    across = view[2] - view[0]
    if on_earth:
        across *= 2 * np.pi * 6_371_000 / 360 * np.cos(np.radians((view[1] + view[3]) / 2))
    assert float(wide) / 100 == pytest.approx(length / across, rel=2e-3)
    assert 8 <= float(wide) <= 21


def test_the_crowded_view_holds_the_densest_place():
    """A city of 60 places among 200 of the world is found; evenly spread places have none."""
    rng = np.random.default_rng(1)
    world = np.column_stack([rng.uniform(-160, 160, 200), rng.uniform(-60, 60, 200)])
    city = np.array([13.4, 52.5]) + rng.normal(0, 0.05, (60, 2))
    places = np.concatenate([world, city])
    ground = Ground(["a"], np.zeros(260, np.int64), (), places, np.ones(260))
    view = crowded_view(ground, whole_view(ground))
    assert view[0] < 13.4 < view[2]
    assert view[1] < 52.5 < view[3]
    assert view[2] - view[0] < 2
    even = replace(ground, places=np.column_stack([np.tile(np.arange(20.0), 13), np.repeat(np.arange(13.0), 20)]))
    assert crowded_view(even, whole_view(even)) is None


@pytest.mark.parametrize("places", [[(0.0, 0.0), (0.1, 40.0)], [(0.0, 0.0), (90.0, 0.1)], [(7.0, 50.0)] * 2])
def test_a_map_of_places_in_a_row_is_no_strip(places):
    """It is given room, so that its width is 0.8 to 3.4 times its height, and all places lie within."""
    where = np.array(places)
    view = whole_view(Ground(["a"], np.zeros(2, np.int64), (), where, np.ones(2)))
    wide = (view[2] - view[0]) * np.cos(np.radians((view[1] + view[3]) / 2))
    assert 0.79 <= wide / (view[3] - view[1]) <= 3.4
    assert ((where >= view[:2]) & (where <= view[2:])).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 80), st.integers(0, 10_000), st.floats(0.01, 3.0))
def test_thinned_lines_stay_near(count, seed, slack):
    """Every point lies within the slack of what is left; ends stay."""
    line = np.cumsum(np.random.default_rng(seed).normal(0, 1, (count, 2)), axis=0)
    left = thinned(line, slack)
    assert (left[0] == line[0]).all()
    assert (left[-1] == line[-1]).all()
    a, b = left[:-1], left[1:]
    along = np.clip(((line[:, None] - a) * (b - a)).sum(2) / np.maximum(((b - a) ** 2).sum(1), 1e-300), 0, 1)
    away = np.linalg.norm(line[:, None] - a - along[:, :, None] * (b - a), axis=2).min(axis=1)
    assert away.max() <= slack * (1 + 1e-9)
