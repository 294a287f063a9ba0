"""Whoever watches is killed at any change of a file, or finds the disk full: each event is told once all the same."""

from __future__ import annotations

import pytest

from tests.dtoss.watch.processing.scripted import SOME, fault_at_each, faulty, warm

STREAMS, KILLS = 12, 300
FEW_STREAMS = 8
LONGEST = 50
"""Changes of files that a process may make, at most, before its fault."""
WANTED = {
    ("batch", "events"), ("batch", "state"), ("batch", "quarantine"), ("batch", "commits"), ("batch", "CURRENT"),
    ("batch", "subscriptions/built/base"), ("batch", "subscriptions/built/delta"), ("beat", "commits"),
    ("subscribe", "subscriptions/changes"), ("subscribe", "subscriptions/changes/base"),
    ("subscribe", "subscriptions/commits"), ("subscribe", "subscriptions/CURRENT"),
    ("unsubscribe", "subscriptions/commits"), ("replace", "subscriptions/commits"),
    ("fold", "events/hour"), ("fold", "events/counts"), ("fold", "events/folded"), ("fold", "commits"),
    ("fold", "commits/log"), ("clear", "state"), ("clear", "events"),
    ("retain", "events/folded"), ("retain", "commits"), ("retain", "events"),
    ("retain", "state"), ("read", "readers"), ("clear", "subscriptions/built/base"),
    ("clear", "subscriptions/built/delta"), ("clear", "subscriptions/changes"),
}  # fmt: skip
"""What is done, and the kind of file, that all faults together were at."""


@pytest.fixture(scope="module", autouse=True)
def warmed(tmp_path_factory):
    """What children call is compiled and open."""
    warm(tmp_path_factory.mktemp("made") / "warm")


def test_a_kill_or_a_full_disk_at_each_kind_of_file_loses_and_doubles_no_event(tmp_path):
    """At one of the first changes of it; what comes next is at a kind that nothing was at yet."""
    counts = fault_at_each(tmp_path, WANTED, FEW_STREAMS)
    assert min(counts.values()) > SOME, counts


@pytest.mark.deep("three hundred kills; one at each kind of file is in make test")
def test_three_hundred_kills_and_full_disks_lose_and_double_no_event(tmp_path):
    """At each kind of file, around each commit, while state is merged, indexes are built and events folded."""
    came, counts, at, seed = 0, {}, set(), 0
    while came < KILLS:
        more, told = faulty(tmp_path / str(seed), seed, min(KILLS // STREAMS + 5, max(KILLS - came, 10)), at, LONGEST)
        came, seed = came + more, seed + 1
        counts = {kind: counts.get(kind, 0) + told[kind] for kind in ("leave", "enter", "inside", "reset")}
    assert came >= KILLS
    assert min(counts.values()) > 10, counts
    (tmp_path / "rest").mkdir()
    if rest := WANTED - at:
        fault_at_each(tmp_path / "rest", rest, FEW_STREAMS)
