"""Pieces of a batch: all rows once, whoever raises, in forked processes too."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.hilbert import curve_keys
from dtoss.queries.threads import LEAST, PIECES, WHOLE_PIECE, in_pieces
from dtoss.queries.workspace import workspace
from tests.dtoss.scenes import room_for
from tests.ends import end_now


@given(st.integers(0, 5000), st.integers(1, 9))
def test_the_pieces_are_all_rows_in_order(rows, threads):
    pieces = in_pieces(rows, threads, lambda first, last: (first, last))
    assert [i for first, last in pieces for i in range(first, last)] == list(range(rows))
    used = min(threads, max(rows // LEAST, 1))
    each = min(max(rows // (used * WHOLE_PIECE), 1), PIECES)
    assert len(pieces) == (1 if used == 1 else each * used)


def test_threads_work_at_the_same_time():
    """Two pieces wait for each other: one thread alone would never end."""
    meet = threading.Barrier(2, timeout=60)
    turns = iter(range(2))

    def work(first, last):
        if next(turns, None) is not None:
            meet.wait()
        return threading.get_ident()

    assert len(set(in_pieces(2 * LEAST, 2, work))) == 2


@pytest.mark.parametrize("bad", [0, 3, 7])
def test_what_a_piece_raises_is_raised(bad):
    def work(first, last):
        if first == bad * WHOLE_PIECE:
            raise RuntimeError(f"row {first}")
        return last

    rows = 2 * PIECES * WHOLE_PIECE
    with pytest.raises(RuntimeError, match=f"row {bad * WHOLE_PIECE}"):
        in_pieces(rows, 2, work)
    assert in_pieces(rows, 2, lambda first, last: last) == [WHOLE_PIECE * (i + 1) for i in range(2 * PIECES)]


@pytest.mark.parametrize("text", [False, True])
def test_batches_that_are_partly_in_curve_order(text):
    """Pieces in order are answered at once, the others sorted among themselves: each row gets its own answer."""
    rng = np.random.default_rng(3)
    ids = np.array([f"é{i}" for i in range(3000)], object) if text else np.arange(3000)
    index = dtoss.build(ids, rng.normal(0, 1, (3000, 2)), partitions=5)
    queries = rng.normal(0, 1.5, (8 * LEAST, 2))
    order = np.argsort(curve_keys(index.space.vectors(queries), None, coarse=True), kind="stable")
    half = np.concatenate([order[: 4 * LEAST], rng.permutation(order[4 * LEAST :])])
    for rows in (order, half, half[::-1]):
        for far in (None, 3e3):
            one = index.knn(queries, 3, max_distance=far)
            two = index.knn(queries[rows], 3, max_distance=far, threads=2)
            back = np.argsort(rows[two.query], kind="stable")
            assert (rows[two.query][back] == one.query).all()
            assert (two.id[back] == one.id).all()
            assert (two.distance[back] == one.distance).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    """The kept threads are not there after a fork: waiting for them would never end."""
    index = dtoss.build(np.arange(50), np.random.default_rng(1).uniform(0, 1, (50, 2)), crs="none")
    queries = np.random.default_rng(2).uniform(0, 1, (16 * LEAST, 2))
    expected = index.knn(queries, 3, threads=2).id
    child = os.fork()
    if child == 0:
        end_now(0 if (index.knn(queries, 3, threads=2).id == expected).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_thread_does_not_keep_the_room_of_a_huge_answer():
    index = dtoss.build(np.arange(3000), np.random.default_rng(1).uniform(0, 1, (3000, 2)), crs="none")
    with room_for(kept=1000):
        for ask in (lambda: index.range([0.5, 0.5], 9.0), lambda: index.knn([0.5, 0.5], 3000)):
            assert len(ask()) == 3000
            assert len(workspace.distance) <= 1000


def test_batches_from_several_threads_at_a_time():
    index = dtoss.build(np.arange(500), np.random.default_rng(1).uniform(0, 1, (500, 2)), crs="none")
    queries = np.random.default_rng(2).uniform(0, 1, (16 * LEAST, 2))
    expected = index.knn(queries, 3).id
    same = []

    def ask():
        same.extend((index.knn(queries, 3, threads=3).id == expected).all() for _ in range(5))

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert same == [True] * 20
