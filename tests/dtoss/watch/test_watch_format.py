"""What `docs/format.md` says of the files of a watch is so: each field, each column and its type, in their order."""

from __future__ import annotations

import hashlib
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.buckets import bucket_of
from dtoss.commits.ledger_runs import LEDGERS, LOOSE_FILES
from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.processing.last_rows import RUN_OFFSETS
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.sharding.sharded_batch import commit_on_workers
from dtoss.watch.subscription import AROUND, BOX
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import (
    BUILT,
    CHANGES,
    DEFAULT_NAME,
    EVENTS,
    LAYOUTS,
    LOAD,
    QUARANTINED,
    READERS,
    STATE,
    Home,
    Limits,
)
from pipelines.watching.spreading import Spreading, SpreadOptions
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.dtoss.watch.streams import BEGIN, NOW, SECOND, asked, circle, rows_of, run, settings_of, table_of
from tests.dtoss.watch.watch_batch import run_on_workers
from tests.test_format import TEXT, table

HOUR_US = 3_600 * SECOND
TYPES = {
    "int64": pa.types.is_int64,
    "uint8": pa.types.is_uint8,
    "double": pa.types.is_float64,
    "boolean": pa.types.is_boolean,
    "text": pa.types.is_string,
    "large text": pa.types.is_large_string,
    "dictionary of text": lambda kind: pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type),
    "struct": pa.types.is_struct,
    "any": lambda kind: True,
}
JSON = {"number": int, "text": str, "object": dict, "list": list, "boolean": bool, "null": type(None)}


@pytest.fixture(scope="module", params=["int64", "string"])
def home(request, tmp_path_factory):
    """A watch of some batches, the first of which are folded; with resets, quarantine, a reader, a base and a delta."""
    home, ids = Home(str(tmp_path_factory.mktemp("format")), DEFAULT_NAME, Limits(base_every=2)), request.param
    first = [
        circle("a", 0.0, 0.0, 1000.0, where="occupied = 0", meta='{"to":1}'),
        asked("b", BOX, west=-1.0, south=-1.0, east=1.0, north=1.0, events=7, stay='{"margin":{"seconds":3.0}}'),
        asked("c", AROUND, object="7", radius=10.0, events=1),
    ]
    subscribe(home, table_of(first), space=space_of())
    for number in range(4):
        rows = [
            {"id": n, "t": BEGIN + number * SECOND, "x": 0.003 * number, "y": 0.0,
             "attributes": {"occupied": n % 2, "kind": "taxi"}}
            for n in range(6)
        ]  # fmt: skip
        rows.append(rows[0] | {"id": 99, "t": NOW * 2})
        read = Source(files={f"f{file}": 1 for file in range(LOOSE_FILES + 1)})  # so many that a run has them
        run(home, settings_of(ids=ids), rows, 2, read, ids, max_bad=1.0, carry=("kind",))
        subscribe(home, table_of([circle("d", 0.0, 0.0, 10.0 + number)]))
    keep_cursor(home, "me", fold_cursor(home))
    assert fold_events(home, NOW + HOUR_US).batches == 4
    rows = [{"id": 1, "t": BEGIN + 9 * SECOND, "x": 0.0, "y": 0.0, "attributes": {"occupied": 0, "kind": "taxi"}}]
    run(home, settings_of(ids=ids), rows, 1, ids=ids)
    return home


def fold_cursor(home):
    from dtoss.watch.events.readers import Cursor

    return Cursor(home.batches.head().number, 0)


def fields(heading, said, beside=()):
    """Hold the fields of an object to the table below a heading, their types among them."""
    rows = [row for row in table(heading) if row[0] not in beside]
    assert {row[0] for row in rows} == set(said), heading
    for name, kinds, *_ in rows:
        assert isinstance(said[name], tuple(JSON[kind] for kind in kinds.split(" or "))), (heading, name)
        assert isinstance(said[name], bool) == (kinds == "boolean"), (heading, name)


def columns(heading, schema, beside=()):
    """Hold the columns of a file to the table below a heading, in their order."""
    rows = [row for row in table(heading) if row[0] not in beside]
    assert [row[0] for row in rows] == schema.names[: len(rows)], heading
    for name, kinds, *_ in rows:
        assert any(TYPES[kind](schema.field(name).type) for kind in kinds.split(" or ")), (heading, name)


def data_of(folder, room, entry):
    """The bytes of a file as its entry lists it."""
    data = folder.read(room, entry["name"])
    assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
    assert entry["sha256"][:16] in entry["name"]
    return pa.BufferReader(data)


def test_documents_and_entries(home):
    """Of batches and of changes, with what stands and the settings."""
    for number in range(1, home.batches.head().number + 1):
        document = home.batches.read(number).document
        fields("The document of a batch", document)
        fields("The settings", document["settings"])
        fields("What stands", document["standing"])
        for room, entries in (("events", document["events"]), ("quarantine", document["quarantine"])):
            for entry in entries:
                fields("The entry of a file", entry, beside=["buckets"])
                assert room
        for entry in document["state"]:
            fields("The entry of a file", entry)
            assert re.fullmatch("[0-9a-f]{64}", entry["buckets"])
        assert set(document["batch"]) == {"query", "batch", "wall_us"}
        assert set(document["ledger"]) == {"files", "batches", "runs"}
        for entry in document["ledger"]["runs"]:
            fields("The entry of a file", entry, beside=["buckets"])
    named = set(re.findall(r"`(\w+)`", next(row[2] for row in table("The document of a batch") if row[0] == "counts")))
    assert named - {"forgotten", "crowded"} <= set(home.batches.read(2).document["counts"])
    assert document["unanswered"] == [{"id": "c", "reason": document["unanswered"][0]["reason"]}]
    bases = 0
    for number in range(1, home.changes.head().number + 1):
        document = home.changes.read(number).document
        fields("The document of a change", document)
        assert set(document["base"]) == {"number", "entry"}
        bases += document["base"]["entry"] is not None
    assert bases


def test_files_that_commits_name(home):
    """Events, state, quarantine, changes, bases, indexes."""
    head, second = home.batches.head().document, home.batches.read(2).document
    for entry in head["events"]:
        found = pq.read_table(data_of(home.folder, EVENTS, entry))
        columns("Columns of events", found.schema)
    for entry in second["quarantine"]:
        columns("Columns of the quarantine", pq.read_schema(data_of(home.folder, QUARANTINED, entry)))
    for entry in head["state"]:
        batch = pa.ipc.open_file(data_of(home.folder, STATE, entry)).get_batch(0)
        assert batch.schema.names[-1] == "a:occupied"
        columns("Columns of the state", batch.schema, beside=["a:NAME"])
        offsets = np.frombuffer(batch.schema.metadata[RUN_OFFSETS], np.int64)
        assert RUN_OFFSETS.decode() in TEXT
        assert np.array_equal(np.repeat(np.arange(256), np.diff(offsets)), bucket_of(batch.column("id")))
        keys = batch.column("key").to_numpy()
        assert np.array_equal(np.lexsort((keys, bucket_of(batch.column("id")))), np.arange(len(keys)))
    last = home.changes.head().document
    change = {"name": last["file"], **{name: last[name] for name in ("sha256", "bytes", "rows")}}
    columns("Columns of a change", pq.read_schema(data_of(home.asked, CHANGES, change)))
    base = pq.read_table(data_of(home.asked, CHANGES, last["base"]["entry"]))
    columns("Columns of a change", base.schema, beside=["removed"])
    assert base["version"].null_count == 0
    assert base["id"].to_pylist() == sorted(base["id"].to_pylist())
    for part in ("base", "delta"):
        entry = head["standing"][part]
        batch = pa.ipc.open_file(data_of(home.asked, BUILT, entry)).get_batch(0)
        facts = json.loads(batch.schema.metadata[b"dtoss"])
        fields("Facts of a built index", facts)
        assert set(batch.schema.names) == {"table", *facts["arrays"]}
        held = pa.ipc.open_stream(batch.column("table")[0].as_buffer()).read_all()
        missing = {row[0] for row in table("Columns of a change")} - set(held.column_names)
        assert all(column.null_count < len(held) for column in held.columns)
        columns("Columns of a change", held.schema, beside=missing)
        assert len(held) == entry["rows"]


def test_lists_and_readers(home):
    """Canonical JSON, whose hash is where the document says."""
    (name,) = [file for file in home.folder.files(EVENTS) if file.startswith("folded-")]
    data = home.folder.read(EVENTS, name)
    assert name == f"folded-{hashlib.sha256(data).hexdigest()}.json"
    said = json.loads(data)
    assert data == json.dumps(said, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    fields("The list of older events", said)
    for file in said["files"]:
        fields("The entry of a file", {key: file[key] for key in ("name", "rows", "bytes", "sha256")}, ["buckets"])
        assert set(file) - {"name", "rows", "bytes", "sha256"} == {"first", "last", "until_us"}
        found = pq.read_table(pa.BufferReader(home.folder.read(EVENTS, file["name"])))
        columns("Columns of events", found.schema)
        assert found.schema.names[-1] == "kind_"
        kinds, objects = found["kind"].to_pylist(), found["object"].to_pylist()
        assert {"reset", "enter", "leave", "inside"} == set(kinds)
        assert all((kind == "reset") == (one is None) for kind, one in zip(kinds, objects, strict=True))
    counts = pq.read_table(pa.BufferReader(home.folder.read(EVENTS, said["counts"]["name"])))
    assert counts.column_names == ["subscription", "kind", "events"]
    data = home.folder.read(READERS, "me.json")
    reader = json.loads(data)
    fields("The file of a reader", reader, beside=("under_way", "mark"))
    bare = {name: value for name, value in reader.items() if name != "sha256"}
    assert (
        hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        == (reader["sha256"])
    )


def test_what_lies_in_the_folder(home):
    """The folders of the drawing, but for those that only a stream or a run has, and no others."""
    drawn = TEXT.partition("STORE/watch/NAME/\n")[2].partition("```")[0]
    named = {word.rpartition("/")[0] for line in drawn.splitlines() for word in line.split()[:2] if "/" in word}
    assert set(home.folder.folders()) == {"commits", EVENTS, STATE, QUARANTINED, LEDGERS, READERS, "subscriptions"}
    assert set(home.asked.folders()) == {"commits", CHANGES, BUILT}
    assert named == {*home.folder.folders(), *home.asked.folders(), "checkpoint", LOAD, LAYOUTS}


def test_what_workers_add(tmp_path):
    """To a document, and to the folder: layouts, what workers store, their indexes, and what a round has cost."""
    home, made = Home(str(tmp_path), "w"), settings_of()
    subscribe(home, table_of([circle("a", 0.0, 0.0, 1000.0)]))
    rows = [{"id": 1, "t": BEGIN, "x": 0.0, "y": 0.0, "attributes": {"occupied": 0, "kind": "taxi"}}]
    plan = plan_batch(home, made, Source(files={"f": 1}), Options(), NOW)
    spreading = Spreading(home, SpreadOptions("ours", 2))
    plan = spreading.routed(plan)
    done, worked = run_on_workers(plan, rows_of(rows))
    document = commit_on_workers(plan, done, worked, spreading.ended(plan, worked, done)).document
    more = {row[0] for row in table("What workers add to a batch")}
    assert set(document) == more | {row[0] for row in table("The document of a batch")}
    fields("What workers add to a batch", {name: document[name] for name in more})
    fields("A layout", document["layout"])
    said = next(row[2] for row in table("What workers add to a batch") if row[0] == "work")
    assert set(re.findall(r"`(\w+)`", said)) == set(document["work"][0])
    layout = document["layout"]
    for room, folder, entries in (
        (LAYOUTS, home.asked, [layout["layout"], layout["base"]]),
        (BUILT, home.asked, list(layout["indexes"].values())),
        (LOAD, home.folder, [document["load"], layout["ended"]]),
    ):
        assert entries
        for entry in entries:
            fields("The entry of a file", entry, beside=["buckets"])
            data_of(folder, room, entry)
