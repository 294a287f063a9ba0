"""Conditions as a server asks them: nothing is evaluated on the loop, each once, two at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dtoss.serve.answers.open_snapshots import Conditions
from dtoss.serve.core.problems import Problem
from tests.dtoss.serve.served import before_each_evaluation, nothing_is_evaluated
from tests.dtoss.serve.watched import OBJECTS, WAIT, town

PLACES = np.array([[10.0, 50.0], [10.2, 50.1], [9.5, 49.7]])


@pytest.fixture
def index():
    return town()


@pytest.fixture
def evaluating(monkeypatch):
    """Evaluations that are counted, and wait until they are let go."""
    told = Evaluating()

    def counted(condition):
        with told.changed:
            told.now += 1
            told.all += 1
            told.most = max(told.most, told.now)
            told.changed.notify_all()
        assert told.go.wait(WAIT)
        with told.changed:
            told.now -= 1

    before_each_evaluation(monkeypatch, counted)
    yield told
    told.go.set()


class Evaluating:
    """How many evaluations are under way, were at the most, and were begun."""

    def __init__(self):
        self.now = self.most = self.all = 0
        self.changed, self.go = threading.Condition(), threading.Event()

    def reach(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: self.now == count, WAIT)


def conditions(index, later=lambda work: work(), at_a_time=2, told=None):
    return Conditions(index, threading.Semaphore(at_a_time), later, *([] if told is None else [told.append]))


def asked(found, **how):
    vectors = town().space.vectors(PLACES)
    hits = found.answer(vectors, np.full(3, np.inf), 4, 1, **how)
    return hits.ids.tolist(), hits.distance.tolist()


def test_ready_never_evaluates(index, evaluating):
    """Not what was never asked, and not what another thread evaluates at the moment."""
    some = conditions(index)
    assert some.ready("speed < 100") is None
    thread = threading.Thread(target=some.get, args=("speed < 100",), daemon=True)
    thread.start()
    evaluating.reach(1)
    assert some.ready("speed < 100") is None
    assert some.in_use() == []
    evaluating.go.set()
    thread.join(WAIT)
    assert some.ready("speed < 100").count == 100
    assert some.ready("no condition (") is None
    assert evaluating.all == 1


def test_ready_waits_for_nobody(index):
    """Whoever holds the lock of all conditions."""
    some = conditions(index)
    some.get("speed < 100")
    found = []
    with index.filters._lock:
        thread = threading.Thread(target=lambda: found.append(some.ready("speed < 100")), daemon=True)
        thread.start()
        thread.join(WAIT)
    assert found[0].count == 100


def test_an_index_of_matches_is_made_by_the_pool(index):
    """It is asked for once, answers are the same before and after, and nothing is made on the way of the loop."""
    work = []
    some = conditions(index, work.append)
    found = some.get("speed < 15")
    before = asked(found, may_build=False)
    assert found.pays()
    assert some.ready("speed < 15") is found
    assert some.ready("speed < 15") is found
    assert len(work) == 1
    work.pop()()
    assert not found.pays()
    assert asked(found, may_build=False) == before
    some.ready("speed < 15")
    assert work == []


def test_what_pays_later_is_made_later(index):
    work = []
    some = conditions(index, work.append)
    found = some.get("speed < 100")
    some.ready("speed < 100")
    assert work == []
    for _ in range(20):  # 2 * 0.25 * 100 questions pay for it
        asked(found, may_build=False)
    some.ready("speed < 100")
    assert len(work) == 1
    assert found.pays()
    assert asked(found)[0] == asked(found, may_build=False)[0]
    assert not found.pays()


def test_a_full_pool_is_asked_again(index):
    work = []

    def full(one):
        work.append(one)
        if len(work) == 1:
            raise Problem(503, "full")

    some = conditions(index, full)
    some.get("speed < 15")
    for _ in range(3):
        assert some.ready("speed < 15") is not None
    assert len(work) == 2


def test_of_many_that_ask_the_same_one_evaluates(index, evaluating):
    told = []
    some = conditions(index, told=told)
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(some.get, "speed < 100") for _ in range(6)]
        evaluating.reach(1)
        evaluating.go.set()
        found = [one.result(WAIT) for one in waiting]
    assert len(set(map(id, found))) == 1
    assert evaluating.all == 1
    assert len(told) == 1


def test_two_are_evaluated_at_a_time(index, evaluating):
    """In all snapshots of a process; those that wait for the same one take nobody's place."""
    turns = threading.Semaphore(2)
    some = Conditions(index, turns, lambda work: work())
    others = Conditions(town(1), turns, lambda work: work())
    with ThreadPoolExecutor(9) as pool:
        waiting = [pool.submit(some.get, "speed < 100") for _ in range(3)]
        evaluating.reach(1)
        waiting += [pool.submit(others.get, f"speed < {number}") for number in range(5)]
        evaluating.reach(2)
        evaluating.go.set()
        assert [one.result(WAIT).count for one in waiting] == [100, 100, 100, 0, 1, 2, 3, 4]
    assert evaluating.all == 6
    assert evaluating.most == 2


def test_sixteen_are_kept_the_last_asked_first(index):
    some = conditions(index)
    texts = [f"speed < {number}" for number in range(17)]
    for text in texts:
        some.get(text)
    assert some.in_use() == texts[:0:-1]
    some.ready(texts[3])
    assert some.in_use()[0] == texts[3]
    some.get("id > 3")
    assert texts[1] not in some.in_use()
    assert texts[3] in some.in_use()


def test_one_that_cannot_be_read_gives_its_place_back(index):
    some = conditions(index, at_a_time=1)
    for text in ("nope = 1", "speed * 9223372036854775807 > 0", "("):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"nope|overflow|where"):
                some.get(text)
    assert some.get("speed >= 0").count == OBJECTS
    assert some.in_use() == ["speed >= 0"]


def test_questions_that_name_one_find_it_evaluated(index, monkeypatch):
    conditions(index).get("speed < 100")
    nothing_is_evaluated(monkeypatch)
    assert index.count(PLACES, 1e9, where="speed < 100").tolist() == [100] * 3
