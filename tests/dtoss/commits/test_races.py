"""Many commit at once, and are killed: no gap, no fork, nothing lost. With the lease off, so that the chain decides."""

from __future__ import annotations

import pytest

from tests.dtoss.commits.races import USERS, _start, _told, race


@pytest.mark.slow
@pytest.mark.parametrize("writers", [2, 8])
@pytest.mark.parametrize("user", USERS)
def test_writers_at_once_on_a_disk(tmp_path, user, writers):
    """A reader sees versions go forward meanwhile, and never a mixture."""
    found = race(user, str(tmp_path / "place"), writers, 48)
    assert found["conflicts"] > 0, "they were never at it at once"
    assert found["versions"] > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "writers", "commits"), [("documents", 8, 24), ("snapshots", 2, 8), ("batches", 2, 12)]
)
def test_writers_at_once_on_an_object_store(bucket, user, writers, commits):
    """The same through conditional puts."""
    found = race(user, bucket.uri(), writers, commits)
    assert found["conflicts"] > 0
    assert found["versions"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("user", USERS)
def test_whoever_is_killed_leaves_the_old_or_the_new_version(tmp_path, user):
    """At twenty steps of twenty commits, before and after each counts."""
    found = _told(_start("kills", user, tmp_path / "place", 20, 3))
    assert found["killed"] >= 10
    assert 0 < found["committed"] < found["killed"]
