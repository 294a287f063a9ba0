"""A server's access log makes the same patterns as all requests: exactly as many, spread within the sample's error."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import dtoss
from datasets.hotspots import hotspots
from dtoss.serve.observability import access_log, partition_counts
from pipelines.patterns import patterns
from pipelines.rows.access_rows import Asks, access_columns
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from tests.clocks import clocked
from tests.pipelines.stores import made

MINUTES, EACH, KEPT = 30, 1_000, 250
MORNING = 1_767_258_000  # 2026-01-01 09:00 UTC
KEYS = ("t", "lon", "lat", "k", "radius")


def made_requests(table, rng):
    """Requests of each minute: near objects, of which others are popular in each slot; half ask for k, half within."""
    popular = rng.dirichlet(np.full(len(table), 0.05), MINUTES // 5)
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    for minute in range(MINUTES):
        at = places[rng.choice(len(table), EACH, p=popular[minute // 5])] + rng.normal(0.0, 0.5, (EACH, 2))
        at = np.clip(at, (-180, -90), (180, 90))
        near = rng.random(EACH) < 0.5
        k, radius = rng.integers(1, 20, EACH).astype(float), rng.uniform(0.0, 2e5, EACH)
        yield minute, at[:, 0], at[:, 1], np.where(near, k, np.nan), np.where(near, np.nan, radius)


def test_the_log_of_a_server_and_all_of_its_requests_make_the_same_patterns(session, tmp_path, monkeypatch):
    """30,000 requests of six slots, of which a quarter is kept; a file that is half written is passed over."""
    table = pa.Table.from_batches(hotspots(1_500, seed=3, count=8)).drop(["hotspot"])
    store, folder = str(tmp_path / "store"), tmp_path / "store" / "accesses"
    index = dtoss.open(made(table, store, partitions=9))
    clock = SimpleNamespace(now=float(MORNING))
    clocked(monkeypatch, partition_counts, lambda: clock.now)
    all_day = access_log.Amounts(minute=1e6)
    log = access_log.Accesses(str(folder), index.space, sample=KEPT, server="s", seed=7, amounts=all_day)
    whole = {name: [] for name in KEYS}
    for minute, lon, lat, k, radius in made_requests(table, np.random.default_rng(5)):
        clock.now = MORNING + 60.0 * minute + 1.0
        for some in np.array_split(np.arange(EACH), 90):
            log.many(lon[some], lat[some], k[some], radius[some])
        for name, values in zip(KEYS, (np.full(EACH, int(clock.now * 1e6)), lon, lat, k, radius), strict=True):
            whole[name].append(values)
        clock.now += 58.0
        log._take()
    log.close()
    columns = {name: np.concatenate(parts) for name, parts in whole.items()}
    arrays = {name: pa.array(values, mask=np.isnan(values)) for name, values in columns.items()}
    pq.write_table(pa.table(arrays | {"t": arrays["t"].cast(pa.timestamp("us", "UTC"))}), tmp_path / "all.parquet")
    (folder / "2026-01-01" / ".half.parquet.x").write_bytes(b"PAR1")
    assert len(list(folder.rglob("[0-9]*.parquet"))) == MINUTES

    def counted(path, weight, asking):
        asks = Asks(weight=weight, **asking)
        return patterns(read_positions(session, look([str(path)]), access_columns(asks)), store, asks)

    sampled, all_of_them = (counted(*one, {}) for one in ((folder, "weight"), (tmp_path / "all.parquet", None)))
    assert sampled.read == MINUTES * KEPT
    assert sampled.bad == all_of_them.bad
    assert sampled.requests == all_of_them.requests == MINUTES * EACH
    some, wanted = (one.patterns[0].loads * 300.0 for one in (sampled, all_of_them))
    np.testing.assert_allclose(some.sum(axis=0), wanted.sum(axis=0), rtol=1e-12)  # exact in each slot
    cells = wanted > 0
    # what is drawn without being put back varies less, by the share that is not drawn
    error = EACH / KEPT * (1 - KEPT / EACH)
    statistic = ((some[cells] - wanted[cells]) ** 2 / wanted[cells]).sum() / error
    freedom = cells.sum() - cells.any(axis=0).sum()
    assert chi2.ppf(0.001, freedom) < statistic < chi2.ppf(0.99, freedom)

    sampled, all_of_them = (
        counted(*one, {"k": "k", "radius": "radius"}) for one in ((folder, "weight"), (tmp_path / "all.parquet", None))
    )
    assert sampled.requests == all_of_them.requests == MINUTES * EACH
    assert all_of_them.reads > 1.05 * all_of_them.requests
    assert sampled.reads == pytest.approx(all_of_them.reads, rel=0.02)
