"""What is old goes, but never what a named reader has yet to read, nor what the newest commit needs."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError, StoreError
from dtoss.watch.events.event_compaction import fold_watch, retain
from dtoss.watch.events.event_counts import event_counts
from dtoss.watch.events.event_log import events
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor, cursor_of_reader, forget_reader, readers
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import BUILT, CHANGES, DEFAULT_NAME, EVENTS, QUARANTINED, READERS, STATE, Home, Limits
from tests.dtoss.watch.events.made import HOUR, SETTINGS, START, batch_of, event, rows_told, some_events
from tests.dtoss.watch.keep_cursor import keep_cursor
from tests.examples import examples


def filled(path, batches=12, seed=0):
    home, random = Home(str(path)), np.random.default_rng(seed)
    for k in range(batches):
        batch_of(home, [[], some_events(random, 3), some_events(random, 2)], START + k * HOUR // 2)
    return home


def test_old_events_go_and_are_told_of(tmp_path):
    home = filled(tmp_path)
    every, counts = rows_told(events(home)), event_counts(home)
    done = retain(home, 2 * HOUR, START + 6 * HOUR)
    assert (done.events, done.held_by) == (8 * 5, None)
    left = rows_told(events(home))
    assert left == every[40:]
    assert event_counts(home) == counts  # what was counted was
    gone = Cursor(every[39]["batch"], every[39]["number"])
    assert rows_told(events(home, gone)) == left
    for after in (BEGINNING, Cursor(8, 0)):
        with pytest.raises(InputError, match=f"are gone: those up to {gone} were removed"):
            rows_told(events(home, after))
    assert verify_watch(home).damaged == []
    assert retain(home, 2 * HOUR, START + 6 * HOUR).events == 0
    number = head_of(home).number
    retain(home, 2 * HOUR, START + 6 * HOUR)
    assert head_of(home).number == number
    with pytest.raises(ValueError, match="older_than_us is -1"):
        retain(home, -1, START)
    assert retain(Home(str(tmp_path), "none"), 1, START).events == 0


def test_files_go_that_nothing_needs(tmp_path):
    home = filled(tmp_path)
    folder = tmp_path / "watch/default"
    every = rows_told(events(home))
    (folder / EVENTS / "0123456789abcdef.parquet").write_bytes(b"a batch that never was")
    assert len(list((folder / STATE).iterdir())) == 12
    done = retain(home, 2 * HOUR, START + 6 * HOUR)
    assert done.removed.files == 0  # written just now: a batch that is under way may name them
    assert len(list((folder / STATE).iterdir())) == 12
    there = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    done = retain(home, 2 * HOUR, START + 6 * HOUR, 0.0)
    gone = [size for path, size in there.items() if not path.exists()]
    assert (done.removed.files, done.removed.bytes) == (len(gone), sum(gone))
    assert [path.name for path in (folder / STATE).iterdir()] == [head_of(home).state[0].name]
    assert len(list((folder / QUARANTINED).iterdir())) == 12 - 8
    assert not (folder / EVENTS / "0123456789abcdef.parquet").exists()
    fold_watch(home, START + 20 * HOUR)
    fold_watch(home, START + 30 * HOUR)
    retain(home, 100 * HOUR, START + 40 * HOUR, 0.0)
    contents = contents_of(home, head_of(home).folded)
    wanted = {*contents.names, head_of(home).folded, contents.before}
    assert wanted <= {path.name for path in (folder / EVENTS).iterdir()}
    assert rows_told(events(home)) == every[40:]
    assert verify_watch(home).damaged == []


@settings(deadline=None, max_examples=examples(12, 5))
@given(
    st.lists(st.tuples(st.integers(0, 11), st.sampled_from(["a", "b"])), max_size=4),
    st.lists(st.integers(0, 8), min_size=1, max_size=3),
    st.integers(0, 9),
)
def test_no_reader_loses_an_event(cursors, ages, seed):
    """Whoever is named finds all behind its cursor, whatever retention ran; once it has read on, that goes too."""
    with tempfile.TemporaryDirectory() as folder:
        home = filled(folder, 12, seed)
        every = rows_told(events(home))
        for batch, name in cursors:
            keep_cursor(home, name, Cursor(batch, (1 << 32) + seed % 3) if batch else BEGINNING)
        for age in ages:
            done = retain(home, age * HOUR, START + 6 * HOUR, 0.0)
            assert done.held_by is None or done.held_by in readers(home)
            left = rows_told(events(home))
            assert every[len(every) - len(left) :] == left
            for at in readers(home).values():
                behind = [row for row in every if (row["batch"], row["number"]) > at]
                assert rows_told(events(home, at)) == behind
            assert verify_watch(home).damaged == []
        for name in readers(home):
            forget_reader(home, name)
        retain(home, 0, START + 6 * HOUR, 0.0)
        assert rows_told(events(home)) == []
        assert verify_watch(home).damaged == []


def test_old_commits_go_with_their_logs(tmp_path):
    from datetime import UTC, datetime

    home = Home(str(tmp_path), DEFAULT_NAME, Limits(kept_commits=5, commits_of_a_log=20))
    random = np.random.default_rng(0)
    for k in range(30):
        batch_of(home, [some_events(random, 1)] if k % 4 == 0 else [[]], START + k * HOUR // 15, quarantine=[])
    every = rows_told(events(home))
    later = int((datetime.now(UTC).timestamp() + 7200) * 1e6)
    fold_watch(home, later)
    keep_cursor(home, "slow", Cursor(17, 0))
    assert retain(home, HOUR, later).commits == 0
    assert rows_told(events(home, Cursor(17, 0))) == every[-3:]
    forget_reader(home, "slow")
    batch_of(home, [[], some_events(random, 1)], later + HOUR)
    batch_of(home, [[], some_events(random, 1)], later + HOUR)
    fold_watch(home, later + 3 * HOUR)
    batch_of(home, [[], some_events(random, 1)], later + 3 * HOUR)
    batch_of(home, [[], some_events(random, 1)], later + 3 * HOUR)
    done = retain(home, HOUR, later + 3 * HOUR + HOUR // 2)
    assert done.commits == 20
    assert verify_watch(home).damaged == []
    assert len(rows_told(events(home))) == 2
    batch_of(home, [[], some_events(random, 1)], later + 6 * HOUR)
    assert len(rows_told(events(home))) == 3
    (tmp_path / "watch/default/commits" / f"{24:020}.json").unlink()
    assert any(f"{24:020}.json is missing" in line for line in verify_watch(home).damaged)


def test_subscriptions_stay_that_tables_are_made_from(tmp_path):
    home = Home(str(tmp_path))

    def ask(*ids, replace=False):
        table, bad = check_subscriptions([{"id": one, "circle": [0.0, 0.0, 10.0]} for one in ids])
        assert not bad
        subscribe(home, table, replace=replace, space=SETTINGS.space)

    ask("a", "b")
    ask("c")
    home.asked.make(BUILT)
    home.asked.write(b"old", BUILT, "base-0123456789abcdef.arrow")
    batch_of(home, [[]], START, changes=2)
    ask("d", replace=True)
    unsubscribe(home, ["d"])
    ask("e")
    assert retain(home, 0, START + HOUR, 0.0).removed.files == 1  # the index; changes may be asked for
    assert table_at(home, 2).column("id").to_pylist() == ["a", "b", "c"]
    batch_of(home, [[]], START + HOUR, changes=5)
    retain(home, 0, START + 2 * HOUR, 0.0)
    assert len(home.asked.files(CHANGES)) == 3
    assert change_number(home) == 5
    assert table_at(home, 5).column("id").to_pylist() == ["e"]
    assert verify_watch(home).damaged == []
    home.asked.remove(CHANGES, home.asked.files(CHANGES)[0])
    assert any("is missing" in line for line in verify_watch(home).damaged)


def test_readers_have_names_and_whole_files(tmp_path):
    home = Home(str(tmp_path))
    assert readers(home) == {}
    assert cursor_of_reader(home, "a") is None
    keep_cursor(home, "a", Cursor(3, 4))
    keep_cursor(home, "b", Cursor(5, END_OF_BATCH))
    keep_cursor(home, "a", Cursor(6, 7))
    assert readers(home) == {"a": (6, 7), "b": (5, END_OF_BATCH)}
    path = tmp_path / "watch/default" / READERS / "a.json"
    data = path.read_bytes()
    for spot in range(len(data)):
        path.write_bytes(data[:spot] + bytes([data[spot] ^ 1]) + data[spot + 1 :])
        with pytest.raises(StoreError, match=r"readers/a\.json is damaged"):
            cursor_of_reader(home, "a")
    batch_of(home, [[event("s", "enter", 1)]])
    with pytest.raises(StoreError, match=r"readers/a\.json is damaged"):
        retain(home, 0, START + 9 * HOUR)
    assert forget_reader(home, "a")
    assert not forget_reader(home, "a")
    for name in ("", "../a", "a/b", ".a", "a" * 65):
        with pytest.raises(InputError, match="cannot be a name"):
            keep_cursor(home, name, Cursor(1, 1))


def test_a_clock_that_was_ahead_once_holds_nothing_back(tmp_path):
    """Batches of a time to come are as old as the next one of now; those that are the last wait until there is one."""
    home, random = Home(str(tmp_path)), np.random.default_rng(3)
    year = 8766 * HOUR
    for wall in (0, 1, year, year + 1, 2, 3):
        batch_of(home, [some_events(random, 5)], START + wall)
    told = rows_told(events(home))
    batch_of(home, [some_events(random, 5)], START + 2 * year)
    assert fold_watch(home, START + HOUR).batches == 6
    assert rows_told(events(home))[:30] == told
    assert retain(home, HOUR, START + 3 * HOUR).events == 35  # the fold came after the last one
    assert rows_told(events(home)) == []
    assert verify_watch(home).damaged == []
