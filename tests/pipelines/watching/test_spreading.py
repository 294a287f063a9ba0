"""Where a watch stands in its rounds: another strategy begins anew, beats decide nothing, a failure loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.commits.offsets import Source
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.sharding.layout_files import open_routing
from dtoss.watch.sharding.sharded_batch import commit_on_workers
from dtoss.watch.watch_folder import LAYOUTS, Home, Limits
from pipelines.command.watch.watch_command import spread_said
from pipelines.options.streaming import SpreadWishes
from pipelines.watching.spreading import Spreading, SpreadOptions, as_layout
from tests.dtoss.watch.streams import BEGIN, NOW, SECOND, change, circle, rows_of, settings_of
from tests.dtoss.watch.watch_batch import run_on_workers

MADE = settings_of()


def begun(tmp_path, around=0.0, limits=None):
    """A watch of circles in a row of places, each of which has a cell of its own."""
    home = Home(str(tmp_path), "w", limits or Limits())
    change(home, circles(around))
    return home


def circles(around, count=40):
    """Circles in a row of places."""
    return [circle(f"s{one}", around + 0.01 * one, 0.3 * (one % 2), 400.0) for one in range(count)]


def planned(home, number):
    """The plan of a batch."""
    return plan_batch(home, MADE, Source(files={f"f{number}": 1}), Options(), NOW)


def batch(home, spreading, number, hot=0):
    """Run a batch of which most rows lie at one of the places; return its document."""
    plan = spreading.routed(planned(home, number))
    rows = [
        {
            "id": one, "t": BEGIN + (60 * number + one % 50) * SECOND, "y": 0.0,
            "x": 0.01 * (hot if one % 3 else 2 * (one % 20)), "attributes": {"occupied": 0, "kind": None},
        }
        for one in range(120)
    ]  # fmt: skip
    done, worked = run_on_workers(plan, rows_of(rows), 2)
    return commit_on_workers(plan, done, worked, spreading.ended(plan, worked, done)).document


def layout_of(home, document):
    """The layout of a commit."""
    return as_layout(open_routing(home, document["layout"]["layout"]["name"]))


def test_another_strategy_begins_anew_even_where_the_old_layout_is_gone(tmp_path):
    """Replicated after ours has everything everywhere, and kd after that does not."""
    home = begun(tmp_path)
    first = batch(home, Spreading(home, SpreadOptions("ours", 3)), 0)
    assert not layout_of(home, first).everywhere
    open_routing.cache_clear()
    home.asked.remove(LAYOUTS, first["layout"]["layout"]["name"])
    second = batch(home, Spreading(home, SpreadOptions("replicated", 3)), 1)
    assert layout_of(home, second).everywhere
    third = layout_of(home, batch(home, Spreading(home, SpreadOptions("kd", 3)), 2))
    assert third.held.sum() == third.cells


def test_the_same_strategy_goes_on_with_another_number_of_workers(tmp_path):
    """Cells of workers that are there stay with them."""
    home = begun(tmp_path)
    spreading = Spreading(home, SpreadOptions("ours", 3, 0))
    before = layout_of(home, batch(home, spreading, 0))
    after = layout_of(home, batch(home, Spreading(home, SpreadOptions("ours", 4, 0)), 1))
    assert after.workers == 4
    stays = (before.held & after.held[:3]).sum()
    assert stays > before.held.sum() / 2


def test_a_beat_decides_nothing(tmp_path):
    """The round that has ended waits for the next batch, of this process and of another one."""
    home = begun(tmp_path)
    spreading = Spreading(home, SpreadOptions("curve", 3))
    first = batch(home, spreading, 0, hot=7)
    for one in (spreading, Spreading(home, SpreadOptions("curve", 3))):
        beaten = one.routed(planned(home, 1), beat=True).routed
        assert (beaten.layout, beaten.ended) == (first["layout"]["layout"], first["load"])
        fresh = one.routed(planned(home, 1)).routed
        assert fresh.layout != first["layout"]["layout"]
        assert fresh.ended is None


def test_a_batch_that_fails_is_decided_again_in_the_same_way(tmp_path):
    """After ``forget`` the commits say what has ended; rows of the batch that failed are in no round."""
    home = begun(tmp_path)
    spreading = Spreading(home, SpreadOptions("curve", 3, 2))
    batch(home, spreading, 0, hot=7)
    second = batch(home, spreading, 1, hot=7)
    assert second["load"] is not None
    once = spreading.routed(planned(home, 2))
    done, worked = run_on_workers(once, rows_of([]), 1)
    assert done
    spreading.ended(once, worked, done)
    spreading.forget()
    again = spreading.routed(planned(home, 2))
    assert again.routed.layout == once.routed.layout
    third = batch(home, spreading, 2)
    assert third["load"] is None


def test_cells_are_cut_anew_where_subscriptions_are_elsewhere(tmp_path):
    """Loads of the old cells count no more; the load of the next round is of the new ones."""
    home = begun(tmp_path, limits=Limits(least_delta=3))
    spreading = Spreading(home, SpreadOptions("ours", 3, 2))
    batch(home, spreading, 0)
    before = batch(home, spreading, 1)
    change(home, [circle(f"far{one}", -40.0 + 2.0 * one, 30.0 + one, 400.0) for one in range(40)])
    third = batch(home, spreading, 2)
    held = [open_routing(home, one["layout"]["layout"]["name"]).grid for one in (before, third)]
    assert held[0] != held[1]
    assert third["load"] is None
    fourth = batch(home, spreading, 3)
    assert fourth["load"] is not None
    assert sum(one["rows"] for one in fourth["work"]) == pytest.approx(fourth["counts"]["accepted"])
    assert fourth["layout"]["since"] == third["layout"]["since"]
    assert np.isfinite(fourth["layout"]["moved"])


@pytest.mark.parametrize(("batches", "ends"), [(2, [False, True, False, True, False]), (0, [False] * 5)])
def test_a_round_may_have_several_batches(tmp_path, batches, ends):
    """The layout changes after the second and the fourth at the earliest, or never."""
    home = begun(tmp_path)
    spreading = Spreading(home, SpreadOptions("curve", 3, batches))
    documents = [batch(home, spreading, number, hot=7) for number in range(5)]
    assert [one["load"] is not None for one in documents] == ends
    assert {one["layout"]["since"] for one in documents} <= ({1, 3, 5} if batches else {1})
    assert [one["layout"]["round"] for one in documents] == ([0, 0, 1, 1, 2] if batches else [0] * 5)


def test_a_round_lasts_as_long_as_is_said(tmp_path):
    """However many batches that are; it is 15 seconds where nothing is said."""
    home = begun(tmp_path)
    long = Spreading(home, SpreadOptions("kd", 2, seconds=3600.0))
    assert [batch(home, long, number)["load"] for number in range(3)] == [None] * 3
    said = spread_said(SpreadWishes("kd", 2))
    assert (said.batches, said.seconds) == (1, 15.0)
    assert spread_said(SpreadWishes("kd", 2, "4")) == SpreadOptions("kd", 2, 4)


def test_nothing_is_kept_for_a_round_that_never_ends(tmp_path):
    """Batch after batch, where layouts never change."""
    home = begun(tmp_path)
    spreading = Spreading(home, SpreadOptions("kd", 3, 0))
    held = []
    for number in range(4):
        batch(home, spreading, number)
        held.append(sum(len(value) for value in vars(spreading).values() if isinstance(value, list)))
    assert held == [0] * 4
