"""Where the groups of the next batch are: they stay on noise, move within a budget, and follow workers that change."""

from __future__ import annotations

import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.buckets import BUCKETS
from dtoss.errors import InputError
from dtoss.windows.storage.group_placement import Load, as_json, even, placement_of
from dtoss.windows.storage.window_document import DOCUMENT_FORMAT, FILE_KINDS, Home, head_of
from pipelines.windowing import window_batches
from pipelines.windowing.window_batches import day_pattern, moving_of, placed
from tests.dtoss.windows.storage.kept import ALL, PLANE, SECOND, SITES, begin, commit, made, spec
from tests.pipelines.windowing.counted_files import run_windows

MINUTE = 60_000_000


def stood(folder, placement, rows, marks=(0,), held=None):
    """Windows with commits that say rows of groups, one for each watermark in minutes; their home."""
    home = Home(str(folder), "w")
    home.folder.make()
    for mark in marks:
        head = home.batches.head()
        before = {} if head is None else head.document
        held = np.full(BUCKETS, 1_000) if held is None else held
        loads = [Load(worker, np.asarray(rows), held, 0.5) for worker in range(placement.workers)]
        document = {name: [] for name in FILE_KINDS} | {
            "kind": "windows", "format": DOCUMENT_FORMAT, "watermark": mark * MINUTE, "watermark_before": None,
            "counts": {}, "totals": {}, "reasons": {}, "reached": [[], []],
            "placement": as_json(placement, before, loads),
        }  # fmt: skip
        home.batches.append(document, head)
        placement = placement_of(document)
    return home


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


@pytest.mark.parametrize(
    ("before", "workers", "groups"),
    [
        (3, 4, [64, 64, 64, 64]),
        pytest.param(2, 3, [85, 85, 85], marks=pytest.mark.deep("shares that are not whole, searched for long")),
    ],
)
def test_where_nothing_has_come_each_worker_has_as_many_groups(tmp_path, before, workers, groups):
    """Also one that is new."""
    empty = stood(tmp_path, even(before), np.zeros(BUCKETS, np.int64))
    assert np.bincount(next_of(empty, workers=workers).worker_of).tolist() == pytest.approx(groups, abs=2)


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


def test_workers_of_spark_come_and_go_and_results_are_those_of_one(session, monkeypatch, tmp_path):
    """Three batches by two, five and three workers; files of results have the bytes of a run without Spark.

    Tasks of the second one run where the command runs, the others' in Spark.
    """
    sites, folder, wanted = tmp_path / "sites.csv", tmp_path / "in", spec(measures=ALL)
    sites.write_text("id,x,y\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES.tolist())))
    asked = {
        "lengths": "4s,10s", "slide": "2s", "measures": ALL, "by": f"sites:{sites}", "late": "5s", "max_gap": "6s",
    }  # fmt: skip
    folder.mkdir()
    alone, fixed = begin(tmp_path / "alone", wanted)
    home, before = Home(str(tmp_path / "store"), "w"), None
    for number, (rows, workers) in enumerate(zip(made(8, batches=3, ids=40), (2, 5, 3), strict=True)):
        who, t, x, y = (list(column) for column in zip(*rows, strict=True))
        pq.write_table(pa.table({"id": who, "t": np.array(t) / SECOND, "x": x, "y": y}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1, 1))
        monkeypatch.setattr(window_batches, "FEW_ROWS_BYTES", 1 << 30 if workers == 5 else -1)
        moving = moving_of(workers, "1s", "100%")
        told = run_windows(
            str(folder), home.store, "w", lambda: session, asked, space=PLANE, once=True, max_bad=1.0, moving=moving
        )
        document = head_of(home).commit.document
        assert (told.batches, len(document["placement"]["workers"])) == (1, workers)
        assert document["results"] == commit(alone, fixed, rows).document["results"]
        assert sum(one["rows"] for one in document["placement"]["workers"]) == len(rows)
        assert (document["placement"]["moved"]["groups"] > 0) == (before is not None)
        before = document
