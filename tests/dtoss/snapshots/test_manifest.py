"""An open index is whole by itself: its snapshot may go, and the working directory may change."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib import pyplot

import dtoss
from dtoss.errors import StoreError
from dtoss.export_files import write
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.examples import examples

ROOT = Path(__file__).parents[3]
N = examples(100, 40)
PLACES = np.random.default_rng(3).uniform(-5.0, 5.0, (N, 2))
QUERIES = PLACES[:6] + 0.01
CORNERS = [[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]]


def built(strings):
    ids = np.arange(N) * 3 % N  # each once, in another order
    ids = [f"é{i}" for i in ids] if strings else ids
    # lambda 0: many cells are in the border table alone
    return dtoss.build(ids, PLACES, partitions=5, reach=0.0, columns={"kind": ["bus", "taxi"] * (N // 2)})


def as_lists(value):
    """Whatever a method returns, as what can be compared."""
    if isinstance(value, Hits):
        return value.to_arrow().to_pylist()
    return value.tolist() if isinstance(value, np.ndarray) else value


def answers(index, ids, scratch):
    """{what was called: its answer} of every public method and attribute of an index, and of its hits."""
    found = {}
    hits = index.knn(QUERIES, 7, columns=["kind"], where="kind = 'bus'")
    some = {"where": "kind = 'bus'", "having": "id is not null", "columns": ["kind"]}
    found["range"] = index.range(QUERIES, 1e5, **some)
    found["range_batches"] = [hit for some_hits in index.range_batches(QUERIES, 1e5, **some) for hit in some_hits]
    found["box"] = index.box([-2, -2, 2, 2], **some)
    found["within"] = index.within(CORNERS, **some)
    found["knn"] = hits
    found["count"] = index.count(QUERIES, 1e5, where="kind = 'taxi'")
    found["count_box"] = index.count_box([-2, -2, 2, 2])
    found["count_within"] = index.count_within(CORNERS)
    found["locate"] = index.locate(QUERIES)
    found["reverse_nearest"] = index.reverse_nearest(QUERIES)
    for method in ("cell", "neighbours", "area", "__getitem__", "__contains__"):
        found[method] = [as_lists(getattr(index, method)(one)) for one in ids]
    raw = index.search(QUERIES, np.full(len(QUERIES), np.inf), 3)
    found["search"] = raw.distance
    vectors = index.space.vectors(np.asarray(QUERIES, np.float64))
    found["search_vectors"] = index.search_vectors(vectors, np.full(len(QUERIES), np.inf), 3).distance
    found["place_of"] = [index.place_of(one)[1:] for one in ids]
    found["filters"] = (index.filters.texts(), index.filters.get("kind = 'taxi'").count)
    found["ids_of"] = index.ids_of(raw).to_pylist()
    found["satisfying"] = index.satisfying(raw, "kind = 'bus'")
    for name in ("crs", "bounds", "sites", "column_names", "__len__", "__repr__", "__iter__"):
        value = getattr(index, name)
        found[name] = list(value()) if name == "__iter__" else value() if callable(value) else value
    found["within_batches"] = [hit for hits in index.within_batches([CORNERS], **some) for hit in hits]
    for layer in ("cells", "regions", "objects"):
        found[layer] = getattr(index, layer)().to_wkt().to_dict("records")
    drawn = index.plot("cells")
    found["plot"] = drawn.get_title(loc="left")
    pyplot.close(drawn.figure)
    rows = {name: [value] for name, value in (index[ids[0]] | {"id": ids[0], "lon": 0.1, "lat": 0.2}).items()}
    found["with_updates"] = index.with_updates(rows).knn([0.1, 0.2]).to_arrow().to_pylist()
    found["ask"] = list(index.ask("knn", QUERIES, k=2))
    found["border"] = [index.border.neighbours.tolist(), index.border.area.tolist()]
    missing = {name for name in dir(Index) if not name.startswith("_")} - found.keys()
    assert missing == {"save"}, "a method is not called here"  # which tests/dtoss/test_save_index.py does
    of_hits = {
        "only": hits.only(hits.distance > 1e4), "rank": hits.rank(), "to_arrow": hits.to_arrow().to_pylist(),
        "to_pandas": hits.to_pandas().to_dict(), "query": hits.query, "id": hits.id, "distance": hits.distance,
        "columns": hits.columns["kind"].to_pylist(), "__getitem__": hits[0], "__iter__": list(hits),
        "crs of hits": hits.crs, "positions": hits.positions, "origin": hits.origin.names,
        "to_polars": hits.to_polars().to_dicts(), "to_geopandas": hits.to_geopandas().to_wkt().to_dict("records"),
    }  # fmt: skip
    assert {name for name in dir(Hits) if not name.startswith("_")} <= of_hits.keys() | {"crs"}
    for what in ("objects", "cells", "regions"):
        write(index, what, str(scratch / "out.parquet"))
        found[f"export {what}"] = pq.read_table(scratch / "out.parquet").to_pylist()
    return {name: as_lists(value) for name, value in (of_hits | found).items()}


@pytest.fixture(scope="module")
def whole(request, tmp_path_factory):
    """(ids of some objects, a store, all answers of an index of it, which are those of the index that was stored)."""
    made, folder = built(request.param), tmp_path_factory.mktemp("whole")
    ids = list(made)[::20]
    stored(made, folder / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        wanted = answers(dtoss.open("store"), ids, folder)
    assert answers(made, ids, folder) == wanted | {"__repr__": repr(made)}
    return ids, folder / "store", wanted


GONE = ("snapshot", "store", "directory")
OTHER_IDS = pytest.mark.deep("ids of the other type; in make test each way to go has one, and each type its ways")


@pytest.mark.parametrize(
    ("whole", "gone"),
    [
        pytest.param(strings, gone, marks=() if strings == (gone == "store") else OTHER_IDS)
        for strings, gone in product((False, True), GONE)
    ],
    indirect=["whole"],
)
def test_an_open_index_stays_whole(tmp_path, monkeypatch, whole, gone):
    """Removed snapshot, removed store, or a relative path and another directory: every method answers as before."""
    ids, store, wanted = whole
    shutil.copytree(store, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    index = dtoss.open("store")
    if gone == "directory":
        monkeypatch.chdir("/")
    else:
        shutil.rmtree(tmp_path / "store" / "snapshots" if gone == "snapshot" else tmp_path / "store")
    assert answers(index, ids, tmp_path) == wanted
    again = pickle.loads(pickle.dumps(index))
    assert (again.snapshot, len(again)) == (index.snapshot, N)
    assert answers(again, ids, tmp_path) == wanted


@pytest.mark.parametrize("lazy", [False, True])
def test_a_relative_path_is_that_of_the_opening(tmp_path, monkeypatch, lazy):
    """Also where partitions are opened later, and of an index that another process loads elsewhere."""
    stored(built(False), tmp_path / "store")
    wanted = list(dtoss.open(str(tmp_path / "store")).knn(QUERIES, 3))
    monkeypatch.chdir(tmp_path)
    index = dtoss.open("store", lazy=lazy)
    monkeypatch.chdir("/")
    data = pickle.dumps(index)
    assert len(data) < 2000  # by its path
    (tmp_path / "pickle").write_bytes(data)
    assert list(index.knn(QUERIES, 3)) == wanted
    assert len(index.neighbours(5)) > 2
    program = "import pickle, sys; print(list(pickle.load(open(sys.argv[1], 'rb')).knn(eval(sys.argv[2]), 3)))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "pickle"), str(QUERIES.tolist())],
        cwd="/usr", env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(wanted)


def test_a_pickle_whose_snapshot_has_gone_since_says_so(tmp_path):
    """One line with the path, the name of the snapshot, and what is there instead."""
    path = stored(built(False), tmp_path / "store")
    index = dtoss.open(path)
    data = pickle.dumps(index)
    shutil.rmtree(tmp_path / "store" / "snapshots" / index.snapshot)
    later = Store(stored(built(False), tmp_path / "store")).current()
    with pytest.raises(StoreError) as error:
        pickle.loads(data)
    assert str(error.value) == (
        f"an index that was pickled by its path cannot be opened: {path} has no snapshot {index.snapshot!r}; "
        f"it has {later}"
    )


def test_what_is_opened_later_needs_its_files(tmp_path):
    """A lazy index whose snapshot goes answers from what it has opened, and names the file it misses."""
    path = stored(built(False), tmp_path / "store")
    index = dtoss.open(path, lazy=True)
    place = PLACES[7]
    index.knn(place, 1)
    shutil.rmtree(tmp_path / "store" / "snapshots")
    assert index.knn(place, 1).distance.tolist() == [0.0]
    with pytest.raises(StoreError, match=r"partitions/.*arrow is missing; roll back or rebuild"):
        index.knn(place, N)


def test_a_store_without_its_border_table_is_not_opened(tmp_path):
    """It is missed at once, like a partition, and not by the first question about a cell."""
    path = stored(built(False), tmp_path / "store")
    (file,) = (tmp_path / "store").glob("snapshots/*/borders-*.arrow")
    file.unlink()
    with pytest.raises(StoreError, match=rf"{file.name} is missing"):
        dtoss.open(path)
