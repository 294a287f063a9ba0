"""An index that was built in process, or opened, becomes the current snapshot of a store, whole or not at all."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss.erasure.forgotten import forget_ids
from dtoss.errors import InputError, StoreError
from dtoss.shards.share import held_index
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.small_stores import faults_at, killed_at
from tests.ends import end_now

N = 300


def frame(n=N, seed=0):
    """Objects with attributes, one of them with a name of ours."""
    rng = np.random.default_rng(seed)
    return {
        "taxi": [f"é{i}" for i in rng.permutation(n)], "lon": rng.normal(8, 1, n), "lat": rng.normal(50, 1, n),
        "free": rng.integers(0, 2, n).astype(bool), "Rank": rng.integers(0, 9, n).astype(np.uint8),
        "seen": pa.array([dt.datetime(2026, 3, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i) for i in range(n)]),
    }  # fmt: skip


def built(n=N, seed=0, **more):
    return dtoss.build(frame(n, seed), id="taxi", **{"partitions": 3} | more)


@pytest.fixture(scope="module")
def index():
    return built()


def names_in(store):
    """The files of a store's current snapshot; each name holds a hash of its content."""
    manifest = Store(str(store)).manifest()
    return [entry["file"] for entry in (*manifest["partitions"], manifest["borders"])]


def same(one, other):
    """Whether two indexes give the same answers, attributes among them."""
    places = [[8.0, 50.0], [9.5, 51.0]]
    columns = ["free", "Rank_", "seen"]
    found = [index.knn(places, 20, columns=columns).to_arrow().to_pylist() for index in (one, other)]
    return found[0] == found[1] and list(one) == list(other)


def test_what_was_saved_is_opened(index, tmp_path, monkeypatch):
    """By a path of any kind; a second one is current after the first, and one of another process too."""
    monkeypatch.chdir(tmp_path)
    first = index.save("taxis")
    assert same(dtoss.open("taxis"), index)
    assert dtoss.open("taxis").snapshot == first
    second = pickle.loads(pickle.dumps(index)).save(Path("taxis"))
    assert dtoss.open("taxis").snapshot == second > first
    assert built(seed=1).save(Store("taxis"), keep=1) == Store("taxis").current()
    assert len(Store("taxis").snapshots()) == 1


def test_a_manifest_says_how_it_was_built(tmp_path):
    """What was wished for, which columns meant what, and the types that Spark has for the attributes."""
    asked = {"partitions": 2, "pivots": "spread", "reach": 0.25, "seed": 7}
    index = dtoss.build(frame(), id="taxi", x="lon", y="lat", crs=4326, **asked)
    index.save(tmp_path / "store", time="seen")
    manifest = Store(str(tmp_path / "store")).manifest()
    assert {name: manifest["parameters"][name] for name in asked} == asked
    assert manifest["columns"] == {"free": "boolean", "Rank_": "smallint", "seen": "timestamp"}
    assert manifest["renamed"] == {"Rank": "Rank_"}
    assert manifest["time"] == {"column": "seen", "type": "timestamp", "unit": None}
    source = {name: manifest["source"][name] for name in ("id", "x", "y", "time", "columns", "geometry")}
    assert source == {"id": "taxi", "x": "lon", "y": "lat", "time": "seen", "columns": "all", "geometry": None}
    assert manifest["counts"] == {"read": N, "kept": N, "duplicates": 0, "quarantined": {}}
    assert manifest["area"] == pytest.approx(4 * np.pi)
    low, high = (edge([frame()["lon"], frame()["lat"]], axis=1).tolist() for edge in (np.min, np.max))
    assert manifest["input"]["box"] == [*low, *high]


@pytest.mark.parametrize("name", ["Rank", "Rank_"])
def test_a_time_with_a_name_of_ours_is_that_of_the_frame(index, tmp_path, name):
    """Updates have it under the name that it had there."""
    index.save(tmp_path / "store", time=name)
    assert Store(str(tmp_path / "store")).manifest()["time"]["column"] == "Rank"
    assert Store(str(tmp_path / "store")).manifest()["source"]["time"] == "Rank"


@pytest.mark.parametrize(
    ("make", "id", "columns"),
    [
        (lambda: dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]]), "id", "none"),
        (lambda: dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], columns={"id": [3, 4]}), "id", ["id"]),
        (lambda: dtoss.build({"ID": [1], "lon": [0.0], "lat": [0.0]}), "ID", "all"),
        (lambda: dtoss.build({"ID": [1], "lon": [0.0], "lat": [0.0], "_a": [2], "b": [3]}), "ID", ["_a", "b"]),
        (lambda: dtoss.build({"id": [1], "lon": [0.0], "lat": [0.0], "a": [2], "b": [3]}, columns=["b"]), "id", ["b"]),
        (lambda: dtoss.build(pd.DataFrame({"lon": [0.0], "lat": [0.0]})), "id", "all"),
        (lambda: dtoss.build(pd.DataFrame({"lon": [0.0], "lat": [0.0]}, pd.Index(["a"], name="car"))), "car", "all"),
    ],
)
def test_updates_are_read_by_the_columns_that_it_was_built_of(tmp_path, make, id, columns):
    make().save(tmp_path / "store")
    source = Store(str(tmp_path / "store")).manifest()["source"]
    assert (source["id"], source["columns"]) == (id, columns)


def test_a_column_t_is_the_time(tmp_path):
    """As of a rebuild; it is an attribute too, and numbers are seconds."""
    dtoss.build({"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 0.0], "t": [7, 8]}).save(tmp_path / "store")
    assert Store(str(tmp_path / "store")).manifest()["time"] == {"column": "t", "type": "bigint", "unit": "s"}
    assert dtoss.open(tmp_path / "store")[2]["t"] == 8
    assert dtoss.open(tmp_path / "store").parts[0].times.to_pylist() == [7, 8]


def test_what_was_opened_is_copied(index, tmp_path):
    """The same files, what was set aside and deleted too, also of a snapshot that has gone since."""
    rejected, gone = pa.table({"reason": ["no id"], "row": ["{}"]}), (np.array([10**9]), pa.array([5]))
    numbers = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    times = lambda ids: pa.array([9] * len(ids))  # noqa: E731
    stored(numbers, tmp_path / "whole", rejected=rejected, tombstones=gone, times=times)
    name = dtoss.open(tmp_path / "whole").save(tmp_path / "copy")
    one, other = (Store(str(tmp_path / store)).manifest() for store in ("whole", "copy"))
    of_the_run = ("snapshot", "created", "timings", "parent")
    assert {key: one[key] for key in one if key not in of_the_run} == {
        key: other[key] for key in other if key not in of_the_run
    }
    assert other["snapshot"] == name
    for entry in (*other["quarantine"], other["tombstones"]):
        data = (tmp_path / "copy" / "snapshots" / name / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
    index.save(tmp_path / "store")
    opened, lazy = dtoss.open(tmp_path / "store"), dtoss.open(tmp_path / "store", lazy=True)
    again = pickle.loads(pickle.dumps(opened))
    assert again.save(tmp_path / "store") == Store(str(tmp_path / "store")).current()
    assert same(dtoss.open(tmp_path / "store"), index)
    names = names_in(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    opened.save(tmp_path / "after")
    assert names_in(tmp_path / "after") == names
    with pytest.raises(StoreError, match=r"is missing; roll back or rebuild"):
        lazy.save(tmp_path / "none")
    assert not Store(str(tmp_path / "none")).unfinished()


def test_a_damaged_file_is_not_copied(index, tmp_path):
    index.save(tmp_path / "store")
    opened = dtoss.open(tmp_path / "store", lazy=True)
    path = tmp_path / "store" / "snapshots" / opened.snapshot / names_in(tmp_path / "store")[1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="does not have the checksum"):
        opened.save(tmp_path / "copy")
    assert not Store(str(tmp_path / "copy")).unfinished()


def empty(index):
    return dtoss.build(np.zeros(0, np.int64), np.zeros((0, 2)))


def clocked(index):
    return dtoss.build([1], [[0.0, 0.0]], columns={"at": pa.array([dt.time(7)]), "t": [1.0]})


def unheard(index):
    return dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], columns={"t": pa.array([1.0, None])})


def never(index):
    return dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]], columns={"t": [np.nan, 1.0]})


@pytest.mark.parametrize(
    ("of", "options", "kind", "said"),
    [
        (empty, {}, InputError, "the index is empty"),
        (lambda index: held_index(index, [1]), {}, InputError, "some of the partitions"),
        (clocked, {}, InputError, r"column 'at' is time64\[us\], which no store can hold: cast it"),
        (unheard, {}, InputError, "column 't' holds no time for 1 objects"),
        (never, {}, InputError, "column 't' holds no time for 1 objects"),
        (lambda index: index, {"time": "free"}, InputError, "column 'free' is boolean: times are"),
        (lambda index: index, {"time": "sen"}, ValueError, "'sen' is not carried by the objects.*did you mean seen"),
        (lambda index: index, {"keep": 0}, ValueError, "keep is 0"),
        (lambda index: index, {"keep_for": -1.0}, ValueError, "keep_for is -1.0"),
        (lambda index: index, {"keep_for": np.nan}, ValueError, "keep_for is nan"),
    ],
)
def test_what_cannot_be_saved_makes_no_store(index, tmp_path, of, options, kind, said):
    with pytest.raises(kind, match=said) as error:
        of(index).save(tmp_path / "store", **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "store").exists()


def test_where_no_store_can_be(index, tmp_path):
    """A file, what is below one, nothing; a copy has no time of its own."""
    (tmp_path / "file").write_text("text")
    for path, said in (("file", "File exists"), ("file/store", "Not a directory")):
        with pytest.raises(StoreError, match=rf"{path} cannot be written: {said}"):
            index.save(tmp_path / path)
    for nothing in ("", None, 7):
        with pytest.raises(ValueError, match=f"store is {nothing!r}: a path or a URI is wanted"):
            index.save(nothing)
    index.save(tmp_path / "store")
    with pytest.raises(ValueError, match="time is 'seen': an index that was opened"):
        dtoss.open(tmp_path / "store").save(tmp_path / "copy", time="seen")
    assert (tmp_path / "file").read_text() == "text"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "store"]


def test_what_a_server_has_is_saved_where_its_files_are(tmp_path):
    with pytest.raises(InputError, match=r"the index is at http://127.0.0.1:9, and its files are there: dtoss.open"):
        dtoss.RemoteIndex("http://127.0.0.1:9").save(tmp_path / "store")


def test_one_writer_at_a_time(index, tmp_path):
    """The second is told who writes; without a lease who commits first is through."""
    index.save(tmp_path / "store")
    store = Store(str(tmp_path / "store"))
    with store.writer(), pytest.raises(StoreError, match=f"is being written by process {os.getpid()} on "):
        index.save(tmp_path / "store")
    assert len(store.snapshots()) == 1
    assert store.writes() is None
    with store.writer():
        assert index.save(tmp_path / "store", lease=False) == store.current()


def test_who_was_forgotten_does_not_rise(index, tmp_path):
    """An index that holds somebody who is forgotten in the store is refused, a copy too."""
    index.save(tmp_path / "other")
    index.save(tmp_path / "store")
    forget_ids(str(tmp_path / "store"), ["é7", "é8", "nobody"])
    before = Store(str(tmp_path / "store")).current()
    for one in (index, dtoss.open(tmp_path / "other")):
        with pytest.raises(InputError, match=r"2 objects are forgotten in .*store \(dtoss forget\)"):
            one.save(tmp_path / "store")
    assert Store(str(tmp_path / "store")).current() == before
    rows = {name: [values[i] for i in range(N) if frame()["taxi"][i] not in ("é7", "é8")]
            for name, values in frame().items() if name in ("taxi", "lon", "lat")}  # fmt: skip
    dtoss.build(rows, id="taxi").save(tmp_path / "store")
    assert len(dtoss.open(tmp_path / "store")) == N - 2


def full_at(step, work):
    """Work in a process of its own whose disk is full from a step on; say what was raised."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = None
        try:
            faults_at(step, no_room)
            work()
        except BaseException as error:
            said = [type(error).__name__, str(error)]
        os.write(write, json.dumps(said).encode())
        end_now(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = json.loads(pipe.read())
    os.waitpid(child, 0)
    return said


def no_room(name):
    if name in ("open", "mkdir", "link"):
        raise OSError(errno.ENOSPC, "No space left on device")


EACH = pytest.mark.deep("a fault at each step; at some they come in make test")


@pytest.mark.parametrize(
    ("fault", "steps"),
    [
        *(("killed", range(1, 64, 7)), ("full", range(1, 50, 2))),
        *(pytest.param(fault, range(1, 64), marks=EACH) for fault in ("killed", "full")),
    ],
)
def test_a_fault_leaves_the_old_snapshot_or_the_new_one(tmp_path, fault, steps):
    """Whichever change of a file it meets; the next save goes through and clears what was left."""
    index, other = built(60), built(60, seed=1)
    index.save(tmp_path / "store")
    other.save(tmp_path / "other")
    store, whole = Store(str(tmp_path / "store")), [names_in(tmp_path / name) for name in ("store", "other")]
    broken = 0
    for step in steps:
        if fault == "killed":
            done = killed_at(step, lambda: other.save(tmp_path / "store")) == 0
        else:
            said = full_at(step, lambda: other.save(tmp_path / "store"))
            done = said is None
            assert done or said[0] == "StoreError", said
            assert done or "No space left on device" in said[1], said
            assert store.writes() is None
            assert store.unfinished() == []
        broken += not done
        assert names_in(tmp_path / "store") in whole
        assert len(dtoss.open(tmp_path / "store", verify=True)) == 60
        index.save(tmp_path / "store")
        assert store.unfinished() == []
    assert broken > 5
