"""Batches of windows in a store: every answer is the oracle's, in any number of tasks, however rows come."""

from __future__ import annotations

import pytest

from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import ALL, begin, check, commit, counts_add_up, made, spec

ALIKE = pytest.mark.deep("other rows, and few measures, which test_moving_groups has in make test")


@pytest.mark.parametrize("seed", [pytest.param(0, marks=ALIKE), 1, 2, pytest.param(3, marks=ALIKE)])
def test_every_answer_is_the_oracles(tmp_path, seed):
    """In another number of tasks from batch to batch, after each batch."""
    home, fixed = begin(tmp_path, spec(measures=ALL if seed else "rows,objects", expire=None if seed % 2 else "7s"))
    batches, tasks, count = made(seed), [1, 2, 7, 7, 3, 1], 0
    for batch, some, (accepted, late, reached) in zip(batches, tasks, replayed(fixed.spec, batches), strict=True):
        document = commit(home, fixed, batch, tasks=some).document
        counts_add_up(document)
        assert document["reasons"].get("later than --late", 0) == late
        assert document["watermark"] == reached
        count += check(home, accepted)
    assert count > 100
