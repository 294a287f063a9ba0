"""Live patterns are those of the job on the whole log, to the byte: made requests, bad rows, real check-ins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from ceps.model.servers import RequestCosts
from dtoss.snapshots.store import Store
from pipelines.patterns import patterns
from pipelines.rows.access_rows import access_columns
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from tests.data import real_set
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.load_patterns.logs import ASKS, World, flushes, following, other_pivots, world_in, write

COSTS = RequestCosts(((1.0, 0.5), (8.0, 1.0), (16.0, 40.0)), ((1e4, 0.25), (3e5, 90.0)))
SERVERS = 3


def of_the_job(session, world, asks, out):
    """What ``dtoss patterns`` makes of the log; its file is written."""
    columns = access_columns(asks)
    counted = patterns(read_positions(session, look([str(world.log)]), columns), world.store, asks)
    ceps.write_patterns(out, counted.patterns)
    return counted


def with_bad_rows(rows, geographic=True):
    """Rows of which some are of no use, each in its own way, and weights that are no whole numbers."""
    bad = rows.to_pylist()
    x, y = ("lon", "lat") if geographic else ("x", "y")
    for at, (name, value) in enumerate(
        [
            ("t", None), (x, None), (y, float("nan")), (x, float("inf")), (x, 181.0 if geographic else 1e95),
            (y, -90.5), ("weight", -1.0), ("weight", None), ("weight", 2e9), ("k", 0), ("k", 2_000_000),
            ("radius", -1.0), ("radius", float("nan")), ("radius", float("inf")), ("weight", 0.0),
        ]
    ):  # fmt: skip
        bad[3 * at + 1][name] = value
    rng = np.random.default_rng(1)
    for row in bad[100:]:
        row["weight"] = float(rng.choice([0.5, 1e-7, 2.4999995, 3.0, 1.23456789]))
    return pa.Table.from_pylist(bad, schema=rows.schema.set(5, pa.field("weight", pa.float64())))


@pytest.mark.parametrize("kind", ["costly", "plane"])
def test_live_patterns_equal_the_job(session, tmp_path, kind):
    """Bad rows, halves of millionths, a zone whose clocks change, each weekday, costs, and a plane."""
    world = world_in(tmp_path / "store", count=500)
    asks = replace(ASKS, time_zone="Europe/Berlin", slot_seconds=900, by_weekday=True, smooth_seconds=3600)
    if kind == "costly":
        asks = replace(asks, costs=COSTS, requests_per_access=2.0)
    if kind == "plane":
        places = np.stack([world.table["lon"].to_numpy(), world.table["lat"].to_numpy()], axis=1) * 1e4
        index = dtoss.build(np.arange(len(places)), places, partitions=7, crs="none")
        rows = world.rows.set_column(1, "x", pa.array(world.rows["lon"].to_numpy() * 1e4))
        rows = rows.set_column(2, "y", pa.array(rows["lat"].to_numpy() * 1e4)).set_column(
            4, "radius", pa.array(np.where(np.arange(len(rows)) % 3 == 0, 3e4, np.inf))
        )
        store = stored(index, tmp_path / "plane")
        world = World(str(store), world.table, rows, Store(str(store)).manifest())
    rows = with_bad_rows(world.rows, kind != "plane")
    files = list(flushes(rows.filter(pa.compute.is_valid(rows["t"])), np.random.default_rng(6)).items())
    write(world.log, dict(files[:9]))
    said = []
    live = following(world, tmp_path / "live.parquet", asks, say=lambda look, counted: said.append(counted))
    live.once()
    if kind == "costly":
        other_pivots(world.store)
    write(world.log, dict(files[9:]))
    write(world.log, {"2026-03-27/000-late-0-0.parquet": rows.filter(pa.compute.is_null(rows["t"]))})
    live.once()
    wanted = of_the_job(session, world, asks, tmp_path / "job.parquet")
    found = said[-1]
    assert (tmp_path / "live.parquet").read_bytes() == (tmp_path / "job.parquet").read_bytes()
    assert sum(found.bad.values()) == (12 if kind == "plane" else 13)  # -90.5 is a y like any other
    assert {**vars(found), "patterns": 0} == {**vars(wanted), "patterns": 0}


@pytest.mark.parametrize(
    "name",
    ["brightkite_checkins", pytest.param("gowalla_checkins", marks=pytest.mark.deep("another set of the same kind"))],
)
def test_real_check_ins_as_a_log(session, tmp_path, name):
    """Each check-in is a request of one of three servers for what is near: of weights, by files of a day each."""
    table = pq.read_table(real_set(name), columns=["lon", "lat", "t"])
    rng = np.random.default_rng(9)
    table = table.take(pa.array(np.sort(rng.permutation(len(table))[:40_000])))
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    unlike = np.unique(places, axis=0)
    index = dtoss.build(np.arange(len(unlike)), unlike, partitions=24)
    world = World(str(stored(index, tmp_path / "store")), table, table, {})
    n = len(table)
    rows = table.select(["t", "lon", "lat"])
    rows = rows.append_column("k", pa.array(np.full(n, 8, np.int32), mask=rng.random(n) < 0.6))
    rows = rows.append_column("radius", pa.array(rng.uniform(0, 2e4, n), mask=rng.random(n) < 0.6))
    rows = rows.append_column("weight", pa.array(rng.integers(1, 50, n))).sort_by("t")
    # a log of more files than days, not one of each day
    files = list(flushes(rows, rng, SERVERS, 60).items())
    asks = replace(ASKS, by_weekday=True)
    for part in np.array_split(rng.permutation(len(files)), 3):
        write(world.log, dict(files[i] for i in part))
        following(world, tmp_path / "live.parquet", asks).once()
    of_the_job(session, world, asks, tmp_path / "job.parquet")
    assert (tmp_path / "live.parquet").read_bytes() == (tmp_path / "job.parquet").read_bytes()
