"""A few made worlds of places, words and streams, judged by other means; `python -m tests.long.watch_fuzz` has more."""

from __future__ import annotations

import pytest

from tests.dtoss.watch import judged_rows, judged_streams, judged_words

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
