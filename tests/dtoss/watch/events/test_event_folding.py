"""Folding loses nothing: not where it ends in the middle, and not where others fold or commit at the same time."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.chain import Conflict
from dtoss.commits.folder import LocalFolder
from dtoss.commits.table import orphans_of, remove_orphans
from dtoss.watch.events import event_compaction
from dtoss.watch.events import folded_list as listing
from dtoss.watch.events.event_compaction import fold_events, fold_watch, retain
from dtoss.watch.events.event_counts import event_counts
from dtoss.watch.events.event_log import events
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.events.watch_tables import tables_of, verify_watch
from dtoss.watch.watch_folder import DEFAULT_NAME, EVENTS, Home, Limits
from tests.dtoss.commits.faster import others_are_always_faster
from tests.dtoss.watch.events.made import (
    HOUR,
    START,
    batch_of,
    event,
    files_opened,
    parquet,
    put,
    rows_told,
    some_events,
    table_of,
)


class Died(BaseException):
    """The process ended here."""


def filled(path, batches=9, seed=0):
    home, random = Home(str(path)), np.random.default_rng(seed)
    for k in range(batches):
        resets = [event("s1", "reset", None)] if k % 4 == 3 else []
        batch_of(home, [resets, some_events(random, 3), some_events(random, 2)], START + k * HOUR // 3)
    return home


def unknown(home):
    """The same watch under another path: what a process has counted of it does not count."""
    return Home(f"{home.store}/.", home.name)


def files_of(home, prefix=""):
    return [name for name in home.folder.files(EVENTS) if name.startswith(prefix)]


def test_one_file_for_each_hour_that_has_ended(tmp_path):
    home = filled(tmp_path)
    before = rows_told(events(home))
    head = head_of(home)
    done = fold_watch(home, START + 2 * HOUR + 5)
    assert (done.batches, done.files) == (6, 2)
    assert len(files_of(home, "hour-")) == 2
    now = head_of(home)
    assert now.number == head.number + 1
    assert (now.events, now.rows, now.query, now.batch) == ((), 0, "", -1)
    for name in ("settings", "state", "clock", "changes", "standing", "queries", "expire", "carry", "offsets"):
        assert now.commit.document[name] == head.commit.document[name], name
    assert now.counts["rows"] == 0
    assert now.counts["objects"] == head.counts["objects"]
    assert rows_told(events(home)) == before
    contents = contents_of(home, now.folded)
    assert (contents.last, contents.swept) == (6, 0)
    folded = [pq.read_table(home.folder.path(EVENTS, file.file.name)) for file in contents.files]
    assert rows_told(folded) == [row for row in before if row["batch"] <= 6]
    assert fold_watch(home, START + 2 * HOUR + 6).batches == 0
    assert verify_watch(home).damaged == []
    # the small files are for whoever has just listed them, until the next fold
    batches, _ = tables_of(home)
    assert orphans_of(batches)[EVENTS] == {}
    assert len([name for name in files_of(home) if len(name) == 24]) == 9 * 2 + 2
    batch_of(home, [[], some_events(np.random.default_rng(9), 2)], START + 4 * HOUR)
    done = fold_watch(home, START + 5 * HOUR)
    assert done.batches == 5
    assert len(orphans_of(batches)[EVENTS]) == 12 + 1 + 1  # with the counts of before
    remove_orphans(batches, 0.0)
    assert rows_told(events(home))[: len(before)] == before
    assert verify_watch(home).damaged == []


SEEDS = [0, pytest.param(1, marks=pytest.mark.deep("before a change is after the one before it")), 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_may_end_anywhere(tmp_path, seed):
    """Before or after each change of the disk, events are all there; the next fold goes on."""
    named = ["write", "replace", "create", "remove", "sync"]
    real = {name: getattr(LocalFolder, name) for name in named}
    left = [0]

    def breaking(name):
        def method(self, *arguments, **more):
            left[0] -= 1
            if left[0] == 0 and seed % 2:
                raise Died
            done = real[name](self, *arguments, **more)
            if left[0] == 0:
                raise Died
            return done

        return method

    made = filled(tmp_path / "made", 7, seed)
    fold_events(made, START + HOUR)
    every, counts = rows_told(events(made)), event_counts(made)
    for step in range(1, 60):
        home = Home(str(shutil.copytree(made.store, tmp_path / str(step))))
        left[0] = step
        with pytest.MonkeyPatch.context() as patched:
            for name in named:
                patched.setattr(LocalFolder, name, breaking(name))
            try:
                if seed == 2:
                    retain(home, 10 * HOUR, START + 2 * HOUR, 0.0)
                else:
                    fold_watch(home, START + 2 * HOUR)
                    remove_orphans(tables_of(home)[0], 0.0)
                ended = False
            except Died:
                ended = True
        assert rows_told(events(home)) == every
        assert event_counts(home) == counts
        assert verify_watch(home).damaged == []
        fold_watch(home, START + 4 * HOUR)
        fold_watch(home, START + 9 * HOUR)
        assert rows_told(events(home)) == every
        assert verify_watch(home).damaged == []
        if not ended:
            assert step > 10
            return
    raise AssertionError("it never came to its end")


def test_a_batch_that_commits_meanwhile_stays(tmp_path, monkeypatch):
    home = filled(tmp_path)
    every = rows_told(events(home))
    write = listing.Contents.encoded
    fresh = some_events(np.random.default_rng(5), 4)

    def late(self):
        if head_of(home).number == 9:
            batch_of(home, [[], fresh], START + 3 * HOUR)
        return write(self)

    monkeypatch.setattr(listing.Contents, "encoded", late)
    assert fold_events(home, START + 3 * HOUR).batches == 9
    assert head_of(home).number == 11
    found = rows_told(events(home))
    assert found[: len(every)] == every
    assert len(found) == len(every) + 4
    assert verify_watch(home).damaged == []


def test_two_that_fold_at_once(tmp_path, monkeypatch):
    """The second finds another list, and leaves its own unnamed."""
    home = filled(tmp_path)
    every = rows_told(events(home))
    inner, others = event_compaction.commit_contents, [lambda: fold_events(home, START + HOUR).batches]

    def second(*arguments):
        if others:
            assert others.pop()() == 3
        return inner(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(event_compaction, "commit_contents", second)
        assert fold_events(home, START + 3 * HOUR).batches == 0
    assert rows_told(events(home)) == every
    assert verify_watch(home).damaged == []
    assert fold_events(home, START + 3 * HOUR).batches == 7  # with the commit of the other fold
    assert rows_told(events(home)) == every
    assert verify_watch(home).damaged == []


def test_others_commit_again_and_again(tmp_path, monkeypatch):
    home = filled(tmp_path)
    others_are_always_faster(monkeypatch)
    with pytest.raises(Conflict):
        fold_events(home, START + 3 * HOUR)


def test_a_file_is_closed_when_it_is_long_or_has_other_columns(tmp_path):
    few = Limits(folded_group_rows=16, folded_bytes=1)
    home, random = Home(str(tmp_path), DEFAULT_NAME, few), np.random.default_rng(0)
    for _ in range(6):
        batch_of(home, [[], some_events(random, 10)], START)
    number = head_of(home).number + 1
    wider = table_of(some_events(random, 3), number, 1).append_column("heading", pa.array([1, 2, 3]))
    batch_of(home, [[]], START, events=[put(home.folder, EVENTS, parquet(wider), 3)])
    batch_of(home, [[], some_events(random, 2)], START)
    every = rows_told(events(home))
    assert fold_events(home, START + HOUR).files == 5
    assert rows_told(events(home)) == every
    assert verify_watch(home).damaged == []


def test_hours_without_events_and_a_clock_that_goes_back(tmp_path):
    home, random = Home(str(tmp_path)), np.random.default_rng(0)
    for hour in (3, 3, 0, 5, 5, 1, 9, 2):
        batch_of(home, [[], some_events(random, hour % 3)], START + hour * HOUR)
    every = rows_told(events(home))
    fold_watch(home, START + 6 * HOUR)
    assert rows_told(events(home)) == every
    fold_watch(home, START + 60 * HOUR)
    assert rows_told(events(home)) == every
    assert verify_watch(home).damaged == []
    number = head_of(home).number
    for hours in (70, 80, 90, 100):
        fold_watch(home, START + hours * HOUR)
    assert head_of(home).number <= number + 1  # a watch that stands still is not folded again and again


def test_counts_are_not_counted_anew(tmp_path, monkeypatch):
    home = filled(tmp_path)
    expected = {}
    for row in rows_told(events(home)):
        mine = expected.setdefault(row["subscription"], {})
        mine[row["kind"]] = mine.get(row["kind"], 0) + 1
    assert event_counts(home) == expected
    fold_watch(home, START + 2 * HOUR)
    home, opened = unknown(home), files_opened(monkeypatch)
    assert event_counts(home) == expected
    assert len(opened) == 3 * 2 + 1  # of the batches that are not folded
    opened.clear()
    assert event_counts(home) == expected
    batch_of(home, [[], [event("new", "enter", 1)]], START + 3 * HOUR)
    assert event_counts(home) == expected | {"new": {"enter": 1}}
    assert len(opened) == 1
    assert event_counts(Home(str(tmp_path), "other")) == {}


def test_commits_become_lines_of_a_log(tmp_path):
    from datetime import UTC, datetime

    home = Home(str(tmp_path), DEFAULT_NAME, Limits(kept_commits=5, commits_of_a_log=20))
    random = np.random.default_rng(0)
    for k in range(30):
        batch_of(home, [some_events(random, 1)] if k % 3 == 0 else [[]], START + k * HOUR // 15, quarantine=[])
    every = rows_told(events(home))
    later = int((datetime.now(UTC).timestamp() + 7200) * 1e6)
    assert fold_watch(home, later).commits == 20
    assert len(home.folder.files("commits")) == 11 + 1
    assert rows_told(events(home)) == every
    assert verify_watch(home).damaged == []
