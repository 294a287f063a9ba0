"""Past hours in a file each: answers stay those of the oracle, files are few, and what is no longer kept is said."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.table import remove_orphans
from dtoss.errors import InputError, StoreError
from dtoss.windows.processing.hour_compaction import merge_hours
from dtoss.windows.processing.windows_tables import clear_merged, table_of, verify_windows
from dtoss.windows.state.hour_files import NO_TIME, Steps, hours_of
from dtoss.windows.storage.window_document import head_of
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import SECOND, begin, check, commit, made, spec

HOUR = 6 * SECOND
SHORT = Steps(hour_us=HOUR)
"""Hours of six seconds."""


def merged(home, wanted, retain=None, steps=SHORT):
    """Merge until nothing is left to merge; return how many commits that took."""
    count = 0
    while merge_hours(home, wanted, head_of(home), retain, steps) is not None:
        count += 1
    return count


def play(folder, wanted, batches, retain=None):
    """Commit batches, with rows that are too late, and merge and clear behind each."""
    home, fixed = begin(folder, wanted)
    for number, batch in enumerate(batches):
        late = [(1, -(100 + number) * SECOND, 0.0, 0.0)]  # files of equal bytes are one
        commit(home, fixed, [*batch, *late] if number else batch, tasks=2)
        merged(home, wanted, retain)
        remove_orphans(table_of(home), 0.0)
    assert verify_windows(home).damaged == []
    return home


def test_answers_stay_as_they_were_and_files_are_few(tmp_path):
    """A file an hour holds the last word on each end; a merge is a commit without rows, and is made once."""
    wanted, batches = spec(late="3s"), made(7, batches=9, rows=12)
    home = play(tmp_path, wanted, batches)
    head = head_of(home)
    hours = hours_of(home, head)
    assert len(hours.files) > 3
    assert hours.until <= head.watermark - wanted.late < hours.until + HOUR
    assert [part.of[0] // HOUR for part in hours.files] == sorted({part.of[0] // HOUR for part in hours.files})
    assert all(part.of[0] // HOUR == part.of[1] // HOUR for part in hours.files)
    kept = len(home.folder.files("results"))
    assert kept - len(hours.files) < 8 < head.number
    assert len(home.folder.files("hours")) == 1
    assert merge_hours(home, wanted, head, steps=SHORT) is None
    assert check(home, list(replayed(wanted, batches))[-1][0]) > 0
    quarantine = [home.folder.path("quarantine", name) for name in home.folder.files("quarantine")]
    aside = sum(pq.read_metadata(path).num_rows for path in quarantine)
    assert aside == head.totals["quarantined"] >= len(batches) - 1
    assert len(quarantine) < len(batches) - 1 + len(hours.files)


def test_many_past_hours_are_merged_in_steps(tmp_path):
    """A first batch of many hours: a few at once, so that no batch waits for long; the revisions are those told."""
    wanted, batches = spec(), [[row for batch in made(3, batches=10, rows=20) for row in batch]]
    home, fixed = begin(tmp_path, wanted)
    commit(home, fixed, batches[0])
    before = dtoss.open_windows(home.store, home.name)
    assert merged(home, wanted, steps=SHORT._replace(most_hours=2)) >= 3
    after = dtoss.open_windows(home.store, home.name)
    for end in range(0, after.watermark + 1, wanted.slide):
        assert after.at(end / SECOND, "4s").equals(before.at(end / SECOND, "4s"))
    other, fixed_too = begin(tmp_path, wanted, "other")
    commit(other, fixed_too, batches[0])
    steps = merged(other, wanted, steps=SHORT._replace(most_results=0))
    assert steps >= len(hours_of(other, head_of(other)).files) > 3
    assert [part.of for part in hours_of(other, head_of(other)).files] == [
        part.of for part in hours_of(home, head_of(home)).files
    ]
    commit(home, fixed, made(4, batches=1, rows=30, step=0.0)[0])
    remove_orphans(table_of(home), 0.0)
    assert verify_windows(home).damaged == []


def test_what_is_not_retained_is_said_to_be_no_longer_kept(tmp_path):
    """By whole hours, and never what may still change or has not come to its hour."""
    wanted, batches = spec(late="3s"), made(7, batches=9, rows=12)
    home = play(tmp_path, wanted, batches, retain=2 * HOUR)
    found = dtoss.open_windows(home.store, home.name)
    hours = hours_of(home, found.head)
    assert found.watermark - 3 * HOUR < hours.kept_from <= found.watermark - 2 * HOUR
    assert min(part.of[0] for part in hours.files) >= hours.kept_from
    with pytest.raises(
        InputError, match=r"a window no longer kept \(--retain\): those from 1970-01-01T00:00:"
    ) as caught:
        found.at((hours.kept_from - wanted.slide) / SECOND, "4s")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no longer kept"):
        found.series(0, "4s", 0)
    assert check(home, list(replayed(wanted, batches))[-1][0], hours.kept_from) > 0
    assert merged(home, wanted) == 0
    assert hours_of(home, head_of(home)).kept_from == hours.kept_from
    assert len(home.folder.files("results")) < 12


def test_files_that_hours_have_stay_while_somebody_may_be_reading(tmp_path):
    """For ten minutes, in a run."""
    wanted, batches = spec(late="3s"), made(7, batches=6, rows=20)
    home, fixed = begin(tmp_path, wanted)
    for batch in batches:
        commit(home, fixed, batch)
    before = dtoss.open_windows(home.store, home.name)
    merged(home, wanted)
    assert clear_merged(home, head_of(home)).files == 0
    check(home, list(replayed(wanted, batches))[-1][0])
    assert before.at(4.0, "4s").num_rows
    assert clear_merged(home, head_of(home), 0.0).files > 0


def test_hours_in_which_nothing_was_told_are_no_steps(tmp_path):
    """After a silence of a thousand days two merges are enough."""
    wanted = spec(late="3s", measures="rows,objects")
    home, fixed = begin(tmp_path, wanted)
    later = 1000 * 24 * HOUR
    rows = made(7, batches=3, rows=12)
    for shift in (0, later):
        for batch in rows:
            commit(home, fixed, [(one, t + shift, x, y) for one, t, x, y in batch])
    commits = merged(home, wanted)
    assert commits <= 3
    hours = hours_of(home, head_of(home))
    assert hours.until > later
    assert {part.of[0] >= later for part in hours.files} == {False, True}
    assert verify_windows(home).damaged == []


def test_what_a_batch_knew_is_no_longer_kept_once_its_hour_is_merged(tmp_path):
    """Which is said, and an end that can be compared with: it is no damage."""
    wanted = spec(late="3s")
    home = play(tmp_path, wanted, made(7, batches=8, rows=20))
    found = dtoss.open_windows(home.store, home.name)
    assert found.changed(commit=found.head.number).num_rows == 0
    with pytest.raises(InputError, match=r"what commit 2 knew is no longer kept: .*; name an end, such as 1970-01-01T"):
        found.changed(commit=2)


def test_a_damaged_index_or_hour_is_named(tmp_path):
    """By verify, and by whoever asks for it."""
    wanted = spec(late="3s")
    home = play(tmp_path, wanted, made(7, batches=8, rows=20))
    hours = hours_of(home, head_of(home))
    name = head_of(home).files["hours"][0].file.name
    for room, file in (("hours", name), ("results", hours.files[0].file.name)):
        path = tmp_path / "windows" / "w" / room / file
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + b"?")
        assert any(file in line for line in verify_windows(home).damaged)
        with pytest.raises(StoreError, match=file):
            dtoss.open_windows(home.store, home.name).at(hours.files[0].of[0] / SECOND, "4s")
        path.write_bytes(whole)
    assert verify_windows(home).damaged == []
    assert json.loads((tmp_path / "windows" / "w" / "hours" / name).read_bytes())["until"] == hours.until > NO_TIME
