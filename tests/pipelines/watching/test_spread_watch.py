"""A watch that spreads its rows over workers with Spark: events of one that does not, layouts that change, loads."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import pipelines.watching.spreading
import pipelines.watching.watch_batches
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.processing.watch_plan import Options
from dtoss.watch.sharding.sharded_batch import read_load
from dtoss.watch.watch_folder import LOAD, Home
from pipelines.spark.session import cores
from pipelines.watching.spreading import SpreadOptions
from pipelines.watching.watch_batches import Watching
from tests.dtoss.watch.streams import SECOND, change, random_asked, random_rows, run, settings_of
from tests.pipelines.watching.arrivals import all_told, arrive, once
from tests.pipelines.watching.drawn_layouts import Drawn


def streams(session, tmp_path, spreads, files=4, seed=3):
    """Watch one stream plainly, without Spark, and as each spread says, a run for each; return both stores."""
    rng = np.random.default_rng(seed)
    plain, spread, incoming = (tmp_path / name for name in ("plain", "spread", "in"))
    rows = sorted(random_rows(rng, 40 * files, objects=8, seconds=200), key=lambda row: row["t"])
    for number, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        asked = [random_asked(rng, f"s{one}") for one in range(number, number + 4)]
        for store in (plain, spread):
            change(Home(str(store)), asked)
        arrive(incoming, f"part{number}", [rows[row] for row in part])
        run(Home(str(plain)), settings_of(), [rows[row] for row in part], cores(session), expire=30 * SECOND)
        Watching(Home(str(plain)), Options(30 * SECOND)).beat()
        once(session, incoming, spread, expire=30.0, spread=spreads[number % len(spreads)])
    return plain, spread


def test_events_are_those_of_a_watch_that_spreads_nothing(session, tmp_path, monkeypatch, unfolded):
    """Layouts that change with every batch, three workers, then two, then one that has everything."""
    real = pipelines.watching.spreading.strategy_as_said
    monkeypatch.setattr(
        pipelines.watching.spreading, "strategy_as_said",
        lambda spread: Drawn(spread.workers) if spread.strategy == "drawn" else real(spread),
    )  # fmt: skip
    plain, spread = streams(
        session, tmp_path, [SpreadOptions("drawn", 3), SpreadOptions("drawn", 2), SpreadOptions("ours", 4)], files=3
    )
    assert all_told(spread) == all_told(plain)
    assert sum(map(len, all_told(plain))) > 20
    home = Home(str(spread))
    assert verify_watch(home).damaged == []
    documents = [home.batches.read(number).document for number in range(1, home.batches.head().number + 1)]
    batches = [one for one in documents if one["batch"]["query"] or one["counts"]["rows"]]
    assert {one["layout"]["workers"] for one in batches} == {2, 3, 4}
    rounds = [one["layout"]["round"] for one in batches]
    assert rounds == sorted(rounds)
    assert len(set(rounds)) == len(batches)
    for one in batches:
        assert sum(worker["rows"] for worker in one["work"]) == one["counts"]["accepted"]
        assert all(worker["sent"] >= worker["rows"] for worker in one["work"])


def test_what_a_round_has_cost_is_kept(session, tmp_path, unfolded):
    """By cell: rows that came, candidates, matches, seconds of the tasks, what is stored; with prices and the grid."""
    _, spread = streams(session, tmp_path, [SpreadOptions("ours", 2)], files=1)
    home = Home(str(spread))
    document = home.batches.read(1).document
    load = read_load(home, document["load"]["name"])
    assert load.rows.sum() == document["counts"]["accepted"]
    assert load.matches.sum() == sum(one["matches"] for one in document["work"])
    assert load.candidates.sum() == sum(one["candidates"] for one in document["work"])
    assert load.seconds.sum() == pytest.approx(sum(one["seconds"] for one in document["work"]), rel=1e-3)
    assert (load.cell < load.grid.cells).all()
    assert load.begin_us == document["batch"]["wall_us"] <= load.end_us
    path = home.folder.path(LOAD, document["load"]["name"])
    assert pq.read_table(path).num_rows == len(load.cell) == document["load"]["rows"]


@pytest.mark.deep("ten batches in Spark; rounds of several are in test_spreading.py without it")
def test_a_round_may_have_several_batches(session, tmp_path, unfolded):
    """Of one process; the layout changes after the second and the fourth at the earliest, or never."""
    rng = np.random.default_rng(5)
    incoming = tmp_path / "in"
    rows = sorted(random_rows(rng, 200, objects=8, seconds=200), key=lambda row: row["t"])
    for number in range(5):
        arrive(incoming, f"part{number}", rows[40 * number : 40 * number + 40])
    loads = {}
    for batches in (2, 0):
        store = tmp_path / str(batches)
        change(Home(str(store)), [random_asked(rng, f"s{one}") | {"expires": None} for one in range(8)])
        once(session, incoming, store, spread=SpreadOptions("curve", 3, batches), most_rows=1)
        home = Home(str(store))
        documents = [home.batches.read(number).document for number in range(1, home.batches.head().number + 1)]
        loads[batches] = [one["load"] is not None for one in documents if one["counts"]["rows"]]
        changed = [one["layout"]["since"] for one in documents]
        assert set(changed) <= ({1, 3, 5} if batches else {1})
    assert loads == {2: [False, True, False, True, False], 0: [False] * 5}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--workers", "3"], "--workers goes with --strategy NAME"),
        (["--rebalance", "off"], "--rebalance goes with --strategy NAME"),
        (["--memory", "4g"], "--memory goes with --strategy NAME"),
        (["--strategy", "ours"], "--strategy ours wants --workers N"),
        (["--strategy", "our", "--workers", "3"], "there is no strategy 'our'; did you mean ours?"),
        (["--strategy", "ours", "--workers", "9999"], "workers = 9999; it must be a whole number from 1 to 4096"),
        (["--strategy", "ours", "--workers", "3", "--rebalance", "often"], "--rebalance 'often': round, off, or a num"),
        (["--strategy", "ours", "--workers", "3", "--rebalance", "0"], "--rebalance '0': round, off, or a number"),
        (["--strategy", "auto", "--workers", "3"], "strategy 'auto' wants the memory of a worker (--memory 4g)"),
        (["--strategy", "auto", "--workers", "3", "--memory", "4"], "'4' is no size: a number and a unit are wanted"),
    ],
)
def test_options_that_do_not_go_together_are_said(tmp_path, command, options, wanted):
    """In a line, before anything is begun."""
    store = tmp_path / "store"
    assert wanted in command.fails("watch", tmp_path, "--store", store, "--once", *options)
    assert not store.exists()
