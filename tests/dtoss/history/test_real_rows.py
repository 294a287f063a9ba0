"""Real rows: every kind of question equals numpy's brute force over one table, by each order and by all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from datasets.geolife import geolife
from dtoss.geometry.distance import distance
from dtoss.history.layouts.compaction import settle
from dtoss.history.row_blocks import rows_of
from dtoss.history.sums import sum_of
from tests.data import RAW, real_set
from tests.dtoss.history.worlds import SPHERE, new_home, put_batch, schema_of

SETS = {
    "cabspotting_sf": "int64",
    "ais_piraeus": "int64",
    "aircraft_adsb": "string",
    "earthquakes_usgs_month": "string",
    "gowalla_checkins": "int64",
    "brightkite_checkins": "int64",
    "geolife": "int64",
}
ROWS = 40_000
"""Rows of each set, evenly chosen."""


def rows_in(name, id_type):
    columns = ["uid", "t", "lon", "lat"]
    table = geolife_rows().select(columns) if name == "geolife" else pq.read_table(real_set(name), columns=columns)
    step = max(len(table) // ROWS, 1)
    table = table.take(pa.array(np.arange(0, len(table), step))).rename_columns(["id", "t", "x", "y"])
    return rows_of(table, schema_of(SPHERE, id_type))


def geolife_rows():
    """Trips of one person, as GeoLife has them."""
    if not (RAW / "geolife").is_dir():
        pytest.skip(f"no raw samples in {RAW}")
    return pa.Table.from_batches([rows for rows, _ in geolife([RAW / "geolife"])])


ALIKE = {"cabspotting_sf": "taxis move as ships do", "brightkite_checkins": "people check in as in gowalla"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep(ALIKE[name])] if name in ALIKE else []) for name in SETS]
)
def test_answers_equal_brute_force(tmp_path, name):
    """Discs, boxes, nearest objects, tracks and moments, in intervals of all lengths, at places of the rows."""
    rows = rows_in(name, SETS[name])
    schema = schema_of(SPHERE, SETS[name])
    home, n = new_home(tmp_path / "h"), len(rows)
    for i in range(9):
        put_batch(home, rows.slice(i * n // 9, (i + 1) * n // 9 - i * n // 9), schema, str(i))
    orders = ["time", "place", "object"]
    version = settle(home, orders=orders, period_bytes=20_000.0, leaf_bytes=30_000.0).version
    assert (version.rows, version.sum) == (n, sum_of(rows))
    history = dtoss.history.open(home.path)
    t = rows.column("t").cast(pa.int64()).to_numpy()
    ids = np.array([str(i) for i in rows.column("id").to_pylist()]) if SETS[name] == "string" else rows["id"].to_numpy()
    places = np.stack([rows.column(axis).to_numpy() for axis in ("x", "y")], axis=1)
    vectors = SPHERE.vectors(places)
    rng = np.random.default_rng(3)
    for _ in range(12):
        here = places[rng.integers(n)] + rng.normal(0, 0.002, 2)
        here = np.clip(here, [-180, -90], [180, 90])
        first, last = np.sort(t[rng.integers(0, n, 2)])
        between = (
            None if rng.random() < 0.3 else tuple(pa.array([first, last]).cast(pa.timestamp("us", "UTC")).to_pylist())
        )
        timely = np.ones(n, bool) if between is None else (t >= first) & (t <= last)
        far = distance(vectors, SPHERE.vectors(here[None]))
        radius = float(rng.choice([0.0, 300.0, 5000.0, 2e6]))
        mine = np.flatnonzero(timely & (far <= radius))
        mine = mine[np.lexsort((t[mine], ids[mine], far[mine]))]
        hits = history.range(here, radius, between=between)
        assert hits.distance.tolist() == far[mine].tolist()
        assert hits.id.tolist() == ids[mine].tolist()
        assert hits.columns["t"].cast(pa.int64()).to_pylist() == t[mine].tolist()
        assert history.count(here, radius, between=between).tolist() == [len(mine)]
        order = np.flatnonzero(timely)
        order = order[np.lexsort((t[order], ids[order], far[order]))]
        nearest = history.knn(here, 8, per="row", between=between)
        assert nearest.distance.tolist() == far[order[:8]].tolist()
        best = order[np.sort(np.unique(ids[order], return_index=True)[1])][:8]
        objects = history.knn(here, 8, between=between)
        assert objects.id.tolist() == ids[best].tolist()
        assert objects.distance.tolist() == far[best].tolist()
        one = rows.column("id")[int(rng.integers(n))].as_py()
        track = history.trajectory(one, between=between).columns["t"].cast(pa.int64()).to_pylist()
        assert track == np.sort(t[timely & (ids == one)]).tolist()
        box = [here[0] - 0.01, here[1] - 0.01, here[0] + 0.01, here[1] + 0.01]
        box = [max(box[0], -180.0), max(box[1], -90.0), min(box[2], 180.0), min(box[3], 90.0)]
        inside = timely & (places >= box[:2]).all(axis=1) & (places <= box[2:]).all(axis=1)
        assert history.count_box(box, between=between).tolist() == [int(inside.sum())]
        standing = history.at(np.datetime64(int(last), "us"), max_age=7200.0)
        known = np.unique(ids[(t <= last) & (t >= last - 7_200_000_000)])
        assert standing.id.tolist() == known.tolist()
