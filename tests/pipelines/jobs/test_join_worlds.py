"""Joins about worlds that nothing was tuned to, against an oracle that shares no code; more in ``make check-data``."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import dtoss
from dtoss.answer_rows import make_ask
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.join import answerer, knn_join, range_join, router
from pipelines.rebuild import rebuild
from tests import join_worlds, worlds
from tests.dtoss.snapshots.damaged_stores import stored
from tests.join_worlds import KINDS, PARTITIONS, objects_as_queries, objects_of, queries_of, questions, wrong

MORE = pytest.mark.deep("more worlds; test_in_process.py holds joins of Spark to those in process")
IN_SPARK = {"antimeridian": MORE, "town 1e-7": MORE, "flat lattice": MORE, "poles": ()}


def small(kind, first):
    """The first world of a kind from a seed on that has few objects."""
    return next(w for w in (worlds.world(kind, seed) for seed in itertools.count(first)) if len(w.ids) <= 60)


def store_of(w, partitions, path):
    """A store of a world, made in process."""
    index = dtoss.build(
        w.ids.tolist() if w.ids.dtype == object else w.ids,
        w.positions,
        crs=None if w.metric == "sphere" else "none",
        partitions=partitions,
        pivots=w.pivots,
        columns=join_worlds.attributes(w),
    )
    return stored(index, path, kinds=KINDS)


def arguments_of(asked):
    """What a join is called with besides queries, store, and k or the radius."""
    options = {"how": asked.how, "where": asked.where, "having": asked.having, "exclude_self": asked.exclude_self}
    return options | ({"max_distance": asked.max_distance} if asked.radius is None else {}) | {"columns": [*KINDS]}


def by_tasks(store, asked, queries):
    """The rows of a join whose tasks are run one after another, without Spark."""
    ask = make_ask(store, None, k=asked.k, radius=asked.radius, **arguments_of(asked))
    manifest = Store(store).manifest()
    names = ["query_id", *queries.column_names[1:3]] + ([ask.per_row] if ask.per_row else [])
    table = queries.select(names).rename_columns(["query_id", "x", "y", "per_row"][: len(names)])
    route = router(space_of_manifest(manifest), regions_of_manifest(manifest))
    batches = table.to_batches(max_chunksize=7) or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    routed = pa.Table.from_batches(route(batches))
    rows = []
    for task in range(4):
        mine = routed.filter(pa.compute.equal(pa.compute.bit_wise_and(routed["task"], 3), task)).drop_columns("task")
        for batch in answerer(ask)(iter(mine.to_batches())):
            rows += batch.to_pylist()
    return rows


@pytest.mark.parametrize("kind", worlds.KINDS)
def test_what_tasks_answer_is_what_the_oracle_says(kind, tmp_path):
    """kNN and ranges, k and radius of each query, conditions, left joins, itself left out."""
    w = small(kind, 200)
    store = store_of(w, PARTITIONS[worlds.KINDS.index(kind) % 4], tmp_path / "store")
    for asked in questions(w):
        queries = objects_as_queries(w) if asked.exclude_self else queries_of(w)
        assert wrong(w, asked, queries, by_tasks(store, asked, queries)) == []


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=marks) for kind, marks in IN_SPARK.items()])
def test_joins_in_spark_are_what_the_oracle_says(spark, kind, tmp_path):
    """Rebuilt from objects whose attributes are called as our own columns are."""
    w = small(kind, 300)
    store = str(tmp_path / "store")
    crs = None if w.metric == "sphere" else "none"
    frame = spark.createDataFrame(objects_of(w))
    rebuild(frame, store, id="object", crs=crs, partitions=PARTITIONS[list(IN_SPARK).index(kind)], allow_empty=True)
    knn, within, _ = questions(w)
    queries = queries_of(w)
    asked_by = spark.createDataFrame(queries).repartition(2)
    joined = knn_join(asked_by, store, knn.k, **arguments_of(knn))
    assert wrong(w, knn, queries, joined.toArrow().to_pylist()) == []
    joined = range_join(asked_by, store, within.radius, **arguments_of(within))
    assert wrong(w, within, queries, joined.toArrow().to_pylist()) == []


LIES = ("one less", "another", "farther", "another rank", "not its attribute", "a row of nulls")


@pytest.mark.parametrize("lie", LIES)
def test_the_comparison_sees_a_wrong_row(lie, tmp_path):
    w = next(w for w in (worlds.world("uniform", seed) for seed in itertools.count()) if len(w.ids) == 30)
    asked, queries = join_worlds.Question(k=3), queries_of(w)
    rows = by_tasks(store_of(w, 7, tmp_path / "store"), asked, queries)
    assert wrong(w, asked, queries, rows) == []
    first = next(i for i, row in enumerate(rows) if row["rank"] == 1)
    held = [row["id"] for row in rows if row["query_id"] == rows[first]["query_id"]]
    other = next(i for i in w.ids.tolist() if i not in held)
    changed = {
        "another": {"id": other},
        "farther": {"distance": rows[first]["distance"] + 1.0},
        "another rank": {"rank": 2},
        "not its attribute": {"distance_": -1.0},
        "a row of nulls": dict.fromkeys(rows[first]) | {"query_id": rows[first]["query_id"]},
    }
    lies = [] if lie == "one less" else [rows[first] | changed[lie]]
    assert wrong(w, asked, queries, rows[:first] + lies + rows[first + 1 :])
