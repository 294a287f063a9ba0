"""Data as it is published is read by the very lines of docs/inputs.md."""

from __future__ import annotations

import json
import re
import shlex
import struct
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets.geolife import main as geolife
from tests.data import HERE

ROW = re.compile(r"^\| (?P<data>[^|,]+)[^|]*\| (?P<lines>`(?:dtoss rebuild|python) .*) \|$", re.MULTILINE)
LINES = {
    found["data"].strip(): re.findall(r"`([^`]+)`", found["lines"])
    for found in ROW.finditer((HERE.parent / "docs" / "inputs.md").read_text())
}
PLT = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"
TRIP = {
    "t_tripkey": [1, 2],
    "t_pickuptime": pa.array([datetime(1992, 1, 2, 3, 4, 5)] * 2, pa.timestamp("ms")),
    "t_pickuploc": pa.array([struct.pack("<BIdd", 1, 1, lon, 40.5) for lon in (-74.0, -73.5)], pa.binary()),
    "t_dropoffloc": pa.array([struct.pack("<BIdd", 1, 1, 0.0, 0.0)] * 2, pa.binary()),
    "t_fare": pa.array([Decimal(1), Decimal(2)], pa.decimal128(15, 5)),
}
VEHICLE = {"trip": {"tripId": "t1"}, "position": {"latitude": 50.0, "longitude": 8.0}, "timestamp": "1795700000"}


def aisdk(path):
    """Dates with the day first, a header that begins with a number sign, a ship without a position."""
    head = "# Timestamp,Type of mobile,MMSI,Latitude,Longitude,Navigational status,ROT,SOG,COG,Heading\n"
    row = "31/12/2025 00:00:{:02},Class A,{},{}.5,{}.25,Moored,,0.0,1.0,5\n"
    rows = [row.format(i, 219000000 + i, 40 + i, i) for i in range(20)]
    path.write_text(head + "".join(rows) + "31/12/2025 00:00:30,Class B,219999999,91.0,0.0,Unknown value,,,,\n")


def vehicles(path):
    """Two entities of a feed."""
    entities = [{"id": f"e{i}", "vehicle": VEHICLE | {"vehicle": {"id": f"v{i}"}}} for i in range(2)]
    path.write_text("".join(json.dumps(one) + "\n" for one in entities))


def states(path):
    """Addresses of which most are digits."""
    head = "time,icao24,lat,lon,velocity,heading,vertrate,callsign,onground\n"
    codes = [*(f"0{i:05}" for i in range(19)), "3e4567"]
    path.write_text(head + "".join(f"1655078400,{code},47.5,8.25,1.5,2.5,,SWR1,False\n" for code in codes))


def plt(folder):
    """Two trips of a person."""
    for name in ("a", "b"):
        file = folder / "020" / "Trajectory" / f"{name}.plt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PLT + "39.984702,116.318417,0,492,39744.1201851852,2008-10-23,02:53:04\n")


DATA = {
    "Danish AIS": (
        aisdk, "aisdk.csv", (21, 20), {"id": "MMSI, whole numbers", "position": "Longitude, Latitude"},
        "2025-12-31 00:00:00",
    ),
    "GTFS-realtime vehicle positions": (
        vehicles, "vehicles.jsonl", (2, 2),
        {"id": "vehicle.vehicle.id, text", "position": "vehicle.position.longitude, vehicle.position.latitude"},
        "2026-11-26 13:33:20",
    ),
    "OpenSky states": (
        states, "states.csv", (20, 20), {"id": "icao24, text", "position": "lon, lat"}, "2022-06-13 00:00:00",
    ),
    "SpatialBench trips": (
        lambda path: pq.write_table(pa.table(TRIP), path), "trip.parquet", (2, 2),
        {"id": "t_tripkey, whole numbers", "position": "t_pickuploc, points"}, "1992-01-02 03:04:05",
    ),
    "GeoLife": (plt, "Data", (2, 1), {"id": "uid, whole numbers", "position": "lon, lat"}, "2008-10-23 02:53:04"),
}  # fmt: skip


@pytest.mark.parametrize("data", DATA)
def test_each_is_read_by_its_line(tmp_path, works, monkeypatch, data):
    """All rows count, what is taken is as it should be, and so is the first time."""
    monkeypatch.chdir(tmp_path)
    write, name, (read, kept), taken, first = DATA[data]
    write(tmp_path / name)
    *before, line = LINES[data]
    for other in before:
        python, option, module, *words = shlex.split(other)
        assert (python, option, module, words[1]) == ("python", "-m", "datasets.geolife", "--out")
        geolife([words[0]], Path(words[2]))
    command, *words = shlex.split(line)
    assert command == "dtoss"
    # Spark does not follow into the folder
    words = [tmp_path / word if (tmp_path / word).exists() else word for word in words]
    told = works(*words, "--dry-run", "--json").json
    assert (told["counts"]["read"], told["counts"]["kept"]) == (read, kept)
    assert {name: told["input"]["taken"][name] for name in taken} == taken
    assert told["input"]["times"][0] == first


def test_each_line_is_tried():
    """None stands there that nobody has tried."""
    assert LINES.keys() == DATA.keys()
