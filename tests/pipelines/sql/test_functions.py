"""Table functions answer as joins do, in SQL, and say in one line what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import shapely

import dtoss
from dtoss.errors import InputError
from pipelines.join import knn_join, range_join
from pipelines.spark.session import cause_of
from pipelines.sql.functions import Told, around, inside, nearest
from pipelines.sql.register import register
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.sql.stores import KINDS, by_id, objects, rows_of, store_of

N = 200
SQUARE = "POLYGON((-20 -20, 40 -20, 40 30, -20 30, -20 -20))"
STRIP = {"type": "Polygon", "coordinates": [[[100, -50], [170, -50], [170, 60], [100, 60], [100, -50]]]}


@pytest.fixture(scope="module")
def taxis(spark, tmp_path_factory):
    """A store of seven partitions, registered as ``taxis``, and its index."""
    index, store = store_of(tmp_path_factory.mktemp("functions") / "store", N, 7)
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert register(spark, store, "taxis", columns=["name", "lon"]) == index.snapshot or index.snapshot is None
    yield index, store
    for view in ("taxis", "sites", "nobody"):
        spark.catalog.dropTempView(view)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)


@pytest.fixture(scope="module")
def places(spark):
    """Queries as a view: on objects, between them, without a position, and with one that is not legal."""
    _, positions, _ = objects(N)
    rng = np.random.default_rng(4)
    at = np.concatenate([positions[:40], rng.uniform([-180, -90], [180, 90], (60, 2))])
    table = pa.table({
        "Query_ID": pa.array(np.arange(103), pa.int32()),
        "LON": pa.array([*at[:, 0], None, 181.0, 5.0]),
        "Lat": pa.array([*at[:, 1], 1.0, 1.0, float("nan")]),
        "many": pa.array([*(np.arange(102) % 4), None], pa.int64()),
    })  # fmt: skip
    frame = spark.createDataFrame(table).repartition(3)
    frame.createOrReplaceTempView("places")
    yield frame
    spark.catalog.dropTempView("places")


def rows(frame):
    found = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["query_id"], row.get("rank") or 0, row["id"] or 0))


MORE = pytest.mark.deep("fewer arguments than the others have; each is read in test_what_is_wrong_is_one_line")


@pytest.mark.parametrize(
    ("arguments", "join", "value", "options"),
    [
        pytest.param("knn(TABLE(places))", knn_join, 1, {}, marks=MORE),
        pytest.param("knn(TABLE(places), 2, 3e6)", knn_join, 2, {"max_distance": 3e6}, marks=MORE),
        ("knn(TABLE(places), k => 'many', how => 'left')", knn_join, "many", {"how": "left"}),
        (
            "knn(TABLE(places) PARTITION BY many, k => 4, where => 'whole > 0', having => 'tiny <> 1')",
            knn_join, 4, {"where": "whole > 0", "having": "tiny <> 1"},
        ),
        pytest.param(
            "knn(TABLE(places), k => 2, exclude_self => true)", knn_join, 2, {"exclude_self": True}, marks=MORE
        ),
        ("range(TABLE(SELECT * FROM places WHERE many > 1), radius => 1500000.5, how => 'left')", range_join, 1500000.5,
         {"how": "left"}),
    ],
)  # fmt: skip
def test_functions_say_what_joins_say(spark, taxis, places, arguments, join, value, options):
    """Ids, distances, ranks, and columns of the objects; types of the columns."""
    frame = spark.sql(f"SELECT * FROM taxis_{arguments}")
    queries = places.where("many > 1") if "WHERE" in arguments else places
    queries = queries.selectExpr("CAST(Query_ID AS BIGINT) AS query_id", "LON AS lon", "Lat AS lat", "many")
    wanted = join(queries, taxis[1], value, columns=["name", "lon"], **options)
    assert frame.dtypes == wanted.dtypes
    found = rows(frame)
    assert found
    assert found == rows(wanted)


@pytest.mark.usefixtures("places")
def test_the_view_is_the_store(spark, taxis):
    """Joined with what functions find."""
    index, _ = taxis
    assert by_id(spark.table("taxis").toArrow().to_pylist()) == rows_of(index)
    text = (
        "SELECT q.query_id, t.tiny FROM taxis_knn(TABLE(places), k => 1) q JOIN taxis t ON t.id = q.id "
        "WHERE t.lat > 0 ORDER BY 1"
    )
    found = spark.sql(text).toArrow().to_pylist()
    assert found
    assert all(row["tiny"] is None or -128 <= row["tiny"] <= 127 for row in found)


def test_objects_within_zones(spark, taxis):
    """As WKT and GeoJSON by name, and WKB; a null zone and an empty one hold nothing, left keeps them."""
    index, _ = taxis
    text = json.dumps(STRIP)
    zones = f"SELECT * FROM VALUES (7, '{SQUARE}'), (8, '{text}'), (9, NULL) AS t(id, geometry)"
    found = rows(spark.sql(f"SELECT * FROM taxis_within(TABLE({zones}), where => 'tiny >= 0')"))
    square = {"type": "Polygon", "coordinates": [[[-20, -20], [40, -20], [40, 30], [-20, 30], [-20, -20]]]}
    hits = index.within([square, STRIP], where="tiny >= 0", columns=["name", "lon"])
    names, lons = hits.columns["name"].to_pylist(), hits.columns["lon"].to_pylist()
    wanted = [
        {"query_id": 7 + q, "id": one, "name": name, "lon": lon}
        for (q, one, _), name, lon in zip(hits, names, lons, strict=True)
    ]
    assert found == wanted
    assert {row["query_id"] for row in found} == {7, 8}
    polygon = shapely.to_wkb(shapely.from_wkt(SQUARE)).hex()
    table = f"SELECT * FROM VALUES (9, NULL), (7, X'{polygon}') AS t(id, wkb)"
    found = rows(spark.sql(f"SELECT * FROM taxis_within(TABLE({table}), where => 'tiny >= 0')"))
    assert found == [row for row in wanted if row["query_id"] == 7]
    left = rows(spark.sql(f"SELECT * FROM taxis_within(TABLE({zones}), where => 'tiny >= 0', how => 'left')"))
    assert left == [*wanted, {"query_id": 9, "id": None, "name": None, "lon": None}]


def test_texts_as_ids_and_planes(spark, tmp_path):
    """Ids of objects and of queries that are texts; x and y."""
    index, store = store_of(tmp_path / "store", 60, 2, texts=True, plane=True)
    register(spark, store, "sites", query_id="string", columns=["x", "y"])
    found = rows(
        spark.sql("SELECT * FROM sites_knn(TABLE(SELECT 'here' AS id, 1.5 AS x, CAST(2 AS INT) AS y), k => 3)")
    )
    hits = index.knn([1.5, 2.0], k=3)
    assert [(row["query_id"], row["id"], row["distance"]) for row in found] == [
        ("here", one, distance) for _, one, distance in hits
    ]
    assert [(row["x"], row["y"]) for row in found] == [tuple(place) for place in hits.positions.tolist()]
    numbered = spark.sql("SELECT query_id FROM sites_range(TABLE(SELECT 5 AS id, 0.0 AS x, 0.0 AS y), radius => 1e9)")
    assert {row["query_id"] for row in numbered.collect()} == {"5"}


def test_no_objects_and_no_queries(spark, tmp_path):
    """An empty store has no hits, and a table without rows none either."""
    register(spark, stored(dtoss.build([], []), tmp_path / "store"), "nobody")
    place = "SELECT 1 AS id, 2.0 AS lon, 3.0 AS lat"
    assert spark.sql(f"SELECT * FROM nobody_knn(TABLE({place}), k => 2)").count() == 0
    assert spark.sql(f"SELECT * FROM nobody_knn(TABLE({place}), k => 2, how => 'left')").count() == 1
    assert spark.sql(f"SELECT * FROM nobody_knn(TABLE({place} WHERE false), k => 2, how => 'left')").count() == 0


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What functions of a store know, without Spark."""
    _, store = store_of(tmp_path_factory.mktemp("told") / "store", 20)
    return Told(store, dtoss.open(store).snapshot)


def batch(**columns):
    return pa.record_batch({name: pa.array(values) for name, values in columns.items()})


PLACE = {"id": [1, 2], "lon": [1.0, 2.0], "lat": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("said", "ask"),
    [
        ("k is 0: a whole number of at least 1", lambda t: nearest(t, batch(**PLACE), pa.array([0, 0]), None)),
        ("k differs from row to row", lambda t: nearest(t, batch(**PLACE), pa.array([1, 2]), None)),
        ("no column nix for k or radius", lambda t: nearest(t, batch(**PLACE), pa.array(["nix", "nix"]), None)),
        ("no radius is given", lambda t: around(t, batch(**PLACE), pa.nulls(2))),
        ("kk is no argument of the function: k, max_distance, where", lambda t: nearest(
            t, batch(**PLACE), None, None, kk=pa.array([1, 1]))),
        ("exclude_self is no argument of the function: where, having, how are", lambda t: inside(
            t, batch(id=[1], geometry=[SQUARE]), exclude_self=pa.array([True]))),
        ("how is 'outer': inner or left", lambda t: nearest(
            t, batch(**PLACE), None, None, how=pa.array(["outer", "outer"]))),
        ("column 'nix' is not carried", lambda t: around(
            t, batch(**PLACE), pa.array([1, 1]), where=pa.array(["nix = 1", "nix = 1"]))),
        ("no column query_id or id for the id", lambda t: nearest(t, batch(lon=[1.0], lat=[1.0]), None, None)),
        ("'id' is string, and ids of queries are bigint here", lambda t: nearest(
            t, batch(id=["a"], lon=[1.0], lat=[1.0]), None, None)),
        ("no columns lon and lat, or x and y; its columns are id, lat", lambda t: nearest(
            t, batch(id=[1], lat=[1.0]), None, None)),
        ("column 'lon' is string: numbers are wanted", lambda t: nearest(
            t, batch(id=[1], lon=["1"], lat=[1.0]), None, None)),
        ("no column geometry or geom", lambda t: inside(t, batch(id=[1]))),
        ("'geometry' is int64: WKB", lambda t: inside(t, batch(id=[1], geometry=[1]))),
        ("holds no polygon in row 1", lambda t: inside(t, batch(id=[1, 2], geometry=[SQUARE, "POLYGONE"]))),
        ("holds no GeoJSON in row 0", lambda t: inside(t, batch(id=[1], geometry=["{"]))),
        ("zone 2: ", lambda t: inside(t, batch(id=[1, 2], wkb=[shapely.from_wkt(SQUARE).wkb, b"nix"]))),
        ("zone 2: a shape of type 'Point'", lambda t: inside(t, batch(id=[1, 2], geometry=[SQUARE, "POINT(1 2)"]))),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(told, said, ask):
    """Names, values and the way out."""
    with pytest.raises(InputError) as raised:
        list(ask(told))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_many_queries_are_answered_in_slices(told):
    """And the order of the queries stays."""
    asked = batch(id=np.arange(10), lon=np.arange(10.0), lat=np.arange(10.0))
    found = list(nearest(replace(told, at_a_time=3), asked, pa.array([2] * 10), None))
    assert [piece.num_rows for piece in found] == [6, 6, 6, 2]
    assert [one for piece in found for one in piece["query_id"].to_pylist()] == np.repeat(np.arange(10), 2).tolist()


def test_errors_reach_who_asked(spark, taxis, places):
    """Out of a task of Spark's, as one line of ours."""
    with pytest.raises(Exception, match="k is 0") as raised:
        spark.sql("SELECT * FROM taxis_knn(TABLE(places), k => 0)").collect()
    assert cause_of(raised.value) == "k is 0: a whole number of at least 1 is wanted"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "my taxis"}, "name is 'my taxis': letters, digits and underscores"),
        ({"columns": "lon"}, "columns is the string 'lon': give a list"),
        ({"columns": ["nix"]}, "column 'nix' is not carried by the objects; they carry lon, lat, "),
        ({"columns": ["lon", "lon"]}, "column 'lon' would stand twice"),
        ({"query_id": "int"}, "query_id is 'int': bigint or string"),
        ({"verify": "all"}, "verify is 'all': False, 'touch' or True"),
    ],
)
def test_what_is_wrong_with_a_registration(tmp_path, options, said):
    """Is said before the session is touched."""
    _, store = store_of(tmp_path / "store", 3)
    with pytest.raises(ValueError, match=said.replace("'", ".")):
        register(None, store, **options)


def test_the_kinds_of_these_tests_are_all_there(taxis):
    """Functions are tried with attributes of every kind."""
    assert set(taxis[0].column_names) == set(KINDS)
