"""Regions of windows as GeoJSON; what pages and Prometheus are told as batches come."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.export.h3_cells import h3_cells
from dtoss.geometry.polygons import Rings
from dtoss.geometry.space import space_of
from dtoss.serve.observability.metrics import Metrics
from dtoss.serve.observability.shared_counts import SharedCounts
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.serve.windows.window_regions_geojson import Ground, of_h3, of_partitions, of_polygons, of_sites
from dtoss.serve.windows.window_responses import NAMES_SECONDS, UNREAD_SECONDS, WindowNews, families
from dtoss.tiles.map_frame import frame_of
from dtoss.windows.storage.keys_file import keys_from, write_keys
from dtoss.windows.storage.keys_file import of_h3 as made_of_h3
from dtoss.windows.storage.keys_file import of_sites as made_of_sites
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from tests.dtoss.serve.served import Asker, running
from tests.dtoss.windows.storage.kept import SITES, begin, commit, spec

SPHERE, PLANE = space_of(None, "sphere"), space_of("none", "plane")
WORLD = Ground(frame_of(SPHERE, None), None)


def holds(shape, places):
    """Whether each place is inside of an odd number of the rings of a MultiPolygon: crossings to the east."""
    x, y = np.asarray(places, float).T[..., None]
    crossed = np.zeros(len(places), np.int64)
    for ring in (ring for polygon in shape for ring in polygon):
        points = np.array(ring)
        (a, b), (c, d) = points[:-1].T, points[1:].T
        above = (b > y) != (d > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossed += (above & (x < a + (y - b) / (d - b) * (c - a))).sum(axis=1)
    return crossed % 2 == 1


def owners(drawn, places):
    """The keys whose shapes hold each place."""
    held = np.array([holds(shape, places) for shape in drawn.shapes])
    return [np.asarray(drawn.keys)[held[:, number]].tolist() for number in range(len(places))]


@pytest.mark.parametrize("sites", [1, 2, 30])
def test_regions_of_sites_are_the_places_that_are_nearest_to_each(sites):
    """All over the globe, each place in one; of two sites on one spot the first has it."""
    rng = np.random.default_rng(sites)
    at = rng.uniform([-180, -80], [180, 80], (sites, 2))
    at = np.concatenate([at, at[:1]])
    places = rng.uniform([-179, -84], [179, 84], (300, 2))
    drawn = of_sites(at, SPHERE, WORLD)
    gap = SPHERE.vectors(places) @ SPHERE.vectors(at).T
    best = np.sort(gap[:, :-1], axis=1)
    clear = np.flatnonzero(best[:, -1] - best[:, -2] > 1e-4) if sites > 1 else np.arange(len(places))
    assert len(clear) > 250
    assert owners(drawn, places[clear]) == [[int(key)] for key in gap[clear, :-1].argmax(axis=1)]
    assert drawn.shapes[-1] == []
    np.testing.assert_allclose(drawn.at, at)


def test_regions_of_partitions_are_what_the_index_says():
    """Weighted pivots, all of the globe."""
    at = np.random.default_rng(3).normal([10, 40], [40, 15], (400, 2)).clip([-180, -90], [180, 90])
    index = dtoss.build(np.arange(400), at, partitions=9)
    places = np.random.default_rng(4).uniform([-179, -84], [179, 84], (200, 2))
    want = index.partitioning.nearest(SPHERE.vectors(places)).tolist()
    assert owners(of_partitions(index.partitioning, WORLD), places) == [[one] for one in want]


def test_polygons_keep_their_holes():
    """Each stands in its middle."""
    square = np.array([[0.0, 0.0], [6.0, 0.0], [6.0, 6.0], [0.0, 6.0]])
    corners = np.concatenate([square, square / 3 + 2, square + np.array([10.0, 0.0])])
    rings = Rings(corners, np.array([0, 4, 8, 12]), np.array([0, 2, 3]), np.array([0, 1, 2]))
    drawn = of_polygons(rings, SPHERE, WORLD)
    assert owners(drawn, [(1.0, 1.0), (3.0, 3.0), (13.0, 3.0), (8.0, 3.0)]) == [[0], [], [1], []]
    assert np.abs(drawn.at - [[3.0, 3.0], [13.0, 3.0]]).max() < 0.1


BANDS = [(lon, lat) for lat in (30.0, -30.0) for lon in (0.0, 90.0, 180.0, -90.0)]
"""The middles of eight cells, a quarter turn wide, from the equator to 60 degrees; two more lie round the poles."""


class Cells(ModuleType):
    """A library of H3 with ten cells only, numbered from 1 on."""

    __path__ = ()

    @staticmethod
    def coordinates_to_cells(lat, lon, resolution):
        band = np.rint(np.asarray(lon) / 90.0).astype(np.int64) % 4 + 4 * (np.asarray(lat) < 0)
        return np.where(np.abs(lat) > 60, 9 + (np.asarray(lat) < 0), band + 1).astype(np.uint64)

    @staticmethod
    def cells_to_coordinates(cells):
        at = [[*BANDS, (0.0, 90.0), (0.0, -90.0)][cell - 1] for cell in cells.tolist()]
        return {"lng": [lon for lon, _ in at], "lat": [lat for _, lat in at]}

    @staticmethod
    def cells_to_wkb_polygons(cells):
        return [SimpleNamespace(as_py=lambda cell=cell: Cells.wkb(cell)) for cell in cells.tolist()]

    @staticmethod
    def wkb(cell):
        turns = np.array([-45.0, 45.0])
        if cell > len(BANDS):
            ring = [(lon, 60.0 if cell == 9 else -60.0) for lon in (-135.0, -45.0, 45.0, 135.0)]
            ring = ring if cell == 9 else ring[::-1]
        else:
            lon, lat = BANDS[cell - 1]
            low, high = (0.0, 60.0) if lat > 0 else (-60.0, 0.0)
            west, east = lon + turns
            ring = [(west, low), (east, low), (east, high), (west, high)]
        points = [((lon + 180.0) % 360.0 - 180.0, lat) for lon, lat in [*ring, ring[0]]]
        head = b"\1" + np.array([3, 1, len(points)], "<u4").tobytes()
        return head + np.array(points, "<f8").tobytes()


@pytest.fixture
def ten_cells(monkeypatch):
    """H3 is installed, and has ten cells."""
    monkeypatch.setitem(sys.modules, "h3ronpy", Cells("h3ronpy"))
    monkeypatch.setitem(sys.modules, "h3ronpy.vector", Cells("h3ronpy.vector"))


def test_cells_of_h3_are_drawn_over_the_antimeridian_and_round_poles(ten_cells):
    """Each place in its own cell; a cell stands at its middle."""
    places = np.random.default_rng(0).uniform([-180, -84], [180, 84], (500, 2))
    lat, beside = np.abs(places[:, 1]), np.abs(places[:, 0] / 90 - np.rint(places[:, 0] / 90))
    clear = places[((lat < 58) | (lat > 70)) & (beside < 0.49) & (lat > 1)]
    drawn = of_h3(np.arange(1, 11), WORLD)
    want = Cells.coordinates_to_cells(clear[:, 1], clear[:, 0], 0)
    assert set(want.tolist()) == set(range(1, 11))
    assert owners(drawn, clear) == [[int(key)] for key in want]
    np.testing.assert_allclose(drawn.at[:8], BANDS)
    middles, made = h3_cells(np.zeros(0, np.int64))
    assert (len(middles), made.first.tolist()) == (0, [0])


@pytest.mark.parametrize("resolution", [0, 5])
def test_cells_of_the_library_are_where_it_says(resolution):
    """All over the globe."""
    library = pytest.importorskip("h3ronpy.vector")
    places = np.random.default_rng(0).uniform([-180, -84], [180, 84], (200, 2))
    lon, lat = (np.ascontiguousarray(column) for column in places.T)
    keys = np.asarray(library.coordinates_to_cells(lat, lon, resolution)).astype(np.int64)
    assert owners(of_h3(np.unique(keys), WORLD), places) == [[int(key)] for key in keys]


def test_cells_of_h3_are_answered_as_they_are_seen(tmp_path, ten_cells, monkeypatch):
    """Those of the longest window of an end, called in hexadecimal; without the library the way out is said."""
    home = Home(str(tmp_path), "cells")
    wanted = replace(spec(space=SPHERE), by="h3:3", keys=keys_from(SPHERE, made_of_h3(3)).digest)
    fixed = FixedSpec(wanted, write_keys(home, made_of_h3(3)))
    fix(home, fixed)
    commit(
        home,
        fixed,
        [
            (1, 1_000_000, 10.0, 20.0),
            (1, 9_000_000, 10.0, 20.0),
            (2, 7_000_000, 179.0, 70.0),
            (2, 9_000_000, 10.0, 20.0),
        ],
    )
    globe = dtoss.build(np.arange(20), np.random.default_rng(0).uniform(0, 10, (20, 2)))
    with running(globe, store=str(tmp_path)) as server, Asker(server) as asker:
        status, headers, body = asker.raw("/windows/cells/regions")
        before = json.loads(asker.raw("/windows/cells/regions?end=2")[2])
        again = asker.raw("/windows/cells/regions", if_none_match=headers["etag"])
        monkeypatch.setitem(sys.modules, "h3ronpy", None)
        monkeypatch.delitem(sys.modules, "h3ronpy.vector")
        refused, _, why = asker.raw("/windows/cells/regions?end=4")
    said = [(one["properties"]["key"], one["properties"]["name"]) for one in json.loads(body)["features"]]
    assert (status, said, again[0]) == (200, [(1, "1"), (9, "9")], 304)
    assert [one["properties"]["key"] for one in before["features"]] == [1]
    assert refused == 400
    assert "a cell of H3 needs h3ronpy: pip install 'dtoss[h3]'" in json.loads(why)["detail"]


def test_regions_are_called_what_sites_are(tmp_path):
    """By the names of their file; one without a name has its number only."""
    home, wanted = Home(str(tmp_path), "shops"), spec()
    fixed = FixedSpec(wanted, write_keys(home, made_of_sites(SITES, pa.array(["Main Street", "Harbour", None]))))
    fix(home, fixed)
    commit(home, fixed, [(1, 5_000_000, 1.0, 1.0)])
    plane = dtoss.build(np.arange(20), np.random.default_rng(0).uniform(0, 10, (20, 2)), crs="none")
    with running(plane, store=str(tmp_path)) as server, Asker(server) as asker:
        told = json.loads(asker.raw("/windows/shops/regions")[2])["features"]
    assert [one["properties"].get("name") for one in told] == ["Main Street", "Harbour", None]


def test_regions_are_answered_once_for_the_same_keys(tmp_path):
    """The tag stays from batch to batch; windows of another CRS than the map's have no place on it."""
    plane = dtoss.build(np.arange(20), np.random.default_rng(0).uniform(0, 10, (20, 2)), crs="none")
    home, fixed = begin(tmp_path, name="fleet")
    commit(home, fixed, [(1, 5_000_000, 1.0, 1.0)])
    other = begin(tmp_path, replace(spec(), space=space_of("EPSG:2056", "plane")), name="swiss")
    commit(*other, [(1, 5_000_000, 1.0, 1.0)])
    with running(plane, store=str(tmp_path)) as server, Asker(server) as asker:
        status, headers, body = asker.raw("/windows/fleet/regions")
        commit(home, fixed, [(1, 9_000_000, 9.0, 1.0)])
        again = asker.raw("/windows/fleet/regions", if_none_match=headers["etag"])
        assert asker.raw("/windows/none/regions")[0] == 404
        swiss = json.loads(asker.raw("/windows/swiss/regions")[2])
    assert (status, again[0], again[2]) == (200, 304, b"")
    assert [one["properties"]["key"] for one in json.loads(body)["features"]] == list(range(len(SITES)))
    assert (swiss["drawable"], swiss["features"]) == (False, [])


def test_pages_are_told_of_batches_and_prometheus_counts_them(tmp_path):
    """Windows without a batch wait; what cannot be read is said, and looked at again later."""
    clock, why = [100.0], []
    opened = OpenWindows(str(tmp_path), why.append)
    news = WindowNews(opened, lambda: clock[0])

    def look(seconds=1.0):
        clock[0] += seconds
        return news.look()

    metrics = Metrics(SharedCounts(1))
    metrics.also(lambda: families(opened))
    assert (look(), news.told) == (False, None)
    assert b'windows="' not in metrics.text()
    home, fixed = begin(tmp_path, name="fleet")
    assert look(NAMES_SECONDS)
    assert (news.told["windows"], news.told["waiting"]) == ([], ["fleet"])
    commit(home, fixed, [(1, 20_000_000, 1.0, 1.0), (1, 20_000_000, 2.0, 1.0), (2, 21_000_000, 0.0, 1.0)])
    assert look()
    commit(home, fixed, [(3, 5_000_000, 1.0, 1.0)])
    assert look()
    (told,) = news.told["windows"]
    assert (told["batch"], told["counts"]["rows"], told["counts"]["counted"], told["counts"]["losers"]) == (2, 4, 2, 1)
    assert (told["watermark_us"], told["first_us"]) == (20_000_000, 20_000_000)
    assert told["lengths_us"] == [4_000_000, 10_000_000]
    assert (told["slide_us"], told["pane_us"]) == (2_000_000, 2_000_000)
    assert not look()
    text = metrics.text().decode()
    (reason,) = told["quarantined"]
    for line in (
        'dtoss_windows_rows_total{windows="fleet"} 4.0',
        'dtoss_windows_rows_counted_total{windows="fleet"} 2.0',
        'dtoss_windows_rows_losers_total{windows="fleet"} 1.0',
        f'dtoss_windows_rows_quarantined_total{{reason="{reason}",windows="fleet"}} 1.0',
        'dtoss_windows_batch{windows="fleet"} 2.0',
        'dtoss_windows_watermark_seconds{windows="fleet"} 20.0',
    ):
        assert line in text, (line, text)
    commit(home, fixed, [(1, 29_000_000, 9.0, 1.0)])
    path = Path(home.batches.path(3))
    whole = path.read_bytes()
    path.write_bytes(b"{")
    assert look()
    assert news.told["problem"]
    assert news.told["windows"] == [told]
    path.write_bytes(whole)
    assert not look()
    assert look(UNREAD_SECONDS)
    assert (news.told["problem"], news.told["windows"][0]["batch"]) == (None, 3)
    assert why
