"""A few made worlds of places, words and streams, judged by other means; `python -m bench.watch.fuzz` has more."""

from __future__ import annotations

import pytest

from tests.dtoss.watch import judged_rows, judged_streams, judged_words


@pytest.mark.parametrize("plane", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_places_and_conditions(seed, plane):
    assert judged_rows.differing(seed, plane) == []


@pytest.mark.parametrize("seed", range(3))
def test_words(seed):
    assert judged_words.differing(seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_streams(seed, tmp_path):
    assert judged_streams.play(seed, tmp_path) == []
