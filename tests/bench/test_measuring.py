"""What benchmarks say can be wrong: the checks of answers, the turns of a race, and what is read from /proc."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dtoss
from bench.experiments.ours_join import unit_vectors
from bench.measuring.machine import family, processor_seconds, resident
from bench.measuring.points import points, positions, radius_for
from bench.measuring.race import in_turns
from bench.peers.__main__ import agreeing
from bench.peers.agreeing import as_pairs, pieces


@pytest.fixture(scope="module")
def world():
    at = points("uniform", 2_000, 50)
    return at, dtoss.build(np.arange(2_000), at.objects)


def test_points_are_the_same_each_time_and_queries_are_sorted(world):
    again = points("uniform", 2_000, 50)
    assert (again.objects == world[0].objects).all()
    assert (again.queries == world[0].queries).all()
    assert sorted(map(tuple, again.queries)) == sorted(map(tuple, again.shuffled))
    assert np.abs(positions("uniform", 1_000)[:, 1]).max() <= 90


def test_a_radius_is_found_by_its_hits(world):
    at, index = world
    radius = radius_for(20, lambda metres: float(index.count(at.queries, metres).mean()))
    assert abs(index.count(at.queries, radius).mean() - 20) <= 0.2


@pytest.mark.parametrize("k", [8, None])
def test_another_answer_is_seen(world, k):
    at, index = world
    hits = index.knn(at.queries, k) if k else index.range(at.queries, 1e6)
    shuffle = np.random.default_rng(0).permutation(len(hits))
    query, row = hits.query[shuffle], hits.id[shuffle]
    assert agreeing(hits, as_pairs(query, row), at, at.queries, k) == 50
    assert agreeing(hits, as_pairs(query[1:], row[1:]), at, at.queries, k) == 49
    wrong = row.copy()
    wrong[0] = np.setdiff1d(np.arange(2_000), row[query == query[0]])[0]
    assert agreeing(hits, as_pairs(query, wrong), at, at.queries, k) == 49


def test_each_comes_after_another_one_the_next_time():
    """And what each took is the clock's, round by round; the last answers come back."""
    order, ticks = [], iter(range(100))
    works = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}
    spent, last = in_turns(works, 2, lambda: next(ticks))
    assert order == ["a", "b", "c", "b", "c", "a"]
    assert spent == {name: [1, 1] for name in "abc"}
    assert last == {"a": 6, "b": 4, "c": 5}


def test_a_child_counts():
    code = "x = bytearray(b'x' * 80_000_000)\nfor _ in range(3_000_000): pass\nprint('ready', flush=True)\ninput()"
    before = processor_seconds()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        assert child.pid in family(os.getpid())
        assert resident(child.pid)[0] > 80_000_000
        assert processor_seconds() - before >= 0.03
        child.communicate(b"\n")
    assert processor_seconds() - before >= 0.03  # also once it has ended


def test_pieces_cover_all_rows():
    assert [list(piece) for piece in pieces(5, 2)] == [[0, 1], [2, 3], [4]]
    assert list(pieces(0, 2)) == []


def test_the_expert_s_vectors_are_ours(world):
    at, _ = world
    import pyarrow as pa

    vectors = unit_vectors(pa.table({"lon": at.objects[:, 0], "lat": at.objects[:, 1]}))
    np.testing.assert_allclose(vectors, at.vectors, atol=4e-16)
