"""Batches of windows in a store: every answer is the oracle's, in any number of tasks, however rows come."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.stored.kept import ALL, SECOND, begin, check, commit, counts_add_up, spec


def made(seed, batches=6, rows=30, ids=5, step=4.0):
    """Batches of rows of objects that move about, some late, some twice."""
    rng = np.random.default_rng(seed)
    found, before = [], []
    for number in range(batches):
        t = (rng.uniform(0, 6, rows) + number * step - rng.exponential(2.0, rows)).clip(0) * SECOND
        places = rng.integers(-2, 12, (rows, 2)) + rng.choice([0.0, 0.25], (rows, 2))
        batch = [
            (int(i), int(at), *map(float, place))
            for i, at, place in zip(rng.integers(0, ids, rows), t, places, strict=True)
        ]
        again = [before[i] for i in rng.integers(0, len(before), 3)] if before else []
        moved = [(one[0], one[1], one[2] + 1.0, one[3]) for one in again]
        found.append(batch + again + moved)
        before += batch
    return found


@pytest.mark.parametrize("seed", range(4))
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
