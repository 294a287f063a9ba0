"""A watch played from a script by processes that are killed, or find the disk full, and are started again.

Which step was done last is kept beside the store. What is told is held to the loop over what the commits say was read.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from dtoss.commits.offsets import Source
from dtoss.watch.events.event_compaction import fold_watch, retain
from dtoss.watch.events.event_log import events
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor, cursor_of_reader, readers
from dtoss.watch.events.watch_tables import clear_watch, verify_watch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.watch_folder import DEFAULT_NAME, Home, Limits
from tests.dtoss.snapshots.small_stores import STEPS
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.streams import (
    NOW,
    SECOND,
    SPHERE,
    random_asked,
    random_pairs,
    random_rows,
    rows_of,
    settings_of,
    table_of,
)
from tests.dtoss.watch.watch_batch import run_batch
from tests.ends import end_now

EVERY = 1200 * SECOND
"""Between two steps, by the wall clock."""
SET_BACK = 5 * 3_600 * SECOND
"""By which somebody sets the wall clock back, now and then."""
READER = "reader"
SOME = 5
"""Events of a kind that are enough."""
AHEAD = NOW + 10**14
"""A time that nobody believes."""
SUBSCRIPTIONS = [f"s{number}" for number in range(6)]
_ROOMS = {
    "events", "state", "quarantine", "load", "commits", "changes", "built", "layouts", "subscriptions", "CURRENT",
    "readers",
}  # fmt: skip


FEW = Limits(least_delta=5, base_every=2, kept_commits=2, commits_of_a_log=2)
"""With these what happens after thousands of changes and commits happens after some."""


def small(monkeypatch):
    """Let every watch of this process have :data:`FEW`, whoever opens it."""
    monkeypatch.setattr(Home.__init__, "__defaults__", (DEFAULT_NAME, FEW))


def script_of(seed, batches=4):
    """Steps of a stream, drawn by a seed, and the time after which silent objects are gone."""
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, 8 * batches, seconds=int(rng.integers(10, 120)))
    steps = [("subscribe", [random_pairs(np.random.default_rng(seed), "near")])]
    for number, part in enumerate(np.array_split(np.arange(len(rows)), batches)):
        some = [rows[row] for row in part]
        if rng.random() < 0.4:
            some.append(dict(some[0], t=AHEAD, id=99))
        steps += [("subscribe", [random_asked(rng, one) for one in rng.choice(SUBSCRIPTIONS, 2, replace=False)])]
        if rng.random() < 0.4:
            steps.append(("unsubscribe", [str(rng.choice(SUBSCRIPTIONS))]))
        if rng.random() < 0.15:
            steps.append(("replace", [random_asked(rng, str(rng.choice(SUBSCRIPTIONS)))]))
        if rng.random() < 0.3:
            steps.append(("beat", None))
        steps.append(("batch", (number, some)))
        if rng.random() < 0.5:
            steps.append(("fold", None))
        if rng.random() < 0.4:
            steps.append(("clear", None))
        if rng.random() < 0.7:
            steps.append(("read", None))
        if rng.random() < 0.6:
            steps.append(("retain", None))
        if rng.random() < 0.15:
            steps.append(("set back", None))
    expire = [None, None, 20 * SECOND][int(rng.integers(3))]
    return [*steps, ("fold", None), ("read", None), ("retain", None), ("clear", None)], expire


def play(home, script, done, began, tasks):
    """Take the steps that are left; ``began`` hears of each."""
    steps, expire = script
    while (number := int(done.read_text())) < len(steps):
        kind, what = steps[number]
        began(kind)
        back = sum(step[0] == "set back" for step in steps[:number])
        now = NOW + number * EVERY - back * SET_BACK
        options = Options(expire=expire, max_bad=1.0)
        if kind == "subscribe":
            subscribe(home, table_of(what))
        elif kind == "replace":
            subscribe(home, table_of(what), replace=True)
        elif kind == "unsubscribe":
            unsubscribe(home, what)
        elif kind == "beat":
            plan = plan_batch(home, settings_of(), Source(), options, now)
            assert plan is not None
            run_batch(plan, rows_of([]), tasks)
        elif kind == "batch":
            plan = plan_batch(home, settings_of(), Source(query="q", batch=what[0]), options, now)
            if plan is not None:
                run_batch(plan, rows_of(what[1]), tasks)
        elif kind == "fold":
            fold_watch(home, now)
        elif kind == "read":
            read_on(home, notes_of(done))
        elif kind == "retain":
            if readers(home):  # else all would go, read or not
                retain(home, 0, now, 0.0)
        elif kind == "clear":
            clear_watch(home, 0.0)
        began("done")
        with _OPENED(done, "w") as file:
            file.write(str(number + 1))


_OPENED = io.open


def notes_of(done):
    """Where the reader of a play notes what it was told."""
    return done.with_name("noted")


def read_on(home, notes):
    """Note all commits and events behind the cursor of a reader, outside of the store, and then move the cursor on."""
    head = home.batches.head()
    if head is None:
        return
    after = cursor_of_reader(home, READER) or BEGINNING
    end = Cursor(head.number, END_OF_BATCH)
    lines = [["commit", number, home.batches.read(number).document] for number in range(after.batch + 1, end.batch + 1)]
    for table in events(home, after, until=end):
        lines += [["event", row["batch"], row] for row in table.to_pylist()]
    with _OPENED(notes, "a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    keep_cursor(home, READER, end)


def noted(notes):
    """What the reader has noted: commits by number, events by cursor; those that were told twice were the same."""
    commits, told = {}, {}
    for line in notes.read_text().splitlines() if notes.exists() else ():
        kind, number, what = json.loads(line)
        known, key = (commits, number) if kind == "commit" else (told, (number, what["number"]))
        assert known.setdefault(key, what) == what, "another one under the same number"
    return commits, told


def faulty(folder, seed, faults, at, longest, wanted=None):
    """Play a stream with so many faults, then to its end; return how many came and what was told.

    ``at`` gets what was done at each, and the kind of file; a process makes ``longest`` changes at most before its own.
    Of places that are ``wanted`` only those count that nothing was at yet, and they are few: ``longest`` of these.
    """
    rng = random.Random(seed)
    home, script = Home(str(folder / "store"), "w", FEW), script_of(seed)
    done = folder / "done"
    folder.mkdir()
    done.write_text("0")
    came = 0
    while True:
        step = rng.randint(1, longest) if came < faults else 0
        fault = rng.choice(["kill", "kill", "kill", "full"])
        places = None if wanted is None else wanted - at
        status, labels = play_in_a_child(home, script, done, step, fault, rng.choice([1, 2, 3]), places)
        if status == 0 and int(done.read_text()) == len(script[0]):
            break
        came += 1
        at.add((labels[-1][0], labels[-1][2]))
        if came % 8 == 0 and home.folder.there() and home.batches.head() is not None:
            # whoever was killed between a commit and CURRENT has left that for the next one
            found = verify_watch(home).damaged
            assert [line for line in found if not line.endswith("the next commit mends it")] == []
    counts = check_told(home, script, done)
    check_nothing_left(home)
    assert check_told(home, script, done) == counts
    return came, counts


def warm(folder):
    """Compile in this process what its children would each compile."""
    folder.mkdir()
    (folder / "done").write_text("0")
    home, script = Home(str(folder), "w", FEW), script_of(5)
    play(home, script, folder / "done", lambda _: None, 2)
    assert sum(check_told(home, script, folder / "done").values()) > 0


def play_in_a_child(home, script, done, step, fault, tasks, places=None):
    """Play on in a process of its own with a fault at a change of a file; return how it ended, and all it was at.

    The step counts all changes, or those at some ``places``.
    """
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(here)
        code = 2
        try:
            _faulty(home, step, fault, places, there, lambda began: play(home, script, done, began, tasks))
            code = 0
        except OSError as error:
            code = 1 if error.errno == errno.ENOSPC else 2
            if code == 2:
                traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            end_now(code)
    os.close(there)
    with os.fdopen(here) as pipe:
        labels = [tuple(json.loads(line)) for line in pipe]
    status = os.waitpid(child, 0)[1]
    assert status in (0, 256, signal.SIGKILL), status
    return status, labels


def _faulty(home, step, fault, places, pipe, work):
    """Work with a fault at the step-th change of a file, and say of each change what it is."""
    seen = 0
    action = "done"

    def began(kind):
        nonlocal action
        action = kind

    def wrapped(name, real):
        def call(*arguments, **options):
            nonlocal seen
            if action != "done" and (name != "open" or set(arguments[1]) & set("wxa")):
                room = room_of(home, name, arguments)
                seen += places is None or (action, room) in places
                os.write(pipe, json.dumps([action, name, room]).encode() + b"\n")
                if seen == step and fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if 0 < step <= seen and fault == "full" and name in ("open", "mkdir", "link", "fsync"):
                    raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **options)

        return call

    os.fsync = no_sync  # what a killed process has written is not lost: only power that fails loses that
    for name in STEPS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    io.open = wrapped("open", io.open)
    work(began)


def no_sync(_number):
    """Bring nothing to the disk, for tests that are about other things."""


def room_of(home, name, arguments):
    """Which kind of file a change is of."""
    path = arguments[1] if name in ("link", "rename", "replace") else arguments[0]
    path = str(Path(f"/proc/self/fd/{path}").readlink()) if isinstance(path, int) else os.fspath(path)
    parts = Path(path).relative_to(home.path).parts if path.startswith(home.path) else ()
    rooms = [part for part in parts if part in _ROOMS]
    kind = parts[-1].partition("-")[0] if parts and "-" in parts[-1].partition(".")[0] else ""
    return "/".join([*rooms, kind]) if kind else "/".join(rooms)


def stands_after(steps):
    """What stands after each change that the steps make, by its number: a dictionary."""
    now, tables = {}, {0: []}
    for kind, what in steps:
        before = dict(now)
        if kind in ("subscribe", "replace"):
            rows = {row["id"]: row for row in table_of(what).to_pylist()}
            if kind == "replace":
                now = {id: row for id, row in now.items() if id in rows}
            for id, row in rows.items():
                if id not in now or now[id] | {"version": None} != row:
                    now[id] = row | {"version": len(tables)}
        elif kind == "unsubscribe":
            now = {id: row for id, row in now.items() if id not in what}
        if now != before:
            tables[len(tables)] = [now[id] for id in sorted(now)]
    return tables


def check_told(home, script, done):
    """Hold all that is told to the loop over what was read; return how many events of each kind there are."""
    steps, expire = script
    batches = dict(what for kind, what in steps if kind == "batch")
    tables = stands_after(steps)
    loop = Watched(SPHERE, settings_of().schema, expire)
    last = (0, -1)
    commits, found = noted(notes_of(done))
    for table in events(home):
        for row in table.to_pylist():
            assert (row["batch"], row["number"]) > last, "twice, or not in order"
            last = (row["batch"], row["number"])
            assert found.setdefault(last, row) == row, "another one under the same number"
    told, pairs = {}, {}
    for _, row in sorted(found.items()):
        if row.get("near") is not None:
            both = tuple(row[name] for name in ("kind", "subscription", "version", "object", "t", "reason", "near"))
            pairs.setdefault(row["batch"], []).append(both)
            continue
        event = (row["kind"], row["subscription"], row["version"], row["object"], row["t"], row["reason"])
        told.setdefault(row["batch"], []).append(event)
    folded, read = None, []
    counts = Counter(event[0] for some in told.values() for event in some)
    for number in range(1, home.batches.head().number + 1):
        document = commits[number] if number in commits else home.batches.read(number).document
        if document["folded"] != folded:
            folded = document["folded"]
            assert number not in told
            continue
        rows = []
        if document["batch"]["query"]:
            read.append(document["batch"]["batch"])
            rows = [row for row in batches[read[-1]] if row["t"] != AHEAD]
            assert document["counts"]["ahead"] == len(batches[read[-1]]) - len(rows)
        wanted = loop.batch(rows, document["changes"], tables[document["changes"]])
        mine = told.pop(number, [])
        assert Counter(pairs.pop(number, [])) == Counter(loop.told_of_pairs), number
        assert Counter(mine) == Counter(wanted), number
        assert by_object(mine) == by_object(wanted), number
        assert document["clock"] == loop.clock
    assert read == sorted(batches)
    assert (told, pairs) == ({}, {})
    return counts


def by_object(told):
    """The events of each object in their order."""
    found = {}
    for event in told:
        found.setdefault(event[3], []).append(event)
    return found


def check_whole(home):
    """Check that each byte of what the watch lists is as it was written."""
    assert verify_watch(home).damaged == []


def check_nothing_left(home):
    """Check that clearing leaves what the newest commits name, and nothing that is passing."""
    clear_watch(home, 0.0)
    check_whole(home)
    document = home.batches.head().document
    assert set(home.folder.files("state")) == {run["name"] for run in document["state"]}
    layout = document.get("layout") or {"indexes": {}}
    indexes = [document["standing"]["base"], document["standing"]["delta"], *layout["indexes"].values()]
    assert set(home.asked.files("built")) == {one["name"] for one in indexes if one is not None}
    said = [layout.get(part) for part in ("layout", "base", "delta", "memory", "words")]
    assert set(home.asked.files("layouts")) == {one["name"] for one in said if one is not None}
    assert all(name.endswith((".parquet", ".json")) for name in home.folder.files("events"))


def fault_at_each(folder, wanted, streams):
    """Play streams with faults until one was at each wanted kind of file, and return how many events were told.

    Of each kind of event there are some, too.
    """
    counts, at, seed = {}, set(), 0
    while not (at >= wanted and min(counts.values()) > SOME) and seed < streams:
        _, told = faulty(folder / str(seed), seed, len(wanted), at, 3, wanted)
        counts = {kind: counts.get(kind, 0) + told[kind] for kind in ("leave", "enter", "inside", "reset")}
        seed += 1
    assert at >= wanted, wanted - at
    return counts
