"""Where the groups of the next batch are: they stay on noise, move within a budget, and follow workers that change."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dtoss.buckets import BUCKETS
from dtoss.errors import InputError
from dtoss.windows.stored.document import head_of
from dtoss.windows.stored.home import Home
from dtoss.windows.stored.placement import Load, as_json, even, placement_of
from pipelines.windowing.moving import day_pattern, moving_of, placed

MINUTE = 60_000_000
NOTHING = dict.fromkeys(("objects", "patches", "panes", "results", "quarantine"), ())


def stood(folder, placement, rows, marks=(0,), held=None):
    """Windows with commits that say rows of groups, one for each watermark in minutes; their home."""
    home = Home(str(folder), "w")
    home.folder.make()
    for mark in marks:
        head = home.batches.head()
        before = {} if head is None else head.document
        held = np.full(BUCKETS, 1_000) if held is None else held
        loads = [Load(worker, np.asarray(rows), held, 0.5) for worker in range(placement.workers)]
        document = {name: [] for name in NOTHING} | {
            "kind": "windows", "format": format_of(), "watermark": mark * MINUTE, "watermark_before": None,
            "counts": {}, "totals": {}, "reasons": {}, "reached": [[], []],
            "placement": as_json(placement, before, loads),
        }  # fmt: skip
        home.batches.append(document, head)
        placement = placement_of(document)
    return home


def format_of():
    """The format of documents of now."""
    from dtoss.windows.stored.document import DOCUMENT_FORMAT

    return DOCUMENT_FORMAT


def next_of(home, **given):
    """The placement of the next batch."""
    return placed(moving_of(**given), 2, home, head_of(home))


def skewed(workers=4):
    """Rows of groups of which worker 0 has twice as many by number."""
    return np.where(np.arange(BUCKETS) % workers == 0, 200, 100)


def test_the_first_batch_has_groups_by_number(tmp_path):
    """As many workers as cores, if the user says nothing."""
    home = Home(str(tmp_path), "w")
    assert placed(moving_of(), 3, home, None) == even(3)
    assert placed(moving_of(7), 3, home, None) == even(7)
    assert placed(moving_of(), 900, home, None).workers == BUCKETS


def test_noise_moves_nothing_and_a_skew_moves_no_more_than_the_budget(tmp_path):
    """The same commits give the same placement; off leaves all."""
    noise = np.random.default_rng(1).poisson(20, BUCKETS)
    stays = next_of(stood(tmp_path / "a", even(4), noise), workers=4)
    assert stays.worker_of == even(4).worker_of
    assert stays.why.startswith("looked at, stays")
    home = stood(tmp_path / "b", even(4), skewed())
    assert next_of(home, workers=4, rebalance="off").worker_of == even(4).worker_of
    for budget, most in (("1%", 2), ("5%", 12), ("3000", 3), ("100%", BUCKETS)):
        found = next_of(home, workers=4, move_budget=budget)
        changed = np.flatnonzero(np.array(found.worker_of) != even(4).worker_of)
        assert 0 < len(changed) <= most
        assert set(np.array(even(4).worker_of)[changed]) == {0} or most == BUCKETS
        assert found.looked == 0
        assert found == next_of(home, workers=4, move_budget=budget)
    loads = np.bincount(found.worker_of, skewed(), 4)
    assert loads.max() / loads.mean() < 1.02


def test_loads_are_looked_at_after_so_much_time_of_the_rows(tmp_path):
    """Rows since the last look count, none twice."""
    home = stood(tmp_path, even(4), skewed())
    moved = next_of(home, workers=4, move_budget="100%")
    home = stood(tmp_path / "on", moved, skewed(), marks=(10, 29))
    stays = next_of(home, workers=4)
    assert (stays.worker_of, stays.looked, sum(stays.since)) == (moved.worker_of, 0, 2 * skewed().sum())
    assert next_of(home, workers=4, rebalance="15min").looked == 29 * MINUTE


def test_groups_follow_workers_that_go_and_come(tmp_path):
    """Only groups of one that is gone, and as many as a new one needs, by what each hour of the day has."""
    rng = np.random.default_rng(2)
    rows = rng.integers(50, 150, BUCKETS)
    home = stood(tmp_path, even(5), rows, marks=(0, 60, 120))
    assert day_pattern(home, head_of(home)).shape == (BUCKETS, 3)
    old = np.array(even(5).worker_of)
    fewer = np.array(next_of(home, workers=4).worker_of)
    assert set(fewer) == set(range(4))
    assert (fewer != old)[old < 4].mean() <= 0.02
    loads = np.bincount(fewer, rows, 4)
    assert loads.max() / loads.mean() < 1.05
    more = np.array(next_of(home, workers=6).worker_of)
    assert set(more) == set(range(6))
    assert (more != old).mean() <= 1.25 / 6 + 0.01
    loads = np.bincount(more, rows, 6)
    assert loads.max() / loads.mean() < 1.05
    empty = stood(tmp_path / "none", even(2), np.zeros(BUCKETS, np.int64))
    assert np.bincount(next_of(empty, workers=3).worker_of).tolist() == pytest.approx([85, 85, 85], abs=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workers": 0}, "--workers is 0: 1 to 256 are wanted"),
        ({"workers": 257}, "--workers is 257"),
        ({"rebalance": "soon"}, "--rebalance is 'soon'"),
        ({"move_budget": "much"}, "move budget 'much' is neither bytes, such as 2e9, nor a share of them"),
    ],
)
def test_bad_options_are_refused(given, said):
    """With the value, the bound and the way out."""
    with pytest.raises(InputError, match=re.escape(said)):
        moving_of(**given)
