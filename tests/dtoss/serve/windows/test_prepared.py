"""What is asked of windows is made of a new commit before it answers: no request waits for it."""

from __future__ import annotations

import time
from threading import Event, Thread

import pytest

from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import PACES, Paces
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.serve.windows.window_responses import WindowNews
from dtoss.windows.query import open_files
from dtoss.windows.query.open_files import Reader, StateAsked
from dtoss.windows.query.window_query import open_windows
from tests.dtoss.windows.storage.kept import SECOND, begin, commit

WAIT = 60


class Later:
    """Keeps work that nobody waits for; ``take`` is what takes it."""

    def __init__(self):
        self.work = []
        self.take = self.work.append

    def __call__(self, work):
        self.take(work)


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Windows of one batch that are looked at each time, work that is done later, and an event that lets it go on."""
    windows, later, goes_on = begin(tmp_path, name="fleet"), Later(), Event()
    commit(*windows, [(1, SECOND, 1.0, 1.0), (1, 5 * SECOND, 1.0, 1.0), (2, 5 * SECOND, 9.0, 1.0)])
    made = StateAsked.prepare

    def slow(state):
        assert goes_on.wait(WAIT)
        made(state)

    monkeypatch.setattr(StateAsked, "prepare", slow)
    found = OpenWindows(str(tmp_path), pytest.fail, later, Paces(windows=0.0))
    return found, windows, later, goes_on


def number(opened):
    return opened.find("fleet").head.number


def test_a_commit_answers_once_what_is_asked_of_it_is_made(fleet):
    """Until then the one before does; what is made is what a request finds; pages hear of it then."""
    opened, windows, later, goes_on = fleet
    work = later.work
    news = WindowNews(opened, iter(range(100, 1000)).__next__)
    assert news.look()
    first = opened.find("fleet")
    assert first.at(window="6s")["rows"].to_pylist() == [1]
    commit(*windows, [(1, 9 * SECOND, 1.0, 1.0), (2, 9 * SECOND, 9.0, 1.0)])
    assert [number(opened), number(opened), len(work)] == [1, 1, 1]
    assert not news.look()
    assert news.told["windows"][0]["batch"] == 1
    goes_on.set()
    work.pop()()
    newest = opened.find("fleet")
    assert (newest.head.number, newest.state.is_ready(), work) == (2, True, [])
    assert news.look()
    assert news.told["windows"][0]["batch"] == 2
    want = open_windows(opened.store, "fleet").at(window="6s")
    assert newest.at(window="6s").equals(want)


def test_nobody_waits_for_what_nobody_asks(fleet, monkeypatch):
    """Nor for what was asked long ago, what takes too long, or a pool that is full."""
    opened, windows, later, _ = fleet
    passed, clock = [0.0], time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed[0])
    opened.find("fleet").at(window="4s")
    for second in (9, 13):
        commit(*windows, [(1, second * SECOND, 1.0, 1.0), (2, second * SECOND, 9.0, 1.0)])
    assert (number(opened), later.work) == (3, [])
    opened.find("fleet").at(window="6s")
    commit(*windows, [(1, 17 * SECOND, 1.0, 1.0), (2, 17 * SECOND, 9.0, 1.0)])
    assert (number(opened), len(later.work)) == (3, 1)
    passed[0] += PACES.behind
    assert (number(opened), len(later.work)) == (4, 1)
    opened._preparing.clear()
    commit(*windows, [(1, 21 * SECOND, 1.0, 1.0), (2, 21 * SECOND, 9.0, 1.0)])

    def full(work):
        raise Problem(503, "full")

    later.take = full
    assert (number(opened), opened._preparing) == (5, {})
    passed[0] += open_files.LATELY
    commit(*windows, [(1, 25 * SECOND, 1.0, 1.0), (2, 25 * SECOND, 9.0, 1.0)])
    later.take = pytest.fail
    assert number(opened) == 6


def test_what_two_want_at_once_is_made_once():
    """Who comes second waits for the first; what fails is made again."""
    begun, goes_on, made, got = Event(), Event(), [], []
    held = Reader(None, None)

    def make():
        made.append(1)
        begun.set()
        assert goes_on.wait(WAIT)
        return len(made)

    threads = [Thread(target=lambda: got.append(held.made("sums", "a", make))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(WAIT)
    goes_on.set()
    for thread in threads:
        thread.join(WAIT)
    assert (made, got, held._making) == ([1], [1, 1, 1], {})
    with pytest.raises(ZeroDivisionError):
        held.made("sums", "b", lambda: 1 // 0)
    assert held.made("sums", "b", lambda: None) is None
    assert held.has("sums", "b")
    assert held.made("sums", "b", pytest.fail) is None
