"""Counts of events by subscription: as a loop over all events counts them, and a batch costs what it has told."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from dtoss.watch.events.event_compaction import fold_events
from dtoss.watch.events.event_counts import tallies_of, tally_of
from dtoss.watch.watch_folder import DEFAULT_NAME, Home, Limits
from tests.dtoss.watch.events.made import HOUR, START, batch_of, event, some_events


def as_counter(table):
    return Counter({(row["subscription"], row["kind"]): row["events"] for row in table.to_pylist()})


@pytest.mark.parametrize("seed", range(4))
def test_of_some_subscriptions_as_of_all(tmp_path, seed):
    """Whenever they are asked for, before and after folds; those that had none are not there."""
    home = Home(str(tmp_path), DEFAULT_NAME, Limits(least_since=3))
    rng, ever = np.random.default_rng(seed), Counter()
    assert tallies_of(home) is None
    for turn in range(12):
        events = some_events(rng, int(rng.integers(0, 20)))
        batch_of(home, [[], events], START + turn * HOUR)
        ever.update((one["subscription"], one["kind"]) for one in events)
        if rng.random() < 0.3:
            fold_events(home, START + (turn + 3) * HOUR)
        if rng.random() < 0.3:
            continue
        tallies, names = tallies_of(home), sorted({name for name, _ in ever})
        assert as_counter(tallies.whole()) == as_counter(tally_of(home)) == ever
        for _ in range(4):
            some = rng.permutation([*names, "no", "", "zz"])[: int(rng.integers(0, 6))].tolist()
            found = tallies.among(pa.chunked_array([pa.array(some, pa.string())]))
            assert as_counter(found) == {key: n for key, n in ever.items() if key[0] in some}


def test_a_batch_is_added_to_what_is_short(tmp_path):
    """The long table stays as it is until a share of it has come since."""
    home = Home(str(tmp_path), DEFAULT_NAME, Limits(least_since=10))
    batch_of(home, [[], [event(f"s{i:03}", "enter", i) for i in range(200)]])
    older = tallies_of(home).older
    assert len(older) == 200
    for i in range(24):
        batch_of(home, [[], [event(f"s{i:03}", "leave", i), event("s000", "enter", i)]])
        assert tallies_of(home).older is older
        assert len(tallies_of(home).since) == i + 2
    batch_of(home, [[], [event("s150", "leave", 1)]])
    assert tallies_of(home).older is not older
    assert len(tallies_of(home).whole()) == len(tallies_of(home).older) == 225
