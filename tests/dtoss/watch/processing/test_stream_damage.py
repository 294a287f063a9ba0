"""Bytes that were turned over, files that are missing, and files that nothing names: each is told of, or goes."""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dtoss.commits.offsets import Source
from dtoss.errors import InputError, StoreError
from dtoss.watch.events.event_compaction import fold_watch
from dtoss.watch.events.event_counts import event_counts
from dtoss.watch.events.event_log import events
from dtoss.watch.events.readers import Cursor, cursor_of_reader
from dtoss.watch.events.watch_tables import clear_watch, verify_watch
from dtoss.watch.index import large_and_small
from dtoss.watch.processing import state_runs
from dtoss.watch.processing.watch_commit import commit_batch
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.processing.watch_task import run_task
from dtoss.watch.watch_folder import Home, Limits
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.dtoss.watch.processing.scripted import FEW
from tests.dtoss.watch.processing.test_stream_rules import FENCE, at
from tests.dtoss.watch.streams import NOW, change, circle, rows_of, run, settings_of

HOURS = 3600.0


def forget():
    """Be as a process that has opened nothing yet."""
    state_runs._opened.clear()
    large_and_small.open_standing.cache_clear()
    large_and_small.open_index_of.cache_clear()


def made(path, batches=4, limits=None):
    """A watch of some batches, with a file of every kind."""
    home = Home(str(path), "w", limits or Limits())
    change(home, [FENCE | {"where": "occupied = 0"}])
    for batch in range(batches):
        rows = [at(n, batch, lon=0.01 * ((n + batch) % 2), occupied=0, kind=None) for n in range(20)]
        rows.append(at(1, 0, occupied=None, kind=None) | {"t": NOW + 10**10})
        run(home, settings_of(), rows, 2, source=Source(query="q", batch=batch))
        if batch == 0:
            change(home, [circle(f"more{n}", 1.0, 0.0, 600.0) for n in range(3)])
    return home


def used(home):
    """Read and write all that a watch is for: its events, its next batch."""
    forget()
    for _ in events(home):
        pass
    change(home, [circle("next", 2.0, 0.0, 100.0)])
    rows = [at(n, 100, occupied=0, kind=None) for n in range(20)]
    run(home, settings_of(), rows, 2, source=Source(query="q", batch=4))


ROOMS = {
    "events": "events",
    "state": "state",
    "commits": "commits",
    "changes": "subscriptions/changes",
    "built": "subscriptions/built",
    "commits of changes": "subscriptions/commits",
}


def named(home, kind):
    """The files of a kind that the newest commit needs."""
    document = home.batches.head().document
    files = sorted((Path(home.path) / ROOMS[kind]).iterdir())
    if kind == "state":
        return [file for file in files if file.name in {one["name"] for one in document["state"]}]
    if kind == "built":
        stands = document["standing"]
        return [file for file in files if file.name in {stands[part]["name"] for part in ("base", "delta")}]
    return files


@pytest.mark.parametrize("kind", ROOMS)
def test_a_byte_that_was_turned_over_is_told_with_its_file(tmp_path, kind):
    """By verify always; and whoever uses the watch gets an error with that name, or needs the file no more."""
    rng = random.Random(kind)
    home = made(tmp_path / "store")
    assert verify_watch(home).damaged == []
    told = 0
    for file in named(home, kind):
        whole = file.read_bytes()
        for _ in range(3):
            data = bytearray(whole)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(bytes(data))
            assert any(file.name in line for line in verify_watch(home).damaged), file
            told += _fails(home, file)
        file.write_bytes(whole)
    assert told > 0
    used(home)


def _fails(home, file):
    """Whether a use of the watch says that a file is damaged; what it makes is taken back."""
    before = {path: path.read_bytes() for path in Path(home.path).rglob("*") if path.is_file()}
    try:
        used(home)
        return False
    except StoreError as error:
        if file.name not in str(error):
            raise
        return True
    finally:
        for path in list(Path(home.path).rglob("*")):
            if path.is_file() and path not in before:
                path.unlink()
        for path, data in before.items():
            path.write_bytes(data)


@pytest.mark.parametrize("kind", ["state", "built", "events", "changes"])
def test_what_is_missing_is_told_with_its_name(tmp_path, kind):
    """Never taken for nothing."""
    home = made(tmp_path / "store")
    file = named(home, kind)[-1]
    file.rename(tmp_path / file.name)
    assert any(file.name in line and "missing" in line for line in verify_watch(home).damaged)
    with pytest.raises(StoreError, match=f"{file.name} is missing"):
        used(home)


def test_a_commit_that_is_missing_is_no_gap(tmp_path):
    """Neither one in the middle, nor the last one: not for readers, nor for who commits next, whatever its source."""
    home = made(tmp_path / "store")
    path = Path(home.batches.path(2))
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(StoreError, match=f"{2:020}.json is missing"):
        list(events(home))
    path.write_bytes(kept)
    path = Path(home.batches.path(4))
    kept = path.read_bytes()
    path.unlink()
    for source in (Source(query="q", batch=4), Source(files={"f": 1}), Source()):
        with pytest.raises(StoreError, match=f"{4:020}.json is missing: CURRENT says that it was committed; restore"):
            plan_batch(home, settings_of(), source, Options(), NOW)
    with pytest.raises(StoreError, match=f"{4:020}.json is missing"):
        list(events(home))
    assert any(f"{4:020}.json is missing" in line for line in verify_watch(home).damaged)
    (Path(home.path) / "CURRENT").unlink()  # it is as if the last batch had never been, but for its source
    with pytest.raises(InputError, match="goes on with batch 4 of query q, and watch w has committed up to 2"):
        plan_batch(home, settings_of(), Source(query="q", batch=4), Options(), NOW)
    path.write_bytes(kept)
    assert plan_batch(home, settings_of(), Source(query="q", batch=4), Options(), NOW) is not None
    # the last change of subscriptions
    last = home.changes.head().number
    Path(home.changes.path(last)).unlink()
    for use in (lambda: change(home, [circle("next", 2.0, 0.0, 100.0)]), lambda: used(home)):
        with pytest.raises(StoreError, match=f"subscriptions/commits/{last:020}.json is missing"):
            use()
    assert any(f"{last:020}.json is missing" in line for line in verify_watch(home).damaged)


def test_a_file_that_power_left_short_is_written_anew(tmp_path):
    """One of the same name stands already, and is empty: the batch does not take it for what it wrote."""
    homes = [made(tmp_path / name, 2) for name in ("a", "b")]
    for home in homes:
        rows = [at(n, 9, occupied=0, kind=None) for n in range(20)]
        plan = plan_batch(home, settings_of(), Source(query="q", batch=2), Options(), NOW)
        done = run_task(plan, 0, np.arange(256), rows_of(rows))
        if home is homes[0]:  # its files, empty, stand in the other one too
            for room, entry in (("events", done.events), ("state", done.state)):
                Path(homes[1].folder.path(room, entry["name"])).write_bytes(b"")
        commit_batch(plan, [done])
        assert verify_watch(home).damaged == []


def age(home, hours):
    """Let all files be older."""
    then = time.time() - hours * HOURS
    for path in Path(home.path).rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_clearing_leaves_what_a_batch_under_way_has_written(tmp_path):
    """Also where a file of the same name was left by one that ended hours ago."""
    home = made(tmp_path / "store", 2)
    rows = rows_of([at(n, 9, occupied=0, kind=None) for n in range(20)])
    source = Source(query="q", batch=2)
    ended = plan_batch(home, settings_of(), source, Options(), NOW)
    run_task(ended, 0, np.arange(256), rows)
    age(home, 2)
    plan = plan_batch(home, settings_of(), source, Options(), NOW)
    done = run_task(plan, 0, np.arange(256), rows)
    clear_watch(home)
    commit_batch(plan, [done])
    forget()
    assert verify_watch(home).damaged == []
    assert sum(len(table) for table in events(home)) > 60
    # what a batch that lost had written goes once it is old
    lost = run_task(plan, 1, np.arange(256), rows_of([at(77, 50, occupied=0, kind=None)]))
    clear_watch(home)
    assert home.folder.is_file("events", lost.events["name"])
    assert home.folder.is_file("state", lost.state["name"])
    age(home, 2)
    clear_watch(home)
    assert not home.folder.is_file("events", lost.events["name"])
    assert not home.folder.is_file("state", lost.state["name"])
    assert verify_watch(home).damaged == []


def test_clearing_of_nothing_and_of_what_never_began(tmp_path):
    """Without a commit all old files are debris; without a watch there are none."""
    home = Home(str(tmp_path), "w")
    assert clear_watch(home, 0.0).files == 0
    change(home, [FENCE])
    plan = plan_batch(home, settings_of(), Source(query="q", batch=0), Options(), NOW)
    run_task(plan, 0, np.arange(256), rows_of([at(1, 0)]))
    assert clear_watch(home).files == 0
    assert clear_watch(home, 0.0).files == 3  # events, state and an index of subscriptions
    assert run(home, settings_of(), [at(1, 0)], source=Source(query="q", batch=0)).number == 1
    assert verify_watch(home).damaged == []


@pytest.mark.parametrize("batches", [80, pytest.param(200, marks=pytest.mark.deep("two hundred are more of the same"))])
def test_files_and_commits_stay_few_over_many_batches(tmp_path, batches):
    """Of one row each, and of subscriptions that change: as many runs as the state has doublings."""
    home = Home(str(tmp_path), "w")
    change(home, [FENCE])
    rows = [at(n, 0) for n in range(500)]
    run(home, settings_of(), rows, 2)
    most, sizes, opened = 0, [], []
    for batch in range(batches):
        if batch % 20 == 0:
            change(home, [circle(f"s{batch}", 1.0, 0.0, 5.0)])
        commit = run(home, settings_of(), [at(batch % 500, 1 + batch)], 2)
        clear_watch(home, 0.0)
        most = max(most, len(home.folder.files("state")), len(home.asked.files("built")))
        sizes.append(Path(home.batches.path(commit.number)).stat().st_size)
        opened.append(sum(key[0] == home for key in state_runs._opened))
    assert most <= 2 * (1 + np.log2(500))
    assert max(sizes[batches // 2 :]) <= 1.3 * max(sizes[: batches // 2])
    assert max(opened) <= most
    assert verify_watch(home).damaged == []


def test_a_byte_of_what_was_folded_is_told_with_its_file(tmp_path):
    """Events of hours, the list of them, counts, logs of commits, cursors: an error with the name, or no change."""
    home = made(tmp_path / "store", 6, FEW)
    fold_watch(home, NOW + 10 * 3_600_000_000)
    keep_cursor(home, "reader", Cursor(2, 3))

    def reading():
        paths.append("/." * len(paths))  # by a name under which this process has counted nothing yet
        told = [table.to_pylist() for table in events(home)]
        return (
            told,
            event_counts(replace(home, store=home.store + paths[-1])),
            cursor_of_reader(home, "reader"),
            home.batches.read(2),
        )

    paths = []
    whole = reading()
    rng = random.Random(5)
    kinds = {"hour": 0, "folded": 0, "counts": 0, "log": 0, "reader": 0}
    for file in sorted(path for path in Path(home.path).rglob("*") if path.is_file()):
        kind = file.stem.split("-")[0]
        if kind not in kinds or "subscriptions" in file.parts:
            continue
        bytes_ = file.read_bytes()
        for _ in range(3):
            data = bytearray(bytes_)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(bytes(data))
            assert any(file.name in line for line in verify_watch(home).damaged), file
            try:
                assert reading() == whole, file
            except StoreError as error:
                kinds[kind] += file.name in str(error) or kind == "log"
        file.write_bytes(bytes_)
    assert kinds == {"hour": 3, "folded": 3, "counts": 3, "log": kinds["log"], "reader": 3}
    assert kinds["log"] > 0
    assert reading() == whole
