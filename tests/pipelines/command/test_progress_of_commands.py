"""Commands that may take long say within moments what they do; quick ones are silent, and so is --quiet."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ceps
from tests.pipelines.stores import made

N = 3_000
SERVERS = '[[server]]\nname = "s"\nrequests_per_second = 1000.0\nbytes = 64e9\ndollars_per_hour = 0.1\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a store, rows, places, zones, patterns, servers and a history to ask."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    t = pa.array(np.datetime64("2026-05-01T08:00", "us") + np.arange(N)).cast(pa.timestamp("us", "UTC"))
    rows = {"id": np.arange(N), "lon": rng.uniform(8, 9, N), "lat": rng.uniform(47, 48, N), "t": t}
    pq.write_table(pa.table(rows), "rows.parquet")
    made(pa.table(rows), tmp_path / "store", partitions=4)
    (tmp_path / "arriving").mkdir()
    pq.write_table(pa.table(rows | {"lon": rows["lon"] + 0.1}), "arriving/1.parquet")
    places = {"query_id": np.arange(N), "lon": rows["lon"], "lat": rows["lat"]}
    pq.write_table(pa.table(places), "places.parquet")
    ring = [[8.2, 47.2], [8.8, 47.2], [8.5, 47.8], [8.2, 47.2]]
    zone = {"type": "Feature", "properties": {"name": "a"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (tmp_path / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [zone]}))
    loads = 100 * (1.1 + np.cos(2 * np.pi * (np.arange(24) - rng.uniform(0, 24, (40, 1))) / 24))
    ceps.write_patterns("patterns.parquet", ceps.Patterns(loads=loads, sizes=np.full(40, 1e9)))
    (tmp_path / "servers.toml").write_text(SERVERS)
    return tmp_path


COMMANDS = {
    "rebuild": "rebuild rows.parquet --store new",
    "knn": "knn --queries places.parquet --id query_id --store store -k 4 --out near.parquet",
    "range": "range --queries places.parquet --id query_id --store store --radius 5km --out near.parquet",
    "within": "within --polygons zones.geojson --by name --store store --count",
    "export": "export --store store --what cells --out cells.geojson",
    "verify": "verify --store store",
    "append": "history append rows.parquet --history past",
    "plan": "plan patterns.parquet --servers servers.toml --out plan.json",
    "run": "run --updates arriving --store store --time t --cycles 1",
    "watch": "watch rows.parquet --store store --time t --once",
    "windows run": "windows run rows.parquet --store store --name w --time t --lengths 1h --slide 1h --once",
    "patterns": "patterns rows.parquet --store store --out found.parquet",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_takes_long_says_what_it_does(name, here, command, monkeypatch):
    """A line on stderr that begins with the command or a step of it; none where quiet is wanted."""
    monkeypatch.setenv("DTOSS_PROGRESS_AFTER", "0")
    said = command.works(*COMMANDS[name].split()).err
    shown = re.findall(r"^(\w+): \d+\.\d s so far", said, re.MULTILINE)
    assert shown
    assert {"knn": "join", "range": "join", "rebuild": "build", "windows run": "run"}.get(name, name) in shown
    assert " so far" not in command.works("--quiet", *COMMANDS[name].replace("new", "newer").split()).err
