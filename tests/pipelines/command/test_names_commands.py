"""Attributes with reserved names, from the input to every answer: renamed by one rule, and said so."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.names import RESERVED
from dtoss.snapshots.store import Store
from pipelines.graph import knn_graph
from pipelines.join import knn_join, range_join
from pipelines.rebuild import rebuild
from tests.dtoss.snapshots.damaged_stores import stored

N = 40
PLACES = np.random.default_rng(5).uniform(-2.0, 2.0, (N, 2))
# the coordinates of the input are called otherwise, so that all reserved names are attributes but the id
ATTRIBUTES = [name for name in RESERVED if name != "id"]
FRESH = {name: f"{name}_" for name in ATTRIBUTES} | {"lon": "lon__"}


def values(name):
    return [f"{name}-{i % 5}" for i in range(N)]


@pytest.fixture(scope="module")
def positions(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "in.parquet"
    held = {"id": np.arange(N), "east": PLACES[:, 0], "north": PLACES[:, 1]}
    held |= {name: values(name) for name in [*ATTRIBUTES, "lon_", 'say "x" y']}
    pq.write_table(pa.table(held), path)
    return str(path)


@pytest.fixture(scope="module")
def store(positions, tmp_path_factory):
    """Rebuilt by the function; what it warned of is beside it."""
    path = str(tmp_path_factory.mktemp("names") / "store")
    warned = []
    rebuild(pq.read_table(positions), path, x="east", y="north", partitions=3, warn=warned.append)
    return path, warned


@pytest.fixture(params=["rebuilt", "older store"])
def either(request, store, tmp_path):
    """The store, and one whose files and manifest hold the names as they were in the input."""
    if request.param == "rebuilt":
        return store[0]
    before = {fresh: name for name, fresh in FRESH.items()}
    return stored(dtoss.open(store[0]), tmp_path / "older", attributes=before)


def test_the_rebuild_says_what_it_renamed(store):
    """In one warning and in the manifest; stored under the names by which they are asked for."""
    path, warned = store
    (line,) = warned
    assert line.startswith(
        "attributes with reserved names are stored under others: bbox as bbox_, distance as distance_"
    )
    assert "lon as lon__" in line
    manifest = Store(path).manifest()
    assert manifest["renamed"] == FRESH
    assert set(manifest["columns"]) == {*FRESH.values(), "lon_", 'say "x" y'}
    assert dtoss.open(path).column_names == [*FRESH.values(), "lon_", 'say "x" y']


def test_the_command_says_it_too(positions, tmp_path, works):
    """A warning on stderr, a row of the summary and of info; nothing where nothing was renamed."""
    place = tmp_path / "store"
    _, out, err = works("rebuild", positions, "--store", place, "--x", "east", "--y", "north", "--columns", "rank,lon_")
    assert "warning: attributes with reserved names are stored under others: rank as rank_\n" in err
    assert "rank as rank_" in out
    assert "rank as rank_" in works("info", "--store", place).out
    facts = works("info", "--store", place, "--json").json
    assert (facts["renamed"], facts["columns"]) == ({"rank": "rank_"}, {"rank_": "string", "lon_": "string"})
    _, out, err = works("rebuild", positions, "--store", place, "--x", "east", "--y", "north", "--columns", "lon_")
    assert "reserved" not in err
    assert "renamed" not in out
    assert "renamed" not in works("info", "--store", place).out


def test_joins_return_them_beside_what_is_theirs(spark, either):
    """kNN, range and graph: distances, ranks and ids are real, attributes come under their stored names."""
    index = dtoss.open(either)
    assert index.column_names == [*FRESH.values(), "lon_", 'say "x" y']
    queries = spark.createDataFrame(pa.table({"query_id": [0, 1], "lon": PLACES[:2, 0] + 0.1, "lat": PLACES[:2, 1]}))
    names, places = list(FRESH.values()), PLACES[:2] + np.array([0.1, 0.0])
    made = {
        "knn": (knn_join(queries, either, 4, columns=names), index.knn(places, 4)),
        "range": (range_join(queries, either, 1e5, columns=names), index.range(places, 1e5)),
        "where": (
            knn_join(queries, either, 4, columns=names, where="rank_ = 'rank-2'"),
            index.knn(places, 4, where=f"id in ({', '.join(map(str, range(2, N, 5)))})"),
        ),
    }
    for kind, (joined, hits) in made.items():
        assert joined.columns == ["query_id", "id", "distance", "rank", *names]
        rows = sorted(joined.toArrow().to_pylist(), key=lambda row: (row["query_id"], row["rank"]))
        assert [(row["query_id"], row["id"], row["distance"]) for row in rows] == list(hits), kind
        assert [row["rank"] for row in rows] == hits.rank().tolist()
        for row in rows:
            assert {name: row[name] for name in names} == {f: values(n)[row["id"]] for n, f in FRESH.items()}
    graph = knn_graph(spark, either, 1, columns=["query_id_"]).toArrow().to_pylist()
    assert len(graph) == N
    assert all(row["query_id_"] == values("query_id")[row["id"]] for row in graph)
    with pytest.raises(ValueError, match="an attribute distance is called distance_ here"):
        knn_join(queries, either, 4, columns=["distance"])
    with pytest.raises(ValueError, match="an attribute lat is called lat_ here"):
        knn_join(queries, either, 4, where="lat > 3")


def test_commands_print_them(either, tmp_path, works):
    """knn, range and within with every attribute, and an export."""
    index = dtoss.open(either)
    names = [*FRESH.values(), "lon_"]
    for arguments in (
        ("knn", "-k", 3, "--at", 0, 0),
        ("range", "--radius", 1e5, "--at", 0, 0),
        ("within", "--box", -1, -1, 1, 1),
    ):
        _, out, err = works(*arguments, "--store", either, "--columns", ",".join(names))
        rows = list(csv.DictReader(out.splitlines()))
        assert err == ""
        assert rows
        assert list(rows[0]) == ["query_id", "id", "distance", "rank", *names]
        for row in rows:
            place = index[int(row["id"])]
            assert {name: row[name] for name in names} == {name: place[name] for name in names}
    target = tmp_path / "objects.parquet"
    works("export", "--store", either, "--what", "objects", "--out", target)
    table = pq.read_table(target)
    assert table.column_names == ["id", "partition", *FRESH.values(), "lon_", 'say "x" y', "geometry", "bbox"]
    for name, fresh in FRESH.items():
        assert table[fresh].to_pylist() == [values(name)[i] for i in table["id"].to_pylist()]


def test_accesses_name_columns_as_their_files_do(no_spark, store, tmp_path, works):
    """A column of the accesses is no attribute: it may be called rank or distance."""
    times = ["2024-01-01T00:00:00"] * N
    table = pa.table({"lon": PLACES[:, 0], "lat": PLACES[:, 1], "t": times, "rank": [2] * N, "distance": [3] * N})
    pq.write_table(table, tmp_path / "accesses.parquet")
    out = tmp_path / "patterns.parquet"
    works(
        "patterns", tmp_path / "accesses.parquet", "--store", store[0], "--out", out, "--weight", "rank",
        "-k", "distance",
    )  # fmt: skip
    assert out.exists()


def test_another_column_called_id(spark, tmp_path):
    """Where the objects' ids are in a column of another name, the one called id is an attribute like others."""
    table = pa.table({"id": ["a", "b"], "mmsi": [7, 8], "lon": [1.0, 2.0], "lat": [3.0, 4.0], "X": [5, 6]})
    warned = []
    rebuild(spark.createDataFrame(table), str(tmp_path / "store"), id="mmsi", warn=warned.append)
    assert dtoss.open(str(tmp_path / "store"))[8] == {"id": 8, "lon": 2.0, "lat": 4.0, "id_": "b", "X_": 6}
    assert warned == ["attributes with reserved names are stored under others: X as X_, id as id_"]
