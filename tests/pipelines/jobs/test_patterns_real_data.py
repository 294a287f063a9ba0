"""Real places and check-ins from a rebuild to the report, where the data are; made data test the same elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import ceps
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.patterns import patterns
from pipelines.plan import plan
from pipelines.rebuild import rebuild
from pipelines.report import report
from pipelines.rows.access_rows import Asks
from tests.data import real_set

PEAK = 12_400.0


@pytest.mark.parametrize(
    "size", [5000, pytest.param(500, marks=pytest.mark.deep("ten times the partitions on the same way"))]
)
def test_gowalla_from_places_to_report(engine, tmp_path, size):
    """Every check-in is counted where its place is; the plan holds; the report shows it beside the competitors."""
    placed, asked = real_set("gowalla_poi_weights"), real_set("gowalla_checkins")
    store = str(tmp_path / "store")
    rebuild(engine.createDataFrame(pq.read_table(placed)), store, objects_per_partition=size)
    asks = Asks(smooth_seconds=1800)
    counted = patterns(engine.createDataFrame(pq.read_table(asked, columns=["lon", "lat", "t"])), store, asks)
    table = pq.read_table(asked, columns=["lon", "lat"])
    manifest = Store(store).manifest()
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    places = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])
    wanted = np.bincount(regions.nearest(space.vectors(places)), minlength=len(regions))
    made = counted.patterns[0]
    np.testing.assert_allclose(made.loads.sum(axis=1) * 300 * made.days, wanted, rtol=1e-9)
    assert (counted.read, counted.bad) == (len(table), {})
    files = tmp_path / "patterns.parquet", tmp_path / "plan.json"
    ceps.write_patterns(files[0], made.scaled(PEAK / made.peak))
    found, _ = plan(str(files[0]), "m3-2015", store=store, prove=5.0)
    assert (found.peaks <= 0.9 * found.capacity * (1 + 1e-9)).all()
    assert found.loads.sum() == pytest.approx(made.loads.sum() * PEAK / made.peak)
    assert found.gap < (1.15 if size == 5000 else 1 + 1e-9)
    found.save(files[1])
    page = report([str(files[1])], str(tmp_path / "report"), store=store, methods=True)
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert numbers["recommendedDailyRate"] == found.cost_per_day
    costs = {row["method"]: row["dailyRate"] for row in numbers["methods"]}
    assert costs["fleet"] <= min(costs[name] for name in ("gp", "gp-r", "tv", "tabu"))
