"""Batches against the loop: the same events, however rows are split, whatever comes, changes and goes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.processing import last_rows
from tests.dtoss.watch import streams
from tests.dtoss.watch.processing.held import held_equal
from tests.examples import examples

FEW_AND_MORE = [range(2), pytest.param(range(2, 6), marks=pytest.mark.deep("more seeds of the same kind"))]


@pytest.mark.parametrize("seeds", FEW_AND_MORE, ids=["few", "more"])
@pytest.mark.parametrize("tasks", [1, 2, 7])
@pytest.mark.parametrize("expire", [None, 20])
def test_batches_are_the_loop(tmp_path, tasks, expire, seeds):
    """Six batches, objects that jump over the pole and the antimeridian, subscriptions that come and go."""
    total = sum(len(held_equal(tmp_path / str(seed), 100 * tasks + seed, tasks, expire=expire)) for seed in seeds)
    assert total > 10


@settings(max_examples=examples(12, 5), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    tasks=st.sampled_from([1, 2, 7, 64]),
    expire=st.sampled_from([None, 5, 40]),
    witnesses=st.sampled_from(["1%", "1", "2", "60%"]),
)
def test_any_stream_is_the_loop(tmp_path_factory, seed, tasks, expire, witnesses):
    """What hypothesis finds."""
    held_equal(tmp_path_factory.mktemp("any"), seed, tasks, expire=expire, witnesses=witnesses)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep("more seeds of the same kind"))])
@pytest.mark.parametrize("expire", [None, 20])
def test_ids_of_text_that_share_a_hash(tmp_path, monkeypatch, expire, seed):
    """Of four objects two and two have one key, and all of them one: each has a row before of its own."""
    monkeypatch.setattr(streams, "WHERES", [None, "occupied = 0", "id = '3' or kind = 'taxi'"])
    hashes = last_rows.hashes_of
    for count in (1, 2):
        with monkeypatch.context() as patched:
            patched.setattr(last_rows, "hashes_of", lambda ids, count=count: hashes(ids) % count)
            assert held_equal(tmp_path / f"{count}-{seed}", 40 + seed, 2, expire=expire, ids="string")
    assert held_equal(tmp_path / "own", 50 + seed, 2, expire=expire, ids="string")


@pytest.mark.parametrize("most", [1, 2, 5])
def test_matches_come_in_pieces(tmp_path, monkeypatch, most):
    """Of a few matches each: memberships go on from the last row of a piece to the first of the next."""
    pieces = StandingMatcher.pieces
    seen = []

    def few(self, rows, wants, _most=None):
        for piece in pieces(self, rows, wants, most):
            seen.append(piece.last_row - piece.first_row)
            yield piece

    monkeypatch.setattr(StandingMatcher, "pieces", few)
    total = [
        held_equal(tmp_path / str(seed), 60 + seed, 1, batches=2, expire=[None, 20][seed % 2]) for seed in range(4)
    ]
    assert sum(map(len, total)) > 30
    assert len(seen) > 10, len(seen)
