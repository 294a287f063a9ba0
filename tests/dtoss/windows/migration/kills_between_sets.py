"""Two sets of windows that run are killed at changes of files: results and state are those of a calm run.

Also a script, which kills at each change between the beginning of the other set and its taking over, and goes on:
``python -m tests.dtoss.windows.migration.kills_between_sets``.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from dtoss.windows.migration.take_over import settle_sets
from dtoss.windows.processing.windows_tables import clear_sets, verify_windows
from dtoss.windows.storage.sets import current_home, sets_of
from dtoss.windows.storage.window_document import Home, head_of
from tests.dtoss.snapshots.small_stores import killed_at
from tests.dtoss.watch.processing.scripted import no_sync
from tests.dtoss.windows.migration.following import (
    OTHER_SITES,
    begin_beside,
    fixed_in,
    long_batches,
    opened,
    play,
)
from tests.dtoss.windows.storage.kept import SECOND, SITES, spec

BEFORE, TASKS = 2, 2
"""Batches before the other set begins, and tasks."""


def change(home, batches, begins=True):
    """Go on from whatever is there: the first batches, then another set beside, then the other batches."""
    play(home, batches[:BEFORE], TASKS)
    if begins and sets_of(home).commit is None:
        begin_beside(home, spec(sites=OTHER_SITES), OTHER_SITES)
    play(home, batches, TASKS)
    settle_sets(home)


def killed(home, batches, step):
    """Go on, killed at a change of a file; return how it ended."""
    return killed_at(step, lambda: change(home, batches))


def begun(folder):
    """The home of windows that have read some batches, before another set begins; and all batches."""
    home, batches = Home(str(folder), "w"), long_batches(11, batches=7, rows=12)
    fixed_in(home, spec(), SITES)
    play(home, batches[:BEFORE], TASKS)
    return home, batches


def calm_run(folder):
    """The home of windows that nobody has disturbed, without what nothing needs."""
    calm, batches = begun(folder)
    change(calm, batches)
    assert opened(calm).home.number > 1
    clear_sets(calm, 0.0)
    return calm


def same_as_calm(home, calm):
    """Hold results, state and what was read to those of a calm run."""
    found, want = opened(home), opened(calm)
    assert found.since == want.since
    for since, until in ((0, want.since - 1), (want.since, want.watermark)):
        mine, theirs = (one.wide_between(since / SECOND, until / SECOND) for one in (found, want))
        assert mine.equals(theirs)
    clear_sets(home, 0.0)
    for room in ("objects", "panes", "results", "keys"):
        files = [current_home(one.store, "w").folder.files(room) for one in (home, calm)]
        assert files[0] == files[1], room
    assert head_of(found.home).ledger == head_of(want.home).ledger


def main():
    """Kill at each change of a file, and hold what comes of it to a calm run."""
    os.fsync = no_sync
    with tempfile.TemporaryDirectory() as scratch:
        calm = calm_run(Path(scratch) / "calm")
        _, batches = begun(Path(scratch) / "begun")
        step = 0
        while True:
            step += 1
            home = Home(str(shutil.copytree(Path(scratch) / "begun", Path(scratch) / "torn")), "w")
            ended = killed(home, batches, step)
            damaged = verify_windows(home).damaged
            assert all(line.endswith("the next commit mends it") for line in damaged), damaged
            change(home, batches)
            assert verify_windows(home).damaged == []
            same_as_calm(home, calm)
            shutil.rmtree(home.store)
            if ended == 0:
                break
            assert ended == signal.SIGKILL, ended
    sys.stdout.write(f"{step - 1} kills, each at another change of a file: every run has ended as the calm one\n")


if __name__ == "__main__":
    main()
