"""What happens in a watch as pages are told: counts, rates, marks and the busiest, beside a plain loop over events."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dtoss.serve.core.server_settings import Paces
from dtoss.serve.map import watch_activity as module
from dtoss.serve.map.watch_activity import SHOWN_KINDS, Happened, Happening, rates_of, sampled_rows
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.subscription import ENTER, EVERYWHERE, INSIDE
from dtoss.watch.watch_folder import EVENTS, Home
from tests.dtoss.serve.map.test_live import read, streaming
from tests.dtoss.serve.served import Asker, running, town, until
from tests.dtoss.watch.events.made import START, batch_of, event, some_events
from tests.dtoss.watch.streams import BEGIN, asked, change, circle, run, settings_of

SECOND = 1_000_000
NONE = dict.fromkeys(SHOWN_KINDS, 0)


class Clock:
    """Seconds since 1970 that a test moves."""

    def __init__(self):
        self.now = START / SECOND

    def __call__(self):
        return self.now


def looking(home, clock, **more):
    """What reads a watch for a map in degrees."""
    return Happening(home, lambda space: Frame(space, None), clock, **more)


def commit(home, clock, events, **more):
    """Commit a batch that begins now."""
    kinds = Counter(one["kind"] for one in events)
    totals = Counter(more.pop("before", {})) + kinds
    counts = {"rows": 9} | {kind: kinds[kind] for kind in (*SHOWN_KINDS, "reset")}
    batch_of(home, [[], events], int(clock.now * SECOND), counts=counts, totals=dict(totals), **more)
    return totals


@pytest.mark.parametrize("seed", range(4))
def test_batches_are_counted_as_a_loop_counts_them(tmp_path, seed):
    """Those of the last five minutes by subscription, and all there ever were, whenever the page looks."""
    rng = np.random.default_rng(seed)
    home, clock = Home(str(tmp_path)), Clock()
    page, told, totals = looking(home, clock), [], Counter()
    for _ in range(40):
        clock.now += float(rng.integers(1, 40))
        events = some_events(rng, int(rng.integers(0, 30)))
        if rng.random() < 0.2:
            events.append(event("s1", "reset", None))
        totals = commit(home, clock, events, before=totals)
        told.append((clock.now, events))
        if rng.random() < 0.3:
            continue  # nobody looks
        page.look()
        assert page.problem is None
        said = page.told
        oldest = clock.now - module.HAPPENING_SECONDS
        recent, ever = Counter(), Counter()
        for at, some in told:
            for one in some:
                if one["kind"] != "reset":
                    ever[one["subscription"]] += 1
                    recent[one["subscription"]] += at >= oldest
        wanted = sorted(((id, count) for id, count in recent.items() if count), key=lambda one: (-one[1], one[0]))
        assert [tuple(line[:2]) for line in said["busiest"]] == wanted
        assert {line[0]: line[2] for line in said["busiest"]} == {id: ever[id] for id, _ in wanted}
        assert said["batch"] == len(told)
        assert not said["sampled"]
    fresh = looking(home, clock)
    fresh.look()
    assert fresh.told["busiest"] == page.told["busiest"] or page.told["batch"] != fresh.told["batch"]


def test_the_last_events_are_marks_with_their_true_count(tmp_path):
    """Of each look those that came since; resets have no place."""
    home, clock = Home(str(tmp_path)), Clock()
    page = looking(home, clock)
    page.look()
    assert page.told is None
    commit(home, clock, [event("a", "enter", 1, x=10.0, y=50.0), event("a", "reset", None)])
    page.look()
    assert page.told["marks"] == [[0, 10.0, 50.0]]
    assert page.told["events"] == NONE | {"enter": 1}
    before = page.told
    page.look()
    assert page.told == before
    clock.now += 1
    commit(home, clock, [event("a", "leave", 1, x=11.0, y=51.0), event("b", "inside", 2, x=12.0, y=52.0)])
    clock.now += 1
    commit(home, clock, [event("b", "inside", 2, x=13.0, y=53.0)])
    page.look()
    assert page.told["marks"] == [[1, 11.0, 51.0], [2, 12.0, 52.0], [2, 13.0, 53.0]]
    assert page.told["events"] == NONE | {"leave": 1, "inside": 2}
    late = looking(home, clock)
    late.look()
    assert late.told["marks"] == [[0, 10.0, 50.0], *page.told["marks"]]
    clock.now += 1_000
    late = looking(home, clock)
    late.look()
    assert late.told["marks"] == [[2, 13.0, 53.0]]


def test_who_stays_and_who_crosses_is_marked(tmp_path):
    home, clock = Home(str(tmp_path)), Clock()
    page = looking(home, clock)
    commit(home, clock, [event("a", "dwell", 1, x=10.0, y=50.0), event("a", "cross", 2, x=11.0, y=51.0)])
    page.look()
    assert page.told["marks"] == [[3, 10.0, 50.0], [4, 11.0, 51.0]]
    assert page.told["events"] == NONE | {"dwell": 1, "cross": 1}


def test_a_mark_of_a_pair_says_where_both_are(tmp_path):
    """Others in the same batch are one place."""
    home = Home(str(tmp_path))
    near = asked("near", EVERYWHERE, events=ENTER, stay=json.dumps({"near": {"metres": 3000.0}}))
    change(home, [near, circle("c", 0.0, 0.0, 10.0, events=INSIDE)])
    rows = [{"id": id, "t": BEGIN, "x": x, "y": 0.0, "attributes": {}} for id, x in ((1, 0.0), (2, 0.01))]
    run(home, settings_of(), rows)
    page = looking(home, Clock())
    page.look()
    assert page.told["problem"] is None
    assert sorted(page.told["marks"]) == [[0, 0.0, 0.0, 0.01, 0.0], [2, 0.0, 0.0]]


def test_many_events_are_a_bounded_sample(tmp_path):
    """Marks of each kind, the rare ones all; true counts; no more is read than is allowed."""
    home, clock = Home(str(tmp_path)), Clock()
    many = [event(f"s{i % 7}", "inside", i) for i in range(2_000)]
    commit(home, clock, [*many, *(event("rare", "enter", i) for i in range(3))])
    page = looking(home, clock, most=300)
    page.look()
    assert page.told["sampled"]
    assert page.told["events"] == NONE | {"enter": 3, "inside": 2_000}
    assert len(page.told["marks"]) == module.MOST_MARKS
    assert sum(count for _, count, _ in page.told["busiest"]) == 300


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_has_so_many_rows_and_all_of_rare_kinds(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, int(rng.integers(0, 500)), p=[0.9, 0.08, 0.02])
    for most in (1, 10, 100, 1_000):
        rows = sampled_rows(kinds, most)
        assert len(rows) == min(most, len(kinds))
        assert (np.diff(rows) > 0).all()
        for kind in range(3):
            there, shown = int((kinds == kind).sum()), int((kinds[rows] == kind).sum())
            assert shown >= min(there, most // 3)


def test_rates_are_those_of_the_last_half_minute():
    """Over the time from the first of these batches to the last; none where batches have ended."""

    def at(seconds, *kinds):
        return Happened(0, int(seconds * SECOND), (*kinds, 0, 0))

    nothing = NONE
    assert rates_of([], 100.0) == rates_of([at(99, 5, 5, 5)], 100.0) == nothing
    window = [at(0, 1_000, 0, 0), at(98, 7, 7, 7), at(100, 10, 2, 0), at(102, 20, 4, 0)]
    assert rates_of(window, 103.0) == NONE | {"enter": 7.5, "leave": 1.5}
    assert rates_of(window, 108.9) == nothing
    slow = [at(0, 5, 5, 5), at(60, 60, 0, 30)]
    assert rates_of(slow, 100.0) == NONE | {"enter": 1.0, "inside": 0.5}
    assert rates_of([at(5, 1, 1, 1), at(5, 1, 1, 1)], 6.0) == nothing


def test_folded_and_retained_events_are_counted_once(tmp_path):
    """A page that looks before, between and after says the same."""
    home, clock = Home(str(tmp_path)), Clock()
    page, totals = looking(home, clock), Counter()
    for i in range(6):
        clock.now += 2
        totals = commit(home, clock, [event("a", "enter", i), event(f"s{i}", "leave", i)], before=totals)
        page.look()
    said = page.told["busiest"]
    assert said[0] == ["a", 6, 6]
    fold_events(home, int(clock.now * SECOND) + 3_600 * SECOND * 2)
    fresh = looking(home, clock)
    for one in (page, fresh):
        clock.now += 60.0
        one.look()
        assert one.problem is None
        assert one.told["busiest"] == said


def test_a_watch_that_was_made_anew_is_begun_anew(tmp_path):
    """Numbers of commits begin again: nothing of the old one is told."""
    import shutil

    home, clock = Home(str(tmp_path)), Clock()
    page = looking(home, clock)
    for _ in range(3):
        commit(home, clock, [event("old", "enter", 1)])
    page.look()
    shutil.rmtree(tmp_path / "watch")
    for number in range(4):
        clock.now += 1
        commit(home, clock, [event("new", "enter", number)])
    page.look()
    assert page.problem is None
    assert [line[0] for line in page.told["busiest"]] == ["new"]


def test_damage_is_told_and_what_was_read_stays(tmp_path):
    """Once in the log, and on the page until it can be read again."""
    home, clock = Home(str(tmp_path)), Clock()
    page = looking(home, clock)
    commit(home, clock, [event("a", "enter", 1)])
    page.look()
    before = page.told
    clock.now += 1
    commit(home, clock, [event("b", "enter", 1)])
    file = home.folder.path(EVENTS, home.batches.head().document["events"][0]["name"])
    with Path(file).open("r+b") as held:
        whole = held.read()
        held.seek(20)
        held.write(b"\0\0\0\0")
    page.look()
    assert file in page.problem
    assert {**page.told, "problem": None} == before
    assert page.told["problem"] == page.problem
    with Path(file).open("wb") as held:
        held.write(whole)
    page.look()
    assert (page.problem, page.told["problem"]) == (None, None)
    assert [line[0] for line in page.told["busiest"]] == ["a", "b"]


def test_a_map_without_places_for_a_watch_has_no_marks(tmp_path):
    home, clock = Home(str(tmp_path)), Clock()
    commit(home, clock, [event("a", "enter", 1)])
    page = Happening(home, lambda space: None, clock)
    page.look()
    assert (page.told["marks"], page.told["nowhere"], page.told["events"]["enter"]) == ([], True, 1)


def test_streams_hear_of_a_watch_when_it_begins(tmp_path):
    """Beside what else is told in the second; nothing before."""
    home, clock, paces = Home(str(tmp_path)), Clock(), Paces(live=0.05)
    with running(town(objects=50), store=str(tmp_path), paces=paces) as server, streaming(server) as (_, chunk, _):
        heard = [event for _ in range(8) for event in read(chunk())]
        assert {one["type"] for one in heard} == {"snapshot", "load"}
        change(home, [circle("a", 10.0, 50.0, 500.0)])

        def next_of(holds):
            ends = time.monotonic() + 60
            while time.monotonic() < ends:
                events = read(chunk())
                if found := [one for one in events if one["type"] == "watch" and holds(one)]:
                    return found[0], events
            raise AssertionError("nothing was told of it")

        told, events = next_of(lambda one: True)
        assert (told["watch"], told["batch"]) == ("default", 0)
        assert [one["type"] for one in events] == ["load", "watch"]
        commit(home, clock, [event("a", "enter", 1, x=10.0, y=50.0)])
        told, _ = next_of(lambda one: one["batch"] == 1)
        assert told["marks"] == [[0, 10.0, 50.0]]
        assert told["busiest"] == []  # it was long ago
        with streaming(server) as (_, other, _):
            assert [one["type"] for one in read(other())] == ["snapshot", "watch"]


def test_a_server_that_tells_of_no_watch_reads_none(tmp_path):
    commit(Home(str(tmp_path)), Clock(), [event("a", "enter", 1)])
    with running(town(objects=50), store=str(tmp_path), watch=None) as server, Asker(server) as asker:
        asker.get("/map")
        assert server.state.showing.watch() is None


def test_the_log_is_told_once_of_a_watch_that_cannot_be_read(tmp_path):
    home = Home(str(tmp_path))
    commit(home, Clock(), [event("a", "enter", 1)])
    with Path(home.batches.path(1)).open("r+b") as held:
        held.write(b"??")
    with running(town(objects=50), store=str(tmp_path)) as server, Asker(server) as asker:
        for _ in range(3):
            assert asker.get("/map")["objects"] == 50
        until(lambda: server.heard.events)
        assert [what for what, _ in server.heard.events] == ["watch not read"]
        assert "damaged" in server.heard.events[0][1]["detail"]
