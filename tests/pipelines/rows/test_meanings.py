"""What columns mean, as a user says it: types of ids, zones of times, fields of structs, points, names of places."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.rows.input_columns import REASONS, Columns, columns_of
from dtoss.rows.point_columns import points
from pipelines.local_joins.file_join import read_places
from pipelines.rows.position_frame import screen_positions, source_of
from pipelines.rows.read_files import read_positions
from pipelines.rows.survey import Profile, judge
from tests.pipelines.rows.reading import read_rows, with_points

NOT_WHOLE = "id is not an integer as the others are"
PLACES = [(10.5, 50.25), (-0.125, -33.0)]


def wkb(x, y, *, order="<", srid=None):
    """A point as well-known binary."""
    kind = 1 if srid is None else 0x20000001
    head = struct.pack(f"{order}BI", order == "<", kind) + (b"" if srid is None else struct.pack(f"{order}I", srid))
    return head + struct.pack(f"{order}dd", x, y)


WRITTEN = {
    "wkb": pa.array([wkb(*PLACES[0]), wkb(*PLACES[1], order=">", srid=4326), None, b"\x01\x02"], pa.binary()),
    "wkt": pa.array(["POINT (10.5 50.25)", " srid=4326;Point Z(-.125 -3.3e1 7)", "", "LINESTRING (0 0, 1 1)"]),
    "hex": pa.array([wkb(*PLACES[0]).hex(), wkb(*PLACES[1], srid=4326).hex().upper(), None, "0101"]),
    "list": pa.array([[10.5, 50.25], [-0.125, -33.0, 7.0], None, [1.0]]),
}


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_points_in_any_column(session, tmp_path, form, ending):
    """In Spark and in this process alike; what is no point is told from where there is none."""
    if (ending == "csv" and form not in ("wkt", "hex")) or (ending == "jsonl" and form == "wkb"):
        pytest.skip("no such column")
    path = tmp_path / f"a.{ending}"
    table = pa.table({"id": [1, 2, 3, 4], "geom": WRITTEN[form], "speed": [5, 6, 7, 8]})
    if ending == "parquet":
        pq.write_table(table, path)
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        lines = [f'{row["id"]},"{row["geom"] or ""}",{row["speed"]}\n' for row in table.to_pylist()]
        path.write_text("".join(["id,geom,speed\n", *lines]))
    rows = read_rows(session, path, geometry="geom")
    assert [(row["lon"], row["lat"]) for row in rows.good.to_pylist()] == PLACES
    assert rows.good["speed"].to_pylist() == [5, 6]
    assert sorted(rows.types) == ["id", "lat", "lon", "speed"]
    assert rows.reasons == {"no position": 1, "geometry is no point": 1}
    batch = pa.concat_batches(read_places(str(path), geometry="geom").batches())
    assert [(row["x"], row["y"]) for row in batch.to_pylist()] == [*PLACES, (None, None), (None, None)]


def test_points_of_other_forms():
    """Chunks that begin elsewhere, structs of x and y; a type that holds no points."""
    both = points(WRITTEN["wkb"].slice(1, 2)).to_pylist()
    assert both == [{"x": -0.125, "y": -33.0}, None]
    assert points(pa.array([{"y": 2, "x": 1}, {"y": None, "x": 1}])).to_pylist() == [{"x": 1.0, "y": 2.0}, None]
    assert points(pa.array(["POINT(1 2)"]).dictionary_encode()).to_pylist() == [{"x": 1.0, "y": 2.0}]
    for text in ("POINT (1)", "POINT (1 2 3 4 5)", "POINT EMPTY", "POINT (nan 1)", "1 2", "POINT (1 2) x"):
        assert points(pa.array([text])).to_pylist() == [None], text
    with pytest.raises(InputError, match="points are of type int64"):
        points(pa.array([1]))


CODES = [*(f"4800{i:02}" for i in range(18)), "3e4567", "4b1814"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ids_are_what_the_user_says(session, tmp_path, ending):
    """Text keeps all of them, with their zeros; whole numbers set others aside."""
    path = tmp_path / f"a.{ending}"
    codes = ["000042", *CODES]
    if ending == "csv":
        path.write_text("id,lon,lat\n" + "".join(f"{code},1,2\n" for code in codes))
    elif ending == "jsonl":
        path.write_text("".join(json.dumps({"id": code, "lon": 1, "lat": 2}) + "\n" for code in codes))
    else:
        pq.write_table(pa.table({"id": codes, "lon": [1.0] * 21, "lat": [2.0] * 21}), path)
    text = read_rows(session, path, id_type="text")
    assert (sorted(text.good["id"].to_pylist()), text.bad) == (sorted(codes), [])
    whole = read_rows(session, path, id_type="int")
    assert sorted(whole.good["id"].to_pylist()) == [480000 + i for i in range(18)]
    assert whole.reasons == {NOT_WHOLE: 3}
    for kind, wanted in (("text", codes), ("int", [None, *range(480000, 480018), None, None])):
        batch = pa.concat_batches(read_places(str(path), id_type=kind).batches())
        assert batch["query_id"].to_pylist() == wanted


def test_whole_numbers_as_text(session, tmp_path):
    """Of a column of numbers, as a store of text wants them."""
    pq.write_table(pa.table({"id": [7, 8], "lon": [1.0, 2.0], "lat": [2.0, 2.0]}), tmp_path / "a.parquet")
    assert read_rows(session, tmp_path / "a.parquet", id_type="text").good["id"].to_pylist() == ["7", "8"]
    batch = pa.concat_batches(read_places(str(tmp_path / "a.parquet"), id_type="text").batches())
    assert batch["query_id"].to_pylist() == ["7", "8"]


def at(*fields):
    """A moment."""
    return datetime(*fields, tzinfo=UTC)


MOMENTS = [
    ("2026-01-15 08:00:00", None, at(2026, 1, 15, 7)),
    ("2026-07-15T08:00", None, at(2026, 7, 15, 6)),
    ("2026-07-15", None, at(2026, 7, 14, 22)),
    ("2026-07-15T08:00:00Z", None, at(2026, 7, 15, 8)),
    ("2026-07-15T08:00:00.25+05:30", None, at(2026, 7, 15, 2, 30, 0, 250_000)),
    ("2026-07-15 08:00:00 America/New_York", None, at(2026, 7, 15, 12)),
    ("2026-03-29 02:30:00", None, at(2026, 3, 29, 1, 30)),  # the clock was put forward at 2
    ("2026-10-25 02:30:00", None, at(2026, 10, 25, 0, 30)),  # and back at 3
    ("15/07/2026 08:00", "dd/MM/yyyy HH:mm", at(2026, 7, 15, 6)),
    ("15/07/2026 08:00 +0000", "dd/MM/yyyy HH:mm Z", at(2026, 7, 15, 8)),
    ("1784102400", "epoch_s", at(2026, 7, 15, 8)),
    ("1784102400000001", "epoch_us", at(2026, 7, 15, 8, 0, 0, 1)),
    ("46218.5", "excel", at(2026, 7, 15, 10)),
]


def test_times_without_a_zone_are_of_the_one_that_is_named(session, tmp_path):
    """Those with a zone keep theirs, what counts since 1970 has none; gaps and folds as the documents say."""
    for form in dict.fromkeys(form for _, form, _ in MOMENTS):
        some = [(text, moment) for text, other, moment in MOMENTS if other == form]
        path = tmp_path / "a.csv"
        path.write_text("id,lon,lat,t\n" + "".join(f"{i},1,2,{text}\n" for i, (text, _) in enumerate(some)))
        read = read_rows(session, path, time_format=form, zone="Europe/Berlin", attributes="none")
        assert dict(zip(read.good["id"].to_pylist(), read.good["t"].to_pylist(), strict=True)) == {
            i: moment for i, (_, moment) in enumerate(some)
        }, form


def test_timestamps_of_parquet_have_zones_or_none(session, tmp_path):
    """One without a zone is local, one with a zone is a moment; numbers of microseconds and of days are moments."""
    local = datetime(2026, 7, 15, 8)
    for kind, value, form, moment in (
        (pa.timestamp("us"), local, None, at(2026, 7, 15, 6)),
        (pa.timestamp("us", "UTC"), local, None, at(2026, 7, 15, 8)),
        (pa.int64(), 1784102400000001, "epoch_us", at(2026, 7, 15, 8, 0, 0, 1)),
        (pa.float64(), 46218.5, "excel", at(2026, 7, 15, 10)),
        (pa.int64(), 1784102400, "epoch_s", 1784102400),
    ):
        table = pa.table({"id": [1], "lon": [1.0], "lat": [2.0], "t": pa.array([value], kind)})
        pq.write_table(table, tmp_path / "a.parquet")
        read = read_rows(session, tmp_path / "a.parquet", time_format=form, zone="Europe/Berlin", attributes="none")
        assert read.good["t"].to_pylist() == [moment], kind


def test_fields_of_structs_by_their_path(session, tmp_path):
    """In JSON and Parquet, as ids, places, times and attributes; a column of that very name wins."""
    rows = [{"v": {"id": f"v{i}", "at": {"x.y": 8.0 + i, "lat": 50.0}, "t": 100 + i}, "v.t": 7} for i in range(3)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    names = {"id": "v.id", "x": "v.at.`x.y`", "y": "v.at.lat"}
    for file in ("a.jsonl", "b.parquet"):
        read = read_rows(session, tmp_path / file, **names, time="v.t", attributes="v.id,v.at.lat")
        assert [(row["id"], row["lon"], row["t"], row["v.at.lat"]) for row in read.good.sort_by("id").to_pylist()] == [
            (f"v{i}", 8.0 + i, 7, 50.0) for i in range(3)
        ]
        whole = read_rows(session, tmp_path / file, **names)
        assert whole.good["v"].to_pylist()[0]["at"]["lat"] == 50.0
        batch = pa.concat_batches(read_places(str(tmp_path / file), **names).batches())
        assert batch.to_pydict() == {"query_id": ["v0", "v1", "v2"], "x": [8.0, 9.0, 10.0], "y": [50.0] * 3}
        with pytest.raises(InputError, match=r"no column 'v.it'.*fields of structs are named by their path"):
            read_places(str(tmp_path / file), id="v.it", x="v.at.lat", y="v.at.lat")


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (("Lat", "LON"), ("LON", "Lat")),
        (("longitude", "latitude"), ("longitude", "latitude")),
        (("lng", "lat"), ("lng", "lat")),
        (("x", "y"), ("x", "y")),
        (("x", "y", "lat", "lon"), ("lon", "lat")),
        (("lat",), ("lon", "lat")),
        (("a",), ("lon", "lat")),
    ],
)
def test_one_list_of_names_of_coordinates(names, taken):
    """In any case; lon and lat win."""
    assert Columns().coordinates(names) == taken


def test_names_that_may_all_be_positions_are_refused():
    """One choice cannot be taken back; a name or two says which."""
    for names in (("lng", "lat", "x", "y"), ("longitude", "latitude", "x", "y"), ("Lon", "LON", "lat")):
        with pytest.raises(InputError, match="may all be the positions: name those that are, --x NAME --y NAME"):
            Columns().coordinates(names)
        assert Columns(x=names[0], y=names[1]).coordinates(names) == names[:2]


def test_the_crs_of_points(session, tmp_path):
    """That of the file, or the one that is said of what is not known; another one is refused, and so are degrees."""
    metres, path = pyproj.CRS("EPSG:32633").to_json_dict(), tmp_path / "a.parquet"
    for stated, asked, found in (
        ({}, None, "OGC:CRS84"),
        ({"crs": metres}, None, "EPSG:32633"),
        ({"crs": metres}, "EPSG:32633", "EPSG:32633"),
        ({"crs": None}, "EPSG:32633", "EPSG:32633"),
        ({"crs": None}, "none", "none"),
    ):
        with_points(path, stated)
        read = read_positions(session, [str(path)], Columns(crs=asked))
        assert (read.crs, read_places(str(path), crs=asked).crs) == (found, found), (stated, asked)
    for stated, asked, said in (
        ({"crs": None}, None, "has no known CRS .crs is null.: say it, --crs EPSG:4326 .* or --crs none"),
        ({"crs": metres}, "EPSG:4326", "--crs is EPSG:4326 and geometry column 'geometry' is in EPSG:32633: leave"),
    ):
        with_points(path, stated)
        with pytest.raises(InputError, match=said):
            read_positions(session, [str(path)], Columns(crs=asked))
        with pytest.raises(InputError, match=said):
            read_places(str(path), crs=asked)
    with_points(path, {"crs": metres})
    with pytest.raises(ValueError, match="the positions are in EPSG:32633 and what they are for in EPSG:4326"):
        screen_positions(read_positions(session, [str(path)], Columns()), space_of())


def test_coordinates_win_over_points_where_they_are_lon_and_lat(session, tmp_path):
    """Other names do not: the points have a CRS."""
    with_points(tmp_path / "a.parquet", {})
    table = pq.read_table(tmp_path / "a.parquet")
    for names, first in (
        (("lon", "lat"), (1.0, 2.0)),
        (("x", "y"), (10.0, 20.0)),
        (("longitude", "latitude"), (10.0, 20.0)),
    ):
        both = table.append_column(names[0], pa.array([1.0] * 3)).append_column(names[1], pa.array([2.0] * 3))
        pq.write_table(both, tmp_path / "a.parquet")
        row = read_rows(session, tmp_path / "a.parquet").good.sort_by("id").to_pylist()[0]
        assert (row["lon"], row["lat"]) == first, names
        batch = pa.concat_batches(read_places(str(tmp_path / "a.parquet")).batches())
        assert (batch["x"][0].as_py(), batch["y"][0].as_py()) == first, names


def test_a_store_remembers_what_was_said(session, tmp_path):
    """And updates are read by that; what is said anew counts, and one way to say where positions are ends the other."""
    said = {"id": "code", "id_type": "text", "zone": "Asia/Tokyo", "geometry": "at", "crs": "EPSG:4326", "time": "t"}
    (tmp_path / "a.csv").write_text("code,at,t\n1,POINT (1 2),2026-01-01 09:00:00\n")
    read = read_positions(session, [str(tmp_path / "a.csv")], Columns(**said))
    manifest = {"source": source_of(read), "crs": "EPSG:4326"}
    json.dumps(manifest)
    assert columns_of(manifest, {}) == Columns(**said)
    assert columns_of(manifest, {"zone": "UTC"}).zone == "UTC"
    other = columns_of(manifest, {"x": "lon", "y": "lat"})
    assert (other.geometry, other.x, other.y) == (None, "lon", "lat")
    back = columns_of({"source": {"x": "lon", "y": "lat"}, "crs": "none"}, {"geometry": "at"})
    assert (back.geometry, back.x, back.y, back.crs) == ("at", None, None, "none")
    older = columns_of({"source": {"id": "code", "columns": "all", "time_format": "epoch_s"}, "crs": "EPSG:4326"}, {})
    assert older == Columns(id="code", time_format="epoch_s")
    assert (read.crs, read.taken["time"]) == ("EPSG:4326", "t, ISO 8601, Asia/Tokyo where none is named")


def test_a_decimal_comma_is_thought_of():
    """Where most of what is wrong are coordinates that are no numbers."""
    bad = dict.fromkeys(REASONS, 0) | {"position is not a number": 9, "no id": 1}
    profile = Profile(20, bad, np.zeros(2), np.ones(2), 0, 0, pa.table({"x": [0.0], "y": [0.0]}), 1)
    with pytest.raises(InputError, match=r"10 of 20 rows are bad .* is their mark a comma .--decimal ,., or are"):
        judge(profile, space_of(), 0.1, pytest.fail)
    told = []
    judge(replace(profile, bad=dict.fromkeys(REASONS, 0) | {NOT_WHOLE: 2}), space_of(), 0.5, told.append)
    assert told[0].startswith("2 ids are text where others are whole numbers, and are set aside: --id-type text keeps")
