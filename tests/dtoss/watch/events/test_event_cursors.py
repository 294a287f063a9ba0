"""Every event is told exactly once from every cursor, however batches were folded meanwhile."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.watch.events.event_compaction import fold_watch
from dtoss.watch.events.event_log import event_paths, events, told_events
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import DEFAULT_NAME, EVENTS, Home, Limits
from tests.disks import hashed_up_to
from tests.dtoss.watch.events.made import HOUR, START, batch_of, event, files_opened, rows_told, some_events
from tests.examples import examples

BATCH = st.lists(st.integers(0, 4), min_size=1, max_size=3)
STEPS = st.lists(st.one_of(BATCH, st.just("hour"), st.just("fold")), min_size=1, max_size=14)


def place(row):
    return Cursor(row["batch"], row["number"])


def walk(home, steps, random):
    """Do some steps; return all events as they were made."""
    now, told = START, []
    for step in steps:
        if step == "hour":
            now += HOUR
        elif step == "fold":
            fold_watch(home, now)
        else:
            before = 0 if head_of(home) is None else head_of(home).number
            batch_of(home, [some_events(random, count) for count in step], now + random.integers(HOUR // 2).item())
            fresh = rows_told(events(home, Cursor(before, END_OF_BATCH)))
            assert len(fresh) == sum(step)
            told += fresh
    return told


@settings(deadline=None, max_examples=examples(40))
@given(STEPS, st.integers(0, 99))
def test_each_event_once_from_each_cursor(steps, seed):
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder)
        told = walk(home, steps, np.random.default_rng(seed))
        fold_watch(home, START + seed % 3 * 5 * HOUR)
        assert rows_told(events(home)) == told
        assert [place(row) for row in told] == sorted({place(row) for row in told})
        cursors = [BEGINNING, *map(place, told[:: max(1, len(told) // 7)])]
        cursors += [Cursor(row["batch"], END_OF_BATCH) for row in told[::9]]
        for after in cursors:
            rest = [row for row in told if place(row) > after]
            assert rows_told(events(home, after)) == rest
            until = cursors[len(cursors) // 2]
            assert rows_told(events(home, after, until=until)) == [row for row in rest if place(row) <= until]
            mine = [row for row in rest if row["subscription"] == "s1" and row["kind"] in ("enter", "leave")]
            assert rows_told(events(home, after, "s1", ["enter", "leave"])) == mine
        again = [] if head_of(home) is None else [row["id"] for row in dtoss.events(folder)]
        assert again == [str(place(row)) for row in told]


def test_where_a_reader_stands_goes_on(tmp_path):
    """Each part says where it ends: asked again from there, nothing comes twice and nothing is left out."""
    home = Home(str(tmp_path))
    random = np.random.default_rng(0)
    for k in range(6):
        batch_of(home, [[], some_events(random, 3), some_events(random, 2)], START + k * HOUR)
    fold_watch(home, START + 4 * HOUR)
    every = rows_told(events(home))
    parts = list(told_events(home, subscription="s2"))
    assert parts[-1].upto == Cursor(head_of(home).number, END_OF_BATCH)
    seen = []
    for part in parts:
        seen += [] if part.events is None else part.events.to_pylist()
        rest = rows_told(events(home, part.upto, "s2"))
        assert seen + rest == [row for row in every if row["subscription"] == "s2"]


def test_a_reader_goes_on_while_it_is_folded(tmp_path):
    """Files that it had yet to open were folded, and are gone: it finds their events where they are now."""
    home = Home(str(tmp_path))
    random = np.random.default_rng(1)
    for k in range(8):
        batch_of(home, [[], some_events(random, 4)], START + k * HOUR // 2)
    every = rows_told(events(home))
    for stop in range(0, 8, 3):
        reading = told_events(home)
        seen = []
        for _ in range(2 * stop + 1):
            told = next(reading)
            seen += [] if told.events is None else told.events.to_pylist()
        number = head_of(home).number
        for k in range(3):
            batch_of(home, [[], some_events(random, 1)], START + (10 + 3 * stop + k) * HOUR)
            fold_watch(home, START + (11 + 3 * stop + k) * HOUR)
        seen += rows_told(part.events for part in reading if part.events is not None)
        assert [row for row in seen if row["batch"] <= number] == [row for row in every if row["batch"] <= number]
        every = rows_told(events(home))


def test_only_files_behind_the_cursor_are_opened(tmp_path, monkeypatch):
    home = Home(str(tmp_path))
    random = np.random.default_rng(2)
    for k in range(9):
        batch_of(home, [[], some_events(random, 3)], START + k * HOUR // 3)
    fold_watch(home, START + 2 * HOUR)
    opened = files_opened(monkeypatch)
    everything = rows_told(events(home))
    assert len(opened) == 2 + 3
    last = place(everything[-4])
    opened.clear()
    assert rows_told(events(home, Cursor(last.batch, END_OF_BATCH))) == everything[-3:]
    assert len(opened) == 1
    assert home.folder.path(EVENTS, opened[0]) in event_paths(home)
    assert len(event_paths(home)) == 5
    assert event_paths(home, Cursor(8, END_OF_BATCH)) == event_paths(home)[-2:]
    assert rows_told(events(home, until=Cursor(3, END_OF_BATCH))) == [row for row in everything if row["batch"] <= 3]


def test_large_files_are_read_in_part_and_checked(tmp_path, monkeypatch):
    """Of a file that is not hashed as a whole the size and the pages that are read are checked."""
    hashed_up_to(monkeypatch, 100)
    home = Home(str(tmp_path), DEFAULT_NAME, Limits(folded_group_rows=1000))
    random = np.random.default_rng(3)
    for _ in range(4):
        batch_of(home, [[], some_events(random, 2000)], START)
    every = rows_told(events(home))
    fold_watch(home, START + HOUR)
    assert rows_told(events(home)) == every
    assert rows_told(events(home, Cursor(3, END_OF_BATCH))) == every[6000:]
    (path,) = [file for file in (tmp_path / "watch/default" / EVENTS).iterdir() if file.name.startswith("hour")]
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(StoreError, match=path.name):
        rows_told(events(home))
    for spot in (8, len(data) // 3, len(data) - 40, len(data) - 3):
        path.write_bytes(data[:spot] + bytes([data[spot] ^ 255]) + data[spot + 1 :])
        with pytest.raises(StoreError, match=path.name):
            assert rows_told(events(home)) == every


def test_what_is_missing_is_an_error_that_names_it(tmp_path):
    home = Home(str(tmp_path))
    assert rows_told(events(home)) == []
    assert event_paths(home) == []
    for k in range(3):
        batch_of(home, [[], [event("a", "inside", k)]])
    head = head_of(home)
    path = tmp_path / "watch/default" / EVENTS / head.events[0].name
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(StoreError, match=f"{path.name} is missing"):
        rows_told(events(home))
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(StoreError, match=f"{path.name} is damaged"):
        rows_told(events(home))
    path.write_bytes(data)
    commit = tmp_path / "watch/default/commits" / f"{2:020}.json"
    text = commit.read_bytes()
    commit.unlink()
    with pytest.raises(StoreError, match=f"{commit.name} is missing"):
        rows_told(events(home))
    commit.write_bytes(text.replace(b'"rows":1', b'"rows":2'))
    with pytest.raises(StoreError, match=commit.name):
        rows_told(events(home))


def test_cursors_are_texts():
    assert str(Cursor.of("12-34")) == "12-34"
    assert Cursor.of(" 12 ") == Cursor.of("12-end") == (12, END_OF_BATCH)
    assert str(Cursor(12, END_OF_BATCH)) == "12-end"
    for text in ("", "a", "1-", "-1", "1-2-3", "1-x", "1.5", "9" * 19, f"1-{'9' * 19}", "\u0661-\u0662"):
        with pytest.raises(InputError, match="is no cursor"):
            Cursor.of(text)


def test_a_kind_that_is_none(tmp_path):
    with pytest.raises(InputError, match="'entr' is none of events"):
        rows_told(events(Home(str(tmp_path)), kinds=["entr"]))
    with pytest.raises(StoreError, match="is no watch yet"):
        next(dtoss.events(str(tmp_path)))
