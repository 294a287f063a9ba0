"""What may happen to a cycle: its process ends, the disk fails or is full, the power goes, another one is faster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dtoss.snapshots.store import Store
from tests.oracles import apply
from tests.pipelines.cycles.without_spark import assert_clean, assert_holds, begin, cycled, racing, rows_of

ROOT = Path(__file__).parents[3]


def script(*arguments):
    """Start one of the loops of ``without_spark`` in a process of its own."""
    command = [sys.executable, "-m", "tests.pipelines.cycles.without_spark", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out)


@pytest.fixture(scope="module")
def broken_cycles(tmp_path_factory):
    """What three loops of cycles that break have told, one after the other in one process."""
    store = tmp_path_factory.mktemp("broken") / "store"
    return told(script("broken", store, "kill", 1, 8, "error", 2, 9, "full", 3, 9))


@pytest.mark.parametrize("how", ["kill", "error", "full"])
def test_a_broken_cycle_is_old_or_new_and_the_next_one_applies_each_update_once(broken_cycles, how):
    """Broken before every so manieth change of a file, in each stage; the disk may fail once or stay full."""
    said = broken_cycles[how]
    assert said["broken"] >= 10
    assert 0 < said["committed"] < said["broken"]


@pytest.mark.parametrize(
    ("writers", "each"), [(3, 3), pytest.param(8, 3, marks=pytest.mark.deep("more writers than cores by far"))]
)
def test_no_update_is_lost_where_cycles_race_without_a_lease(tmp_path, writers, each):
    """Nobody overwrites, nobody who opens it sees a mixture; the chain has no gap, and all that came is there."""
    said = told(script("races", tmp_path / "store", writers, each))
    assert said["committed"] == writers * each
    assert said["swaps"] > 1
    assert "failed" not in said
    store = Store(str(tmp_path / "store"))
    # that of the empty store is the first
    assert store.head().number == writers * each + 1
    rows = [row for writer in range(1, writers + 1) for number in range(each) for row in racing(writer, number)]
    state, _ = apply({}, rows, now=100, expire=90)
    assert_holds(store, state)


def test_a_lease_that_is_taken_away_in_mid_cycle_loses_nothing(tmp_path, monkeypatch):
    """Another cycle commits while one is at work: that one works once more, on what stands then."""
    import pipelines.cycle

    store = begin(str(tmp_path / "store"))
    real, first = pipelines.cycle.rule, rows_of(1)
    second, begun = rows_of(2), []

    def rule(*arguments):
        if not begun:
            begun.append(
                threading.Thread(target=cycled, args=(Store(store.path), second, 100), kwargs={"lease": False})
            )
            begun[0].start()
            begun[0].join()
        return real(*arguments)

    monkeypatch.setattr(pipelines.cycle, "rule", rule)
    heard: list[str] = []
    cycled(store, first, 100, lease=False, warn=heard.append)
    state, _ = apply({}, [*first, *second], now=100, expire=90)
    assert_holds(store, state)
    assert [message for message in heard if "was committed by" in message]
    assert store.head().number == 3


def test_all_is_on_the_disk_before_it_is_committed(tmp_path, monkeypatch):
    """Of each file and folder of a snapshot: nothing has changed since it was last synced when its commit appears."""
    synced: dict[int, int] = {}
    commits: list[list[str]] = []
    store = begin(str(tmp_path / "store"))
    home = Path(store.path)
    fsync, link = os.fsync, os.link

    def recorded(descriptor):
        fsync(descriptor)
        there = os.fstat(descriptor)
        synced[there.st_ino] = there.st_mtime_ns

    def unsynced(path):
        there = path.stat()
        return synced.get(there.st_ino) != there.st_mtime_ns

    def linked(source, target, **options):
        if Path(target).parent == home / "commits":
            document = json.loads(Path(source).read_bytes())
            snapshot = home / "snapshots" / document["document"]["snapshot"]
            needed = [Path(source), *snapshot.rglob("*"), snapshot, home / "snapshots"]
            # the mark goes after the commit
            commits.append([str(path) for path in needed if path.name != "WRITING" and unsynced(path)])
        return link(source, target, **options)

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(os, "link", linked)
    for number in range(3):
        # of the second cycle partitions are linked
        cycled(store, rows_of(number, count=40 if number != 1 else 1), 100 + number)
        assert not unsynced(home / "commits"), "the commit itself"
    assert commits == [[], [], []]


def test_nothing_is_left_after_many_cycles(tmp_path):
    """Snapshots that are kept, their files, commits and the hint: no file of a cycle's own, no lease."""
    store = begin(str(tmp_path / "store"))
    state = {}
    for number in range(8):
        cycled(store, rows_of(number, at=(number, 100)), 100)
        state, _ = apply(state, rows_of(number, at=(number, 100)), now=100, expire=90)
    assert_holds(store, state)
    assert_clean(store)
    assert len(store.snapshots()) == 2
