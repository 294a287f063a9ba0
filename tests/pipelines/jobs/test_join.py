"""Joins in Spark say what the index says in process, row for row."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.store import Store
from pipelines.join import knn_join, range_join
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.stores import made

N, M = 2500, 300


@pytest.fixture(scope="module")
def objects():
    rng = np.random.default_rng(5)
    lonlat = np.round(np.array([179.99, 0.0]) + rng.normal(0, 0.05, (N, 2)), 3)
    lonlat[:, 0] = np.where(lonlat[:, 0] > 180, lonlat[:, 0] - 360, lonlat[:, 0])
    return pa.table({"id": rng.permutation(N), "lon": lonlat[:, 0], "lat": lonlat[:, 1], "n": np.arange(N)})


@pytest.fixture(scope="module")
def store(objects):
    return made(objects, partitions=7)


@pytest.fixture(scope="module")
def index(store):
    return dtoss.open(store)


@pytest.fixture(scope="module")
def places(objects):
    """On objects, between them, far away, at the poles."""
    rng = np.random.default_rng(6)
    on = np.stack([objects["lon"].to_numpy(), objects["lat"].to_numpy()], axis=1)[: M - 20]
    on[::2] = np.clip(on[::2] + rng.normal(0, 0.02, on[::2].shape), -180, 180)
    return np.concatenate(
        [on, np.stack([rng.uniform(-180, 180, 18), rng.uniform(-90, 90, 18)], 1), [[5, 90], [0, -90]]]
    )


@pytest.fixture(scope="module")
def queries(spark, places):
    """With a k and a radius each, spread over several input partitions."""
    return spark.createDataFrame(
        pa.table(
            {
                "query_id": np.arange(M),
                "lon": places[:, 0],
                "lat": places[:, 1],
                "k": pa.array(np.arange(M) % 6, pa.int32()),
                "r": np.arange(M) * 25.0,
            }
        )
    ).repartition(3)


def joined(frame):
    """Rows in the order (query, rank), which is not the order in which tasks give them."""
    rows = frame.toArrow().to_pylist()
    return sorted(rows, key=lambda row: (row["query_id"], row["rank"] or 0))


def in_process(hits):
    return [
        {"query_id": q, "id": i, "distance": d, "rank": r}
        for (q, i, d), r in zip(hits, hits.rank().tolist(), strict=True)
    ]


def test_knn_join_equals_the_index(spark, index, store, places, queries):
    """Ids, distances and ranks; types of the columns."""
    frame = knn_join(queries, store, 5)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("query_id", "bigint"), ("id", "bigint"), ("distance", "double"), ("rank", "int"),
    ]  # fmt: skip
    assert joined(frame) == in_process(index.knn(places, 5))
    near = joined(knn_join(queries, store, 5, max_distance=300.0))
    assert near == in_process(index.knn(places, 5, max_distance=300.0))
    assert len(near) < 5 * M


def test_range_join_equals_the_index(spark, index, store, places, queries):
    """A radius for all, and one for each query."""
    assert joined(range_join(queries, store, 900.0)) == in_process(index.range(places, 900.0))
    each = joined(range_join(queries, store, "r"))
    assert each == in_process(index.range(places, np.arange(M) * 25.0))


@pytest.mark.deep("tests/pipelines/jobs/test_join_worlds.py asks tasks with a k of each query")
def test_a_k_for_each_query(spark, index, store, places, queries):
    """A k of 0 has no hits."""
    wanted = [row for row in in_process(index.knn(places, 5)) if row["rank"] <= row["query_id"] % 6]
    assert joined(knn_join(queries, store, "k")) == wanted


def test_left_joins_keep_queries_without_hits(spark, index, store):
    """No position, an illegal one, no k, a k below 1, no radius, nothing near: one row of nulls each, or none."""
    table = pa.table(
        {
            "query_id": ["good", "null", "nan", "illegal", "no k", "k 0", "far"],
            "lon": [180.0, None, math.nan, 181.0, 180.0, 180.0, 0.0],
            "lat": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            "k": pa.array([2, 2, 2, 2, None, 0, 2], pa.int64()),
            "r": pa.array([1e4, 1e4, 1e4, 1e4, None, -1.0, 0.0], pa.float64()),
        }
    )
    frame = spark.createDataFrame(table)
    nothing = {"id": None, "distance": None, "rank": None}
    nearest = in_process(index.knn([[180.0, 0.0]], 2)), in_process(index.range([[180.0, 0.0]], 1e4))
    lefts = knn_join(frame, store, "k", max_distance=1e5, how="left"), range_join(frame, store, "r", how="left")
    for left, wanted in zip(map(joined, lefts), nearest, strict=True):
        empty = [row for row in left if row["query_id"] != "good"]
        assert [row for row in left if row["query_id"] == "good"] == [row | {"query_id": "good"} for row in wanted]
        assert sorted(row["query_id"] for row in empty) == sorted(table["query_id"].to_pylist()[1:])
        assert all(row == {"query_id": row["query_id"], **nothing} for row in empty)


def test_queries_that_can_have_no_hits_are_counted(spark, store):
    """Each for one reason, before the inner join drops them: on the sphere, in the plane, and for a projected CRS."""
    from pyspark.sql import Observation

    inf = math.inf
    table = pa.table(
        {
            "query_id": list(range(8)),
            "lon": [180.0, None, math.nan, 181.0, 180.0, -inf, 0.0, None],
            "lat": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 90.5, 99.0],
            "k": pa.array([2, 2, 2, 2, None, 2, 2, None], pa.int64()),
            "r": pa.array([1e4, 1e4, 1e4, 1e4, -1.0, 1e4, 1e4, math.nan], pa.float64()),
        }
    )
    frame = spark.createDataFrame(table)
    seen = [Observation() for _ in range(4)]
    assert len(joined(knn_join(frame, store, "k", observation=seen[0]))) == 2
    assert seen[0].get == {"queries": 8, "no_position": 3, "not_legal": 3, "no_k": 1}
    joined(range_join(frame, store, "r", observation=seen[1]))
    assert seen[1].get == {"queries": 8, "no_position": 3, "not_legal": 3, "no_radius": 1}
    assert len(joined(knn_join(frame, store, 1, how="left", observation=seen[2]))) == 8
    assert seen[2].get == {"queries": 8, "no_position": 3, "not_legal": 3}
    places = pa.table({"id": [1, 2], "x": [500_000.0, 501_000.0], "y": [4_000_000.0, 4_000_000.0]})
    projected = made(places, crs="EPSG:32610", metric="sphere", partitions=2)
    asked = pa.table({"query_id": [0, 1, 2], "x": [500_000.0, 1e9, inf], "y": [4_000_000.0, 1e9, 0.0]})
    rows = joined(knn_join(spark.createDataFrame(asked), projected, 2, observation=seen[3]))
    assert [(row["query_id"], row["id"]) for row in rows] == [(0, 1), (0, 2)]
    assert seen[3].get == {"queries": 3, "no_position": 0, "not_legal": 2}


def test_an_object_is_not_its_own_neighbour(spark, index, store, objects):
    """exclude_self leaves the query's own id out, and only that one; attributes come along."""
    frame = spark.createDataFrame(objects.slice(0, 200))
    rows = joined(knn_join(frame, store, 3, id="id", exclude_self=True, columns=["n"]))
    number = dict(zip(objects["id"].to_pylist(), objects["n"].to_pylist(), strict=True))
    place = {row["id"]: (row["lon"], row["lat"]) for row in objects.to_pylist()}
    wanted = []
    for own in sorted(objects["id"].to_pylist()[:200]):
        hits = [(i, d) for _, i, d in index.knn([place[own]], 4) if i != own][:3]
        wanted += [
            {"query_id": own, "id": i, "distance": d, "rank": r, "n": number[i]} for r, (i, d) in enumerate(hits, 1)
        ]
    assert rows == wanted


def test_positions_of_the_objects_are_columns(spark, index, store, objects, queries):
    """lon and lat of each hit; x is not known where they are degrees."""
    place = {row["id"]: (row["lon"], row["lat"]) for row in objects.to_pylist()}
    frame = range_join(queries, store, 900.0, columns=["lat", "n", "lon"])
    assert frame.columns == ["query_id", "id", "distance", "rank", "lat", "n", "lon"]
    rows = joined(frame)
    assert len(rows) > M
    assert [(row["lon"], row["lat"]) for row in rows] == [place[row["id"]] for row in rows]
    with pytest.raises(ValueError, match="column 'x' is not carried"):
        knn_join(queries, store, 2, columns=["x"])


def test_all_queries_at_one_place(spark, index, store):
    """More than a slice of them, in one partition."""
    frame = spark.range(60_000).selectExpr("id query_id", "180.0D lon", "0.0D lat")
    rows = knn_join(frame, store, 1).groupBy("id", "distance", "rank").count().toArrow().to_pylist()
    ((_, nearest, distance),) = list(index.knn([[180.0, 0.0]], 1))
    assert rows == [{"id": nearest, "distance": distance, "rank": 1, "count": 60_000}]


def test_a_join_stays_with_its_snapshot(spark, objects, tmp_path):
    """The snapshot is fixed when the join is made; another may become current before it runs."""
    store = made(objects, tmp_path / "store", partitions=2)
    frame = spark.createDataFrame(pa.table({"query_id": [0], "lon": [180.0], "lat": [0.0]}))
    before = knn_join(frame, store, 2)
    wanted = joined(before)
    stored(dtoss.build([7], [[1.0, 2.0]]), store)
    assert joined(before) == wanted
    assert [row["id"] for row in joined(knn_join(frame, store, 2))] == [7]
    assert joined(knn_join(frame, store, 2, snapshot=Store(store).snapshots()[0])) == wanted


def test_an_empty_store_and_no_queries(spark, store, objects):
    """No rows; with left, rows of nulls."""
    nowhere = made(objects.slice(0, 0), partitions=2)
    frame = spark.createDataFrame(pa.table({"query_id": [3], "lon": [1.0], "lat": [0.0]}))
    assert joined(knn_join(frame, nowhere, 2)) == []
    assert joined(range_join(frame, nowhere, 1e9, how="left")) == [
        {"query_id": 3, "id": None, "distance": None, "rank": None}
    ]
    assert joined(knn_join(frame.limit(0), store, 2, how="left")) == []


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 0}, ValueError, "k is 0"),
        ({"k": True}, ValueError, "k is True"),
        ({"k": 1.5}, ValueError, "k is 1.5"),
        ({"k": "r"}, ValueError, "k is column 'r' of double: whole numbers"),
        ({"k": "kk"}, InputError, "no column 'kk'; their columns are query_id, lon, lat, k, r"),
        ({"how": "outer"}, ValueError, "how is 'outer': inner or left"),
        ({"max_distance": -1.0}, ValueError, "max_distance is -1.0"),
        ({"max_distance": math.nan}, ValueError, "max_distance is nan"),
        ({"columns": ["speed"]}, ValueError, "column 'speed' is not carried by the objects; they carry n"),
        ({"columns": "n"}, ValueError, "give a list of names"),
        ({"columns": ["n", "n"]}, ValueError, "'n' would stand twice"),
        ({"id": "who"}, InputError, "no column 'who'"),
        ({"x": "east"}, InputError, "no column 'east'"),
        ({"crs": "EPSG:32610"}, ValueError, r"EPSG:32610.*EPSG:4326"),
        ({"snapshot": "yesterday"}, StoreError, "no snapshot 'yesterday'; it has"),
    ],
)
def test_a_bad_argument_is_named_before_anything_runs(queries, index, store, options, error, words):
    """With its value and the way out, in one line."""
    with pytest.raises(error, match=words) as raised:
        knn_join(queries, store, **{"k": 1} | options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("radius", [-1, math.nan, None, [5.0], True])
def test_a_bad_radius_is_named(queries, index, store, radius):
    """Negative, not a number, none at all."""
    with pytest.raises(ValueError, match="radius is"):
        range_join(queries, store, radius)


def test_no_store(queries, tmp_path):
    """The message says how to make one."""
    with pytest.raises(StoreError, match="is not a store, or holds no snapshot yet: dtoss rebuild"):
        knn_join(queries, str(tmp_path / "none"), 1)
