"""Cycles in Spark: what stands, by whichever way it was made, what is refused, and what a manifest says of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.read_file import ledger_of
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from pipelines.cycles import write_snapshot
from pipelines.cycles.spread import NOTHING, USUAL
from pipelines.rebuild import rebuild
from tests.oracles import apply, standing
from tests.pipelines.cycles.in_place import full_bytes, objects, stored_bytes
from tests.pipelines.cycles.test_in_place import same, wanted
from tests.pipelines.stores import listing, made
from tests.update_worlds import INT_IDS, STRING_IDS, drawn, table

inf = float("inf")
RULES = {"deleted": "deleted", "deleted_for": None, "max_ahead": None, "now": 100.0}


def worlds(string_ids, plane, count=3, rows=150):
    """Batches of rows of 200 ids, awkward ones among them."""
    rng = np.random.default_rng(5)
    more = [f"n{i}" for i in range(200)] if string_ids else list(range(100, 300))
    # an empty text is no id in rows
    ids = [*((id for id in STRING_IDS if id) if string_ids else INT_IDS), *more]
    return [drawn(rng, ids, rows, plane=plane) for _ in range(count)]


def frame(engine, rows, **options):
    return engine.createDataFrame(table(rows, **options))


def state_of(store):
    """Space, regions, lambdas and bounds of a store's snapshot, as tests build from."""
    index = dtoss.open(str(store))
    manifest = Store(str(store)).manifest()
    bounds = None if manifest["bounds"] is None else np.array(manifest["bounds"])
    return index.space, index.partitioning, index.reach, bounds


MORE = pytest.mark.deep("planes and more partitions in Spark; test_in_place.py has them without it")


@pytest.mark.parametrize(
    ("string_ids", "plane", "partitions", "everywhere"),
    [
        pytest.param(False, False, 7, False, id="sphere"),
        pytest.param(True, False, 2, True, id="sphere, strings, tasks"),
        pytest.param(False, True, 7, True, id="plane, tasks", marks=MORE),
        pytest.param(True, True, 64, False, id="plane, strings, 64", marks=MORE),
    ],
)
def test_cycles_say_what_the_dictionary_says(engine, tmp_path, string_ids, plane, partitions, everywhere):
    """From nothing on: the rows of the oracle, and the files of a full build with the same pivots."""
    store, state = tmp_path / "s", None
    first = {"crs": "none" if plane else None, "partitions": partitions, "columns": "name,size"}
    for batch in worlds(string_ids, plane, count=2):
        manifest = cycle(
            frame(engine, batch, string_ids=string_ids, plane=plane),
            store,
            pivots="keep",
            first=first,
            **RULES,
            here=NOTHING if everywhere else USUAL,
        )
        state, counted = apply(state, batch)
        done = manifest["cycle"]
        assert manifest["counts"]["quarantined"] == {}
        assert {name: done[name] for name in counted} == counted
        assert same(objects(Store(str(store)))) == same(wanted(state))
        assert manifest["counts"]["read"] == len(batch)
    assert manifest["cycle"]["pivots"] == "kept"
    assert partitions - 2 <= len(manifest["partitions"]) <= partitions  # fewer where so few places are distinct
    rows = table(standing(state).values(), string_ids=string_ids, plane=plane)
    assert stored_bytes(Store(str(store))) == full_bytes(state_of(store), rows, string_ids=string_ids)


def test_tasks_that_fail_are_tried_again_or_leave_what_stood(spark, tmp_path, monkeypatch):
    """Each task that builds fails once when its files are there: no harm. Where it always does, nothing has changed."""
    store, marks, real = tmp_path / "s", tmp_path / "marks", write_snapshot.renew
    marks.mkdir()

    def fails(often):
        def renew(plan, dropped, wanted):
            entries = real(plan, dropped, wanted)
            mark = marks / "-".join(str(one.number) for one in wanted)
            if often or not mark.exists():
                mark.touch()
                raise OSError("this executor is lost")
            return entries

        return renew

    one, other = worlds(False, False, count=2, rows=60)
    cycle(frame(spark, one), store, pivots="keep", first={"partitions": 3, "columns": "name,size"}, **RULES)
    before = listing(store)
    monkeypatch.setattr(write_snapshot, "renew", fails(often=True))
    with pytest.raises(Exception, match="this executor is lost"):
        cycle(frame(spark, other), store, pivots="keep", in_place_until=1e9, here=NOTHING, **RULES)
    assert listing(store) == before
    for mark in marks.iterdir():
        mark.unlink()
    monkeypatch.setattr(write_snapshot, "renew", fails(often=False))
    cycle(frame(spark, other), store, pivots="keep", in_place_until=1e9, here=NOTHING, **RULES)
    assert len(list(marks.iterdir())) >= 2
    state, _ = apply(None, one)
    state, _ = apply(state, other)
    assert same(objects(Store(str(store)))) == same(wanted(state))
    assert stored_bytes(Store(str(store))) == full_bytes(state_of(store), table(standing(state).values()))


def test_everything_anew_comes_out_the_same(engine, tmp_path):
    """With the pivots kept the bytes are those of a cycle in place; with others the objects are."""
    before, last = worlds(False, False, count=2)
    stands, _ = apply(None, before)
    rows = table(standing(stands).values()).drop_columns(["deleted"])
    made(rows, tmp_path / "a", partitions=7, columns=["name", "size"])
    found = []
    for name, options in (("b", {"in_place_until": 0.0}), ("c", {"pivots": "balanced"}), ("a", {})):
        store = tmp_path / name
        if name != "a":
            shutil.copytree(tmp_path / "a", store)
        manifest = cycle(frame(engine, last), store, **{"pivots": "keep"} | RULES | options)
        found.append((stored_bytes(Store(str(store))), objects(Store(str(store))), manifest["cycle"]))
    (anew, _, why), (_, others, chosen), (place, rows, _) = found
    assert place == anew
    assert same(rows) == same(others)
    assert why["pivots"] == "kept"
    assert "updates are more than 0% of" in why["why"]
    assert chosen["pivots"] == "chosen"
    assert (chosen["built"], chosen["linked"]) == (7, 0)


def two_towns(count=400):
    """Objects of two towns, far apart, and the table of some of them, moved."""
    rng = np.random.default_rng(2)
    places = np.concatenate([rng.normal((2.3, 48.8), 0.1, (count, 2)), rng.normal((139.7, 35.7), 0.1, (count, 2))])
    return pa.table({"id": np.arange(2 * count), "lon": places[:, 0], "lat": places[:, 1], "t": np.full(2 * count, 10)})


def test_partitions_that_nothing_concerns_are_linked(engine, tmp_path):
    """One town reports: files of the other are the same inodes; nothing new at all links the border table too."""
    rows = two_towns()
    tmp_path = tmp_path / "store"
    made(rows, tmp_path, columns="none", partitions=8)
    store = Store(str(tmp_path))
    before = store.manifest()
    moved = rows.slice(0, 100).set_column(3, "t", pa.array(np.full(100, 20)))
    manifest = cycle(engine.createDataFrame(moved), str(tmp_path), now=20, pivots="keep")
    assert 0 < manifest["cycle"]["built"] < 8
    assert manifest["cycle"]["linked"] == 8 - manifest["cycle"]["built"]
    linked = 0
    for old, new in zip(before["partitions"], manifest["partitions"], strict=True):
        one, other = (
            Path(store.file("snapshots", m["snapshot"], entry["file"])) for m, entry in ((before, old), (manifest, new))
        )
        linked += one.name == other.name and one.stat().st_ino == other.stat().st_ino
    assert linked == manifest["cycle"]["linked"]
    again = cycle(engine.createDataFrame(moved), str(tmp_path), now=20, pivots="keep")
    assert (again["cycle"]["unchanged"], again["cycle"]["linked"], again["cycle"]["updated"]) == (100, 8, 0)
    assert again["borders"] == manifest["borders"]
    assert sum(dtoss.open(str(tmp_path)).area(i) for i in (0, 1)) > 0


def test_times_pass(engine, tmp_path):
    """Expiry needs no updates; rows ahead are set aside and counted; data may be the clock; a given now comes first."""
    rows = two_towns(20)
    tmp_path = tmp_path / "store"
    made(rows, tmp_path, columns="none", partitions=2)
    late = rows.slice(0, 5).set_column(3, "t", pa.array([11, 50, 1000, 5000, 9]))
    manifest = cycle(engine.createDataFrame(late), str(tmp_path), now=100, max_ahead=60, max_bad=1.0)
    assert manifest["counts"]["quarantined"] == {"time is ahead of now": 2}
    assert sum(entry["rows"] for entry in manifest["quarantine"]) == 2
    assert (manifest["cycle"]["updated"], manifest["cycle"]["late"]) == (2, 1)
    assert manifest["clock"] == {"kind": "given", "now": 100, "watermark": 50}
    with pytest.raises(InputError, match=r"97\.5% fewer, more than --max-shrink 50% allows"):
        cycle(None, str(tmp_path), now=100, expire=60, max_shrink=0.5)
    manifest = cycle(None, str(tmp_path), clock="data", expire=39)
    # forty objects stand, of which three have reached 10
    said = {"now": 10, "sure": 10, "held": 10, "waits": 0}
    assert manifest["clock"] == {"kind": "data", "now": 10, "watermark": 50, "witnesses": said}
    assert (manifest["objects"], manifest["cycle"]["expired"]) == (40, 0)
    one = [{"id": 1, "lon": 0.0, "lat": 0.0, "t": 50}]
    manifest = cycle(
        engine.createDataFrame(pa.Table.from_pylist(one)), str(tmp_path), clock="data", witnesses="1", expire=39
    )
    assert {name: manifest["clock"][name] for name in ("kind", "now", "watermark")} == {
        "kind": "data", "now": 50, "watermark": 50,
    }  # fmt: skip
    assert (manifest["objects"], manifest["cycle"]["expired"]) == (2, 38)
    assert sorted(objects_of(tmp_path)) == [0, 1]
    with pytest.raises(InputError, match="there is no object"):
        cycle(None, str(tmp_path), now=10**6, expire=1)
    assert cycle(None, str(tmp_path), now=10**6, expire=1, allow_empty=True)["objects"] == 0


def objects_of(store):
    """{id: t} of a store without attributes."""
    index = dtoss.open(str(store))
    return {int(p.ids[i]): p.times[i].as_py() for p in index.parts.all() for i in range(p.owned_objects)}


def test_bounds_grow_the_same_in_any_order(engine, tmp_path):
    """Places beyond the plane's bounds: the bounds hold them, and do not depend on who came first; given ones stay."""
    base = pa.table({"id": [1, 2], "x": [0.0, 10.0], "y": [0.0, 5.0], "t": [1, 1]})
    far = [
        pa.table({"id": [3], "x": [40.0], "y": [0.0], "t": [2]}),
        pa.table({"id": [4], "x": [-500.0], "y": [7e4], "t": [3]}),
    ]
    boxes = []
    for name, parts in (("a", far), ("b", far[::-1]), ("c", [pa.concat_tables(far)])):
        store = made(base, tmp_path / name, columns="none", crs="none", partitions=2)
        for part in parts:
            manifest = cycle(engine.createDataFrame(part), store, now=10, pivots="keep")
        boxes.append((manifest["bounds"], stored_bytes(Store(store))))
    assert boxes[0] == boxes[1] == boxes[2]
    xmin, ymin, xmax, ymax = boxes[0][0]
    assert xmin <= -500
    assert xmax >= 40
    assert ymax >= 7e4
    assert ymin == -1.0
    store = str(tmp_path / "given")
    rebuild(engine.createDataFrame(base), store, crs="none", partitions=2, bounds=[-50, -50, 50, 50])
    manifest = cycle(engine.createDataFrame(pa.concat_tables(far)), store, now=10, max_bad=1.0)
    assert manifest["bounds"] == [-50, -50, 50, 50]
    assert manifest["counts"]["quarantined"] == {"position outside the bounds": 1}


def test_what_was_read_is_forgotten_with_what_stood(engine, tmp_path):
    """A snapshot from all rows holds nothing of the files that the last one had read: the next cycle reads them."""
    rows = engine.createDataFrame(two_towns(10))
    many = {f"{number}": number for number in range(1001)}
    for some in ({"a": 1}, many):  # few stand in the manifest, many in files of their own
        first = cycle(rows, str(tmp_path), now=20, ledger=lambda before, some=some: before.reading(some, there=some))
        second = cycle(None, str(tmp_path), now=20)
        assert second["ledger"] == first["ledger"]
        assert ledger_of(Store(str(tmp_path)), second).files == some
    assert second["ledger"]["files"] == {}
    assert verify_store(Store(str(tmp_path))).damaged == []
    assert cycle(rows, str(tmp_path), now=20, anew=True)["ledger"]["files"] == {}


def test_columns_that_come_and_go(engine, tmp_path):
    """A missing one is an error or null, a new one null for the others, another type an error that names both."""
    rows = two_towns(10).append_column("speed", pa.array(np.arange(20.0)))
    tmp_path = tmp_path / "store"
    made(rows, tmp_path, partitions=2)
    bare = rows.slice(0, 1).drop_columns(["speed"]).set_column(3, "t", pa.array([11]))
    with pytest.raises(InputError, match=r"no column 'speed', which snapshot .* has: .* --missing null"):
        cycle(engine.createDataFrame(bare), str(tmp_path), now=20)
    manifest = cycle(engine.createDataFrame(bare), str(tmp_path), now=20, missing="null")
    assert manifest["columns"] == {"speed": "double", "t": "bigint"}
    index = dtoss.open(str(tmp_path))
    assert index[0]["speed"] is None
    assert index[1]["speed"] == 1.0
    fresh = rows.slice(1, 1).set_column(3, "t", pa.array([12])).append_column("note", pa.array(["hi"]))
    manifest = cycle(engine.createDataFrame(fresh), str(tmp_path), now=20)
    assert manifest["columns"] == {"speed": "double", "t": "bigint", "note": "string"}
    index = dtoss.open(str(tmp_path))
    assert [index[i]["note"] for i in (0, 1, 19)] == [None, "hi", None]
    text = rows.slice(0, 1).set_column(4, "speed", pa.array(["fast"]))
    with pytest.raises(InputError, match="column 'speed' is string in the updates and double in snapshot"):
        cycle(engine.createDataFrame(text), str(tmp_path), now=20, missing="null")
    named = rows.slice(0, 1).set_column(0, "id", pa.array(["x"]))
    with pytest.raises(InputError, match=r"ids of the updates are string, those of snapshot .* are int64"):
        cycle(engine.createDataFrame(named), str(tmp_path), now=20, missing="null")


def test_a_store_without_times_is_not_updated(engine, tmp_path):
    """Nor are updates without a time taken, or none where nothing stands."""
    rows = two_towns(10)
    made(rows.drop_columns(["t"]), tmp_path / "a", partitions=1)
    with pytest.raises(StoreError, match=r"has no times, .* rebuild once from all rows with --time"):
        cycle(engine.createDataFrame(rows), str(tmp_path / "a"))
    made(rows, tmp_path / "b", partitions=1)
    with pytest.raises(InputError, match="there is no column 't'"):
        cycle(engine.createDataFrame(rows.drop_columns(["t"])), str(tmp_path / "b"))
    with pytest.raises(InputError, match=r"nothing stands in .* and there are no updates"):
        cycle(None, str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()


def test_who_loses_a_race_merges_with_the_winner(engine, tmp_path, monkeypatch):
    """Another cycle commits while this one builds: its update is not lost, and this one says so."""
    rows = two_towns(10)
    tmp_path = tmp_path / "store"
    made(rows, tmp_path, columns="none", partitions=2)

    def update(id, t):
        return engine.createDataFrame(rows.slice(id, 1).set_column(3, "t", pa.array([t])))

    finish, others = Store.finish, [(1, 21), (2, 22)]

    def late(self, *args, **options):
        if others:
            id, t = others.pop()
            cycle(update(id, t), str(tmp_path), now=50, lease=False)
        return finish(self, *args, **options)

    monkeypatch.setattr(Store, "finish", late)
    heard = []
    manifest = cycle(update(0, 20), str(tmp_path), now=50, lease=False, warn=heard.append)
    assert any("was committed by" in line for line in heard)
    assert {id: t for id, t in objects_of(tmp_path).items() if t > 10} == {0: 20, 1: 21, 2: 22}
    assert manifest["objects"] == 20
    assert Store(str(tmp_path)).head().number == 4


def test_what_others_clear_meanwhile_is_read_anew(engine, tmp_path, monkeypatch):
    """Without the lease: the snapshot that a cycle reads is cleared by one that was faster; a real error is raised."""
    rows = two_towns(10)
    tmp_path = tmp_path / "store"
    made(rows, tmp_path, columns="none", partitions=2)
    newer = rows.set_column(3, "t", pa.array([20 + i for i in range(20)]))
    first = engine.createDataFrame(newer.slice(1, 1))
    begin, steps = Store.begin, [lambda: cycle(first, str(tmp_path), now=50, lease=False, keep=1, keep_for=0.0)]
    monkeypatch.setattr(Store, "begin", lambda self: (steps and steps.pop()(), begin(self))[1])
    heard = []
    cycle(engine.createDataFrame(newer.slice(0, 1)), str(tmp_path), now=50, lease=False, warn=heard.append)
    assert any("committed" in line for line in heard)
    assert {id: t for id, t in objects_of(tmp_path).items() if t > 10} == {0: 20, 1: 21}

    def broken():
        raise OSError(28, "no room")

    steps.append(broken)
    with pytest.raises(OSError, match="no room"):
        cycle(engine.createDataFrame(newer), str(tmp_path), now=50, lease=False)


@pytest.mark.parametrize("pivots", ["keep", "balanced"])
def test_a_column_that_is_new_and_has_no_row_is_null(engine, tmp_path, pivots):
    """Updates without rows say what columns there are, also to a partition that others take over."""
    rows = pa.table({"id": [1, 2], "lon": [0.0, 1.0], "lat": [0.0, 0.0], "t": [1, 1]})
    cycle(engine.createDataFrame(rows), tmp_path / "s", now=5, first={"columns": "none"})
    new = rows.slice(0, 0).append_column("size", pa.array([], pa.float32()))
    manifest = cycle(engine.createDataFrame(new), tmp_path / "s", now=5, first={"columns": "size"}, pivots=pivots)
    assert manifest["columns"] == {"size": "float"}
    assert dtoss.open(str(tmp_path / "s"))[1]["size"] is None
    store = Store(str(tmp_path / "s"))
    for entry in manifest["partitions"]:
        file = store.source(manifest["snapshot"], entry["file"])
        assert decode(file.data, file.path).attributes["size"].type == pa.float32()
