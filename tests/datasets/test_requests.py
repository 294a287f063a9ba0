"""Questions of a city: when they are asked, and what a file of text holds."""

import csv
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from datasets.cities.geonames import EARTH_RADIUS
from datasets.cities.taxis import make_fleet
from datasets.requests import requests
from datasets.tables.command import BadInput

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def test_the_centre_asks_at_noon_its_edge_in_the_evening_and_weekends_ask_less():
    """By the sun's time of the place."""
    fleet = make_fleet(2_000, ["London"], seed=2)
    table = pa.Table.from_batches(requests(fleet, 60_000, 14, MONDAY))
    t, lon, lat = (table[name].to_numpy() for name in ("t", "lon", "lat"))
    seconds = (t - np.datetime64("2026-01-05", "us")) / np.timedelta64(1, "s")
    assert 0 <= seconds.min() < seconds.max() < 14 * 86_400
    counts = np.bincount((seconds // 86_400).astype(int), minlength=14)
    weekend = np.arange(14) % 7 >= 5
    assert counts[weekend].mean() / counts[~weekend].mean() == pytest.approx(0.6, abs=0.05)
    north = np.radians(lat - fleet.lat[0, 0])
    metres = EARTH_RADIUS * np.hypot(north, np.radians(lon - fleet.lon[0, 0]) * np.cos(np.radians(fleet.lat[0, 0])))
    hour = seconds % 86_400 / 3_600
    assert np.median(hour[metres < 1_000]) == pytest.approx(12.2, abs=0.3)
    assert np.median(hour[metres > 14_000]) == pytest.approx(19.5, abs=0.5)


def test_no_day_and_no_time_zone_are_named():
    fleet = make_fleet(10, ["London"])
    with pytest.raises(BadInput, match="days is 0"):
        next(requests(fleet, 1, 0))
    with pytest.raises(BadInput, match="and a time zone"):
        next(requests(fleet, 1, 1, datetime(2026, 1, 1)))


def test_files_of_text_are_as_people_have_them(dataset, tmp_path):
    """Both commands: names above, a row a line, what is in Parquet otherwise."""
    out = tmp_path / "asked.csv"
    said = dataset("requests", "--rows", 5, "--days", 2, "--city", "London", "--out", out)
    assert said == f"requests: 5 rows of 2 days -> {out}\n"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    wanted = pa.Table.from_batches(requests(make_fleet(5_000, ["London"]), 5, 2)).to_pylist()
    assert [float(row["lon"]) for row in rows] == [row["lon"] for row in wanted]
    assert [datetime.fromisoformat(row["t"]) for row in rows] == [row["t"] for row in wanted]
    dataset("fleet", "--taxis", 3, "--at", 61.5, "--city", "London", "--out", out)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["name"] for row in rows] == ["taxi-00000", "taxi-00001", "taxi-00002"]
    assert {row["seen"] for row in rows} <= {"2026-01-01 00:01:01", "2026-01-01 00:01:02"}
    assert {row["status"] for row in rows} <= {"free", "busy"}
    dataset("fleet", "--taxis", 0, "--at", 0, "--out", out)
    assert out.read_text() == "name,lon,lat,seen,status\n"
