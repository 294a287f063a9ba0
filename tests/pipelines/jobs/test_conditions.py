"""Joins with conditions, and the kNN graph: the same as in process, row for row."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from pipelines.graph import knn_graph
from pipelines.join import knn_join, range_join
from tests import oracles
from tests.pipelines.stores import made

N = 1500


@pytest.fixture(scope="module")
def town():
    """A store of seven partitions whose objects carry a kind and a rank; many share a place."""
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "id": [f"cab {i}" for i in range(N)],
            "lon": rng.normal(2.35, 0.1, N).round(3),
            "lat": rng.normal(48.85, 0.1, N).round(3),
            "kind": pa.array(np.where(rng.uniform(size=N) < 0.3, "taxi", "bus")),
            "rank_": rng.permutation(N),
        }
    )
    store = made(table, partitions=7)
    return dtoss.open(store), store, table


@pytest.fixture(scope="module")
def places(spark):
    rng = np.random.default_rng(6)
    lon, lat = rng.normal(2.35, 0.15, 200).tolist(), rng.normal(48.85, 0.15, 200).tolist()
    lon[7], lat[9] = None, None
    return spark.createDataFrame(pa.table({"query_id": np.arange(200), "lon": lon, "lat": lat}))


def found(frame):
    """(query_id, id, distance) in the order of the ranks."""
    rows = sorted(frame.toArrow().to_pylist(), key=lambda row: (row["query_id"], row["rank"] or 0))
    return [(row["query_id"], row["id"], row["distance"]) for row in rows]


def in_process(places, ask):
    """The same by one call for each query that has a place."""
    rows = []
    for place in sorted(places.toArrow().to_pylist(), key=lambda row: row["query_id"]):
        if place["lon"] is not None and place["lat"] is not None:
            rows += [(place["query_id"], i, d) for _, i, d in ask([place["lon"], place["lat"]])]
    return rows


MORE = pytest.mark.deep("more conditions on the same way; test_small_worlds of files has them in process")


@pytest.mark.parametrize(
    "text",
    [
        "kind = 'bus' and rank_ > 100 and id like 'cab 1%'",
        *(pytest.param(text, marks=MORE) for text in ("kind = 'taxi'", "rank_ < 20")),
    ],
)
def test_where_is_before_the_search_and_having_after(places, town, text):
    index, store, _ = town
    assert found(knn_join(places, store, 5, where=text)) == in_process(places, lambda q: index.knn(q, 5, where=text))
    expected = in_process(places, lambda q: index.range(q, 2000.0, where=text))
    assert found(range_join(places, store, 2000.0, having=text)) == expected


def test_ranks_and_left_rows(places, town):
    """With `where` ranks have no gaps; with `having` they are those of the search; left keeps every query."""
    _, store, _ = town
    before = knn_join(places, store, 4, where="rank_ < 600", how="left").toArrow().to_pylist()
    by_query = {}
    for row in before:
        by_query.setdefault(row["query_id"], []).append(row["rank"])
    assert sorted(by_query) == list(range(200))
    assert all(sorted(ranks) == [1, 2, 3, 4] for q, ranks in by_query.items() if q not in (7, 9))
    assert by_query[7] == by_query[9] == [None]
    plain = {(r["query_id"], r["id"]): r["rank"] for r in knn_join(places, store, 4).toArrow().to_pylist()}
    after = knn_join(places, store, 4, having="rank_ < 600", how="left", columns=["rank_"]).toArrow().to_pylist()
    assert {row["query_id"] for row in after} == set(range(200))
    hits = [row for row in after if row["id"] is not None]
    assert hits
    assert all(row["rank_"] < 600 and plain[row["query_id"], row["id"]] == row["rank"] for row in hits)


def test_conditions_are_checked_when_the_join_is_called(places, town):
    _, store, _ = town
    for join, value in ((knn_join, 3), (range_join, 10.0)):
        with pytest.raises(ValueError, match="column 'nope' is not carried by the objects; they carry kind, rank_, id"):
            join(places, store, value, where="nope = 1")
        with pytest.raises(ValueError, match="compares"):
            join(places, store, value, having="kind = 1")


@pytest.mark.parametrize("text", [None, "kind = 'taxi'"])
def test_graph(spark, town, text):
    """Every object's k nearest others, brute force: never itself, also where many share its place."""
    index, store, table = town
    ids, kinds = table["id"].to_pylist(), table["kind"].to_pylist()
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    graph = found(knn_graph(spark, store, 3, where=text))
    assert len(graph) == 3 * N
    kept = [i for i in range(N) if text is None or kinds[i] == "taxi"]
    by_object = {}
    for query, other, distance in graph:
        by_object.setdefault(query, []).append((other, distance))
    for i in range(0, N, 37):
        near = oracles.knn(index.space, [ids[j] for j in kept], positions[kept], positions[i], 4)
        assert by_object[ids[i]] == [(other, d) for _, other, d in near if other != ids[i]][:3]


def test_graph_within_a_distance_and_refusals(spark, town):
    _, store, _ = town
    graph = knn_graph(spark, store, 2, max_distance=50.0, columns=["kind"]).toArrow()
    assert graph.column_names == ["query_id", "id", "distance", "rank", "kind"]
    assert 0 < len(graph) < 2 * N
    assert max(graph["distance"].to_pylist()) <= 50.0
    for k in (0, 0.5, True, float("nan")):
        with pytest.raises(ValueError, match="k is"):
            knn_graph(spark, store, k)


def test_commands(command, spark, town, tmp_path):
    """`--where`, `--having` and `--all` of the command."""
    index, store, _ = town
    place = ["--at", "2.35", "48.85"]
    run = command("knn", "--store", store, *place, "-k", "3", "--where", "kind = 'taxi'")
    expected = [f"0,{i},{d},{r}" for r, (_, i, d) in enumerate(index.knn([2.35, 48.85], 3, where="kind = 'taxi'"), 1)]
    assert run.out.split("\n")[1:4] == expected
    count = command("range", "--store", store, *place, "--radius", "3000", "--where", "kind = 'taxi'", "--count")
    assert int(count.out) == index.count([2.35, 48.85], 3000.0, where="kind = 'taxi'")[0]
    bad = command("knn", "--store", store, *place, "--where", "kind = 1")
    assert (bad.code, bad.out) == (2, "")
    assert bad.err == "error: where 'kind = 1': kind = 1 compares string with int64\n"
    box = command(
        "within", "--store", store, "--box", "2.3", "48.8", "2.4", "48.9", "--where", "kind = 'taxi'", "--count"
    )
    assert int(box.out) == index.count_box([2.3, 48.8, 2.4, 48.9], where="kind = 'taxi'")[0] > 0
    triangle = [[2.3, 48.8], [2.4, 48.8], [2.35, 48.9], [2.3, 48.8]]
    boundary = tmp_path / "boundary.geojson"
    boundary.write_text(json.dumps({"type": "Polygon", "coordinates": [triangle]}))
    run = command("within", "--store", store, "--polygon", str(boundary), "--json", "--columns", "kind")
    hits = json.loads(run.out)["hits"]
    assert [hit["id"] for hit in hits] == index.within(triangle).id.tolist()
    assert {hit["kind"] for hit in hits} == {"taxi", "bus"}
    for wrong in ([], ["--box", "1", "2", "3", "4", "--polygon", "x"], ["--polygon", str(tmp_path / "none")]):
        run = command("within", "--store", store, *wrong)
        assert (run.code, run.err.count("\n")) == (2, 1)
    deep = tmp_path / "deep.geojson"
    deep.write_text('{"type": "Polygon", "coordinates": ' + "[" * 5000 + "]" * 5000 + "}")
    run = command("within", "--store", store, "--polygon", str(deep))
    assert (run.code, run.out) == (2, "")
    why = "it is not JSON that can be read: it nests too deep"
    assert run.err == f"error: --polygon {deep} is not a GeoJSON file: {why}\n"
    for text in ("(" * 400 + "kind = 'a'" + ")" * 400, "drop table kind", "kind like '%_" + "a" * 1_000_000 + "'"):
        run = command("knn", "--store", store, *place, "--where", text)
        assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
        assert len(run.err) < 1000
    out = tmp_path / "graph.parquet"
    run = command("knn", "--store", store, "--all", "-k", "2", "--out", str(out))
    assert run.code == 0, run.err
    assert len(pq.read_table(out)) == 2 * N
    for wrong in (["--all"], ["--all", "--out", "x.txt"], ["--all", "--out", "x.csv", *place]):
        run = command("knn", "--store", store, *wrong)
        assert (run.code, run.err.count("\n")) == (2, 1)
