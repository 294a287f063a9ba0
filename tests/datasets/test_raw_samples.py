"""Every real raw sample goes through a reader and gives what is known of it; skipped without the data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from datasets.aircraft import SCHEMA as AIRCRAFT
from datasets.aircraft import aircraft
from datasets.ais import SCHEMA as AIS
from datasets.ais import ais
from datasets.cabspotting import SCHEMA as CABS
from datasets.cabspotting import cabspotting
from datasets.capri import SCHEMA as CAPRI
from datasets.capri import capri
from datasets.delimited import delimited
from datasets.earthquakes import SCHEMA as QUAKES
from datasets.earthquakes import earthquakes
from datasets.geolife import SCHEMA as GEOLIFE
from datasets.geolife import geolife
from datasets.snap import SCHEMA as SNAP
from datasets.snap import snap
from datasets.tables.fields import Layout
from datasets.tables.format_source import Column, Notation, Source
from datasets.tables.standard_rows import collect
from datasets.uber import SCHEMA as UBER
from datasets.uber import uber
from tests.data import DATA, RAW

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not RAW.is_dir(), reason=f"no raw samples in {DATA}")

VENUES = "gowalla_venues_unquoted_commas_first5000.csv"
NO_POSITION = "no position"
SENTINEL = "AIS 'position not available' (lon 181 or lat 91)"
ZERO = "position (0, 0): legal, often a default"


def at(*moment):
    return datetime(*moment, tzinfo=UTC)


def read(function, schema):
    return lambda path, tmp_path: collect(function([path]), schema)


def described(**source):
    def reader(path, tmp_path):
        schema, parts = delimited([path], Source(**source))
        return collect(parts, schema)

    return reader


def with_places(table):
    """Read check-ins with the places that the set's own Parquet file knows."""

    def reader(path, tmp_path):
        rows = pq.read_table(DATA / f"{table}.parquet")
        if "src" in rows.column_names:
            rows = rows.filter(pc.equal(rows["src"], "A"))
        places = rows.select(["poi", "lat", "lon"]).to_pandas().drop_duplicates("poi")
        places.to_csv(tmp_path / "poiCoos.txt", sep="\t", header=False, index=False)
        return collect(capri([path], tmp_path / "poiCoos.txt"), CAPRI)

    return reader


def quoted(function, schema, name, column, head=""):
    """Read raw lines that stand in a column of a TAB-separated file of curiosities."""

    def reader(path, tmp_path):
        lines = [line.split("\t")[column] for line in path.read_text().splitlines()]
        (tmp_path / name).write_text(head + "\n".join(lines) + "\n")
        return collect(function([tmp_path / name]), schema)

    return reader


@dataclass(frozen=True)
class Known:
    """A reader, and what it must find: rows kept, box (west, south, east, north), first row, reasons."""

    reader: Callable
    kept: int
    box: tuple[float, float, float, float] | None = None
    first: dict = field(default_factory=dict)
    dropped: dict = field(default_factory=dict)
    flawed: dict = field(default_factory=dict)
    more: Callable = lambda table: None


SAN_FRANCISCO = (-122.6, 37.4, -122.0, 38.1)
BEIJING = (116.2, 39.8, 116.5, 40.1)
NEW_YORK = (-74.9, 40.0, -72.0, 42.2)
CAB = {"uid": "abboip", "t": at(2008, 5, 17, 14, 12, 10), "lon": -122.39447, "lat": 37.75153, "occupied": 0}


TRIPS = {  # begin: rows, first lon and lat
    "20081023025304": (908, 116.318417, 39.984702),
    "20081024020959": (244, 116.319876, 40.008304),
    "20081026134407": (745, 116.370017, 39.907414),
    "20081027115449": (50, 116.326757, 39.994622),
    "20081028003826": (1_477, 116.297072, 40.01229),
    "20081029092138": (21, 116.326786, 39.994238),
    "20081029093038": (182, 116.326605, 39.991364),
    "20081103101336": (7, 116.326565, 39.999976),
    "20081103232153": (2_231, 116.325747, 39.996948),
}


def bce(table):
    years = pc.year(table["t"])
    assert (pc.min(years).as_py(), pc.max(years).as_py()) == (37, 2000)
    first = table.to_pylist()[0]
    assert first["name"] == "JORDAN:  BAB-A-DARAA,AL-KARAK"


def excel_dates(table):
    days = table.filter(pc.equal(table["city"], "ashville (5 miles south of)"))["t"].to_pylist()
    assert days == [at(1999, 6, 16)]
    assert table["t"].null_count == 0


def antimeridian(table):
    lon = table["lon"].to_numpy()
    assert lon.max() > 179
    assert lon.min() < -179


def spoofed(table):
    assert set(table["uid"].to_pylist()) == {"4baac6"}
    assert set(table["text"].to_pylist()) >= {"THY9BP"}


KNOWN = {
    "cabspotting_new_abboip_lf.txt": Known(read(cabspotting, CABS), 5_000, SAN_FRANCISCO, CAB),
    "cabspotting_new_abboip_crlf.txt": Known(read(cabspotting, CABS), 5_000, SAN_FRANCISCO, CAB),
    "loc-gowalla_totalCheckins_first5000.txt": Known(
        read(snap, SNAP),
        5_000,
        first={
            "uid": 0,
            "t": at(2010, 10, 19, 23, 55, 27),
            "lon": -97.7951395833,
            "lat": 30.2359091167,
            "poi": "22847",
        },
    ),
    "gowalla_capri_checkins_first5000.txt": Known(
        with_places("gowalla_checkins"), 5_000, first={"uid": 0, "t": at(2009, 3, 13, 19, 24, 51)}
    ),
    "brightkite_capri_checkins_first5000.txt": Known(
        with_places("brightkite_checkins"),
        5_000,
        first={"uid": 0, "t": at(2008, 3, 25, 0, 26, 5), "lon": -104.984703, "lat": 39.739154},
    ),
    "gowalla_ny_checkins_first5000.csv": Known(
        described(
            position=("longitude", "latitude"),
            uid="userid",
            time=("local_datetime",),
            columns={"poi": Column("placeid"), "text": Column("category")},
        ),
        4_999,
        (-79.8, 40.4, -71.8, 45.1),
        {
            "uid": 5144,
            "t": at(2010, 7, 9, 1, 59, 28),
            "lon": -73.9862982274,
            "lat": 40.7478105501,
            "poi": "592233",
            "text": "Travel",
        },
    ),
    "gowalla_weekpattern_first5000.csv": Known(
        described(position=("space",), notation=Notation.lat_lon, uid="label", columns={"day": Column("day")}),
        4_999,
        (-160, -45, 180, 70),
        {"uid": 142, "lon": -90.365896225, "lat": 38.7423688309, "day": "Friday"},
    ),
    "gowalla_spots_first5000.txt": Known(
        described(
            layout=Layout(delimiter="\t", quote=None),
            position=("geo-coordinates",),
            notation=Notation.wkt,
            id="spotid",
            columns={"text": Column("spotname")},
        ),
        4_999,
        (-74.35, 40.45, -73.6, 41.0),
        {"id": 1391604, "lon": -74.2523431778, "lat": 40.5017589436, "text": "Conference House Park"},
    ),
    VENUES: Known(
        described(
            layout=Layout(names=("id", "name", "lat", "lon"), text="name"),
            id="id",
            columns={"text": Column("name")},
        ),
        5_000,
        (-74.3, 40.45, -73.6, 41.0),
        {"id": 1391604, "lon": -74.2523431778, "lat": 40.5017589436, "text": "Conference House Park"},
        more=lambda table: [
            "The Home Depot, Aviation Mall, Linden, NJ" in table["text"].to_pylist() or pytest.fail("commas")
        ],
    ),
    "uber-raw-data-apr14_first5000.csv": Known(
        read(uber, UBER),
        4_999,
        NEW_YORK,
        {"id": 0, "t": at(2014, 4, 1, 4, 11), "lon": -73.9549, "lat": 40.769, "base": "B02512"},
    ),
    "earthquakes_all_month_first5000.csv": Known(
        read(earthquakes, QUAKES),
        4_999,
        (-180, -65, 180, 83),
        {
            "id": "ak11665829",
            "t": at(2015, 8, 1, 0, 7, 41),
            "lon": -152.5796,
            "lat": 60.673,
            "depth_km": 105.2,
            "mag": 1.7,
            "text": "22km NNE of Redoubt Volcano, Alaska",
        },
        more=antimeridian,
    ),
    "significant_earthquakes_bce_years_first5000.csv": Known(
        described(
            position=("location",),
            notation=Notation.wkt,
            date=("year", "month", "day", "hour", "minute", "second"),
            columns={"name": Column("name")},
        ),
        4_944,
        (-180, -63, 180, 74),
        {"id": 0, "t": None, "lon": 35.5, "lat": 31.1},
        {NO_POSITION: 55},
        {
            "time null: year before 1 or after 9999": 46,
            "time null: month or day missing": 496,
            "time of day incomplete, what is missing taken as 0": 2_739,
        },
        bce,
    ),
    "ufo_mixed_excel_dates_first5000.csv": Known(
        described(
            position=("longitude", "latitude"),
            time=("datetime",),
            formats=("%m/%d/%y %H:%M", "excel"),
            columns={"city": Column("city")},
        ),
        4_999,
        (-180, -50, 180, 72),
        {"t": at(2010, 8, 14, 23), "lon": -71.4133333, "lat": 41.8238889, "city": "providence"},
        flawed={ZERO: 94},
        more=excel_dates,
    ),
    "ais_piraeus_first5000.csv": Known(
        read(ais, AIS),
        4_999,
        (23.2, 37.7, 23.7, 38.1),
        {"uid": 0, "t": at(2017, 5, 9, 14, 47, 30), "lon": 23.6470716666667, "lat": 37.9321016666667},
    ),
    "ais_decoded_first5000.csv": Known(
        read(ais, AIS),
        4_628,
        (-97.5, -3.3, 180, 81.1),
        {"uid": 258183000, "t": None, "lon": 16.544416666666667, "lat": 68.79564166666667, "message": 1},
        {SENTINEL: 282, NO_POSITION: 89},
        {"time null: none given": 4_509, "time null: year before 1 or after 9999": 1, ZERO: 1},
    ),
    "aircraft_noisy_spoofing.json.gz": Known(
        read(aircraft, AIRCRAFT),
        8_670,
        (15.8, 41, 29, 57),
        {
            "uid": "4baac6",
            "t": at(2024, 9, 17, 8, 4, 26),
            "lon": 28.7676391602,
            "lat": 41.3796844482,
            "altitude_ft": 4_175.0,
        },
        {NO_POSITION: 11},
        more=spoofed,
    ),
    "aircraft_noisy_time_issue.json.gz": Known(
        read(aircraft, AIRCRAFT),
        8_294,
        (-9, 41, 9, 48.5),
        {"uid": "4b1815", "t": at(2022, 7, 13, 11, 40, 22), "lon": -8.6787622625, "lat": 41.2385326321},
    ),
    "quirks/geolife.tsv": Known(
        quoted(geolife, GEOLIFE, "020_Trajectory_quirks.plt", 2, "-\n" * 6),
        23,
        first={"uid": 20, "t": at(2000, 1, 1, 23, 12, 19), "lon": 116.327023, "lat": 39.988992},
        dropped={"latitude out of range": 1},
        flawed={"time before 2007-04-01, a clock that was not set (time kept)": 3},
        more=lambda table: [antimeridian(table), table["altitude_ft"].null_count == 7 or pytest.fail("-777")],
    ),
    "quirks/cabspotting_far_outside_bay.tsv": Known(
        quoted(cabspotting, CABS, "new_quirks.txt", 1),
        90,
        (-127.1, 32.8, -115.5, 50.4),
        {"uid": "quirks", "t": at(2008, 5, 17, 22, 21, 40), "lon": -123.49799, "lat": 37.77268},
    ),
    "quirks/ais_sentinel_181_91_and_null.csv": Known(read(ais, AIS), 0, dropped={SENTINEL: 226, NO_POSITION: 74}),
}


for begin, (kept, lon, lat) in TRIPS.items():
    t = datetime.strptime(begin, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    KNOWN[f"geolife/000_Trajectory_{begin}.plt"] = Known(
        read(geolife, GEOLIFE), kept, BEIJING, {"uid": 0, "t": t, "lon": lon, "lat": lat}
    )


def test_no_sample_is_left_out():
    files = {path.relative_to(RAW).as_posix() for path in RAW.rglob("*") if path.is_file()}
    assert files == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_sample_gives_what_is_known_of_it(name, tmp_path):
    known = KNOWN[name]
    table, counts = known.reader(RAW / name, tmp_path)
    assert counts.kept == table.num_rows == known.kept
    assert counts.dropped == known.dropped
    assert counts.flawed == known.flawed
    assert counts.notes == () or "places" in counts.notes[0]
    lon, lat = table["lon"].to_numpy(), table["lat"].to_numpy()
    assert (np.abs(lon) <= 180).all()
    assert (np.abs(lat) <= 90).all()
    if known.box:
        west, south, east, north = known.box
        assert west <= lon.min() <= lon.max() <= east
        assert south <= lat.min() <= lat.max() <= north
    if known.first:
        row = table.slice(0, 1).to_pylist()[0]
        assert {name: row[name] for name in known.first} == known.first
    known.more(table)


@pytest.mark.parametrize(
    ("sample", "table", "columns"),
    [
        ("uber-raw-data-apr14_first5000.csv", "uber_nyc_apr_may_2014", ("t", "lon", "lat", "base")),
        ("earthquakes_all_month_first5000.csv", "earthquakes_usgs_month", ("t", "lon", "lat")),
        ("ais_piraeus_first5000.csv", "ais_piraeus", ("t", "lon", "lat", "uid")),
        ("cabspotting_new_abboip_crlf.txt", "cabspotting_sf", ("t", "lon", "lat", "occupied")),
        ("gowalla_capri_checkins_first5000.txt", "gowalla_checkins", ("uid", "t", "lon", "lat")),
        ("brightkite_capri_checkins_first5000.txt", "brightkite_checkins", ("uid", "t", "lon", "lat")),
        (
            "gowalla_venues_unquoted_commas_first5000.csv",
            "gowalla_spot_names_nyc",
            ("id", "lon", "lat"),
        ),
        ("gowalla_weekpattern_first5000.csv", "gowalla_weekpattern", ("uid", "lon", "lat")),
    ],
)
def test_samples_agree_with_the_tables_made_of_the_same_sources(sample, table, columns, tmp_path):
    mine, _ = KNOWN[sample].reader(RAW / sample, tmp_path)
    theirs = next(pq.ParquetFile(DATA / f"{table}.parquet").iter_batches(mine.num_rows, columns=columns))
    for name in columns:
        assert mine[name].to_pylist() == theirs[name].to_pylist(), name
