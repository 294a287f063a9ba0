"""The index of a past moment is what a dictionary of all updates held then, and a rebuild of the rows up to then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dtoss.history.row_blocks import rows_of
from dtoss.history.schema import Schema
from dtoss.snapshots.manifest import reach_of, regions_of_manifest
from dtoss.snapshots.store import Store
from pipelines.as_of import as_of, standing_at
from pipelines.cycle import cycle
from pipelines.rebuild import rebuild
from tests.data import real_set
from tests.dtoss.history.worlds import EPOCH, PLANE, SPHERE, new_home, put_batch, schema_of, small_rows, table_of
from tests.pipelines.history_tasks.engines import batches_of, session_of, words_of
from tests.pipelines.stores import made, objects_of, snapshot_bytes, take_regions


def stood(tables, moment, max_age=None):
    """{id: (x, y)} after all updates and deletions up to a moment, one after the other; times as seconds or numbers."""
    rows = [row for table in tables for row in table.to_pylist()]
    for row in rows:
        row["s"] = (row["t"] - EPOCH).total_seconds() if isinstance(row["t"], datetime) else row["t"]
    objects, heard = {}, {}

    def turn(row):
        attributes = [row[name] for name in row if name not in ("id", "t", "x", "y", "deleted", "s")]
        return (row["s"], row["deleted"], row["x"], row["y"], attributes)

    for row in sorted((row for row in rows if row["s"] <= moment), key=turn):
        heard[row["id"]] = row["s"]
        objects.pop(row["id"], None)
        if not row["deleted"]:
            objects[row["id"]] = (row["x"], row["y"])
    return {id: at for id, at in objects.items() if max_age is None or heard[id] >= moment - max_age}


def text(seconds):
    return (EPOCH + timedelta(seconds=float(seconds))).isoformat()


def standing(engine, home, moment, **options):
    """{id: (x, y)} of what a rebuild would be given."""
    positions = standing_at(session_of(engine), home.path, moment, **options)
    rows = [row for batch in batches_of(positions, ["id", "x", "y"]) for row in batch.to_pylist()]
    positions.release()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: (row["x"], row["y"]) for row in rows}


@pytest.fixture(scope="module")
def fleet():
    """Three batches of updates, some late, a tenth deletions, many at equal times."""
    rng = np.random.default_rng(8)
    schema = schema_of(SPHERE, busy=pa.int8())
    tables = []
    for batch in range(3):
        n = 400
        where = np.round(rng.uniform(-5, 5, (n, 2)), 2)
        deleted = rng.random(n) < 0.1
        where[deleted] = np.nan
        times = rng.integers(0, 40, n) + 20 * batch
        ids = rng.integers(0, 60, n)
        tables.append(table_of(schema, ids, times, where, deleted.tolist(), busy=rng.integers(0, 2, n)))
    return schema, tables


@pytest.fixture(scope="module")
def home(tmp_path_factory, fleet):
    schema, tables = fleet
    kept = new_home(tmp_path_factory.mktemp("past") / "h")
    for i, table in enumerate(tables):
        put_batch(kept, table, schema, f"batch {i}")
    return kept


@pytest.mark.parametrize("max_age", [None, 3.0])
def test_what_stands_is_what_a_dictionary_of_all_updates_held(engine, home, fleet, max_age):
    """At moments between and at updates, before the first and after the last one; the age is closed."""
    for moment in (-1, 7.5, 30, 1000) if max_age is None else (30, 1000):
        assert standing(engine, home, text(moment), max_age=max_age) == stood(fleet[1], moment, max_age)


def test_a_version_knows_only_what_had_come_by_then(engine, home, fleet):
    """A late batch changes what is known of a moment, and not what was known."""
    then, now = (standing(engine, home, text(50), version=version) for version in (2, None))
    assert then == stood(fleet[1][:2], 50)
    assert now == stood(fleet[1], 50)
    assert then != now


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), ids=st.sampled_from(["int64", "string"]))
def test_any_small_world(engine, tmp_path_factory, data, ids):
    """Ties of times and places, deletions at equal times, poles, the antimeridian, text ids, nothing at all."""
    schema = schema_of(id_type=ids)
    batches = data.draw(st.lists(small_rows(schema), min_size=1, max_size=3))
    kept = new_home(tmp_path_factory.mktemp("world") / "h")
    for i, table in enumerate(batches):
        put_batch(kept, table, schema, str(i))
    moment, age = data.draw(st.integers(-1, 10)), data.draw(st.sampled_from([None, 0.0, 2.0]))
    assert standing(engine, kept, text(moment), max_age=age) == stood(batches, moment, age)


def same_regions(monkeypatch, store):
    """Rebuilds take the regions of a store's snapshot, whatever their sample says."""
    manifest = Store(str(store)).manifest()
    last = regions_of_manifest(manifest), reach_of(manifest)
    take_regions(monkeypatch, last)


def files_of(store):
    """The files of the current snapshot but for the manifest, which counts the rows that were read."""
    found = snapshot_bytes(store)
    del found["manifest.json"]
    return found


def test_byte_for_byte_a_rebuild_of_the_rows_up_to_then(engine, home, fleet, tmp_path, monkeypatch):
    """With the same pivots: of rows without deletions a rebuild, of all rows one with deletions and expiry."""
    _, tables = fleet
    rows = pa.concat_tables(tables).select(["id", "t", "x", "y", "busy", "deleted"])
    names = {"x": "x", "y": "y"}
    frame = rows.filter(pc.invert(rows["deleted"]))
    made(frame, tmp_path / "first", columns=["busy"], partitions=3, **names)
    same_regions(monkeypatch, tmp_path / "first")
    moment = datetime(2020, 1, 1, 0, 0, 45, tzinfo=UTC)
    rows = rows.filter(pc.less_equal(rows["t"], pa.scalar(moment, rows["t"].type)))
    alive = standing(engine, home, moment)
    living = rows.filter(pc.and_(pc.invert(rows["deleted"]), pc.is_in(rows["id"], pa.array(sorted(alive), pa.int64()))))
    rebuilt = rebuild(engine.createDataFrame(living), str(tmp_path / "a"), columns=["t", "busy"], **names)
    manifest = as_of(session_of(engine), home.path, moment, str(tmp_path / "b"))
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert manifest["objects"] == rebuilt["objects"] == len(alive)
    assert {id: at[:2] for id, at in objects_of(tmp_path / "b").items()} == alive
    young = as_of(session_of(engine), home.path, moment, str(tmp_path / "c"), max_age=4.0)
    assert 0 < young["objects"] < len(alive)
    cycle(
        engine.createDataFrame(rows), str(tmp_path / "d"), deleted="deleted", expire=4.0, now=moment, anew=True,
        first={**names, "columns": ["t", "busy"], "time": "t"},
    )  # fmt: skip
    assert objects_of(tmp_path / "c") == objects_of(tmp_path / "d")


@pytest.mark.parametrize("many", [5, pytest.param(20, marks=pytest.mark.deep("more moments of the same cabs"))])
def test_real_cabs_at_seeded_times(engine, tmp_path, many):
    """Where each cab was, of those that were heard of in the last quarter of an hour."""
    table = pq.read_table(real_set("cabspotting_sf"), columns=["uid", "t", "lon", "lat", "occupied"])
    table = table.filter(pc.less(table["uid"], 8)).rename_columns(["id", "t", "x", "y", "occupied"])
    schema = Schema(SPHERE, "int64", "timestamp", {"occupied": pa.int8()})
    kept = new_home(tmp_path / "h")
    for i in range(4):
        put_batch(kept, rows_of(table.slice(i * len(table) // 4, len(table) // 4 + 1), schema), schema, str(i))
    table = pa.concat_tables([table.slice(i * len(table) // 4, len(table) // 4 + 1) for i in range(4)])
    t = table["t"].cast(pa.int64()).to_numpy()
    moments = np.sort(np.random.default_rng(20).integers(t.min(), t.max(), many))
    order = np.lexsort((table["x"], t))
    rows = list(zip(table["id"].to_pylist(), t.tolist(), table["x"].to_pylist(), table["y"].to_pylist(), strict=True))
    held, at, found = {}, 0, 0
    for moment in moments.tolist():
        while at < len(order) and t[order[at]] <= moment:
            id, heard, x, y = rows[order[at]]
            held[id] = (heard, x, y)
            at += 1
        wanted = {id: (x, y) for id, (heard, x, y) in held.items() if heard >= moment - 900e6}
        said = datetime.fromtimestamp(moment / 1e6, UTC)
        assert standing(engine, kept, said, max_age=900.0) == wanted
        found += len(wanted)
    assert found > 2 * many


def test_the_command(engine, home, fleet, tmp_path, command):
    """It says which version of which history, and of what time; a dry run writes nothing."""
    store = tmp_path / "s"
    asked = ["rebuild", "--history", home.path, "--as-of", "2020-01-01T00:00:45", "--store", store, "--partitions", 2]
    asked += words_of(engine)
    ran = command(*asked, "--dry-run")
    assert ran.code == 0, ran.err
    assert not store.exists()
    ran = command(*asked, "--max-age", "4s", "--json")
    assert ran.code == 0, ran.err
    facts = ran.json
    assert facts["input"] | {"box": 0, "times": 0} == {
        "history": home.path, "version": 3, "as_of": "2020-01-01T00:00:45+00:00", "box": 0, "times": 0,
    }  # fmt: skip
    assert {id: at[:2] for id, at in objects_of(store).items()} == stood(fleet[1], 45, 4.0)
    code, out, err = command(*asked, "--version", 1, "--columns", "none")
    assert code == 0, err
    assert "by its version 1" in out
    assert {id: at[:2] for id, at in objects_of(store).items()} == stood(fleet[1][:1], 45)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--as-of 2020-01-01", "name it (--history H)"),
        ("--history {home} --max-age 5min", "name it (--as-of TIME)"),
        ("--history {home} --as-of noon", "a time such as"),
        ("--history {home} --as-of 2020-01-01 --version 7", "versions 1 to 3 are"),
        ("--history {home} --as-of 2020-01-01 --max-age 5", "is no duration"),
        ("--history {home} --as-of 2020-01-01 --columns colour", "'colour' is not carried"),
        ("--history {home} --as-of 2019-01-01", "no object"),
        ("--history {home} --as-of 2020-01-01 --id uid", "--id is for rows in files"),
        ("--history {home}-not --as-of 2020-01-01", "is no history"),
    ],
)
def test_what_is_wrong_is_one_line(home, tmp_path, command, arguments, said):
    """And nothing is built."""
    code, out, err = command("rebuild", "--store", tmp_path / "s", *arguments.format(home=home.path).split())
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert said in lines[0]
    assert not (tmp_path / "s" / "snapshots").exists() or not list((tmp_path / "s" / "snapshots").iterdir())


def test_times_that_are_numbers_and_planes(engine, tmp_path, command):
    """The time is a number of the column then, and the age is seconds; positions are x and y."""
    schema = schema_of(PLANE, "string", "int64")
    kept = new_home(tmp_path / "h")
    put_batch(kept, table_of(schema, ["a", "a", "b"], [10, 20, 5], [[0, 0], [1, 1], [2, 2]]), schema, "k")
    code, _, err = command(
        "rebuild", "--history", kept.path, "--as-of", 19, "--store", tmp_path / "s", "--max-age", "14s",
        "--partitions", 1, *words_of(engine),
    )  # fmt: skip
    assert code == 0, err
    assert objects_of(tmp_path / "s") == {"a": (0.0, 0.0, 10), "b": (2.0, 2.0, 5)}
