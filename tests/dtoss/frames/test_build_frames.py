"""Every frame gives the index that plain arrays give, bit for bit, or one line that says the way out."""

from __future__ import annotations

import duckdb
import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from tests.dtoss.frames import ways_in
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore:lon and lat look swapped")
XY = np.array([[8.0, 50.0], [9.0, 51.0], [10.0, 52.0]])


def points(crs="EPSG:4326", **columns):
    return gpd.GeoDataFrame(columns, geometry=gpd.points_from_xy(*XY.T), crs=crs)


def frame(**columns):
    return pd.DataFrame({"lat": XY[:, 1], **columns, "lon": XY[:, 0]})


@pytest.mark.parametrize("metric", ["sphere", "plane"])
@settings(max_examples=examples(100), deadline=None)  # the first one loads libraries
@given(data=st.data())
def test_each_frame_is_the_index_of_its_arrays(metric, data):
    """Whatever its types, the order of its columns, its index, its CRS, and the library that holds it."""
    positions = data.draw(lonlat(12) if metric == "sphere" else planar(12))
    positions = np.where(np.abs(positions) < 1e-9, 0.0, positions)  # float32 has no smaller ones that are legal
    ids = data.draw(ways_in.id_lists(len(positions)))
    made, told, ids, exact, others = data.draw(ways_in.pandas_ways(ids, positions, metric))
    partitions = data.draw(st.sampled_from([1, 1, 3]))
    space = {"crs": ways_in.CRS[metric]} if "x" in told else {"metric": "plane"} if metric == "plane" else {}
    arrays, values = (pa.array(ids) if ids else [], exact), ways_in.values_of(others)
    expected = dtoss.build(*arrays, columns=values, partitions=partitions, **space)
    ways_in.same_index(dtoss.build(made, partitions=partitions, **told), expected)

    crs = ways_in.CRS[metric]
    coordinates = [name for name in made if name not in others and str(name).lower() != "id"]
    shapes = ways_in.geo_frame_of(made.drop(columns=coordinates), exact, crs)
    told_id = {"id": told["id"]} if "id" in told else {}
    in_crs = dtoss.build(*arrays, columns=values, partitions=partitions, crs=crs)
    ways_in.same_index(dtoss.build(shapes, partitions=partitions, **told_id), in_crs)

    if any(str(name).lower() == "id" for name in made) and len(made):
        held = ways_in.as_library(made, data.draw(st.sampled_from(ways_in.LIBRARIES)))
        ways_in.same_index(dtoss.build(held, partitions=partitions, **told), expected)


def test_results_of_duckdb_are_frames():
    """By names of coordinates, and by geometries, which say no CRS."""
    made = frame(id=[7, 8, 9])
    assert not made.empty  # DuckDB finds it by its name
    index = dtoss.build(duckdb.sql("select id * 10 as id, lon, lat, lat > 50 as north from made"))
    assert index.knn([10.0, 52.0]).id.tolist() == [90]
    assert index.count([9.0, 51.0], 1e6, where="north").tolist() == [2]
    shapes = duckdb.sql("select id, ('POINT(' || lon || ' ' || lat || ')')::GEOMETRY as place from made")
    assert dtoss.build(shapes, crs="EPSG:4326")[8] == {"id": 8, "lon": 9.0, "lat": 51.0}
    with pytest.raises(ValueError, match=r"column 'place' has no CRS: .* crs= says it"):
        dtoss.build(duckdb.sql("select * from shapes"))


def test_files_of_geoparquet_say_their_crs(tmp_path):
    """Read by pyarrow alone: the column that is primary, and OGC:CRS84 as EPSG:4326."""
    import pyarrow.parquet as pq

    path = tmp_path / "taxis.parquet"
    made = points("EPSG:32610", id=[1, 2, 3])
    made["second"] = made.geometry.translate(1.0)
    made.to_parquet(path)
    with pytest.warns(UserWarning, match="column 'second' holds geometries"):
        index = dtoss.build(pq.read_table(path))
    assert (index.crs, index[1]["x"]) == ("EPSG:32610", 8.0)
    assert dtoss.build(pq.read_table(path), geometry="second", columns=[])[1]["x"] == 9.0
    points("OGC:CRS84", id=[1, 2, 3]).to_parquet(path, geometry_encoding="geoarrow")
    assert dtoss.build(pq.read_table(path)).crs == "EPSG:4326"


def test_a_crs_has_its_short_name_or_its_wkt():
    """What an authority calls exactly so, and nothing that is only near."""
    assert dtoss.build(points("EPSG:32610")).crs == "EPSG:32610"
    assert dtoss.build(points("ESRI:102003")).crs == "ESRI:102003"
    own = "+proj=utm +zone=10 +ellps=bessel +units=m"
    index = dtoss.build(points(own))
    assert index.crs.startswith("PROJCRS")
    assert index.space.metric == "plane"
    assert len(index.knn(points(own), k=2)) == 6
    assert dtoss.build(points("EPSG:32610"), crs="epsg:32610").crs == "epsg:32610"
    assert dtoss.build(points("EPSG:32610"), metric="sphere", crs=points("EPSG:32610").crs).space.to_lonlat
    assert dtoss.build(points(None), metric="plane").crs == "none"
    assert dtoss.build(points(None), crs="EPSG:4326").crs == "EPSG:4326"


def test_ids_and_positions_take_points_too():
    """The second argument may be a GeoSeries or a frame, and its CRS counts."""
    made = points("EPSG:32610")
    for positions in (made, made.geometry, made.geometry.to_arrow()):
        index = dtoss.build([5, 6, 7], positions, columns={"a": [1, 2, 3]})
        assert (index.crs, index[6]) == ("EPSG:32610", {"id": 6, "x": 9.0, "y": 51.0, "a": 2})
    assert dtoss.build(["a", "b", "c"], list(made.geometry)).crs == "EPSG:4326"
    with pytest.raises(ValueError, match=r"crs EPSG:4326 is not EPSG:32610 of the column of positions"):
        dtoss.build([5, 6, 7], made, crs="EPSG:4326")


def test_columns_choose_attributes():
    """None of them, some in an order of their own, those that positions are read from; the id column is none."""
    made = frame(id=[1, 2, 3], a=[1, 2, 3], b=[4, 5, 6])
    assert dtoss.build(made).column_names == ["a", "b"]
    assert dtoss.build(made, columns=[]).column_names == []
    found = dtoss.build(made, columns=["b", "a", "lon"])[2]
    assert list(found.items()) == [("id", 2), ("lon", 9.0), ("lat", 51.0), ("b", 5), ("a", 2), ("lon_", 9.0)]
    assert dtoss.build(made, id="a").column_names == ["id_", "b"]
    assert dtoss.build(made.set_index("id")).knn([9.0, 51.0]).id.tolist() == [2]


def test_what_no_attribute_can_be_is_left_out_with_a_warning():
    """All in one line at the line of the caller; named by columns= it is an error."""
    made = points(mixed=[1, "a", 2.5], odd=[1j, 2j, 3j], fine=[1, 2, 3])
    made["hull"] = made.geometry
    with pytest.warns(UserWarning, match=r"^3 columns are left out of the attributes: column 'mixed'") as told:
        index = dtoss.build(made)
    (said,) = told
    assert (said.filename, "\n" in str(said.message)) == (__file__, False)
    assert "'odd' cannot be read" in str(said.message)
    assert "'hull' holds geometries" in str(said.message)
    assert index.column_names == ["fine"]
    assert dtoss.build(made, columns=["fine"]).column_names == ["fine"]
    with pytest.raises(ValueError, match=r"column 'mixed' cannot be read .*cast its values to one type, or drop"):
        dtoss.build(made, columns=["mixed"])
    with pytest.raises(ValueError, match="column 'hull' holds geometries"):
        dtoss.build(made, columns=["hull"])
    many = pd.concat([frame()] + [pd.Series([1, "a", 2], name=f"m{i}") for i in range(9)], axis=1)
    with pytest.warns(UserWarning, match="^9 columns .*; 4 others; columns= names"):
        dtoss.build(many)


def test_values_that_are_kept_as_others():
    """Types that partitions cannot be cut from: views of text, run ends, JSON."""
    held = {
        "text": pa.array(["a", None, "c"], pa.string_view()),
        "bytes": pa.array([b"a", None, b"c"], pa.binary_view()),
        "runs": pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]),
        "json": pa.array(["1", "{}", "[]"], pa.json_()),
        "none": pa.nulls(3),
        "list": pa.array([[1], [], None]),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    made = pa.table({"id": [1, 2, 3], "lon": XY[:, 0], "lat": XY[:, 1], **held})
    for partitions in (1, 3):
        hits = dtoss.build(made, partitions=partitions).knn(XY, columns=list(held))
        for name, column in hits.columns.items():
            assert column.to_pylist() == (held[name].to_pylist() if name != "runs" else ["a", "a", "b"]), name
    index = dtoss.build(made)
    assert index.knn([8.0, 50.0], k=3, where="text is null or kind = 'a' and json = '1'").id.tolist() == [1, 2]
    polar = pl.from_pandas(frame(id=[1, 2, 3], c=["a", "b", "a"], e=["u", "v", "u"]))
    polar = polar.with_columns(pl.col("c").cast(pl.Categorical), pl.col("e").cast(pl.Enum(["u", "v"])))
    assert dtoss.build(polar).knn([8.0, 50.0], k=3, where="c = 'a' and e = 'u'").id.tolist() == [1, 3]


def test_z_is_left_out_and_said():
    """Of points with three coordinates, in shapely and in GeoArrow."""
    made = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*XY.T, z=[1.0, 2.0, 3.0]), crs="EPSG:32610")
    arrow = pa.table(made.reset_index(names="id").to_arrow(index=False, geometry_encoding="geoarrow"))
    for given_frame in (made, arrow):
        with pytest.warns(UserWarning, match="points have z, which is left out") as told:
            assert dtoss.build(given_frame)[1] == {"id": 1, "x": 9.0, "y": 51.0}
        assert [one.filename for one in told] == [__file__]


def test_points_among_objects_of_python():
    """A column of pandas without a CRS: what says where, if no coordinates do or geometry= names it; else left out."""
    bare = pd.DataFrame({"a": [1, 2, 3], "place": pd.Series(list(points().geometry), dtype=object)})
    assert dtoss.build(bare, crs="EPSG:32610")[1] == {"id": 1, "x": 9.0, "y": 51.0, "a": 2}
    with pytest.raises(ValueError, match="column 'place' has no CRS"):
        dtoss.build(bare)
    both = frame(id=[7, 8, 9], place=bare["place"].where(bare["a"] > 1, None)).assign(lon=0.0)
    with pytest.warns(UserWarning, match="^1 columns are left out of the attributes: column 'place' holds geometries"):
        assert dtoss.build(both)[8]["lon"] == 0.0
    assert dtoss.build(both.iloc[1:], geometry="place", crs=4326, columns=[])[8]["lon"] == 9.0


def test_objects_in_polars_are_left_out():
    """Arrow would be given their addresses."""
    made = pl.from_pandas(frame(id=[1, 2, 3])).with_columns(thing=pl.Series([object()] * 3, dtype=pl.Object))
    with pytest.warns(UserWarning, match="column 'thing' cannot be read .it holds objects of Python"):
        assert dtoss.build(made).column_names == []
