"""The load of a watch's workers as patterns: rows in their slots, weighed by what they cost; a file that plans read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from ceps import read_patterns
from dtoss.commits.offsets import Source
from dtoss.errors import InputError
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.sharding.routing_grid import RoutingGrid
from dtoss.watch.sharding.sharded_batch import RoundLoad, commit_on_workers, write_load
from dtoss.watch.watch_folder import Home
from pipelines.simulation.load_patterns import patterns_of_watch
from tests.dtoss.watch.streams import NOW, change, circle, random_rows, rows_of, settings_of
from tests.dtoss.watch.watch_batch import run_on_workers
from tests.pipelines.watching.drawn_layouts import drawn_routing, routed_by

GRID = RoutingGrid(2, 3, -180.0, 10.0, 0.0, 3.0, 2.0)


def moment(day, hour, minute=0, second=0):
    """A time of November 2026, in microseconds since 1970."""
    return int(datetime(2026, 11, day, hour, minute, second, tzinfo=UTC).timestamp()) * 1_000_000


def load(begin, end, cells, rows, seconds, grid=GRID):
    """The load of a round."""
    count = len(cells)
    return RoundLoad(
        grid, np.array(cells), np.array(rows), np.zeros(count, int), np.zeros(count, int), np.array(seconds, float),
        np.ones(count, int), np.full(count, 100.0), begin, end, (1.0, 0.0, 0.0, 0.0),
    )  # fmt: skip


def watched(folder, loads):
    """A watch of which each batch is a round with such a load."""
    home, made = Home(str(folder), "w"), settings_of()
    change(home, [circle("a", 0.0, 0.0, 1000.0)])
    rng = np.random.default_rng(0)
    for number, one in enumerate(loads):
        plan = plan_batch(home, made, Source(files={f"f{number}": 1}), Options(), NOW)
        plan = replace(plan, routed=routed_by(plan, drawn_routing(rng, GRID)))
        done, worked = run_on_workers(plan, rows_of(random_rows(rng, 4)))
        commit_on_workers(plan, done, worked, None if one is None else write_load(home, one))
    return home


def test_rows_are_in_the_slots_of_their_rounds(tmp_path):
    """A round over a border is in both; a slot that was seen on two days is their mean; a dear row counts more."""
    home = watched(
        tmp_path,
        [
            load(moment(2, 8), moment(2, 8, 30), [1, 4], [900, 100], [9.0, 1.0]),
            None,
            load(moment(3, 8, 59), moment(3, 9, 1), [1], [1000], [10.0]),
            load(moment(3, 23, 59), moment(4, 0, 1), [5], [200], [6.0]),
        ],
    )
    found = patterns_of_watch(home, 3600)
    assert (found.rounds, found.left_out, found.rows) == (3, 0, 2200)
    assert found.seconds_a_row == pytest.approx(26.0 / 2200)
    patterns = found.patterns
    assert patterns.partitions.tolist() == [1, 4, 5]
    a_row = 26.0 / 2200
    wanted = np.zeros((3, 24))
    wanted[0, 8], wanted[0, 9] = (9.0 / a_row + 5.0 / a_row) / 2, 5.0 / a_row
    wanted[1, 8] = 1.0 / a_row / 2
    wanted[2, 23] = wanted[2, 0] = 3.0 / a_row
    assert patterns.loads == pytest.approx(wanted / 3600)
    assert patterns.positions.tolist() == [[-168.5, 0.5], [-168.5, 1.5], [-167.5, 1.5]]
    berlin = patterns_of_watch(home, 3600, "Europe/Berlin").patterns
    assert berlin.loads[0, 9] == pytest.approx(patterns.loads[0, 8])


def test_the_command_writes_a_file_that_a_plan_reads(tmp_path, command):
    """And says how many mean rows a second a core has; rounds of other cells are left out and counted."""
    other = replace(GRID, rows=5)
    home = watched(
        tmp_path / "store",
        [
            load(moment(2, 8), moment(2, 9), [1], [9], [1.0], other),
            load(moment(2, 9), moment(2, 10), [1, 2], [7200, 3600], [2.0, 1.0]),
        ],
    )
    out = tmp_path / "patterns.parquet"
    patterns = ("patterns", "--store", home.store, "--watch", "w", "--out", out)
    ran = command(*patterns, "--slot-minutes", 60, "--json")
    assert ran.code == 0
    facts = ran.json
    assert (facts["rounds"], facts["leftOut"], facts["rows"], facts["cells"]) == (1, 1, 10_800, 2)
    assert facts["rowsASecondOfACore"] == pytest.approx(3600.0)
    held = read_patterns(out)
    assert held.loads[:, 9].tolist() == pytest.approx([2.0, 1.0])
    assert held.sizes.tolist() == [100.0, 100.0]
    for more, wanted in (
        (["--live"], "--live does not go with --watch"),
        (["rows.csv"], "ACCESSES does not go with --watch"),
        (["--slot-minutes", "7"], "a slot of 420 s does not divide a day"),
        (["--time-zone", "Mars/City"], "--time-zone is 'Mars/City'"),
    ):
        assert wanted in command.fails(*patterns, *more)


def test_a_watch_without_workers_has_no_load(tmp_path):
    """It is said, as is a watch that is not there."""
    home = watched(tmp_path, [None])
    with pytest.raises(InputError, match="watch w has no load: its rows were not spread over workers"):
        patterns_of_watch(home)
    with pytest.raises(InputError, match="there is no watch 'x'"):
        patterns_of_watch(Home(home.store, "x"))
