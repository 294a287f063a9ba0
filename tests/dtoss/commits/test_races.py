"""Many commit at once, and are killed: no gap, no fork, nothing lost. With the lease off, so that the chain decides."""

from __future__ import annotations

import pytest

from tests.dtoss.commits.races import USERS, script

ROUNDS = 10
"""Races that are run at the most until processes have met in one: on a busy machine they may take turns."""


def met(user, place_of, writers, commits, versions):
    """Race until writers were in each other's way and the reader saw more than so many versions."""
    for number in range(ROUNDS):
        found = script("race", user, place_of(number), writers, commits)
        if found["conflicts"] > 0 and found["versions"] > versions:
            return True
    return False


LONGER = pytest.mark.deep("longer races of the same kind")


@pytest.mark.parametrize(
    ("user", "writers", "commits"),
    [
        *(("documents", 8, 48), ("batches", 8, 24), ("snapshots", 2, 24)),
        *(pytest.param(user, writers, 48, marks=LONGER) for user in USERS for writers in (2, 8)),
    ],
)
def test_writers_at_once_on_a_disk(tmp_path, user, writers, commits):
    """A reader sees versions go forward meanwhile, and never a mixture."""
    assert met(user, lambda number: str(tmp_path / str(number)), writers, commits, 3), "they were never at it at once"


@pytest.mark.parametrize(
    ("user", "writers", "commits"),
    [
        *(("documents", 4, 6), ("snapshots", 2, 3), ("batches", 2, 3)),
        *(pytest.param(*one, marks=LONGER) for one in (("documents", 8, 24), ("snapshots", 2, 8), ("batches", 2, 12))),
    ],
)
def test_writers_at_once_on_an_object_store(bucket, user, writers, commits):
    """The same through conditional puts."""
    assert met(user, lambda number: bucket.uri(), writers, commits, 1), "they were never at it at once"


@pytest.mark.parametrize("user", USERS)
def test_whoever_is_killed_leaves_the_old_or_the_new_version(tmp_path, user):
    """At twenty steps of twenty commits, before and after each counts."""
    found = script("kills", user, tmp_path / "place", 20, 3)
    assert found["killed"] >= 10
    assert 0 < found["committed"] < found["killed"]
