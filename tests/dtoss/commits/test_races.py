"""Many commit at once, and are killed: no gap, no fork, nothing lost. With the lease off, so that the chain decides."""

from __future__ import annotations

import pytest

from tests.dtoss.commits.races import USERS, script
from tests.examples import examples

ROUNDS = 10
"""Races that are run at the most until processes have met in one: on a busy machine they may take turns."""


def all_met(races, place_of, versions):
    """Race until in each writers were in each other's way and the reader saw more than so many versions."""
    for number in range(ROUNDS):
        found = script(*[("race", race[0], place_of(number, *race), *race[1:]) for race in races])
        races = [
            race
            for race, told in zip(races, found, strict=True)
            if told["conflicts"] == 0 or told["versions"] <= versions
        ]
        if not races:
            return True
    return False


LONGER = pytest.mark.deep("longer races of the same kind")


@pytest.mark.parametrize(
    "races",
    [
        pytest.param([("documents", 8, 48), ("batches", 8, 24), ("snapshots", 2, 24)], id="few"),
        pytest.param([(user, writers, 48) for user in USERS for writers in (2, 8)], id="many", marks=LONGER),
    ],
)
def test_writers_at_once_on_a_disk(tmp_path, races):
    """A reader sees versions go forward meanwhile, and never a mixture."""
    assert all_met(races, lambda *which: tmp_path / "-".join(map(str, which)), 3), "they were never at it at once"


ALIKE = pytest.mark.deep("longer, and snapshots, whose races on a disk are in make test: one chain for all")


@pytest.mark.parametrize(
    "race",
    [
        ("documents", 4, 6),
        ("batches", 2, 3),
        *(pytest.param(one, marks=ALIKE) for one in (("documents", 8, 24), ("snapshots", 2, 8), ("batches", 2, 12))),
    ],
)
def test_writers_at_once_on_an_object_store(bucket, race):
    """The same through conditional puts; each in a process of its own, as a client of a store outlives no fork."""
    assert all_met([race], lambda *_: bucket.uri(), 1), "they were never at it at once"


def test_whoever_is_killed_leaves_the_old_or_the_new_version(tmp_path):
    """At steps of as many commits, before and after each counts."""
    steps = examples(20, 10)
    for found in script(*[("kills", user, tmp_path / user, steps, 3) for user in USERS]):
        assert found["killed"] >= steps / 2
        assert 0 < found["committed"] < found["killed"]
