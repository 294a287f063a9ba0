"""What a frame cannot say is one line with the way out."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from shapely import Point, box

from dtoss import build

XY = np.array([[8.0, 50.0], [9.0, 51.0], [10.0, 52.0]])


def points(crs="EPSG:4326", **columns):
    return gpd.GeoDataFrame(geometry=gpd.points_from_xy(*XY.T), crs=crs).assign(**columns)


def shapes(*geometries):
    return gpd.GeoDataFrame(geometry=list(geometries), crs="EPSG:4326")


def frame(**columns):
    return pd.DataFrame({"lat": XY[:, 1], "lon": XY[:, 0]}).assign(**columns)


def arrow(made, encoding="WKB"):
    return pa.table(made.to_arrow(index=False, geometry_encoding=encoding))


NAMELESS = frame().set_axis(["a", "b"], axis=1)
PLAIN = frame().set_axis(["y", "x"], axis=1)
POLAR = pl.DataFrame({"lat": [1.0, None], "lon": [1.0, 1.0], "id": [1, 2]})
AREA = shapes(box(0, 0, 1, 1))
AT = [[1.0, 1.0]]

WRONG = [
    # which CRS
    (lambda: build(points(None)), r"column 'geometry' has no CRS: gdf.set_crs\('EPSG:4326'\) or crs= says it; metric="),
    (lambda: build([1, 2, 3], points(None)), "column of positions has no CRS"),
    (lambda: build(points(), crs="EPSG:32610"), "EPSG:32610 is not EPSG:4326 of column 'geometry': leave crs= out, or"),
    (lambda: build(points(), crs="EPSG:1"), "EPSG:1 is not one that pyproj reads"),
    (lambda: build(points(), metric="plane"), "'EPSG:4326' is in degrees, which are not a plane"),
    (lambda: build(frame(), crs="EPSG:32610"), "lon and lat are degrees and crs is EPSG:32610: x= and y= name columns"),
    (lambda: build(PLAIN), "x and y say no CRS: crs= names it, 'EPSG:4326' where they are degrees; metric='plane' is"),
    # which ids
    (lambda: build(pl.from_pandas(frame())), r"no column is called id: id= names one of lat, lon; frame.with_row"),
    (lambda: build(pa.Table.from_pandas(frame())), "no column is called id: id= names one of lat, lon$"),
    (lambda: build(frame(), id="taxi"), "id='taxi' is no column: there are lat, lon"),
    (lambda: build(frame(), id=[1, 2, 3]), "id is list: the name of a column is wanted"),
    (lambda: build(frame(id=pd.array([1, None, 3], "Int64"))), "1 ids are missing: every object needs one"),
    (lambda: build(frame(id=[4, 4, 3])), "1 ids stand more than once, 4 among them"),
    (lambda: build(frame(id=[0.5, 1.5, 2.5])), "ids are of type double: integers or strings are wanted"),
    (lambda: build(frame().set_axis([4, 4, 3])), r"index holds ids more than once, 4 among them: .*reset_index\(dro"),
    (lambda: build(frame(a=1, b=2).set_index(["a", "b"])), r"index has 2 levels, .*: id= names a column, or frame."),
    (
        lambda: build(frame().set_axis([0.5, 1.5, 2.5])),
        "in the index ids are of type double: .*; id= names a",
    ),
    (
        lambda: build(frame().set_axis([1, None, 3])),
        "in the index 1 ids are missing: every object needs one; id=",
    ),
    # where
    (lambda: build(NAMELESS), "no column says where objects are: .* or geometry= name them among a, b"),
    (lambda: build({}), "no column says where objects are: .* name them among none"),
    (lambda: build(frame().drop(columns="lon")), "a column 'lat' and not the other coordinate"),
    (lambda: build(NAMELESS, x="a"), "y= is missing: both name columns of coordinates"),
    (lambda: build(NAMELESS, y="a"), "x= is missing: both name columns of coordinates"),
    (lambda: build(NAMELESS, x="c", y="b"), "x='c' is no column: there are a, b"),
    (lambda: build(points(a=1, b=2), x="a", y="b", geometry="geometry"), "are two ways to say where objects are: name"),
    (lambda: build(points(), geometry="place"), "geometry='place' is no column: there are geometry"),
    (
        lambda: build(arrow(points(b=points().geometry)).rename_columns(["a", "b"])),
        r"several columns hold geometries \(a, b\): name one by geometry=",
    ),
    # what is no position
    (lambda: build(frame(lat="north")), "positions are not numbers: column 'lat' is text, cast it first"),
    (lambda: build(frame(lat=pd.Timestamp(0))), r"positions are not numbers: column 'lat' is of type timestamp\["),
    (lambda: build(frame(lat=True)), "positions are not numbers: column 'lat' is of type bool, cast it first"),
    (lambda: build(frame(lat=[None, 2.0, None])), r"2 of 3 rows have no lon or no lat, row 0 first: .*dropna\(subset="),
    (lambda: build(POLAR), r"1 of 2 rows have no lon or no lat, row 1 first: .*frame.drop_nulls\(\['lon', 'lat'\]\)"),
    (lambda: build(POLAR.to_arrow()), r"1 of 2 rows have no lon .*: leave them out first, table.filter\("),
    (lambda: build(frame(lat=91.0)), r"row 0 is \(8, 91\): lon in \[-180, 180\] and lat in \[-90, 90\] is legal"),
    (lambda: build({"lat": [1.0], "lon": [1.0, 2.0], "id": [1]}), "'lon' and 'lat' have 2 and 1 values, not as many"),
    (lambda: build(shapes(None, Point(1, 1), None)), r"2 of 3 geometries \(row 0 the first\) are missing or empty"),
    (lambda: build(shapes(Point(1, 1), Point(), None)), r"2 of 3 geometries \(row 1 the first\) are missing or empty"),
    (lambda: build(arrow(shapes(Point(1, 1), None, Point()))), r"2 of 3 geometries \(row 1 the first\) are missing or"),
    (lambda: build(shapes(Point(1, 1), box(0, 0, 1, 1), None)), r"1 of 3 .*\(row 1\) is Polygon: points are wanted"),
    (lambda: build(arrow(AREA)), r"1 of 1 geometries \(row 0\) is Polygon: points are wanted"),
    (lambda: build(arrow(AREA, "geoarrow")), r"1 of 1 geometries \(row 0\) is polygon: points are wanted"),
    (lambda: build(points(a=1), geometry="a"), "'a' is of type int64: geometries, or WKB or WKT, are wanted"),
    (lambda: build(frame(a=b"abc"), geometry="a", crs="EPSG:4326"), "geometries cannot be read: "),
    (lambda: build(frame(a="abc"), geometry="a", crs="EPSG:4326"), "geometries cannot be read: "),
    # which columns
    (lambda: build(pd.concat([frame(a=1), frame(a=1)[["a"]]], axis=1)), "2 columns are called 'a': rename or drop all"),
    (lambda: build(pd.concat([frame(), frame()], axis=1)), "2 columns are called 'lon': rename or drop all but one"),
    (lambda: build(pd.concat([frame(), pd.Series([1, 2, 3])], axis=1)), "a column is called 0: names are text"),
    (lambda: build(frame(a=1), columns="a"), "columns is the string 'a': a list of the frame's columns is wanted"),
    (lambda: build(frame(a=1), columns=["b"]), "columns names 'b', which the frame has not: there are lat, lon, a"),
    (lambda: build(frame(a=1), columns={"a": [1, 2, 3]}), "columns is a mapping: a list of the frame's columns"),
    # which way
    (lambda: build([1], AT, id="a"), "id='a' names a column of a frame, and there are ids and positions: leave it"),
    (lambda: build([1], AT, columns=["a"]), "columns beside ids and positions are a mapping: names to values"),
    (lambda: build(pl.LazyFrame({"lat": [1.0]})), r"a LazyFrame has not been read yet: give frame.collect\(\)"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_a_frame_cannot_say_is_one_line_with_the_way_out(wrong, message):
    """Each its own."""
    with pytest.raises(ValueError, match=message) as told:
        wrong()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("thing", [[1, 2], np.zeros((2, 2)), pd.Series([1, 2]), pl.Series([1, 2]), None, "taxis"])
def test_no_frame(thing):
    """A list by itself, an array, a column."""
    with pytest.raises(TypeError, match=f"there are no positions, and {type(thing).__name__} is no frame"):
        build(thing)
