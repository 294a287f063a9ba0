"""Whoever runs two sets of windows is killed at changes of files: results and state are those of a calm run."""

from __future__ import annotations

import random
import signal

from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.storage.sets import sets_of
from dtoss.windows.storage.window_document import Home
from dtoss.windows.storage.window_plan import ledger_of
from tests.dtoss.windows.migration.kills_between_sets import begun, calm_run, change, killed, same_as_calm

KILLS = 9


def test_kills_between_two_sets_change_no_result(tmp_path):
    """Also in the middle of a beginning, between the two commits of a batch, and before the new set takes over."""
    calm = calm_run(tmp_path / "calm")
    rng, came, uneven = random.Random(4), 0, 0
    home, batches = begun(tmp_path / "torn")
    for kill in range(KILLS):
        status = killed(home, batches, rng.randint(1, 40 * (kill + 1)))
        assert status in (0, signal.SIGKILL), (kill, status)
        came += status != 0
        assert verify_windows(home).damaged == []
        sets = sets_of(home)
        read = [ledger_of(Home(home.store, "w", number)).files for number in sets.numbers]
        uneven += sets.coming is not None and read[0] != read[1]
    change(home, batches)
    assert came >= KILLS // 2
    assert uneven
    same_as_calm(home, calm)
