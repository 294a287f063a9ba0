"""Whoever runs windows is killed at any change of a file, or finds the disk full: nothing that counts is another."""

from __future__ import annotations

import errno
import io
import os
import random
import signal
import sys
import traceback

from dtoss.commits.source import Source
from dtoss.windows.stored.debris import clear_debris
from dtoss.windows.stored.document import documents, head_of
from dtoss.windows.stored.plan import ledger_of
from dtoss.windows.stored.verify import verify_windows
from tests.dtoss.snapshots.small_stores import STEPS
from tests.dtoss.watch.stream.scripted import no_sync
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.stored.kept import begin, check, commit, made, spec

SEEDS, KILLS = 24, 150
LONGEST = 40
"""Changes of files that a process may make before its fault, at most."""
TASKS = 3


def play(home, fixed, batches, began=lambda: None):
    """Commit the batches that are not committed yet, each as a file that has arrived, and clear behind each."""
    for number, batch in enumerate(batches):
        name = f"part{number}"
        if ledger_of(home).fresh({name: len(batch)}):
            began()
            commit(home, fixed, batch, Source(files={name: len(batch)}), TASKS)
            clear_debris(home, 0.0)


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
            os._exit(code)
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


def test_a_hundred_kills_and_full_disks_change_no_byte(tmp_path):
    """Each run ends with the files of one that nobody has disturbed, and each answer is the oracle's."""
    wanted, came = spec(), 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        batches = made(seed, batches=4, rows=12)
        calm, fixed = begin(tmp_path / f"calm{seed}", wanted)
        play(calm, fixed, batches)
        home, fixed = begin(tmp_path / f"torn{seed}", wanted)
        left = KILLS // SEEDS + 1
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
        clear_debris(home, 0.0)
        for room in ("objects", "panes", "patches", "results", "keys"):
            assert home.folder.files(room) == calm.folder.files(room)
        if seed % 8 == 0:
            assert check(home, list(replayed(wanted, batches))[-1][0]) > 0
    assert came >= KILLS // 2
