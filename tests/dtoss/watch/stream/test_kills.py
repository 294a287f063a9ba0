"""Whoever watches is killed at any change of a file, or finds the disk full: each event is told once all the same."""

from __future__ import annotations

import random

from dtoss.watch.home import Home
from tests.dtoss.watch.stream.scripted import (
    check_nothing_left,
    check_told,
    check_whole,
    play,
    play_in_a_child,
    script_of,
    small,
)

STREAMS, KILLS = 12, 300
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


def faulty(folder, seed, faults, at):
    """Play a stream with so many faults, then to its end; return how many came and what was told."""
    rng = random.Random(seed)
    home, script = Home(str(folder / "store"), "w"), script_of(seed)
    done = folder / "done"
    folder.mkdir()
    done.write_text("0")
    came = 0
    while True:
        step = rng.randint(1, LONGEST) if came < faults else 0
        fault = rng.choice(["kill", "kill", "kill", "full"])
        status, labels = play_in_a_child(home, script, done, step, fault, rng.choice([1, 2, 3]))
        if status == 0 and int(done.read_text()) == len(script[0]):
            break
        came += 1
        at.add((labels[-1][0], labels[-1][2]))
        if came % 8 == 0 and home.folder.there() and home.batches.head() is not None:
            check_whole(home)
    counts = check_told(home, script, done)
    check_nothing_left(home)
    assert check_told(home, script, done) == counts
    return came, counts


def test_three_hundred_kills_and_full_disks_lose_and_double_no_event(tmp_path, monkeypatch):
    """At each kind of file, around each commit, while state is merged, indexes are built and events folded."""
    small(monkeypatch)
    warm(tmp_path / "warm")
    came, counts, at, seed = 0, {}, set(), 0
    while came < KILLS or (not at >= WANTED and came < 2 * KILLS):
        more, told = faulty(tmp_path / str(seed), seed, min(KILLS // STREAMS + 5, max(KILLS - came, 10)), at)
        came, seed = came + more, seed + 1
        counts = {kind: counts.get(kind, 0) + told[kind] for kind in ("leave", "enter", "inside", "reset")}
    assert came >= KILLS
    assert min(counts.values()) > 10, counts
    assert at >= WANTED, WANTED - at


def warm(folder):
    """Compile in this process what its children would each compile."""
    folder.mkdir()
    (folder / "done").write_text("0")
    home, script = Home(str(folder), "w"), script_of(5)
    play(home, script, folder / "done", lambda _: None, 2)
    assert sum(check_told(home, script, folder / "done").values()) > 0
