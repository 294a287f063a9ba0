"""Rebuilds and cycles on an object store: workers write there, and one commit makes it current."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.commits.verify_report import verify_chain
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild
from tests.object_store import object_store
from tests.pipelines.stores import made, table


@pytest.fixture(scope="module")
def bucket():
    with object_store() as place:
        yield place


def timed(rows, t):
    return rows.append_column("t", pa.array(np.full(len(rows), t)))


def same_files(one, other):
    """Whether two stores have the same bytes under the same names."""
    entries = []
    for store in (one, other):
        manifest = store.manifest()
        files = [entry["file"] for entry in [*manifest["partitions"], manifest["borders"]]]
        entries.append({file: bytes(store.source(manifest["snapshot"], file).data) for file in files})
    return entries[0] == entries[1]


def test_a_store_lives_on_an_object_store(engine, bucket, tmp_path):
    """A rebuild with a bad row, cycles in place, a rollback: as on a disk, byte for byte."""
    stores = [Store(bucket.uri(keys=True)), Store(str(tmp_path / "store"))]
    bad = pa.table({"id": [9_999], "lon": [999.0], "lat": [0.0], "t": [5]})
    rows = pa.concat_tables([timed(table(400), 5), bad])
    moved = timed(table(30, seed=3), 7)
    made(rows.slice(0, 400), stores[1].path, partitions=3, seed=1)
    for store in stores:
        if store is stores[0]:
            manifest = rebuild(engine.createDataFrame(rows), store.path, partitions=3, seed=1)
            assert list(manifest["counts"]["quarantined"].values()) == [1]
        updates = engine.createDataFrame(moved)
        manifest = cycle(updates, store.path, now=8, pivots="keep", keep_for=0.0)
        assert (manifest["cycle"]["updated"], manifest["objects"]) == (30, 400)
        one = moved.slice(0, 1).set_column(moved.column_names.index("t"), "t", pa.array([9]))
        manifest = cycle(engine.createDataFrame(one), store.path, now=9, pivots="keep", keep_for=0.0)
        assert manifest["cycle"]["linked"] >= 1, "a partition that knows nothing of it is copied"
        again = cycle(engine.createDataFrame(moved), store.path, now=9, pivots="keep", keep_for=0.0)
        assert again["cycle"]["updated"] == 0, "the same updates once more change nothing"
        assert store.snapshots()[-1] == again["snapshot"]
        assert len(store.snapshots()) == 3
        assert list(verify_chain(store.chain)) == []
        assert sorted(store.folder.files()) == ["CURRENT"]
        assert store.unfinished() == []
    assert same_files(*stores)
    index = dtoss.opening.open_index(stores[0].path, verify=True)
    other = dtoss.open(stores[1].path)
    places = [[0.0, 0.0], [5.0, 5.0], [-60.0, 30.0]]
    assert list(index.knn(places, 9)) == list(other.knn(places, 9))
    for store in stores:
        store.rollback()
    assert same_files(*stores)
    assert [commit.document["kind"] for commit in stores[0].chain.newest_first()] == [
        "rollback", "cycle", "cycle", "cycle", "rebuild",
    ]  # fmt: skip
