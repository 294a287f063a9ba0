"""Cycles read sealed segments of a log as any file of updates, and know which of their rows delete."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.offsets import Ledger
from dtoss.log.log_reader import Gone, LogReader, log_schema, roles_of
from dtoss.log.log_writer import LogWriter
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store
from pipelines.history import append_files
from pipelines.history_tasks.scans import home_of
from pipelines.loop.arriving import ask_for_seal
from pipelines.loop.disposal import disposal_of
from pipelines.rebuild import rebuild
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from tests.pipelines.loops import looped

ROWS = {"id": [1, 2, 3], "lon": [0.0, 1.0, 2.0], "lat": [0.0, 0.0, 0.0], "t": [10, 10, 10], "word": ["a", "b", "c"]}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def placed(index):
    """Return where the objects of an index are, by their ids."""
    found = {}
    for one in index.parts.all():
        owned = zip(one.ids.to_pylist() if index.string_ids else one.ids.tolist(), one.positions.tolist(), strict=True)
        found |= {key: tuple(place) for key, place in [*owned][: one.owned_objects]}
    return found


class World:
    """A store, a folder of updates, and the log in it."""

    def __init__(self, place, rows=ROWS, **options):
        self.store, self.updates = place / "store", place / "updates"
        self.updates.mkdir()
        rebuild(pa.table(rows) if isinstance(rows, dict) else rows, str(self.store), **options)
        self.schema = log_schema(Store(str(self.store)).manifest())
        self.writer = LogWriter.open(self.updates, self.schema, lease=False)

    def tell(self, *rows):
        """Tell rows of id, x, y and time, which delete where x is None, and of other columns."""
        names = [*list(roles_of(self.schema).values())[:4], *self.schema.names[4:-1]]
        made = [dict(zip(names, one, strict=False)) | {"deleted": one[1] is None} for one in rows]
        columns = {
            name: pa.array([one.get(name) for one in made], self.schema.field(name).type) for name in self.schema.names
        }
        self.writer.append(pa.table(columns, schema=self.schema))
        self.writer.sync()

    def run(self, session=None, **options):
        looped(str(self.updates), str(self.store), lambda: session, **{"cycles": 1, "now": 100, **options})
        return self.objects()

    def objects(self):
        return placed(dtoss.open(self.store))

    def segments(self):
        return sorted(self.updates.glob("positions-*.parquet"))

    def unread(self):
        """Return the ids of rows that the current snapshot has not read."""
        ledger = Ledger.of(Store(str(self.store)).manifest()["ledger"])
        reader = LogReader(self.updates, self.schema)
        return [one for _, rows in reader.rows_unread(ledger) for one in rows.column(0).to_pylist()]


def test_rows_that_are_told_become_current(world):
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20), (4, 3.0, 3.0, 20, None))
    assert world.run() == {1: (0.0, 0.0), 2: (1.0, 0.0), 3: (2.0, 0.0)}  # nobody has sealed them
    assert world.unread() == [1, 2, 4]
    world.writer.seal()
    assert world.run() == {1: (5.0, 1.0), 3: (2.0, 0.0), 4: (3.0, 3.0)}
    assert world.unread() == []
    # a row older than a deletion stays out; one that is told again is nothing new
    world.tell((2, 9.0, 9.0, 19, "late"), (1, 5.0, 1.0, 20, "A"))
    world.writer.seal()
    assert world.run() == {1: (5.0, 1.0), 3: (2.0, 0.0), 4: (3.0, 3.0)}
    assert Store(str(world.store)).manifest()["cycle"]["unchanged"] == 1


@pytest.mark.parametrize("odd", ["refuse", "fail"])
def test_a_folder_with_other_files_too(world, odd):
    """Those of either kind make a cycle of their own."""
    rows = {**ROWS, "t": [30, 30, 30], "lat": [7.0, 7.0, 7.0]}
    pq.write_table(pa.table(rows).slice(0, 1), world.updates / "a.parquet")
    pq.write_table(pa.table(rows).slice(2), world.updates / "z.parquet")
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20))
    world.writer.seal()
    world.tell((4, 1.0, 1.0, 20, "A"), (3, None, None, 29))
    world.writer.seal()
    assert world.run(on_odd_file=odd) == {1: (0.0, 7.0), 3: (2.0, 7.0), 4: (1.0, 1.0)}
    assert world.unread() == []


@pytest.mark.parametrize("geo", [True, False], ids=["GeoParquet", "--geometry"])
def test_a_store_of_points(tmp_path, geo):
    """Its log has coordinates, whatever the input had."""
    points = [struct.pack("<BIdd", 1, 1, x, y) for x, y in zip(ROWS["lon"], ROWS["lat"], strict=True)]
    table = pa.table({name: ROWS[name] for name in ("id", "t", "word")} | {"geometry": points})
    about = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": {"encoding": "WKB"}}}
    table = table.replace_schema_metadata({"geo": json.dumps(about)} if geo else None)
    pq.write_table(table, tmp_path / "points.parquet")
    options = {} if geo else {"geometry": "geometry"}
    rows = read_positions(None, [str(tmp_path / "points.parquet")], Columns(time="t", **options))
    world = World(tmp_path, rows)
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20))
    world.writer.seal()
    later = table.set_column(table.schema.get_field_index("t"), "t", pa.array([30, 5, 5]))
    pq.write_table(later, world.updates / "more.parquet")
    assert world.run() == {1: (0.0, 0.0), 3: (2.0, 0.0)}


def test_names_of_the_input(tmp_path):
    rows = {"who": ["a", "b"], "E": [0.0, 1.0], "N": [0.0, 0.0], "when": [1, 1], "id": [7, 8], "v.w": [1, 2]}
    world = World(tmp_path, rows, id="who", x="E", y="N", time="when")
    world.tell(("a", 3.0, 3.0, 2, 5, 6), ("c", 4.0, 4.0, 2, 5, 6))
    world.writer.seal()
    assert world.run() == {"a": (3.0, 3.0), "b": (1.0, 0.0), "c": (4.0, 4.0)}


def test_what_was_rolled_back_is_read_again(world):
    """A segment goes once all snapshots that are kept have read it, and none that one of them lacks."""
    done = disposal_of("delete", str(world.updates))
    for number in (4, 5, 6):
        world.tell((number, 1.0, number, 20, "x"))
        world.writer.seal()
        world.run(keep=2, disposal=done)
    assert len(world.segments()) == 1
    Store(str(world.store)).rollback()
    assert world.unread() == [6]
    assert set(world.objects()) == {1, 2, 3, 4, 5}
    assert set(world.run(keep=2, disposal=done)) == {1, 2, 3, 4, 5, 6}


def test_what_is_missing_and_was_not_read_is_an_error(world):
    """The newest segment that was read stays known, though it has gone."""
    done = disposal_of("delete", str(world.updates))
    for number in (4, 5, 6):
        world.tell((number, 1.0, number, 20, "x"))
        world.writer.seal()
        world.run(keep=1, disposal=done)
    assert world.segments() == []
    pq.write_table(pa.table({**ROWS, "t": [30, 30, 30]}), world.updates / "a.parquet")
    world.run(keep=1, disposal=done)
    known = Ledger.of(Store(str(world.store)).manifest()["ledger"]).files
    assert sorted(name.rpartition("/")[2][:10] for name in known) == ["a.parquet", "positions-"]
    world.tell((7, 1.0, 7.0, 20, "x"))
    assert world.unread() == [7]
    world.writer.seal()
    world.segments()[0].unlink()
    with pytest.raises(Gone, match="rows 4 to 4 of the log"):
        world.unread()


def test_who_runs_asks_for_what_is_open(world):
    world.tell((4, 1.0, 1.0, 20, "x"))
    world.writer.close()
    waited = []
    ask_for_seal(str(world.updates), waited.append)
    assert waited == []  # nobody writes
    world.writer = writer = LogWriter.open(world.updates, world.schema)

    def seal(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            assert writer.due()
            writer.seal()

    ask_for_seal(str(world.updates), seal)
    assert len(waited) == 3
    assert set(world.run()) == {1, 2, 3, 4}
    # who is busy is not waited for, and what somebody has begun to wait for may be called off
    ask_for_seal(str(world.updates), waited.append)
    assert len(waited) == 3 + 50
    ask_for_seal(str(world.updates), lambda seconds: waited.append(seconds) or True)
    assert len(waited) == 3 + 51
    writer.close()
    ask_for_seal("s3://bucket/updates", pytest.fail)
    ask_for_seal([str(world.store)], pytest.fail)


def test_who_knows_no_deletions_reads_what_has_a_place(world):
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20), (4, 300.0, 3.0, 20, None))
    world.writer.seal()
    found = read_positions(None, [str(world.updates)], Columns(id="word"))
    assert found.frame.tally.read == 2
    assert "deleted" not in found.columns
    rows = pa.Table.from_batches([one for task in found.good(["id", "x"]).tasks for one in task()])
    assert rows.to_pylist() == [{"id": 1, "x": 5.0}, {"id": 4, "x": 300.0}]


def test_a_history_keeps_deletions(world, tmp_path):
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20))
    world.writer.seal()
    append_files(
        lambda: None, look([str(world.updates)]), str(tmp_path / "history"), Columns(), warn=pytest.fail, now=100
    )
    assert home_of(str(tmp_path / "history")).head().rows == 2


def test_a_rebuild_of_all_rows(world, tmp_path, command):
    world.tell((1, 5.0, 1.0, 20, "A"), (2, 1.0, 1.0, 10, "b"), (2, None, None, 20))
    world.writer.seal()
    command.works("rebuild", world.updates, "--store", tmp_path / "other")
    assert placed(dtoss.open(tmp_path / "other")) == {1: (5.0, 1.0)}
    pq.write_table(pa.table(ROWS), world.updates / "a.parquet")
    said = command.fails("rebuild", world.updates, "--store", tmp_path / "other")
    assert said.endswith("are not of one log, or one of them of none: they are read apart, as --updates does")


def test_a_store_whose_columns_changed_since(world):
    """What it got is null in rows that were told before; what it lost does not come back."""
    world.tell((1, 5.0, 1.0, 20, "A"))
    world.writer.seal()
    rows = {name: values for name, values in ROWS.items() if name != "word"}
    rebuild(pa.table({**rows, "speed": [1.0, 2.0, 3.0]}), str(world.store))
    assert world.run() == {1: (5.0, 1.0), 2: (1.0, 0.0), 3: (2.0, 0.0)}
    manifest = Store(str(world.store)).manifest()
    assert manifest["columns"] == {"t": "bigint", "speed": "double"}
    assert manifest["ledger"].get("refused", {}) == {}
    index = dtoss.open(world.store)
    found = index.range([5.0, 1.0], 1.0, columns=["speed"])
    assert found.columns["speed"].to_pylist() == [None]


@pytest.mark.deep("what is above in this process, in Spark")
def test_rows_that_are_told_become_current_in_spark(world, spark):
    rows = {**ROWS, "t": [30, 30, 30], "lat": [7.0, 7.0, 7.0]}
    pq.write_table(pa.table(rows).slice(2), world.updates / "z.parquet")
    world.tell((1, 5.0, 1.0, 20, "A"), (2, None, None, 20))
    world.writer.seal()
    assert world.run(spark) == {1: (5.0, 1.0), 3: (2.0, 7.0)}
