"""Stores with everything that may hold an id: snapshots, a history, a watch, windows, rows set aside, access logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dtoss
from dtoss.commits.columnar_files import REJECTED, encode_rejected
from dtoss.commits.offsets import Source
from dtoss.history.layouts.compaction import settle
from dtoss.history.maintenance.history_facts_of import counting_files
from dtoss.history.maintenance.history_table import verify_history
from dtoss.history.versions import Home as PastHome
from dtoss.serve.observability.access_log import AccessFiles, Waiting
from dtoss.serve.observability.partition_counts import Sample
from dtoss.snapshots.partition_file import checksum
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.events.readers import Cursor, Filter, Reader, keep_reader
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_commit import commit_batch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.processing.watch_task import run_task
from dtoss.watch.watch_folder import Home as WatchHome
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.query.window_query import open_windows
from dtoss.windows.storage.sets import current_home
from dtoss.windows.storage.spec_file import read_spec
from tests.dtoss.snapshots.small_stores import silent
from tests.dtoss.watch.streams import BEGIN, NOW, SECOND, change, circle, rows_of, run, settings_of, told
from tests.dtoss.windows.storage import kept
from tests.oracles import Update
from tests.pipelines.cycles.in_place import begun, cycled, full_bytes, objects, state_of, stored_bytes
from tests.update_worlds import LONLAT, table

WHO = {"string": "zoë-luise 17", "int64": 8_760_123_456_789}
"""Whose ids stand nowhere else, nor do their first eight bytes."""
OTHERS = 24
PARTITIONS = 8
"""One owns who is to be erased, and another one knows them too."""
PLACES = LONLAT[20:] + [(2.0 + i * 0.1, 48.0 + i * 0.05) for i in range(30)]


def ids_of(kind):
    """Who is to be erased, and the others."""
    return [WHO[kind], *(f"car-{i}" if kind == "string" else i for i in range(OTHERS))]


def updates_of(kind, seed, t):
    """A row of each."""
    rng = np.random.default_rng(seed)
    at = rng.permutation(len(PLACES))
    return [
        Update(one, t, *PLACES[at[i]], (f"name of {one}" if i == 0 else "a", float(i)))
        for i, one in enumerate(ids_of(kind))
    ]


def rejected_of(kind):
    """Rows that were set aside: one of somebody, one of another, and a line that could not be read."""
    who = WHO[kind]
    rows = [json.dumps({"id": who, "lat": 91}, ensure_ascii=False), json.dumps({"id": 5, "lat": 91})]
    rows.append(json.dumps({"_corrupt_record": f'{who},"1'}, ensure_ascii=False))
    return pa.table({"reason": ["latitude out of range"] * 2 + ["unreadable line"], "row": rows}).cast(REJECTED)


def make(folder: Path, kind: str, *, deleted: bool = False) -> None:
    """Make all of it in a folder: ``store``, ``history`` and ``logs``; one is deleted in the store if so wanted."""
    snapshots(folder / "store", kind, deleted)
    past(str(folder / "history"), kind)
    watch(str(folder / "store"), kind)
    windows(str(folder / "store"), kind)
    sample = Sample(10, seed=0)
    sample.add(2.35, 48.86, 8.0, None, 1)
    AccessFiles(str(folder / "logs"), "one", 0).write(Waiting(sample.kept(("lon", "lat"))))


def snapshots(path, kind, deleted=False):
    """Two snapshots that have everybody, the second with rows that were set aside."""
    text = kind == "string"
    store = begun(path, state_of(PARTITIONS), string_ids=text)
    for seed in (0, 1):
        cycled(store, table(updates_of(kind, seed, 50 + seed), string_ids=text), now=60)
    if deleted:
        cycled(store, table([Update(WHO[kind], 55, deleted=True)], string_ids=text), now=60)
    last = store.manifest()
    with store.writer(silent) as lock, store.fresh() as snapshot:
        for entry in [*last["partitions"], last["borders"], *([last["tombstones"]] if last["tombstones"] else [])]:
            store.link(snapshot, entry["file"], last["snapshot"])
        data = encode_rejected(rejected_of(kind))
        digest = checksum(data)
        file = f"quarantine/{digest[:16]}.parquet"
        store.folder.make("snapshots", snapshot, "quarantine")
        store.write(snapshot, file, data)
        aside = {"file": file, "rows": 3, "bytes": data.size, "sha256": digest}
        store.finish(snapshot, dict(last) | {"snapshot": snapshot, "quarantine": [aside]}, lock)


def past(path, kind):
    """A history of three batches, settled, with rows that were set aside."""
    for seed in range(3):
        rows = [(row.id, row.t, row.x, row.y, row.attributes[0]) for row in updates_of(kind, seed, 50 + seed)]
        frame = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=["id", "t", "x", "y", "name"])
        dtoss.history.append(frame.rename_columns(["id", "t", "lon", "lat", "name"]), path, batch=str(seed), id="id")
    home = PastHome(path)
    settle(home, orders=["time", "place", "object"], period_bytes=1.0, leaf_bytes=300.0)
    home.folder.make("quarantine")
    home.folder.write(encode_rejected(rejected_of(kind)), "quarantine", "0123456789abcdef.parquet")


def watch(store, kind):
    """A watch of three batches, of which two are folded, with rows that were set aside, and a reader of one."""
    home = WatchHome(store)
    change(home, [circle("near", 0.0, 0.0, 3000.0), circle("far", 0.05, 0.0, 3000.0, meta='{"tell": "anna"}')])
    for batch in range(4):
        rows = [
            {"id": one, "t": BEGIN + (60 * batch + 1) * SECOND, "x": 0.05 * ((i + batch) % 2), "y": 0.0,
             "attributes": {"occupied": i % 2, "kind": f"kind of {one}" if i == 0 else "taxi"}}
            for i, one in enumerate(ids_of(kind))
        ]  # fmt: skip
        source = Source(files={f"f{batch}": batch})
        plan = plan_batch(
            home, settings_of(ids=kind), source, Options(carry=("kind",), max_bad=1.0), NOW + batch * 2 * 3600 * SECOND
        )
        some = rejected_of(kind) if batch in (0, 3) else None
        commit_batch(plan, [run_task(plan, 0, np.arange(256), rows_of(rows, kind), None, some)])
        if batch == 2:
            fold_events(home, NOW + 6 * 3600 * SECOND)
    keep_reader(home, Reader("billing", Cursor(2, 0), Filter.of()))


def windows(store, kind):
    """Windows of six batches with rows that came too late, in objects that have patches."""
    home, fixed = kept.begin(store, kept.spec(late="5s"))
    names = dict(enumerate(ids_of(kind)))
    for number, batch in enumerate(kept.made(3, rows=40, ids=8)):
        rows = [(names[one[0]], *one[1:]) for one in batch]
        late = [(names[i], -(100 + number) * kept.SECOND, 0.0, 0.0) for i in (0, 1)]
        kept.commit(home, fixed, [*rows, *late] if number else rows, tasks=2)


def damages(folder):
    """What is wrong with any of it."""
    store = str(folder / "store")
    found = verify_history(PastHome(str(folder / "history"))).damaged
    found += verify_watch(WatchHome(store)).damaged + verify_windows(kept.Home(store, "w")).damaged
    return found + list(verify_store(Store(store)).damaged)


def answers(folder, kind):
    """What is told of others: objects, rows of the past and windows without who is to be erased; and all events."""
    who, store = WHO[kind], Store(str(folder / "store"))
    rows = rows_of_past(str(folder / "history"))
    found = open_windows(store.path, "w")
    ends = range(0, found.watermark + 1, found.spec.slide)
    return {
        "objects": {one: value for one, value in objects(store).items() if one != who},
        "past": sorted(str(row) for row in rows if row["id"] != who),
        "events": list(dtoss.events(store.path)),
        "windows": [found.at(end / kept.SECOND, name).to_pylist() for end in ends for name in found.spec.names],
    }


def later(folder, kind):
    """What the next rows of others lead to, in the watch and in the windows."""
    store, others = str(folder / "store"), ids_of(kind)[1:]
    rows = [
        {"id": one, "t": BEGIN + 300 * SECOND, "x": 0.0, "y": 0.0, "attributes": {"occupied": 0, "kind": None}}
        for one in others
    ]
    commit = run(WatchHome(store), settings_of(ids=kind), rows, source=Source(files={"later": 1}), ids=kind)
    told_then = told(WatchHome(store), commit.number)
    home = current_home(store, "w")
    fixed = read_spec(home)
    came = [(one, 60 * kept.SECOND, float(i % 10), 1.0) for i, one in enumerate(others)]
    kept.commit(home, fixed, came, Source(files={"later": 1}), tasks=2)
    found = open_windows(store, "w")
    return told_then, [found.at(54.0, name).to_pylist() for name in found.spec.names]


def rows_of_past(path):
    """All rows of a history."""
    home = PastHome(path)
    files = [home.folder.path(*one.name.split("/")) for one in counting_files(home.version())]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def bytes_without(kind):
    """The files of a build of the others' rows."""
    rows = [row for row in updates_of(kind, 1, 51) if row.id != WHO[kind]]
    return full_bytes(state_of(PARTITIONS), table(rows, string_ids=kind == "string"), string_ids=kind == "string")


__all__ = ["OTHERS", "WHO", "answers", "bytes_without", "damages", "ids_of", "later", "make", "stored_bytes"]
