"""What is drawn: as many cells as reach into a view, where they are, over the antimeridian and round the poles."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

import dtoss
from dtoss.errors import InputError
from tests.dtoss.scenes import random_sphere

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    """No figure stays open."""
    yield
    pyplot.close("all")


def on_sphere(n, partitions=1, seed=0):
    vectors = random_sphere(np.random.default_rng(seed), n)
    places = np.degrees(np.stack([np.arctan2(vectors[:, 1], vectors[:, 0]), np.arcsin(vectors[:, 2])], axis=1))
    return dtoss.build(np.arange(n), places, partitions=partitions), places


def paths(ax, number=-1):
    """What a collection of an Axes draws."""
    return ax.collections[number].get_paths()


def owners(index, ax, shapes, places):
    """How many of the shapes hold each place, turned as the view is."""
    west = ax.get_xlim()[0]
    x = west + (places[:, 0] - west) % 360.0 if index.space.metric == "sphere" else places[:, 0]
    return np.array([path.contains_points(np.stack([x, places[:, 1]], axis=1)) for path in shapes])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 40, 400])
def test_cells_of_the_world_tile_it(n):
    """Each place lies in one cell, whose object is the nearest; also round the poles and over the antimeridian."""
    index, places = on_sphere(n)
    ax = index.plot("cells", bounds=[-180, -90, 180, 90])
    shapes = paths(ax)
    assert len(shapes) == n
    assert ax.get_title(loc="left") == f"{n} cells"
    anywhere = on_sphere(300, seed=1)[1]
    inside = owners(index, ax, shapes, anywhere)
    # edges are drawn as chords of arcs: a place beside one may be on the other side
    assert (inside.sum(axis=0) == 1).mean() > 0.97
    site = owners(index, ax, shapes, places).argmax(axis=1)
    found = index.locate(anywhere)
    once = inside.sum(axis=0) == 1
    assert (site[inside.argmax(axis=0)] == found)[once].mean() > 0.97


@pytest.mark.parametrize("bounds", [[170, -20, -170, 20], [-30, 60, 60, 90], [10, 10, 11, 11]])
def test_cells_of_a_view_are_those_that_reach_into_it(bounds):
    """The same as of all cells: none is left out whose object lies beyond the view."""
    index, _ = on_sphere(3_000, partitions=4)
    ax = index.plot("cells", bounds=bounds)
    rng = np.random.default_rng(2)
    west, south, east, north = bounds
    east += 360 * (east < west)
    inside = np.stack([rng.uniform(west, east, 500), rng.uniform(south, north, 500)], axis=1)
    assert (owners(index, ax, paths(ax), inside).sum(axis=0) == 1).mean() > 0.97
    at = np.stack([(inside[:, 0] + 180) % 360 - 180, inside[:, 1]], axis=1)
    assert len(set(index.locate(at).tolist())) <= len(paths(ax)) < 1_000
    assert ax.get_xlim() == (west, east)


def test_a_plane_is_drawn_as_it_is():
    """Cells as `index.cell` has them, clipped to the bounds; a view beyond these shows none."""
    places = np.random.default_rng(3).normal(size=(60, 2))
    index = dtoss.build(np.arange(60), places, metric="plane", partitions=3)
    ax = index.plot("cells")
    assert len(paths(ax)) == 60
    assert (owners(index, ax, paths(ax), places).sum(axis=0) == 1).all()
    corners = {tuple(np.round(index.cell(i).mean(axis=0), 9)) for i in range(60)}
    assert corners == {tuple(np.round(path.vertices[:-1].mean(axis=0), 9)) for path in paths(ax)}
    assert ax.get_aspect() == 1.0
    assert len(paths(index.plot("cells", bounds=[50, 50, 51, 51]))) == 0
    ax = index.plot("regions", ax=ax)
    assert ax.get_title(loc="left") == "60 cells, 3 regions"
    assert (owners(index, ax, paths(ax), places).sum(axis=0) == 1).all()


def test_regions_tile_the_world():
    """Each object lies in one of them."""
    index, places = on_sphere(2_000, partitions=7)
    ax = index.plot("regions", bounds=[-180, -90, 180, 90])
    assert len(paths(ax)) == 7
    assert (owners(index, ax, paths(ax), places).sum(axis=0) == 1).mean() > 0.99
    assert len(paths(on_sphere(9)[0].plot("regions", bounds=[0, 0, 1, 1]))) == 1


def test_a_sample_of_many_objects_is_said_and_spread():
    """Each n-th along the curve, the same on every run; as many in each partition as it has its share of."""
    index, places = on_sphere(5_000, partitions=6)
    ax = index.plot(limit=1_000)
    drawn = np.asarray(ax.collections[0].get_offsets())
    assert ax.get_title(loc="left") == "1,000 of 5,000 objects"
    assert len(np.unique(drawn, axis=0)) == 1_000
    assert {tuple(place) for place in drawn.tolist()} <= {tuple(place) for place in places.tolist()}
    again = np.asarray(index.plot(limit=1_000).collections[0].get_offsets())
    assert (drawn == again).all()
    east = index.plot(bounds=[170, -90, -170, 90])
    count = int((np.abs(places[:, 0]) >= 170).sum())
    assert east.get_title(loc="left") == f"{count} objects"
    assert np.asarray(east.collections[0].get_offsets())[:, 0].min() >= 170


def test_layers_share_an_axes_and_a_view():
    """The second one is drawn where the first one looks, with a style of its own and a name for a legend."""
    index, _ = on_sphere(500, partitions=2)
    ax = index.plot("cells", bounds=[0, 0, 40, 40], edgecolor="black")
    assert index.plot(ax=ax, color="red", s=9.0) is ax
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 40), (0, 40))
    assert {label.split()[-1] for label in ax.get_legend_handles_labels()[1]} == {"cells", "objects"}
    ax.legend()
    assert ax.collections[0].get_edgecolor()[0, :3].tolist() == [0, 0, 0]
    assert ax.get_xlabel() == "longitude, degrees"


def test_positions_compared_on_the_sphere_are_drawn_in_degrees():
    """Of a projected CRS; a cell that no such CRS could say is drawn all the same."""
    places = np.random.default_rng(4).normal([500_000, 5e6], 1_000, (30, 2))
    index = dtoss.build(np.arange(30), places, crs="EPSG:32610", metric="sphere", partitions=2)
    ax = index.plot()
    lonlat = np.asarray(ax.collections[0].get_offsets())
    assert (np.abs(lonlat - [-123, 45.15]) < 0.1).all()
    index.plot("cells", ax=ax)
    assert len(paths(ax)) == 30
    index.plot("regions", ax=ax)


@pytest.mark.parametrize("crs", [None, "none"])
@pytest.mark.parametrize("wide", [0.02, 0.1, 0.3, 2.0])
def test_numbers_along_an_axis_do_not_overlap(crs, wide):
    """Of data that is tall, too."""
    rng = np.random.default_rng(5)
    places = np.stack([rng.uniform(-122.4, -122.4 + 0.2 * wide, 50), rng.uniform(37.7, 37.9, 50)], axis=1)
    ax = dtoss.build(np.arange(50), places if crs is None else places * 4e4, crs=crs).plot()
    ax.figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
    low, high = ax.bbox.x0 - 1, ax.bbox.x1 + 1
    seen = sorted((box for box in boxes if low <= (box.x0 + box.x1) / 2 <= high), key=lambda box: box.x0)
    assert seen
    assert all(one.x1 < other.x0 for one, other in pairwise(seen))


def test_an_empty_index_has_axes():
    for what in ("objects", "cells", "regions"):
        assert "0 " in dtoss.build([], np.zeros((0, 2))).plot(what).get_title(loc="left") or what == "regions"
    empty = dtoss.build([], np.zeros((0, 2)), metric="plane", bounds=[0, 0, 1, 1])
    assert empty.plot("cells").get_title(loc="left") == "0 cells"


def test_what_cannot_be_drawn_is_said(monkeypatch):
    """Too many cells, bounds that are none, another layer, no matplotlib: each in a line, before a figure is made."""
    index, _ = on_sphere(50)
    with pytest.raises(ValueError, match=r"more than 20 cells lie in this view: draw a smaller one \(bounds=\)"):
        index.plot("cells", limit=20)
    with pytest.raises(ValueError, match="what is 'sites': objects, cells or regions are wanted"):
        index.plot("sites")
    for bounds in ([0, 0, 1], [0, 0, 0, 0], [0, 5, 1, 1], [-190, 0, 0, 1], [0, 0, 1, np.nan], [0, 0, 1, 91]):
        with pytest.raises(ValueError, match="bounds are"):
            index.plot(bounds=bounds)
    with pytest.raises(ValueError, match="limit is 0"):
        index.plot(limit=0)
    assert not pyplot.get_fignums()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"index.plot\(\) needs matplotlib.*dtoss\[plot\]"):
        index.plot()


def test_pictures_are_drawn_without_a_warning(tmp_path):
    """Warnings are errors here; each kind on one Axes, and some ink on paper."""
    index, _ = on_sphere(300, partitions=3)
    ax = index.plot("cells", bounds=[100, -50, -100, 50])
    index.plot("objects", ax=ax)
    index.plot("regions", ax=ax)
    ax.figure.savefig(tmp_path / "a.png")
    picture = pyplot.imread(tmp_path / "a.png")
    assert (picture[:, :, 0] < 0.9).mean() > 0.01
