"""Whoever runs windows is killed at any change of a file, or finds the disk full: nothing that counts is another."""

from __future__ import annotations

import errno
import io
import os
import random
import signal
import sys
import traceback

import pytest

from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.windows_tables import table_of, verify_windows
from dtoss.windows.state.hour_files import Steps, hours_of
from dtoss.windows.storage.window_document import documents, head_of
from dtoss.windows.storage.window_plan import ledger_of
from tests.dtoss.snapshots.small_stores import STEPS
from tests.dtoss.watch.processing.scripted import no_sync
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import SECOND, begin, check, commit, made, spec
from tests.ends import end_now

MORE = pytest.mark.deep("seven times as many kills of the same kind")
HOURS = Steps(hour_us=4 * SECOND)
LONGEST = 60
"""Changes of files that a process may make before its fault, at most."""
TASKS = 3
RETAIN_US = 12 * SECOND


def play(home, fixed, batches, began=lambda: None):
    """Commit the batches that are not committed yet, each as a file that arrived; merge hours, clear behind each."""
    for number, batch in enumerate(batches):
        name = f"part{number}"
        if ledger_of(home).fresh({name: len(batch)}):
            began()
            merge(home, fixed)
            commit(home, fixed, batch, Source(files={name: len(batch)}), TASKS)
            remove_orphans(table_of(home), 0.0)
    merge(home, fixed)


def merge(home, fixed):
    """Merge all hours that are past, and remove those that are old."""
    while (head := head_of(home)) is not None and merge_hours(home, fixed.spec, head, RETAIN_US, HOURS) is not None:
        remove_orphans(table_of(home), 0.0)


def batches_of(seed):
    """Few rows of many objects after the first batch, so that state is patched; some are too late and set aside."""
    later = [[*batch, (1, -(1 << 40), 0.0, 0.0)] for batch in made(seed + 1, batches=3, rows=4, ids=30, step=8.0)]
    return made(seed, batches=1, rows=30, ids=30) + later


def play_in_a_child(home, fixed, batches, step, fault):
    """Play on in a process of its own, with a fault at a change of a file; return how it ended."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            _faulty(step, fault, lambda began: play(home, fixed, batches, began))
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
    return os.waitpid(child, 0)[1]


def _faulty(step, fault, work):
    seen, going = 0, False

    def began():
        nonlocal going
        going = True

    def wrapped(name, real):
        def call(*arguments, **options):
            nonlocal seen
            if going and (name != "open" or set(arguments[1]) & set("wxa")):
                seen += 1
                if seen == step and fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if 0 < step <= seen and fault == "full" and name in ("open", "mkdir", "link", "fsync"):
                    raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **options)

        return call

    os.fsync = no_sync
    for name in STEPS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    io.open = wrapped("open", io.open)
    work(began)


def said(home):
    """What all commits say but when and by whom."""
    kept = []
    for document in documents(home, 1, head_of(home).number):
        body = dict(document.commit.document)
        body["batch"] = {**body["batch"], "wall_us": 0}
        workers = [{**worker, "seconds": 0} for worker in body["placement"]["workers"]]
        body["placement"] = {**body["placement"], "workers": workers}
        kept.append(body)
    return kept


@pytest.mark.parametrize(("seeds", "kills"), [(2, 22), pytest.param(12, 150, marks=MORE)])
def test_kills_and_full_disks_change_no_byte(tmp_path, seeds, kills):
    """Each run ends with the files of one that nobody has disturbed, and each answer is the oracle's."""
    wanted, came, seen = spec(late="3s"), 0, set()
    for seed in range(seeds):
        rng = random.Random(seed)
        batches = batches_of(seed)
        calm, fixed = begin(tmp_path / f"calm{seed}", wanted)
        play(calm, fixed, batches)
        home, fixed = begin(tmp_path / f"torn{seed}", wanted)
        left = kills // seeds + 1
        while True:
            fault = rng.choice(["kill", "kill", "full"])
            status = play_in_a_child(home, fixed, batches, rng.randint(1, LONGEST) if left else 0, fault)
            assert status in (0, 256, signal.SIGKILL), status
            came += status != 0
            left -= left > 0
            if head_of(home) is not None:
                assert verify_windows(home).damaged == []
            if status == 0 and len(ledger_of(home).files) == len(batches):
                break
        assert said(home) == said(calm)
        remove_orphans(table_of(home), 0.0)
        for room in ("objects", "panes", "patches", "results", "keys", "quarantine", "hours"):
            assert home.folder.files(room) == calm.folder.files(room)
            seen |= {room for _ in home.folder.files(room)}
        files = head_of(home).files
        seen |= {f"patches of {room}" for room in ("objects", "panes") if any(part.patch for part in files[room])}
        kept_from = max(hours_of(home, head_of(home)).kept_from, 0)
        seen |= {"removed" for _ in range(kept_from)[:1]}
        if seed % 4 == 0:
            assert check(home, list(replayed(wanted, batches))[-1][0], kept_from) > 0
    assert came >= kills // 2
    assert {"hours", "patches of objects", "patches of panes", "quarantine", "removed"} <= seen
