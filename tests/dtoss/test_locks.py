"""Locks in threads and in forked processes: nobody waits for a thread that is not there, or for another's condition."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from numba import njit

import dtoss
from dtoss.locks import Lock, once
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.queries.threads import LEAST
from tests.dtoss.serve.served import before_each_evaluation
from tests.ends import end_now

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
WAIT = 60


def town(partitions=4, objects=3000):
    rng = np.random.default_rng(3)
    return dtoss.build(
        np.arange(objects), rng.normal(0, 1, (objects, 2)), partitions=partitions, columns={"grade": np.arange(objects)}
    )


def in_child(work):
    """Return the exit code of a forked child that works: 0 where it returns True, -SIGALRM where it never ends."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            code = 0 if work() else 3
        finally:
            end_now(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def held(monkeypatch):
    """Evaluation that stops in threads named `slow` until it is let go."""
    begun, go = threading.Event(), threading.Event()

    def slow(condition):
        if threading.current_thread().name == "slow":
            begun.set()
            assert go.wait(WAIT)

    before_each_evaluation(monkeypatch, slow)
    yield begun, go
    go.set()


def test_a_long_evaluation_stops_nobody_elses(held):
    """Other conditions are answered meanwhile; the same one is evaluated once, and waited for."""
    begun, go = held
    index = town()
    expected = np.arange(100)
    found, waited = [], []
    one = threading.Thread(
        target=lambda: found.append(index.range([0, 0], 1e9, where="grade < 100")), name="slow", daemon=True
    )
    one.start()
    assert begun.wait(WAIT)
    two = threading.Thread(target=lambda: waited.append(index.filters.get("grade < 100")), daemon=True)
    two.start()
    other = threading.Thread(target=lambda: found.append(index.count([0, 0], 1e9, where="grade < 7")), daemon=True)
    other.start()
    other.join(WAIT)
    assert not other.is_alive()
    assert found.pop().tolist() == [7]
    assert not waited
    go.set()
    for thread in (one, two):
        thread.join(WAIT)
    assert sorted(found[0].id) == expected.tolist()
    assert waited[0] is index.filters.get("grade < 100")


def test_a_condition_that_fails_is_not_kept():
    index = town()
    for _ in range(2):
        with pytest.raises(ValueError, match="overflow"):
            index.knn([0, 0], 1, where="grade * 9223372036854775807 > 0")
    assert index.filters.texts() == []
    with pytest.raises(ValueError, match="column 'nope'"):
        index.knn([0, 0], 1, where="nope = 1")
    assert index.filters.texts() == []


@forking
def test_a_forked_child_waits_for_no_condition(held):
    """The lock of all conditions, and that of one, which a thread held when the process forked."""
    begun, go = held
    index = town()
    index.knn([[0, 0]], 1)
    thread = threading.Thread(target=lambda: index.knn([0, 0], 1, where="grade < 100"), name="slow", daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    assert in_child(lambda: index.count([0, 0], 1e9, where="grade < 100").tolist() == [100]) == 0
    # and the lock of all of them
    holder = threading.Thread(target=index.filters._lock.acquire)
    holder.start()
    holder.join(WAIT)
    assert in_child(lambda: index.count([0, 0], 1e9, where="grade < 5").tolist() == [5]) == 0
    index.filters._lock.release()
    go.set()
    thread.join(WAIT)
    assert not thread.is_alive()


@forking
def test_a_forked_child_opens_what_was_being_opened():
    """Also where the fork came between a partition and the table that knows of it."""
    index = town()
    partitions = index.parts.all()
    begun, go = threading.Event(), threading.Event()

    def opener(number):
        if number == 2 and threading.current_thread().name == "slow":
            begun.set()
            assert go.wait(WAIT)
        return partitions[number]

    parts = OpenPartitions([None] * len(partitions), index.parts.facts, opener)
    lazy = dtoss.Index(index.space, index.partitioning, index.reach, parts)
    thread = threading.Thread(target=lambda: parts.open(range(4)), name="slow", daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    assert parts._opened[0] is not None
    queries = np.random.default_rng(1).normal(0, 1, (4 * LEAST, 2))
    expected = index.knn(queries, 3).id
    assert in_child(lambda: (lazy.knn(queries, 3, threads=2).id == expected).all()) == 0
    go.set()
    thread.join(WAIT)
    assert (lazy.knn(queries, 3).id == expected).all()


@forking
@pytest.mark.parametrize("forks", [10, pytest.param(30, marks=pytest.mark.deep("three times as many forks"))])
def test_forks_among_working_threads(forks):
    """Forks while threads ask with and without conditions, kept and new: each child gets its answers."""
    index = town()
    queries = np.random.default_rng(1).normal(0, 1, (2 * LEAST, 2))
    expected = index.knn(queries, 2, where="grade < 1000", threads=2).id
    ends = threading.Event()

    def ask(first):
        i = first
        while not ends.is_set():
            index.knn(queries[:300], 2, where=f"grade < {1000 + i % 40}", threads=2)
            i += 1

    askers = [threading.Thread(target=ask, args=(20 * i,), daemon=True) for i in range(3)]
    for asker in askers:
        asker.start()
    try:
        codes = []
        for i in range(forks):
            time.sleep(0.003 * (i % 5))

            def child(text=f"grade < {1000 + i % 3}"):
                same = index.knn(queries, 2, where="grade < 1000", threads=2).id
                index.count(queries, 10.0, where=text, threads=2)
                return (same == expected).all()

            codes.append(in_child(child))
    finally:
        ends.set()
        for asker in askers:
            asker.join(WAIT)
    assert codes == [0] * forks


@forking
def test_a_lock_that_the_forking_thread_holds_stays_its_own():
    lock, other = Lock(), Lock()
    holder = threading.Thread(target=other.acquire)
    holder.start()
    holder.join(WAIT)

    def child():
        free = other.acquire(blocking=False)
        held = not lock.acquire(blocking=False)
        lock.release()
        return free and held and lock.acquire(blocking=False)

    with lock:
        assert in_child(child) == 0
    assert not other.acquire(blocking=False)
    assert lock.acquire(blocking=False)


@forking
def test_a_forked_child_compiles_what_it_needs():
    """Also where another thread was compiling when the process forked."""

    def fresh(i):
        def work(x):
            total = 0.0
            for j in range(x.size):
                total += x[j] * i + np.sqrt(x[j])
            return total

        return njit(work)

    begun = threading.Event()

    def compile_some():
        for i in range(8):
            begun.set()
            fresh(i)(np.ones(2))

    thread = threading.Thread(target=compile_some, daemon=True)
    thread.start()
    assert begun.wait(WAIT)
    codes = []
    for i in range(3):
        time.sleep(0.1)
        codes.append(in_child(lambda i=i: fresh(i)(np.ones(2)) == 2 * i + 2))
    thread.join(WAIT)
    assert codes == [0, 0, 0]


def test_made_once():
    class Thing:
        @once
        def it(self):
            """Say what it is."""
            return object()

    one, two = Thing(), Thing()
    assert one.it is one.it
    assert one.it is not two.it
    assert Thing.it.__doc__ == "Say what it is."
