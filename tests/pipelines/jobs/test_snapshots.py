"""The life of a store: crashes, retries, debris, keeping, rolling back, damage."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import dtoss
import pipelines.cycles.partitions
import pipelines.rebuild
from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import space_of
from dtoss.snapshots.manifest_fields import Wishes
from dtoss.snapshots.store import Store
from pipelines.cycles.partitions import choose_regions
from pipelines.rebuild import rebuild
from pipelines.rows.survey import Profile
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.snapshots.small_stores import as_before_commits
from tests.pipelines.stores import listing, made, rebuilt, snapshot_bytes, table

ROOT = Path(__file__).parents[3]


def unfinished(store):
    return {path.name for path in (store / "snapshots").iterdir() if not (path / "manifest.json").exists()}


def built_by(monkeypatch, build):
    """Let tasks build by a function of what builds their batches and of these."""
    real = pipelines.cycles.partitions.builder
    monkeypatch.setattr(pipelines.cycles.partitions, "builder", lambda plan, tasks: partial(build, real(plan, tasks)))


@pytest.mark.parametrize("stage", ["make_partitions", "make_manifest", "quarantine"])
def test_a_failing_stage_leaves_the_store_as_it_was(engine, tmp_path, monkeypatch, stage):
    """Nothing of the failed snapshot stays, the current one answers, and the next rebuild goes through."""
    store = tmp_path / "store"
    made(table(50), store)
    before = listing(store)

    def fail(*arguments, **options):
        raise RuntimeError("the power went off")

    monkeypatch.setattr(pipelines.rebuild, stage, fail)
    bad = pa.concat_tables([table(60), pa.table({"id": [99], "lon": [999.0], "lat": [0.0]})])
    with pytest.raises(RuntimeError, match="power"):
        rebuilt(engine, bad, store)
    assert listing(store) == before
    assert len(dtoss.open(str(store))) == 50
    if stage == "quarantine":  # the last of them
        monkeypatch.undo()
        assert len(rebuilt(engine, bad, store)) == 60


def test_a_failing_task_leaves_the_store_as_it_was(engine, tmp_path, monkeypatch):
    """A task that fails on every attempt, after it has written a file."""
    store = tmp_path / "store"
    made(table(50), store)
    before = listing(store)

    def broken(build, batches):
        yield from build(batches)
        raise OSError("no space left on device")

    built_by(monkeypatch, broken)
    with pytest.raises(Exception, match="no space left on device"):
        rebuilt(engine, table(60), store, partitions=3)
    assert listing(store) == before


def test_a_task_that_is_tried_again_does_no_harm(spark, tmp_path, monkeypatch):
    """Every build task fails once after writing its files; the snapshot is the same as without."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def fails_once(build, batches):
        entries = list(build(batches))
        names = "-".join(str(json.loads(b.column(0)[0].as_py())["number"]) for b in entries) or "none"
        if not (marks / names).exists():
            (marks / names).touch()
            raise OSError("this executor is lost")
        yield from entries

    built_by(monkeypatch, fails_once)
    manifest = rebuild(spark.createDataFrame(table(500)), str(tmp_path / "lossy"), partitions=3)
    assert len(list(marks.iterdir())) >= 3
    assert (manifest["counts"]["kept"], manifest["counts"]["duplicates"]) == (500, 0)
    lossy, calm = (snapshot_bytes(store) for store in (tmp_path / "lossy", made(table(500), partitions=3)))
    assert lossy.keys() == calm.keys()
    assert [lossy[name] for name in calm if name.endswith(".arrow")] == [
        data for name, data in calm.items() if name.endswith(".arrow")
    ]


KILLED = """
import os, signal, sys
import pipelines.rebuild
from pipelines.spark.session import spark_session
from tests.pipelines.stores import table
import pyarrow as pa

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

pipelines.rebuild.make_manifest = killed
spark = spark_session("local[2]", driver_memory="1g")
pipelines.rebuild.rebuild(spark.createDataFrame(table(80)), sys.argv[1], partitions=2)
"""


@pytest.mark.deep("a Java of its own; what a dead process has left goes in test_debris_is_told_from_work_in_progress")
def test_a_killed_rebuild_is_cleared_by_the_next_one(engine, tmp_path):
    """The driver is killed when all files are written: the old snapshot is current, then the debris goes."""
    store = tmp_path / "store"
    rebuilt(engine, table(50), store)
    current = Store(str(store)).current()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(store)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == -9, done.stderr
    (debris,) = unfinished(store)
    assert list((store / "snapshots" / debris / "partitions").iterdir())
    assert Store(str(store)).current() == current
    assert Store(str(store)).snapshots() == [current]
    assert len(dtoss.open(str(store))) == 50
    rebuilt(engine, table(70), store)
    assert not unfinished(store)
    assert len(dtoss.open(str(store), current)) == 50


def test_debris_is_told_from_work_in_progress(engine, tmp_path):
    """Unfinished snapshots of processes that live, here or elsewhere, stay; those of dead ones, and old ones, go."""
    store = Store(str(tmp_path / "store"))
    made(table(5), store.path)

    def begun(**changes):
        name = store.begin()
        store.write(name, "partitions/00000.arrow", pa.py_buffer(b"all but the manifest"))
        mark = Path(store.file("snapshots", name, "WRITING"))
        mark.write_text(json.dumps(json.loads(mark.read_text()) | changes))
        return name

    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    living, dead = begun(), begun(pid=int(ended.stdout))
    elsewhere, forgotten = begun(host="elsewhere", pid=1), begun(host="elsewhere", pid=1, began=0.0)
    unreadable = begun()
    Path(store.file("snapshots", unreadable, "WRITING")).write_text("?")
    (current,) = store.snapshots()
    assert store.current() == current
    assert len(dtoss.open(store.path)) == 5
    rebuilt(engine, table(6), store.path)
    assert len(dtoss.open(store.path, current)) == 5
    assert unfinished(tmp_path / "store") == {living, elsewhere}
    assert {dead, forgotten, unreadable}.isdisjoint(path.name for path in (tmp_path / "store" / "snapshots").iterdir())


def test_snapshots_are_kept_and_rolled_back(engine, tmp_path):
    """--keep N stay; rollback makes the one before current, again and again; the next rebuild goes on from there."""
    store = Store(str(tmp_path / "store"))
    for n in (1, 2, 3):
        stored(dtoss.build(np.arange(n), np.zeros((n, 2))), store.path)
    names = [*store.snapshots(), rebuild(engine.createDataFrame(table(4)), store.path, keep=3)["snapshot"]]
    assert names == sorted(names)
    assert store.snapshots() == names[1:]
    assert store.rollback() == (names[2], names[3])
    assert len(dtoss.open(store.path)) == 3
    assert len(dtoss.open(store.path, names[3])) == 4
    assert store.rollback() == (names[1], names[2])
    with pytest.raises(StoreError, match=f"no snapshot before '{names[1]}' to roll back to"):
        store.rollback()
    newest = rebuild(engine.createDataFrame(table(5)), store.path, keep=1)["snapshot"]
    assert store.snapshots() == [newest]
    with pytest.raises(StoreError, match=f"no snapshot '{names[3]}'; it has {newest}"):
        dtoss.open(store.path, names[3])


def test_an_open_index_outlives_its_snapshot(engine, tmp_path):
    """Files that are removed stay mapped: a reader keeps its answers while rebuilds go on."""
    store = tmp_path / "store"
    index = dtoss.open(made(table(400), store, partitions=3))
    wanted = list(index.knn([[0.0, 0.0], [5.0, 5.0]], 20))
    rebuilt(engine, table(10, seed=1), store, keep=1)
    assert list(index.knn([[0.0, 0.0], [5.0, 5.0]], 20)) == wanted
    assert len(dtoss.open(str(store))) == 10


@pytest.mark.parametrize("kind", ["partitions", "borders"])
def test_damage_is_an_error_that_names_the_file(tmp_path, kind):
    """A flipped byte is found by the checksum, a lost tail by the size, a lost file when it is opened."""
    store = tmp_path / "store"
    made(table(300), store, partitions=2, reach=0.0)
    manifest = Store(str(store)).manifest()
    entry = manifest["partitions"][1] if kind == "partitions" else manifest["borders"]
    path = store / "snapshots" / manifest["snapshot"] / entry["file"]
    data = path.read_bytes()
    index = dtoss.opening.open_index(str(store), verify=True)
    assert len(index) == 300
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(StoreError, match=rf"{path.name} does not have the checksum .* roll back or rebuild"):
        dtoss.opening.open_index(str(store), verify=True)

    def use():
        opened = dtoss.open(str(store))
        return [opened.area(i) for i in range(300)]

    path.write_bytes(data[:-8])
    with pytest.raises(StoreError, match=rf"{path.name} has {len(data) - 8} bytes, the manifest says {len(data)}"):
        use()
    path.unlink()
    with pytest.raises(StoreError, match=rf"{path.name} is missing"):
        use()
    path.write_bytes(data)
    assert sum(use()) == pytest.approx(4 * np.pi * 6_371_008.8**2, rel=1e-9)


def test_a_damaged_manifest_and_another_format(tmp_path):
    """Neither is read; the way out is in the message."""
    store = tmp_path / "store"
    made(table(3), store)
    (path,) = store.glob("snapshots/*/manifest.json")
    manifest = json.loads(path.read_text())
    path.write_text("{")
    with pytest.raises(StoreError, match=r"manifest\.json of snapshot .* is damaged; roll back or rebuild"):
        dtoss.open(str(store))
    path.write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(StoreError, match="does not have the checksum of its commit; roll back or rebuild"):
        dtoss.open(str(store))
    as_before_commits(Store(str(store)))
    with pytest.raises(StoreError, match="has format 99, this dtoss reads 2 and 3: install a newer one"):
        dtoss.open(str(store))


def chosen(data, last, *, crs=None, **wishes):
    """The regions that a rebuild of such rows has where pivots are to be kept, and no Spark."""
    space = space_of(crs)
    rows = pa.table({"id": data["id"], "x": data["lon"], "y": data["lat"]})
    profile = Profile(len(rows), {}, np.zeros(2), np.zeros(2), 0, 0, rows, 1)
    session = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    positions = SimpleNamespace(timed=False)
    return choose_regions(session, positions, space, profile, None, Wishes(pivots="keep", **wishes), last)


def test_pivots_are_kept_while_they_fit():
    """The same pivots while partitions are balanced and as many as asked for; else it is said what would do."""
    first = chosen(table(4000), None, partitions=4)
    assert chosen(table(4000, seed=1), None, partitions=4)[0].digest != first[0].digest
    assert chosen(table(4000), None, partitions=4)[0].digest == first[0].digest
    same = chosen(table(4000, seed=1), first, partitions=4)
    assert (same[0].digest, same[1].tolist()) == (first[0].digest, first[1].tolist())
    assert chosen(table(4000, seed=1), first, objects_per_partition=900)[0].digest == first[0].digest
    with pytest.raises(InputError, match="has 4 partitions, and 5 are wanted: --partitions 4 keeps them, --pivots bal"):
        chosen(table(4000), first, partitions=5)
    with pytest.raises(InputError, match="has 4 partitions, and 40 are wanted: --partitions 4 keeps them"):
        chosen(table(4000), first, objects_per_partition=100)
    five = chosen(table(4000), None, partitions=5)
    crowded = table(4000, seed=2).set_column(1, "lon", pa.array(np.random.default_rng(3).uniform(8, 9, 4000)))
    with pytest.raises(InputError, match=r"the largest of 5 partitions would have .* times the mean of the objects"):
        chosen(crowded, five, partitions=5)


def test_a_rebuild_keeps_pivots_of_its_space_alone(engine, tmp_path):
    """With their lambdas, which another number of objects would not have; another CRS has others."""
    store = str(tmp_path / "store")
    made(table(400), store, partitions=3)
    first = Store(store).manifest()
    same = rebuild(engine.createDataFrame(table(380, seed=1)), store, partitions=3, pivots="keep")
    assert (same["pivots_hash"], same["reach"]) == (first["pivots_hash"], first["reach"])
    with pytest.raises(InputError, match=r"are in EPSG:4326 .sphere., and the positions in EPSG:4258"):
        rebuild(engine.createDataFrame(table(380, seed=1)), store, partitions=3, pivots="keep", crs="EPSG:4258")
    assert Store(store).manifest() == same
    assert len(dtoss.open(store)) == 380
