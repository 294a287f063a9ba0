"""Whoever watches is killed while layouts change with each batch, or finds the disk full: each event is told once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dtoss.watch.processing.watch_commit import worth_a_commit
from dtoss.watch.processing.watch_plan import set_back
from dtoss.watch.sharding.sharded_batch import RoundLoad, commit_on_workers, write_load
from tests.dtoss.watch.processing import scripted
from tests.dtoss.watch.processing.scripted import fault_at_each, faulty, warm
from tests.dtoss.watch.watch_batch import run_on_workers
from tests.pipelines.watching.drawn_layouts import drawn_grid, drawn_routing, routed_by

KILLS, LONGEST = 50, 70
FEW_STREAMS = 6
WANTED = {
    ("batch", "subscriptions/layouts/layout"), ("batch", "subscriptions/layouts/stored"), ("batch", "load"),
    ("batch", "subscriptions/built/worker"), ("batch", "events"), ("batch", "commits"),
}  # fmt: skip
"""What is done, and the kind of file, that all faults together were at."""


def run_spread(plan, rows, tasks):
    """Run a batch under a layout that its number draws, and commit it with what the round has cost."""
    rng = np.random.default_rng(plan.number)
    grid = drawn_grid(rng, plan.standing, plan.settings.space)
    plan = replace(plan, routed=routed_by(plan, drawn_routing(rng, grid)))
    done, worked = run_on_workers(plan, rows, tasks)
    if right := set_back(plan, [one.heard for one in done]):
        plan = right
        done, worked = run_on_workers(plan, rows, tasks)
    ended = worth_a_commit(plan, done)
    if ended is None:
        return None
    none = np.zeros(0, np.int64)
    cost = RoundLoad(grid, none, none, none, none, none * 1.0, none, none * 1.0, plan.now_us, plan.now_us, (1, 0, 0, 0))
    return commit_on_workers(plan, done, worked, write_load(plan.home, cost), ended=ended)


@pytest.fixture
def spread(tmp_path, monkeypatch):
    """Batches run under layouts; what children call is compiled and open."""
    monkeypatch.setattr(scripted, "run_batch", run_spread)
    warm(tmp_path / "warm")


def test_a_kill_or_a_full_disk_at_each_kind_of_file_loses_and_doubles_no_event(tmp_path, spread):
    """At files of layouts, of workers' indexes and of loads too; what no commit names is cleared away."""
    counts = fault_at_each(tmp_path, WANTED, FEW_STREAMS)
    assert min(counts.values()) > 0, counts


@pytest.mark.deep("fifty kills; one at each kind of file is in make test")
def test_fifty_kills_while_layouts_change_lose_and_double_no_event(tmp_path, spread):
    """At any change of a file, and at all kinds of files."""
    came, counts, at, seed = 0, {}, set(), 0
    while came < KILLS or (not at >= WANTED and came < 4 * KILLS):
        more, told = faulty(tmp_path / str(seed), seed, 13, at, LONGEST)
        came, seed = came + more, seed + 1
        counts = {kind: counts.get(kind, 0) + told[kind] for kind in ("leave", "enter", "inside", "reset")}
    assert min(counts.values()) > 0, counts
    assert at >= WANTED, WANTED - at
