"""Windows as files: regions of keys with their measures, and all ends of a time; read by GeoPandas and Arrow."""

from __future__ import annotations

import warnings

import geopandas
import numpy as np
import pyarrow.parquet as pq
import pytest
from shapely.geometry import Point

from dtoss.frames.polygon_frames import rings_of_values
from dtoss.geometry.space import space_of
from dtoss.partitioning.regions import Regions
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.keys_file import keys_from, of_polygons, of_regions, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home
from pipelines.command.main import main
from tests.dtoss.windows.storage.kept import PLANE, SECOND, commit, spec

SPHERE = space_of()


def windows(folder, tables, by, space, low, high, measures="rows,objects,speed"):
    """Windows of made keys with a batch of rows, positions from low to high."""
    wanted = spec(measures=measures, space=space)
    wanted = type(wanted)(**{**vars(wanted), "by": by, "keys": keys_from(space, tables).digest})
    home = Home(str(folder / "store"), "fleet")
    fixed = FixedSpec(wanted, write_keys(home, tables))
    fix(home, fixed)
    places = np.random.default_rng(4).uniform(low, high, (400, 2)).tolist()
    commit(home, fixed, [(i % 7, i * SECOND // 20, *place) for i, place in enumerate(places)])
    return open_windows(home.store, "fleet")


def written(folder, monkeypatch, *options):
    """The frame that the command writes."""
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(["export", "--store", "store", "--what", "windows", "--name", "fleet", "--out", "out.parquet", *options])
    assert not end.value.code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GeoPandas takes arcs for segments, and says so
        return geopandas.read_parquet("out.parquet")


def check_measures(frame, found, end=None):
    """Columns are those of wide rows, the end as a time."""
    wide = found.wide(end).to_pandas()
    assert list(frame.columns[:-1]) == list(wide.columns)
    assert (frame["end"].astype("int64").to_numpy() == wide["end"].to_numpy()).all()
    for name in wide.columns.drop("end"):
        assert frame[name].equals(wide[name]), name


def test_cells_of_sites_hold_what_is_nearest(tmp_path, monkeypatch):
    """Of two sites at one place the first has the cell; in a plane cells are cut beyond the outermost."""
    sites = np.array([[2.0, 2.0], [8.0, 3.0], [2.0, 2.0], [5.0, 8.0]])
    found = windows(tmp_path, of_sites(sites), "sites:shops", PLANE, 0, 10)
    frame = written(tmp_path, monkeypatch)
    check_measures(frame, found)
    assert frame["key"].tolist() == [0, 1, 3]
    assert frame.crs is None
    for x, y in np.random.default_rng(5).uniform(1, 9, (50, 2)).tolist():
        nearest = int(((sites - (x, y)) ** 2).sum(axis=1).argmin())
        assert [key for key, shape in zip(frame["key"], frame.geometry, strict=True) if shape.covers(Point(x, y))] == [
            nearest
        ]
    check_measures(written(tmp_path, monkeypatch, "--at", "1970-01-01T00:00:06"), found, 6)


def test_cells_of_pivots_and_polygons_on_the_sphere(tmp_path, monkeypatch):
    """Cells are arcs; polygons are those of the file, closed."""
    pivots = SPHERE.vectors(np.array([[8.0, 50.0], [9.0, 50.0], [8.5, 51.0]]))
    (tmp_path / "cells").mkdir()
    found = windows(tmp_path / "cells", of_regions(Regions(pivots, np.zeros(3))), "partition", SPHERE, 8, [9, 51])
    frame = written(tmp_path / "cells", monkeypatch)
    check_measures(frame, found)
    assert b'"edges": "spherical"' in pq.read_metadata("out.parquet").metadata[b"geo"]
    assert frame.crs.to_epsg() == 4326
    (tmp_path / "zones").mkdir()
    corners = [[[8, 50], [8.5, 50], [8.5, 51], [8, 51], [8, 50]], [[8.5, 50], [9, 50], [9, 51], [8.5, 51], [8.5, 50]]]
    rings = rings_of_values([{"type": "Polygon", "coordinates": [ring]} for ring in corners])
    found = windows(tmp_path / "zones", of_polygons(rings), "polygons:zones", SPHERE, [8, 50], [9, 51])
    frame = written(tmp_path / "zones", monkeypatch)
    check_measures(frame, found)
    assert [shape.bounds for shape in frame.geometry] == [(8, 50, 8.5, 51), (8.5, 50, 9, 51)]


def test_all_ends_of_a_time_are_written_without_shapes(tmp_path, monkeypatch, capfd):
    """And what cannot be written is one line."""
    found = windows(tmp_path, of_sites(np.array([[2.0, 2.0], [8.0, 3.0]])), "sites:shops", PLANE, 0, 10)
    monkeypatch.chdir(tmp_path)
    line = ["export", "--store", "store", "--what", "windows", "--name", "fleet", "--out", "ends.parquet"]
    with pytest.raises(SystemExit):
        main([*line, "--since", "1970-01-01T00:00:04"])
    table = pq.read_table("ends.parquet")
    wanted = found.wide_between(4)
    assert table.drop_columns("end").equals(wanted.drop_columns("end"))
    assert table["end"].cast("int64").to_pylist() == wanted["end"].to_pylist()
    capfd.readouterr()
    for options, said in [
        ([*line[:5], "--out", "x.parquet"], "--what windows needs --name: the windows of store are fleet"),
        ([*line[:-1], "x.fgb"], "windows are written as .parquet or .geoparquet"),
        ([*line, "--at", "1970-01-01T00:00:03"], "no window ends at 1970-01-01T00:00:03Z"),
        ([*line[:4], "cells", "--name", "fleet", "--out", "x.parquet"], "--name fleet is of windows"),
    ]:
        with pytest.raises(SystemExit) as end:
            main(options)
        out, err = capfd.readouterr()
        assert (end.value.code, out, err.count("\n"), said in err) == (2, "", 1, True), err
