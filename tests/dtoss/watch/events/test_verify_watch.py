"""Whatever byte of a watch has changed, and whatever file is gone: a line names it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.commits.offsets import Source
from dtoss.errors import StoreError
from dtoss.watch.events.event_compaction import fold_watch
from dtoss.watch.events.event_log import events
from dtoss.watch.events.folded_list import commit_contents, contents_of
from dtoss.watch.events.readers import Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import EVENTS, Home
from dtoss.watch.watch_settings import Rows, Settings
from tests.dtoss.watch.events.made import (
    HOUR,
    SETTINGS,
    START,
    batch_of,
    event,
    parquet,
    put,
    rows_told,
    some_events,
    table_of,
)
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.dtoss.watch.watch_batch import run_batch


def watched(path, ids="int64", batches=7):
    """A watch of real batches, some of them folded."""
    settings = Settings(SETTINGS.space, ids, "timestamp", None, False, SETTINGS.attributes)
    home, random = Home(str(path)), np.random.default_rng(1)
    for k in range(batches):
        asked = [
            {
                "id": f"s{number}",
                "circle": [*random.uniform(-1.0, 1.0, 2).tolist(), 60000.0],
                "events": ["inside", "enter", "leave"],
                "meta": {"a": number},
            }
            for number in np.unique(random.integers(0, 20, 4)).tolist()
        ]
        table, bad = check_subscriptions(asked)
        assert not bad
        if k % 3 != 2:
            subscribe(home, table, space=settings.space, replace=k == 4)
        objects = random.integers(0, 30, 80)
        rows = Rows(
            np.ascontiguousarray(random.uniform(-1.0, 1.0, (80, 2))),
            pa.array(objects) if ids == "int64" else pa.array([f"o{number}" for number in objects]),
            random.integers(k * 10**9, (k + 1) * 10**9, 80),
            None,
            {"speed": pa.array(random.uniform(0.0, 1.0, 80))},
        )
        options = Options(expire=2 * 10**8, carry=("speed",), max_ahead=None)
        plan = plan_batch(home, settings, Source(query="q", batch=k), options, START + k * HOUR // 3)
        assert run_batch(plan, rows, 2) is not None
    return home


@pytest.mark.parametrize("ids", ["int64", "string"])
def test_a_watch_that_is_whole(tmp_path, ids):
    home = watched(tmp_path, ids)
    every = rows_told(events(home))
    for hours in (1, 2, 9, 20):
        found = verify_watch(home)
        assert found.damaged == []
        assert found.held["events"] == len(every) > 300
        fold_watch(home, START + hours * HOUR)
        assert rows_told(events(home)) == every
    found = verify_watch(home)
    assert (found.damaged, found.commits, found.held["changes"]) == ([], head_of(home).number, 5)
    assert found.as_json()["events"] == len(every)


@pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.deep("all files, one of each kind is in make test"))]
)
def test_every_region_of_every_kind_of_file(tmp_path, every):
    """Each file is damaged at its beginning, its end and some places between, and then missing."""
    home = watched(tmp_path, batches=6)
    fold_watch(home, START + HOUR)
    fold_watch(home, START + 2 * HOUR)
    keep_cursor(home, "reader", Cursor(1, 2))
    head = head_of(home)
    fields = {"changes": head.changes, "standing": head.standing}
    batch_of(home, [[], some_events(np.random.default_rng(0), 3)], START + 4 * HOUR, **fields)
    assert verify_watch(home).damaged == []
    root = tmp_path / "watch/default"
    random = np.random.default_rng(2)
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "LEASE"]
    if not every:
        newest = sorted(files, key=lambda path: path.stat().st_mtime_ns)
        files = list({kind_of(path): path for path in newest if path.name not in needless_now(home)}.values())
    missed = set()
    for path in files:
        data = path.read_bytes()
        spots = {0, len(data) - 1, *random.integers(0, len(data), 2).tolist()}
        needless = path.name in needless_now(home)
        for spot in sorted(spots):
            path.write_bytes(data[:spot] + bytes([data[spot] ^ 1 << int(random.integers(8))]) + data[spot + 1 :])
            said = verify_watch(home).damaged
            assert needless or any(path.name in line for line in said), (path, spot, said)
        for cut in (data[:-1], data + b"\n"):
            path.write_bytes(cut)
            if path.name == "CURRENT" and cut == data[:-1]:
                continue  # a number is one without the end of its line
            assert needless or any(path.name in line for line in verify_watch(home).damaged), path
        path.unlink()
        if any(path.name in line for line in verify_watch(home).damaged):
            missed.add(path.parent.name)
        path.write_bytes(data)
    rooms = {"default", "commits", "events", "state", "subscriptions", "changes", "built", "quarantine", "readers"}
    assert {path.parent.name for path in files} == rooms
    assert missed == rooms - {"readers"}  # one without a cursor begins anew
    assert verify_watch(home).damaged == []


def kind_of(path):
    """What a file is, by its folder and the beginning and end of its name."""
    return path.parent.name, path.suffix, path.name.split("-")[0] if "-" in path.name else ""


def needless_now(home):
    """The list before and its counts, which go with the next fold."""
    now = contents_of(home, head_of(home).folded)
    before = contents_of(home, now.before)
    return {now.before, before.counts.name} - now.names


def test_what_files_hold_is_looked_at(tmp_path):
    """Files that have the hashes of their commits, but not what a batch writes."""
    random = np.random.default_rng(0)
    good = table_of(some_events(random, 6), 1, 1)
    number = good.schema.get_field_index("number")
    swapped = good.take(pa.array([1, 0, 2, 3, 4, 5])).set_column(number, "number", good.column("number"))
    cases = {
        "not all of batch 1": [table_of(some_events(random, 3), 2, 1)],
        "numbered one after the other": [good.slice(1)],
        "objects are not in their order": [
            good.take(pa.array([5, 0, 1, 2, 3, 4])).set_column(number, "number", good["number"])
        ],
        "order of their objects' rows": [
            table_of([event("a", "enter", 1, 5), event("a", "leave", 1, 9)], 1, 1).take(pa.array([1, 0]))
        ],
        "kind 'entr'": [table_of([event("a", "entr", 1), event("a", "enter", 1)], 1, 1)],
        "numbered one after": [good, table_of(some_events(random, 2), 1, 1)],
        "distance": [],
    }
    assert swapped.num_rows == 6
    rising = table_of([event("a", "enter", 1), event("b", "enter", 1)], 1, 1)["number"]
    cases["order of their objects' rows"][0] = cases["order of their objects' rows"][0].set_column(1, "number", rising)
    for step, (why, tables) in enumerate(cases.items()):
        home = Home(str(tmp_path / str(step)))
        listed = [put(home.folder, EVENTS, parquet(table), len(table)) for table in tables]
        if not tables:
            continue
        batch_of(home, [[]], START, events=listed)
        (line,) = verify_watch(home).damaged
        assert why in line, why
        assert listed[-1]["name"] in line
    home = Home(str(tmp_path / "rows"))
    batch_of(home, [[]], START, events=[put(home.folder, EVENTS, parquet(good), 7)])
    assert "6 rows" in verify_watch(home).damaged[0]


def test_lists_and_counts_that_say_something_else(tmp_path):
    """Whole by their hashes, but not of these events."""
    home = watched(tmp_path)
    fold_watch(home, START + HOUR)
    fold_watch(home, START + 3 * HOUR)
    head = head_of(home)
    contents = contents_of(home, head.folded)
    commit_contents(home, replace(contents, files=contents.files[1:]), head, START)
    said = verify_watch(home).damaged
    assert any("0 events of batch 1" in line for line in said)
    commit_contents(home, replace(contents, files=contents.files[::-1]), head_of(home), START)
    assert any("not in their order" in line for line in verify_watch(home).damaged)
    older = contents_of(home, contents.before)
    commit_contents(home, replace(contents, counts=older.counts), head_of(home), START)
    assert any("its counts are not those of the events" in line for line in verify_watch(home).damaged)
    commit_contents(home, contents, head_of(home), START)
    assert verify_watch(home).damaged == []


def test_a_change_that_was_adopted_and_is_gone(tmp_path):
    """The newest one, so that no change behind it tells."""
    home = watched(tmp_path, batches=2)
    adopted = head_of(home).changes
    Path(home.changes.path(adopted)).unlink()
    said = verify_watch(home).damaged
    assert any(f"it has adopted change {adopted}, the highest is {adopted - 1}" in line for line in said), said


def test_documents_that_are_none(tmp_path):
    """A commit may be whole and yet not be one of a watch: an error that names it."""
    cases = [
        ({"kind": "history"}, "'watch' is wanted"),
        ({"format": 2}, "has format 2, this dtoss reads 1: install a newer one"),
        ({"format": True}, "has format True, this dtoss reads 1: restore it"),
        ({"batch": {}}, "batch is"),
        ({"folded": "../a"}, "folded is"),
        ({"changes": -1}, "changes is -1"),
        ({"clock": 1.5}, "clock is 1.5"),
        ({"events": {}, "state": 7}, "state is 7"),
        ({"events": [{"name": "../../x", "rows": 1, "bytes": 1, "sha256": "0" * 64}]}, "name of a listed file"),
        ({"events": [{"name": "x", "rows": 1, "bytes": 1, "sha256": "0"}]}, "sha256 of x"),
        ({"events": [7]}, "a listed file is 7"),
    ]
    for step, (fields, why) in enumerate(cases):
        home = Home(str(tmp_path / str(step)))
        batch_of(home, [[]], **fields)
        with pytest.raises(StoreError, match=why) as error:
            head_of(home)
        assert f"{1:020}.json" in str(error.value)
        assert any(f"{1:020}.json" in line for line in verify_watch(home).damaged)
    home = Home(str(tmp_path / "list"))
    data = json.dumps({"kind": "folded", "format": 1}).encode()
    name = f"folded-{hashlib.sha256(data).hexdigest()}.json"
    home.folder.make(EVENTS)
    home.folder.write(data, EVENTS, name)
    batch_of(home, [[]], folded=name)
    with pytest.raises(StoreError, match=name):
        rows_told(events(home))
    assert any(name in line for line in verify_watch(home).damaged)
    with pytest.raises(StoreError, match="is no watch"):
        verify_watch(Home(str(tmp_path / "nothing")))
