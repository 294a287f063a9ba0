"""Places of questions as frames and points: the answers of arrays, bit for bit, in every method that takes places."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.frames.arrow_tables import arrow_of, table_of
from dtoss.frames.coordinates import locate_rows, points_of
from tests.dtoss.answering import answering
from tests.dtoss.frames import ways_in
from tests.dtoss.strategies import lonlat, planar

XY = np.array([[8.0, 50.0], [9.0, 51.0], [10.0, 52.0], [8.5, 50.5]])


@pytest.fixture(scope="module")
def index():
    rng = np.random.default_rng(0)
    return dtoss.build(np.arange(300), rng.uniform([5.0, 47.0], [12.0, 54.0], (300, 2)), partitions=3)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    return dtoss.build(np.arange(300), rng.uniform(-100.0, 100.0, (300, 2)), crs="EPSG:32610")


def series(crs="EPSG:4326"):
    return gpd.GeoSeries(gpd.points_from_xy(*XY.T), crs=crs)


def answers(index, places):
    """All that an index says of places."""
    yield index.knn(places, k=3)
    yield index.knn(places, k=2, where="id > 5", threads=2)
    yield index.range(places, 60_000.0)
    yield from index.range_batches(places, 90_000.0, batch_size=7)
    yield index.count(places, 60_000.0).tolist()
    yield index.locate(places).tolist()
    yield index.reverse_nearest(places)


@pytest.mark.parametrize("metric", ["sphere", "plane"])
@settings(deadline=None)
@given(data=st.data())
def test_points_of_each_kind_are_their_coordinates(metric, data):
    """Poles, the antimeridian, duplicates, none at all, in any library and encoding."""
    positions = data.draw(lonlat(9) if metric == "sphere" else planar(9))
    crs = data.draw(st.sampled_from(["EPSG:4326", "EPSG:32610", None]))
    way = data.draw(st.sampled_from(ways_in.POINTS))
    held = ways_in.as_points(positions, crs, way)
    if table_of(held) is not None:
        table = table_of(held)
        held = table.geometries[table.active]
    if len(positions) == 0 and way in ("list", "array", "Series"):
        return  # nothing says that they are points
    found, named = points_of(held)
    assert found.tobytes() == positions.tobytes()
    assert (found.dtype, found.flags.c_contiguous) == (np.float64, True)
    assert named == (None if way in ("list", "array", "Series") else crs)


def test_each_method_takes_each_kind_of_places(index):
    """The row is the query, whatever an index says."""
    table = pd.DataFrame({"speed": 1, "Latitude": XY[:, 1], "LONGITUDE": XY[:, 0]}, index=list("abcd"))
    ways = [
        series(), series().set_axis([9, 9, 3, 1]), series().values, series().to_frame("p").set_geometry("p"),
        list(series()), tuple(series()), np.array(series()), pd.Series(list(series())), series("OGC:CRS84"),
        series().to_arrow(), series().to_arrow(geometry_encoding="geoarrow", interleaved=False),
        pa.table(series().to_frame("p").set_geometry("p").to_arrow(index=False)),
        table, pl.from_pandas(table), pa.Table.from_pandas(table), pa.RecordBatch.from_pandas(table),
        duckdb.sql("select * from table_of_places", connection=_with(table)),
        ways_in.OnlyStream(pa.Table.from_pandas(table)),
        {"lat": XY[:, 1], "lon": XY[:, 0].tolist()}, pd.DataFrame(XY, columns=["a", "b"]),
        table.astype({"Latitude": "double[pyarrow]", "LONGITUDE": "Float64"}),
    ]  # fmt: skip
    expected = list(answers(index, XY))
    for places in ways:
        assert list(answers(index, places)) == expected, type(places)
    for one in (series()[1], [series()[1]], {"lat": 51.0, "lon": 9.0}, table.iloc[1][["LONGITUDE", "Latitude"]]):
        assert list(answers(index, one)) == list(answers(index, XY[1]))


def _with(table):
    connection = duckdb.connect()
    connection.register("table_of_places", table)
    return connection


def test_a_reader_is_read_once(index):
    """Also by an index of a server, which checks places again where the snapshot is another."""
    table = pa.table({"lon": XY[:, 0], "lat": XY[:, 1]})
    assert index.knn(table.to_reader(), k=2) == index.knn(XY, k=2)
    with answering(index) as server:
        there = dtoss.connect(server.url)
        assert there.knn(table.to_reader(), k=2) == index.knn(XY, k=2)
        with pytest.raises(ValueError, match=r"positions row 0 is \(8, 91\)"):
            there.knn(pa.table({"lon": [8.0], "lat": [91.0]}).to_reader())


def test_an_index_of_a_server_takes_them_too(index):
    """The same answers, and the same errors."""
    with answering(index) as server:
        there = dtoss.connect(server.url)
        frames = (series().to_frame("p").set_geometry("p"), pl.DataFrame(XY, ["x", "y"]))
        for places in (series(), list(series()), *frames):
            assert list(answers(there, places)) == list(answers(index, XY))
        assert there.knn(series()[0], k=3) == index.knn(XY[0], k=3)
        for ours in (index, there):
            with pytest.raises(ValueError, match=r"places are in EPSG:32610 and the index in EPSG:4326: transform"):
                ours.knn(series("EPSG:32610"))


WRONG = [
    ("index", series("EPSG:32610"), {}, r"in EPSG:32610 and the index in EPSG:4326: .*, gdf.to_crs\('EPSG:4326'\)"),
    ("index", series().to_crs(3857).to_arrow(), {}, "places are in EPSG:3857 and the index in EPSG:4326"),
    ("index", series(None), {}, r"the places name no CRS .*: gdf.set_crs\('EPSG:4326'\) or crs= says that they are in"),
    ("index", series(None), {"crs": "EPSG:3857"}, "crs 'EPSG:3857' of the query is not 'EPSG:4326' of the snapshot"),
    ("index", series(), {"crs": "EPSG:1"}, "EPSG:1 is not one that pyproj reads"),
    ("index", [*series(), shapely.box(0, 0, 1, 1)], {}, r"1 of 5 geometries \(row 4\) is Polygon: points are wanted"),
    ("index", [*series(), None], {}, r"1 of 5 geometries \(row 4\) is missing or empty"),
    ("index", [*series(), (1.0, 2.0)], {}, "some of the places are no geometries"),
    ("index", gpd.GeoSeries([shapely.Point(0, 91)], crs=4326), {}, r"positions row 0 is \(0, 91\)"),
    ("index", pl.DataFrame({"lon": [1.0, None], "lat": [1.0, 1.0]}), {}, "1 of 2 rows have no lon or no lat, row 1"),
    ("plane", series(), {}, "places are in EPSG:4326 and the index in EPSG:32610"),
    ("plane", pd.DataFrame(XY, columns=["lon", "lat"]), {}, "lon and lat are degrees and the index is in EPSG:32610"),
]


@pytest.mark.parametrize(("which", "places", "told", "message"), WRONG)
def test_another_crs_is_an_error_and_never_a_transformation(request, which, places, told, message):
    """And what is no place, each in one line."""
    asked = request.getfixturevalue(which)
    for ask in (asked.knn, lambda p, **t: asked.range(p, 1.0, **t), asked.locate, asked.reverse_nearest):
        with pytest.raises(ValueError, match=message) as said:
            ask(places, **told)
        assert "\n" not in str(said.value)


def test_places_without_a_crs_are_taken_as_they_are(index, plane):
    """Points of shapely, columns x and y; a frame that could name one by crs=, or where the index has none."""
    assert index.knn(series(None), crs="EPSG:4326") == index.knn(XY)
    assert index.knn(series(None), crs=series().crs) == index.knn(XY)
    assert plane.knn(list(series())) == plane.knn(XY)
    assert plane.knn(pd.DataFrame(XY, columns=["X", "Y"])) == plane.knn(XY)
    bare = dtoss.build(pd.DataFrame(XY, columns=["lon", "lat"]), metric="plane")
    assert bare.knn(series(None)) == bare.knn(pd.DataFrame(XY, columns=["lon", "lat"])) == bare.knn(XY)


@given(st.lists(st.integers(-180 * 10**7, 180 * 10**7), min_size=1, max_size=9))
def test_decimals_are_the_nearest_floats(digits):
    """Of seven places; Arrow's own cast misses by a bit in a quarter of them."""
    values = [Decimal(one).scaleb(-7) for one in digits]
    column = pa.array(values, pa.decimal128(10, 7))
    at = locate_rows(table_of(pa.table({"x": column, "y": column})))
    assert at.positions[:, 0].tolist() == [float(value) for value in values]


def test_missing_points_are_rows_of_nan_where_they_may_be():
    """Null, None, and empty ones, of each encoding."""
    some = gpd.GeoSeries([shapely.Point(1, 2), None, shapely.Point(), shapely.Point(3, 4)], crs=4326)
    wkb = some.to_frame("p").set_geometry("p").to_arrow(index=False, geometry_encoding="WKB")
    for column in (some, list(some), some.to_arrow(), table_of(wkb).geometries["p"]):
        found, _ = points_of(column, missing=True)
        assert found[[0, 3]].tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert np.isnan(found[1:3]).all()
    axes = [pa.array([1.0, 0.0]), pa.array([2.0, 0.0])]
    apart = pa.StructArray.from_arrays(axes, ["x", "y"], mask=pa.array([False, True]))
    field = pa.field("p", apart.type, metadata={"ARROW:extension:name": "geoarrow.point"})
    table = table_of(pa.table([apart], schema=pa.schema([field])))
    assert np.isnan(points_of(table.geometries["p"], missing=True)[0]).all(axis=1).tolist() == [False, True]
    with pytest.raises(ValueError, match=r"int is no column of geometries"):
        points_of(3)


def test_frames_as_tables_of_arrow():
    """With the CRS of their geometries; None of what is no table."""
    made = gpd.GeoDataFrame({"a": [1, 2, 3, 4]}, geometry=series("EPSG:32610"))
    table = arrow_of(made)
    assert table.column_names == ["a", "geometry"]
    assert table.schema.field("geometry").metadata[b"ARROW:extension:name"] == b"geoarrow.point"
    again = table_of(table)
    assert points_of(again.geometries[again.active])[1] == "EPSG:32610"
    areas = arrow_of(made.set_geometry(made.buffer(1.0)))
    assert areas.schema.field("geometry").metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
    plain = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"])}, index=[5, 6])
    expected = {"a": [1, 2], "b": ["x", "y"]}
    ways = [plain, pl.from_pandas(plain), pa.Table.from_pandas(plain), pa.RecordBatch.from_pandas(plain), expected]
    ways += [pa.Table.from_pandas(plain).to_reader(), ways_in.OnlyStream(pa.Table.from_pandas(plain))]
    for way in ways:
        found = arrow_of(way).to_pydict()
        assert {name: found[name] for name in "ab"} == expected
    for nothing in (None, [1], np.zeros((2, 2)), pd.Series([1]), pl.Series([1]), series(), "a"):
        assert arrow_of(nothing) is None
    with pytest.raises(ValueError, match="column 'm' cannot be read"):
        arrow_of(pd.DataFrame({"m": [1, "a"]}))
