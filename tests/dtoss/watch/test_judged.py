"""A few made worlds of places, words and streams, judged by other means; `python -m tests.long.watch_fuzz` has more."""

from __future__ import annotations

import pytest

from tests.dtoss.watch import judged_rows, judged_stays, judged_streams, judged_words
from tests.dtoss.watch.real.worlds import day_of_taxis

MORE = pytest.mark.deep("more seeds of the same kind")


@pytest.mark.parametrize("plane", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_places_and_conditions(seed, plane):
    assert judged_rows.differing(seed, plane) == []


@pytest.mark.parametrize("seed", range(3))
def test_words(seed):
    assert judged_words.differing(seed) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=MORE) for seed in (1, 2)), 3])
def test_streams(seed, tmp_path):
    assert judged_streams.play(seed, tmp_path) == []


@pytest.mark.parametrize("seed", range(2))
def test_stays_ways_and_pairs(seed):
    lines, events = judged_stays.play(seed, 600, 12)
    assert lines == []
    assert events > 100


@pytest.mark.deep("hundreds of thousands of events of the kinds that are compared above")
@pytest.mark.timeout(1800)
def test_many_stays_ways_and_pairs():
    events = 0
    for seed in range(100, 200):
        lines, count = judged_stays.play(seed)
        assert lines == []
        events += count
        if events >= 200_000:
            return
    raise AssertionError(f"only {events:,} events were compared")


@pytest.mark.deep("real rows; made ones are compared in make test")
@pytest.mark.timeout(1800)
def test_stays_ways_and_pairs_of_taxis():
    lines, events, sure = judged_stays.of_taxis(day_of_taxis().sort_by("t").slice(0, 40_000), 24)
    assert lines == []
    assert events > 10_000
    assert sure > 20
