"""A rebuild that is killed at any change of a file has changed nothing; repeated, it ends as one left alone."""

from __future__ import annotations

import signal

from dtoss.commits.table import remove_orphans
from dtoss.windows.processing.windows_tables import table_of, verify_windows
from dtoss.windows.storage.window_document import head_of
from tests.dtoss.snapshots.small_stores import killed_at
from tests.dtoss.windows.backfill.replay import SECOND, rebuild
from tests.dtoss.windows.storage.kept import ALL, begin, check, commit, made, spec

RAW = [row for batch in made(3, 3, 20) for row in batch]
SPAN = -SECOND, 9 * SECOND


def stored(folder):
    """Windows with two batches, which have not all of the rows."""
    home, fixed = begin(folder, spec(measures=ALL))
    for rows in (RAW[::4], RAW[1::4]):
        commit(home, fixed, rows, tasks=2)
    return home, fixed


def killed(home, fixed, step):
    """Count anew, killed at a change of a file; return how it ended."""
    return killed_at(step, lambda: rebuild(home, fixed, RAW, *SPAN, 2))


def test_a_killed_rebuild_has_changed_nothing(tmp_path):
    """The last commit stands, and is whole."""
    calm, fixed = stored(tmp_path / "calm")
    wanted = rebuild(calm, fixed, RAW, *SPAN, 2)[1].document
    home, fixed = stored(tmp_path / "torn")
    before, step, deaths = head_of(home), 1, 0
    while True:
        status = killed(home, fixed, step)
        step, deaths = step + 4, deaths + (status == signal.SIGKILL)
        assert status in (0, signal.SIGKILL)
        if head_of(home).number > before.number:
            break
        assert head_of(home).commit == before.commit
    assert deaths > 3
    assert verify_windows(home).damaged == []
    remove_orphans(table_of(home), 0.0)
    said = head_of(home).commit.document
    assert {name: said[name] for name in said if name != "placement"} == {
        name: wanted[name] for name in wanted if name != "placement"
    }
    check(home, RAW)
