"""A watch made by hand: event files and commits as the contract has them, small."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.geometry.space import Space
from dtoss.watch.events import event_log
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import EVENTS, QUARANTINED, STATE, Home
from dtoss.watch.watch_settings import Settings

HOUR = 3_600_000_000
START = 1_700_000_000_000_000 // HOUR * HOUR
SETTINGS = Settings(Space("EPSG:4326", "sphere", False), "int64", "timestamp", None, False, {"speed": pa.float64()})
ORDER = {"leave": 0, "enter": 1, "inside": 2}
WORDS = pa.dictionary(pa.int32(), pa.string())


def files_opened(monkeypatch):
    """Return a list that grows by the name of each file of events that is opened from now on."""
    opened, real = [], event_log.open_entry
    monkeypatch.setattr(event_log, "open_entry", lambda *file: opened.append(file[-1].name) or real(*file))
    return opened


def event(subscription, kind, thing, t=0, **more):
    """One event, as a dict."""
    blank = {"version": 1, "x": 1.5, "y": -2.25, "distance": None, "reason": None, "meta": None, "speed": 0.5}
    if kind == "reset":
        blank |= {"x": None, "y": None, "reason": "changed", "speed": None}
    return blank | {"subscription": subscription, "kind": kind, "object": thing, "t": t} | more


def schema_of(settings=SETTINGS):
    """The columns of a file of events."""
    ids = pa.string() if settings.id_type == "string" else pa.int64()
    base = [("batch", pa.int64()), ("number", pa.int64()), ("subscription", WORDS), ("version", pa.int64())]
    base += [("kind", WORDS), ("object", ids), ("t", pa.int64())]
    base += [(name, pa.float64()) for name in ("x", "y", "distance")]
    return pa.schema([*base, ("reason", WORDS), ("meta", WORDS), ("speed", pa.float64())])


def table_of(events, batch, ordinal, settings=SETTINGS):
    """A file's table, its rows in order and numbered."""

    def key(one):
        late = one["reason"] != "expired"
        return one["object"] or 0, late, one["t"], ORDER.get(one["kind"], 3), one["subscription"]

    rows = [one | {"batch": batch, "number": (ordinal << 32) + row} for row, one in enumerate(sorted(events, key=key))]
    return pa.Table.from_pylist(rows, schema=schema_of(settings))


def put(folder, room, data, rows, prefix="", suffix=".parquet"):
    """Write a file under its content's name; return how a document lists it."""
    sha = hashlib.sha256(data).hexdigest()
    name = f"{prefix}{sha[:16]}{suffix}"
    folder.make(room)
    folder.write(data, room, name)
    return {"name": name, "rows": rows, "sha256": sha, "bytes": len(data)}


def parquet(table):
    """The bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def batch_of(home: Home, tasks, wall_us=START, settings=SETTINGS, **fields):
    """Commit a batch of the events of each file (the first is of resets), and return its document's number."""
    head = head_of(home)
    number = 1 if head is None else head.number + 1
    listed = []
    for ordinal, found in enumerate(tasks):
        if found:
            listed.append(put(home.folder, EVENTS, parquet(table_of(found, number, ordinal, settings)), len(found)))
    arrow = pa.BufferOutputStream()
    state = pa.table({"id": np.arange(number), "t": np.full(number, number)})
    with pa.ipc.new_file(arrow, state.schema) as writer:
        writer.write_table(state)
    runs = [put(home.folder, STATE, bytes(arrow.getvalue()), number, suffix=".arrow") | {"buckets": "f" * 64}]
    kept = parquet(pa.table({"reason": [f"bad {number}"]}))
    document = {
        "kind": "watch",
        "format": 1,
        "settings": settings.as_json(),
        "queries": {"q": number},
        "batch": {"query": "q", "batch": number - 1, "wall_us": wall_us},
        "changes": 0,
        "standing": {},
        "clock": number,
        "events": listed,
        "state": runs,
        "quarantine": [put(home.folder, QUARANTINED, kept, 1)],
        "counts": {"rows": 7, "inside": sum(map(len, tasks)), "objects": number},
        "folded": None if head is None else head.folded,
        "expire": None,
        "carry": ["speed"],
        "offsets": {},
    } | fields
    return home.batches.append(document, None if head is None else head.commit).number


def rows_told(tables):
    """All events of tables as dicts."""
    return [row for table in tables for row in table.to_pylist()]


def some_events(random, count):
    """So many events that may stand in one file."""
    kinds = ["inside", "enter", "leave"]
    return [
        event(f"s{random.integers(4)}", kinds[random.integers(3)], int(random.integers(9)), int(random.integers(1000)))
        for _ in range(count)
    ]
