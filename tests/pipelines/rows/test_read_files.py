"""Positions in files of any format give the same rows and types as the same rows in Parquet, and the same snapshot."""

from __future__ import annotations

import gzip
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest

from dtoss.errors import InputError
from dtoss.history.row_blocks import latest
from dtoss.rows.input_columns import REASON, Columns
from dtoss.rows.point_columns import wkb_points
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import positions_in, read_positions
from tests.pipelines.rows.reading import read_rows
from tests.pipelines.stores import made, snapshot_bytes

N = 60
NAMES = ["plain", 'with "quotes"', "comma, inside", "çédille", None]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "id": rng.permutation(N),
            "lon": rng.uniform(-180, 180, N).round(5),
            "lat": rng.uniform(-90, 90, N).round(5),
            "speed": rng.uniform(0, 30, N).round(2),
            "seats": rng.integers(1, 9, N),
            "name": [NAMES[i % len(NAMES)] for i in range(N)],
        }
    )


def same_files(store, table):
    """Whether a store's partitions and borders are those of the table."""
    found, wanted = snapshot_bytes(store), snapshot_bytes(made(table, partitions=3))
    return all(found.get(name) == data for name, data in wanted.items() if name != "manifest.json")


@pytest.fixture(scope="module")
def expected(table):
    """The rows of the table itself, and their types."""
    return in_order(positions_in(table, Columns()))


def in_order(positions):
    """Rows by their ids, as they are built."""
    rows = positions.frame.all_rows().table(positions.frame.schema)
    rows = rows.select(["id", "x", "y", *(f"a:{name}" for name in ("speed", "seats", "name")), REASON])
    return rows.sort_by("id").combine_chunks()


def lines_of(table, delimiter=","):
    def field(value):
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if '"' in text or delimiter in text else text

    rows = [table.column_names, *([row[n] for n in table.column_names] for row in table.to_pylist())]
    return [delimiter.join(field(value) for value in row) for row in rows]


def json_lines(table):
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


def wkb(x, y, order="<"):
    return struct.pack(f"{order}BIdd", 1 if order == "<" else 0, 1, x, y)


def geo_table(table, encoding, crs=None):
    """The table with its coordinates as GeoParquet points."""
    x, y = table["lon"].to_pylist(), table["lat"].to_pylist()
    if encoding == "WKB":
        points = pa.array([wkb(a, b, "<" if i % 2 else ">") for i, (a, b) in enumerate(zip(x, y, strict=True))])
    else:
        points = pa.StructArray.from_arrays([pa.array(x), pa.array(y)], ["x", "y"])
    about = {"encoding": encoding, "geometry_types": ["Point"]} | ({} if crs is None else {"crs": crs})
    geo = {"version": "1.1.0", "primary_column": "place", "columns": {"place": about}}
    held = table.drop_columns(["lon", "lat"]).append_column("place", points)
    return held.replace_schema_metadata({"geo": json.dumps(geo)})


def write_csv(table, path):
    path.write_text("\n".join(lines_of(table)) + "\n")


WAYS = {
    "Parquet": lambda t, p: pq.write_table(t, p / "a.parquet") or p / "a.parquet",
    "Parquet without a suffix": lambda t, p: pq.write_table(t, p / "positions") or p / "positions",
    "CSV": lambda t, p: write_csv(t, p / "a.csv") or p / "a.csv",
    "CSV with a mark, CRLF": lambda t, p: (
        (p / "a.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines_of(t)).encode() + b"\r\n") and p / "a.csv"
    ),
    "gzip": lambda t, p: (
        (p / "a.csv.gz").write_bytes(gzip.compress("\n".join(lines_of(t)).encode())) and p / "a.csv.gz"
    ),
    "TSV": lambda t, p: (p / "a.tsv").write_text("\n".join(lines_of(t, "\t"))) and p / "a.tsv",
    "JSON lines": lambda t, p: (p / "a.jsonl").write_bytes(json_lines(t)) and p / "a.jsonl",
    "JSON lines, gzip": lambda t, p: (p / "a.json.gz").write_bytes(gzip.compress(json_lines(t))) and p / "a.json.gz",
    "folder of CSV": lambda t, p: [write_csv(t.slice(20 * i, 20), p / f"{i}.csv") for i in range(3)] and p,
    "folder of Parquet": lambda t, p: [pq.write_table(t.slice(20 * i, 20), p / f"{i}.parquet") for i in range(3)] and p,
    "glob": lambda t, p: (
        [write_csv(t.slice(20 * i, 20), p / f"part-{i}.csv") for i in range(3)]
        and [write_csv(t, p / "other.csv")]
        and p / "part-[0-9].csv"
    ),
    "GeoParquet, WKB": lambda t, p: pq.write_table(geo_table(t, "WKB"), p / "a.parquet") or p / "a.parquet",
    "GeoParquet, points": lambda t, p: pq.write_table(geo_table(t, "point"), p / "a.geoparquet") or p / "a.geoparquet",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_format_gives_the_same_rows(session, table, expected, tmp_path, way):
    """Numbers, texts with quotes, commas and accents, and empty fields, with the types that they have in Parquet.

    The same rows in any order give the same snapshot: of one format that is looked at, too.
    """
    (tmp_path / "in").mkdir()
    path = WAYS[way](table, tmp_path / "in")
    # Spark puts the columns of JSON in the order of their names
    read = read_positions(session, [str(path)], Columns(attributes="speed,seats,name" if "JSON" in way else "all"))
    if way in ("folder of CSV", "GeoParquet, WKB"):
        rebuild(read, str(tmp_path / "store"), partitions=3)
        assert same_files(tmp_path / "store", table)
    else:
        assert in_order(read) == expected


def test_several_paths_and_a_delimiter(session, table, expected, tmp_path):
    """Files named one by one, of which only the delimiter is unusual."""
    for i in range(2):
        part = "\n".join(lines_of(table.slice(30 * i, 30), ";"))
        (tmp_path / f"{i}.txt").write_text(part)
    read = read_positions(session, [str(tmp_path / "0.txt"), str(tmp_path / "1.txt")], Columns(delimiter=";"))
    assert in_order(read) == expected


@pytest.mark.parametrize(
    ("pattern", "early", "late"),
    [
        ("M/d/yyyy H:mm:ss", "9/30/2014 23:59:00", "10/1/2014 0:01:00"),
        ("epoch_s", "999999999", "1000000000"),
        ("epoch_ms", "999999999999", "1000000000000.5"),
        (None, "2014-09-30T23:59:00Z", "2014-10-01 00:01:00"),
        (None, "99", "100"),
    ],
)
def test_times_in_text(session, tmp_path, pattern, early, late):
    """Patterns, seconds and milliseconds since 1970, ISO 8601, plain numbers: the later row counts, not the last."""
    path = tmp_path / "a.csv"
    path.write_text(f"id,when,lon,lat\n1,{late},10,1\n1,{early},20,2\n")
    rows = read_rows(session, path, time="when", time_format=pattern, attributes="none")
    assert (len(rows.good), rows.bad) == (2, [])
    (kept,) = latest(rows.good, ["lon", "lat"]).to_pylist()  # as tasks keep it
    assert (kept["id"], kept["lon"], kept["lat"]) == (1, 10.0, 1.0)


def test_ids_in_text_are_numbers_where_they_are(session, tmp_path):
    """Whole numbers become integers; codes with leading zeros, and anything else, stay as they were written."""
    for ids, kind in ((["1", "20", "-3"], int), (["007", "008", "010"], str), (["a", "1", "2"], str)):
        path = tmp_path / "a.csv"
        path.write_text("id,lon,lat\n" + "".join(f"{i},1,2\n" for i in ids))
        assert sorted(read_rows(session, path).by_id) == sorted(map(kind, ids))


def test_a_geoparquet_file_says_its_crs(session, table, tmp_path):
    """A stated CRS is used; polygons and unknown encodings are refused in one line."""
    flat = table.set_column(1, "lon", pa.array(np.linspace(4e5, 6e5, N)))
    utm = json.loads(pyproj.CRS("EPSG:32610").to_json())
    pq.write_table(geo_table(flat, "WKB", crs=utm), tmp_path / "utm.parquet")
    read = read_positions(session, [str(tmp_path / "utm.parquet")], Columns())
    assert read.crs == "EPSG:32610"
    manifest = rebuild(read, str(tmp_path / "store"), crs=read.crs)
    assert (manifest["metric"], manifest["objects"]) == ("plane", N)
    assert set(manifest["columns"]) == {"speed", "seats", "name"}
    points = geo_table(table, "WKB")
    for old, new, words in (("Point", "Polygon", "holds Polygon: points"), ("WKB", "WKX", "encoded as WKX: WKB or")):
        geo = points.schema.metadata[b"geo"].decode().replace(old, new)
        pq.write_table(points.replace_schema_metadata({"geo": geo}), tmp_path / "bad.parquet")
        with pytest.raises(InputError, match=words):
            read_positions(session, [str(tmp_path / "bad.parquet")], Columns())


@pytest.mark.parametrize("encoding", ["WKB", "point"])
def test_attributes_called_as_the_coordinates_of_geoparquet_are(session, table, tmp_path, encoding):
    """`_x`, `_Y` and `_point` of the file stay what they are; the columns of ours get an underscore behind."""
    held = geo_table(table, encoding)
    for name, begin in (("_x", 1000), ("_Y", 2000), ("_x_", 3000), ("_point", 4000)):
        held = held.append_column(name, pa.array(range(begin, begin + N)))
    pq.write_table(held, tmp_path / "a.parquet")
    found_by_id = read_rows(session, tmp_path / "a.parquet", attributes=["_x", "_Y", "_x_", "_point"]).by_id
    for row, (id_, lon, lat) in enumerate(
        zip(*(table[name].to_pylist() for name in ("id", "lon", "lat")), strict=True)
    ):
        found = found_by_id[id_]
        assert (found["_x"], found["_Y"], found["_x_"], found["_point"]) == (
            1000 + row,
            2000 + row,
            3000 + row,
            4000 + row,
        )
        assert (found["lon"], found["lat"]) == (lon, lat)


def test_wkb_points_of_any_kind():
    """Both byte orders, Z and SRID flags; null, empty, short and other geometries are null."""
    z = struct.pack("<BIddd", 1, 1001, 3.0, 4.0, 9.0)
    ewkb = struct.pack("<BIIdd", 1, 0x20000001, 4326, 5.0, 6.0)
    line = struct.pack("<BIIdddd", 1, 2, 2, 0.0, 0.0, 1.0, 1.0)
    empty = wkb(float("nan"), float("nan"))
    found = wkb_points(pa.array([wkb(1.0, 2.0), wkb(1.5, -2.5, ">"), z, ewkb, None, line, empty, b"\x01", b""]))
    places = [(p["x"], p["y"]) for p in found.to_pylist()[:4]]
    assert places == [(1.0, 2.0), (1.5, -2.5), (3.0, 4.0), (5.0, 6.0)]
    assert found.to_pylist()[4:] == [None] * 5
    assert wkb_points(pa.array([None, wkb(7.0, 8.0)]).slice(1)).to_pylist() == [{"x": 7.0, "y": 8.0}]


def test_moments_of_96_bits_as_spark_writes_them(session, tmp_path):
    """They have no zone for Arrow, and are moments all the same."""
    times = pa.array([1_700_000_000_000_001, -1], pa.timestamp("us"))
    rows = pa.table({"id": [1, 2], "t": times, "lon": [1.0, 2.0], "lat": [0.0, 0.0]})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert read_rows(session, tmp_path / "a.parquet").types["t"] == "timestamp"


def test_nanoseconds_as_pandas_writes_them(session, tmp_path):
    """Times of nine digits, which Spark alone refuses, are read to the microsecond."""
    times = pa.array([1_700_000_000_000_000_999, 1_700_000_000_000_001_000], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"id": [1, 1], "t": times, "lon": [1.0, 2.0], "lat": [0.0, 0.0]}), tmp_path / "a.parquet")
    rows = read_rows(session, tmp_path / "a.parquet")
    assert latest(rows.good, ["lon", "lat"])["lon"].to_pylist() == [2.0]


@pytest.mark.parametrize(
    ("files", "asked", "words"),
    [
        ({}, ["missing.parquet"], "nothing is at .*missing.parquet"),
        ({}, ["*.csv"], r"nothing is at .*\*.csv"),
        ({"a.parquet": "no parquet at all"}, ["a.parquet"], "cannot be read as parquet"),
        ({"a.csv": ""}, ["a.csv"], "empty: a header line is wanted"),
        ({"a.csv": "id,lon,lat\n1,2,3\n", "b.jsonl": "{}"}, ["a.csv", "b.jsonl"], "several formats are mixed"),
        ({"d/a.csv": "id,lon,lat\n1,2,3\n", "d/b.csv": "id,lat,lon\n1,2,3\n"}, ["d"], "header line .* other files"),
        ({"a.csv": "1,2,3\n4,5,6\n"}, ["a.csv"], "no column 'id'.*the columns are 1, 2, 3"),
    ],
)
def test_files_that_cannot_be_used(session, tmp_path, files, asked, words):
    """One line that names the file and what is the matter."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words) as error:
        read_positions(session, [str(tmp_path / name) for name in asked], Columns())
    assert "\n" not in str(error.value)


def test_a_time_format_that_nobody_knows(session, tmp_path):
    """Refused before any row is read."""
    (tmp_path / "a.csv").write_text("id,t,lon,lat\n1,x,2,3\n")
    with pytest.raises(
        InputError, match="time format 'quux' is not known: write epoch_s, epoch_ms, epoch_us, excel or"
    ):
        read_positions(session, [str(tmp_path / "a.csv")], Columns(time_format="quux"))
