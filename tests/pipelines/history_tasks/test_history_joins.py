"""Joins with a history in Spark: what plain Python finds for each query in its own interval."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dtoss.errors import InputError, StoreError
from pipelines.history_joins import answerer, history_knn_join, history_range_join
from pipelines.history_tasks.history_answers import PastAsk, parts_of, router
from pipelines.history_tasks.scans import home_of
from tests.dtoss.history.test_together import put_place_order
from tests.dtoss.history.worlds import EPOCH, PLANE, SPHERE, new_home, put_batch, schema_of, table_of
from tests.oracles import distance

M = 50


@pytest.fixture(scope="module")
def batches():
    """Two batches round the antimeridian, a tenth of deletions; 40 objects, many at one place or time."""
    rng = np.random.default_rng(12)
    schema = schema_of(SPHERE, busy=pa.int8(), kind=pa.large_string())
    tables = []
    for batch in range(2):
        n = 800
        where = np.round(np.array([180.0, 0.0]) + rng.normal(0, 0.02, (n, 2)), 3)
        where[:, 0] = np.where(where[:, 0] > 180, where[:, 0] - 360, where[:, 0])
        deleted = rng.random(n) < 0.1
        where[deleted] = np.nan
        tables.append(
            table_of(
                schema, rng.integers(0, 40, n), rng.integers(0, 3000, n) + 1000 * batch, where, deleted.tolist(),
                busy=rng.integers(0, 2, n), kind=rng.choice(["taxi", "van", None], n).tolist(),
            )
        )  # fmt: skip
    return schema, tables


def made(folder, batches, placed):
    """The path of a history, some of whose periods have a place order."""
    schema, tables = batches
    home = new_home(folder / "h")
    for i, table in enumerate(tables):
        put_batch(home, table, schema, str(i))
        if i in placed:
            put_place_order(home, table, schema, i, 0.0)
    return home.path


@pytest.fixture(scope="module")
def history(tmp_path_factory, batches):
    return made(tmp_path_factory.mktemp("joins"), batches, [1])


@pytest.fixture(scope="module")
def by_time(tmp_path_factory, batches):
    return made(tmp_path_factory.mktemp("by_time"), batches, [])


@pytest.fixture(scope="module")
def asking(batches):
    """Queries with a time, an interval, a radius and a k each."""
    rng = np.random.default_rng(13)
    where = np.round(np.array([180.0, 0.0]) + rng.normal(0, 0.02, (M, 2)), 3)
    where[:, 0] = np.where(where[:, 0] > 180, where[:, 0] - 360, where[:, 0])
    seconds = rng.integers(-100, 4200, M)
    times = [EPOCH + timedelta(seconds=int(s)) for s in seconds]
    ends = [t + timedelta(seconds=int(s)) for t, s in zip(times, rng.integers(-5, 900, M), strict=True)]
    return pa.table(
        {
            "query_id": np.arange(M),
            "lon": where[:, 0],
            "lat": where[:, 1],
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "until": pa.array(ends, pa.timestamp("us", "UTC")),
            "r": rng.uniform(0, 4000, M),
            "k": pa.array(np.arange(M) % 5, pa.int32()),
        }
    )  # fmt: skip


def brute(tables, asking, schema, first, last, *, radius=None, k=None, per="row", where=None, own=False, space=SPHERE):
    """Rows of an inner join as dictionaries, in the order (query, rank)."""
    rows = [
        row for table in tables for row in table.to_pylist() if not row["deleted"] and (where is None or where(row))
    ]
    found = []
    for q, query in enumerate(asking.to_pylist()):
        vector = space.vectors(np.array([[query["lon"], query["lat"]]]))[0]
        inside = [
            row for row in rows if first[q] <= row["t"] <= last[q] and not (own and row["id"] == query["query_id"])
        ]
        places = np.array([[row["x"], row["y"]] for row in inside]).reshape(-1, 2)
        far = [float(distance(v, vector)) for v in space.vectors(places)]
        hits = sorted(
            zip(far, (row["id"] for row in inside), (row["t"] for row in inside), range(len(inside)), strict=True)
        )
        hits = [hit for hit in hits if radius is None or hit[0] <= radius[q]]
        if per == "object":
            seen = set()
            hits = [hit for hit in hits if not (hit[1] in seen or seen.add(hit[1]))]
        hits = hits if k is None else hits[: k[q]]
        found += [
            {"query_id": query["query_id"], "id": id, "distance": d, "rank": rank, "t": t}
            for rank, (d, id, t, _) in enumerate(hits, 1)
        ]
    return found


def joined(frame):
    """Rows in the order (query, rank), which is not the order in which tasks give them."""
    rows = frame.toArrow().to_pylist()
    return sorted(rows, key=lambda row: (str(row["query_id"]).zfill(9), row["rank"] or 0))


def around(asking, before, after):
    times = asking["t"].to_pylist()
    return [t - timedelta(seconds=before) for t in times], [t + timedelta(seconds=after) for t in times]


BY_TIME = pytest.mark.deep("tests/dtoss/history/test_answers.py asks every layout, without Spark")


@pytest.mark.parametrize("which", ["history", pytest.param("by_time", marks=BY_TIME)])
def test_range_joins(spark, request, which, batches, asking):
    """Before and after a moment; between two columns; a radius for each; an end that is open; types of the columns."""
    schema, tables = batches
    history = request.getfixturevalue(which)
    queries = spark.createDataFrame(asking).repartition(3)
    frame = history_range_join(queries, history, 2000.0, before=300, after=60.5)
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("query_id", "bigint"), ("id", "bigint"), ("distance", "double"), ("rank", "int"), ("t", "timestamp"),
    ]  # fmt: skip
    found = joined(frame)
    assert found == brute(tables, asking, schema, *around(asking, 300, 60.5), radius=[2000.0] * M)
    assert len(found) > 3 * M
    if which == "by_time":
        return  # how ends are said is the same in both orders
    first, last = asking["t"].to_pylist(), asking["until"].to_pylist()
    between = joined(history_range_join(queries, history, "r", between=("t", "until")))
    assert between == brute(tables, asking, schema, first, last, radius=asking["r"].to_pylist())
    opened = joined(history_range_join(queries, history, 150.0, between=(None, "t")))
    assert opened == brute(tables, asking, schema, [EPOCH - timedelta(days=9)] * M, first, radius=[150.0] * M)


CROSSED = pytest.mark.deep("the other pairs of what is ranked and what k is; each of both is in make test")


@pytest.mark.parametrize(
    ("per", "k", "within"),
    [
        *(("object", 4, None), ("row", "k", 1500.0)),
        *(pytest.param(*one, marks=CROSSED) for one in (("row", 4, None), ("object", "k", 1500.0))),
    ],
)
def test_knn_joins(spark, history, batches, asking, per, k, within):
    """One k or one for each; at most so far away; ranks without gaps."""
    schema, tables = batches
    first, last = around(asking, 200, 200)
    options = {"per": per, "before": 200, "after": 200, "max_distance": within}
    found = joined(history_knn_join(spark.createDataFrame(asking), history, k, **options))
    ks, radii = ([4] * M, None) if within is None else (asking["k"].to_pylist(), [within] * M)
    assert found == brute(tables, asking, schema, first, last, k=ks, per=per, radius=radii)


def test_conditions_columns_and_oneself(spark, history, batches, asking):
    """``where`` is before the search, ``having`` after it; an object does not meet itself."""
    schema, tables = batches
    queries = spark.createDataFrame(asking)
    first, last = around(asking, 600, 600)
    wanted = brute(
        tables, asking, schema, first, last, k=[3] * M, per="object", own=True,
        where=lambda row: row["kind"] == "van" and row["y"] > -0.01,
    )  # fmt: skip
    options = {"before": 600, "after": 600, "where": "kind = 'van' and lat > -0.01", "exclude_self": True}
    found = joined(history_knn_join(queries, history, 3, columns=["kind", "lat", "lon"], **options))
    assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
    assert {row["kind"] for row in found} == {"van"}
    assert all(row["lat"] > -0.01 and abs(row["lon"]) > 179 for row in found)
    some = joined(history_knn_join(queries, history, 3, having="busy = 1", columns=["busy"], **options))
    assert 0 < len(some) < len(found)
    ranks = {(row["query_id"], row["id"], row["t"]): row["rank"] for row in found}
    assert all(row["busy"] == 1 and ranks[row["query_id"], row["id"], row["t"]] == row["rank"] for row in some)


def test_left_joins_and_what_is_counted(spark, history):
    """No position, an illegal one, no time, no k, an interval that ends before it begins: a row of nulls each."""
    from pyspark.sql import Observation

    noon = EPOCH + timedelta(seconds=1500)
    names = ["good", "null", "nan", "illegal", "no time", "no k", "k 0", "far"]
    table = pa.table(
        {
            "query_id": names,
            "lon": [180.0, None, math.nan, 181.0, 180.0, 180.0, 180.0, 0.0],
            "lat": [0.0] * 8,
            "at": pa.array([noon] * 4 + [None] + [noon] * 3, pa.timestamp("us", "UTC")),
            "k": pa.array([2, 2, 2, 2, 2, None, 0, 2], pa.int64()),
            "r": pa.array([1e4, 1e4, 1e4, 1e4, 1e4, None, -1.0, 0.0], pa.float64()),
        }
    )
    frame = spark.createDataFrame(table)
    options = {"time": "at", "before": 100, "after": 100}
    for of, reason in (
        (lambda **more: history_knn_join(frame, history, "k", max_distance=1e5, **options, **more), "no_k"),
        (lambda **more: history_range_join(frame, history, "r", **options, **more), "no_radius"),
    ):
        seen = Observation()
        left = joined(of(how="left", observation=seen))
        if reason == "no_k":
            inner = joined(of())
            assert {row["query_id"] for row in inner} == {"good"}
            assert [row for row in left if row["query_id"] == "good"] == inner
        lost = [row for row in left if row["query_id"] != "good"]
        assert sorted(row.pop("query_id") for row in lost) == sorted(names[1:])
        assert all(value is None for row in lost for value in row.values())
        assert seen.get == {"queries": 8, "no_position": 2, "not_legal": 1, "no_time": 1, reason: 2}
    back = history_knn_join(frame.withColumn("end", frame.at - _seconds(5)), history, 1, between=("at", "end"))
    assert back.count() == 0


def _seconds(n):
    from pyspark.sql import functions as F

    return F.expr(f"interval {n} seconds")


def test_pieces_of_one_hour_go_to_several_tasks(history, batches, asking):
    """Small pieces of few queries give the same; run as tasks do, without Spark."""
    schema, tables = batches
    crowd = pa.concat_tables([asking.slice(3, 1)] * 60).set_column(0, "query_id", pa.array(np.arange(60)))
    times, span = [asking["t"][3].as_py()] * 60, timedelta(seconds=900)
    first, last = ([t + sign * span for t in times] for sign in (-1, 1))
    places = crowd.select(["query_id", "lon", "lat"]).rename_columns(["query_id", "x", "y"])
    for name, values in (("first", first), ("last", last)):
        places = places.append_column(name, pa.array(values, pa.timestamp("us", "UTC")))
    home = home_of(history)
    parts = parts_of(home.version())
    number = home.version().number
    ask = PastAsk(home, number, None, 3000.0, None, False, None, "inner", (), None, None, False)
    routed = pa.Table.from_batches(router(schema, parts, 8, at_a_time=7)(iter(places.to_batches(max_chunksize=25))))
    tasks = [routed.filter(pc.equal(routed["task"], task)).drop_columns("task") for task in range(8)]
    assert min(map(len, tasks)) > 0
    answers = [one for task in tasks for one in answerer(ask, parts, 5)(iter(task.to_batches()))]
    found = [row for one in answers for row in one.to_pylist()]
    wanted = brute(tables, crowd, schema, first, last, radius=[3000.0] * 60)
    assert sorted(found, key=lambda row: (row["query_id"], row["rank"])) == wanted


def test_planes_text_ids_and_times_that_are_numbers(spark, tmp_path):
    """Whole numbers beside halves; text ids of queries and objects; a store of one row."""
    schema = schema_of(PLANE, "string", "int64")
    home = new_home(tmp_path / "h")
    put_batch(home, table_of(schema, ["a", "b", "b"], [10, 11, 12], [[0, 0], [3, 4], [0, 1]]), schema, "k")
    queries = spark.createDataFrame(
        pa.table({"query_id": ["b", "z"], "x": [0.0, 0.0], "y": [0.0, 0.0], "t": [10.5, 11.5], "d": [1.0, 0.5]})
    )
    rows = joined(history_range_join(queries, home.path, 5.0, before=0.5, after=1.0, columns=["x"]))
    assert [(row["query_id"], row["id"], row["distance"], row["t"], row["x"]) for row in rows] == [
        ("b", "a", 0.0, 10, 0.0), ("b", "b", 5.0, 11, 3.0), ("z", "b", 1.0, 12, 0.0), ("z", "b", 5.0, 11, 3.0),
    ]  # fmt: skip
    others = joined(history_knn_join(queries, home.path, 2, before=9, after=9, exclude_self=True))
    assert [(row["query_id"], row["id"], row["distance"]) for row in others] == [
        ("b", "a", 0.0), ("z", "a", 0.0), ("z", "b", 1.0),
    ]  # fmt: skip


def test_a_history_without_rows_answers_nothing(spark, tmp_path, asking):
    """And a left join has all queries."""
    schema = schema_of()
    home = new_home(tmp_path / "h")
    put_batch(home, schema.arrow.empty_table(), schema, "k")
    queries = spark.createDataFrame(asking)
    assert history_knn_join(queries, home.path, 2, after=1e6, before=1e30).count() == 0
    assert history_range_join(queries, home.path, 1e9, how="left").count() == M


@pytest.mark.parametrize(
    ("error", "said", "options"),
    [
        (ValueError, "per is 'cab'", {"per": "cab"}),
        (ValueError, "k is 0", {"k": 0}),
        (ValueError, "how is 'outer'", {"how": "outer"}),
        (ValueError, "before is -1", {"before": -1}),
        (ValueError, "after is nan", {"after": math.nan}),
        (ValueError, "do not go with between", {"between": ("t", "until"), "after": 3}),
        (ValueError, "two columns are wanted", {"between": ("t",)}),
        (ValueError, "'colour' is not carried", {"columns": ["colour"]}),
        (ValueError, "would stand twice", {"columns": ["kind", "kind"]}),
        (ValueError, "'colour' is not carried", {"where": "colour = 1"}),
        (ValueError, "max_distance is -2", {"max_distance": -2}),
        (ValueError, "crs 'EPSG:3857'", {"crs": "EPSG:3857"}),
        (ValueError, "column 'r' of double: whole", {"k": "r"}),
        (InputError, "no column 'when'", {"time": "when"}),
        (InputError, "times of the history are timestamps", {"time": "r"}),
        (StoreError, "versions 1 to", {"version": 77}),
    ],
)
def test_what_is_wrong_is_one_line(spark, history, asking, error, said, options):
    """When the join is called."""
    options = {"k": 1, **options}
    with pytest.raises(error, match=said):
        history_knn_join(spark.createDataFrame(asking.slice(0, 2)), history, options.pop("k"), **options)
