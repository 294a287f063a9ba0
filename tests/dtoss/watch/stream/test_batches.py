"""Batches against the loop: the same events, however rows are split, whatever comes, changes and goes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.watch.home import Home
from tests.dtoss.watch.streams import (
    ATTRIBUTES,
    SECOND,
    SPHERE,
    change,
    random_asked,
    random_rows,
    run,
    settings_of,
    stands,
    told,
)
from tests.oracles import Watched


def held_equal(folder, seed, tasks, batches=6, expire=None):
    """Run a random stream in random batches, and hold each batch's events to the loop's."""
    rng = np.random.default_rng(seed)
    home = Home(str(folder), "w")
    loop = Watched(SPHERE, settings_of().schema, None if expire is None else expire * SECOND)
    rows = random_rows(rng, int(rng.integers(5, 60)), seconds=int(rng.integers(2, 120)))
    if rng.random() < 0.7:
        rows.sort(key=lambda row: row["t"])
    names = [f"s{number}" for number in range(8)]
    total = 0
    for part in np.array_split(np.arange(len(rows)), batches):
        if rng.random() < 0.7:
            add = [random_asked(rng, name) for name in rng.choice(names, rng.integers(1, 4), replace=False)]
            change(home, add, rng.choice(names, rng.integers(0, 2)).tolist())
        number, table = stands(home)
        some = [rows[row] for row in part]
        commit = run(home, settings_of(), some, tasks, expire=None if expire is None else expire * SECOND)
        wanted = loop.batch(some, number, table)
        found = told(home, commit.number)
        assert Counter(found) == Counter(wanted), (seed, commit.number)
        assert by_object(found) == by_object(wanted), (seed, commit.number)
        assert commit.document["clock"] == loop.clock
        total += len(found)
    return total


def by_object(events):
    """The events of each object in their order."""
    found = {}
    for event in events:
        found.setdefault(event[3], []).append(event)
    return found


@pytest.mark.parametrize("tasks", [1, 2, 7])
@pytest.mark.parametrize("expire", [None, 20])
def test_batches_are_the_loop(tmp_path, tasks, expire):
    """Six batches, objects that jump over the pole and the antimeridian, subscriptions that come and go."""
    total = sum(held_equal(tmp_path / str(seed), 100 * tasks + seed, tasks, expire=expire) for seed in range(10))
    assert total > 100


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**9), tasks=st.sampled_from([1, 2, 7, 64]), expire=st.sampled_from([None, 5, 40]))
def test_any_stream_is_the_loop(tmp_path_factory, seed, tasks, expire):
    """What hypothesis finds."""
    held_equal(tmp_path_factory.mktemp("any"), seed, tasks, expire=expire)


assert ATTRIBUTES
