"""Files of subscriptions: what is read of each kind, and how what is wrong in them is named."""

from __future__ import annotations

import contextlib
import gc
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.commits.chain import Chain
from dtoss.errors import InputError
from dtoss.frames import geojson_members
from dtoss.frames.geojson_members import read_json
from dtoss.geometry.space import Space, space_of
from dtoss.watch.subscriptions import validation
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.subscriptions.known_columns import check_space, known_of
from dtoss.watch.subscriptions.subscription_files import read_files
from dtoss.watch.subscriptions.subscription_text import place_in_words, write_rows
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

RING = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
TRIANGLE = {"type": "Polygon", "coordinates": [RING]}
POINT = {"type": "Point", "coordinates": [8, 50, 99]}
FEATURES = [
    {"type": "Feature", "id": "f", "geometry": TRIANGLE, "properties": {"events": ["enter"], "meta": {"name": "x"}}},
    {
        "type": "Feature",
        "geometry": POINT,
        "properties": {"id": 2, "metres": 5},
    },
    {"type": "Feature", "geometry": None, "properties": {"id": "e", "where": "a = 1"}},
]


@pytest.fixture
def put(tmp_path):
    """Writes a file and returns its path."""

    def made(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return made


def lines_of(rows):
    return "\n".join(json.dumps(row) for row in rows) + "\n"


def test_json_lines_with_bad_ones_between(put):
    """Blank lines are none; each bad line is named by its number; a mark of UTF-8 and \\r\\n do not matter."""
    good = [{"id": 1, "circle": [1, 2, 3]}, {"id": "ü", "box": [1, 2, 3, 4]}]
    bad = ['{"id": 3, "circle": [1, 2, NaN]}', "[1]", '{"id"']
    path = put("a.jsonl", "\ufeff" + lines_of(good).replace("\n", "\r\n") + "\n\n" + "\n".join(bad))
    read = read_files([path])
    assert read.table["id"].to_pylist() == ["1", "ü"]
    assert [(one.row, one.id) for one in read.bad] == [(5, None), (6, None), (7, None)]
    assert read.bad[0].file == path
    assert "it is not JSON: " in read.bad[0].reason
    assert "NaN is no value of JSON" in read.bad[0].reason
    assert "at column 6" in read.bad[2].reason
    assert "it is of type list" in read.bad[1].reason
    assert read.rows == 5


@pytest.mark.parametrize("form", ["collection", "indented", "lines", "list"])
def test_geojson_of_every_form(put, form):
    """A FeatureCollection on one line or many, a Feature on each line, a list of them."""
    whole = {"type": "FeatureCollection", "features": FEATURES}
    text = {
        "collection": json.dumps(whole),
        "indented": json.dumps(whole, indent=2),
        "lines": lines_of(FEATURES),
        "list": json.dumps(FEATURES, indent=1),
    }[form]
    read = read_files([put("a.geojson", text)])
    assert read.bad == ()
    assert write_rows(read.table) == [
        {"id": "f", "polygon": TRIANGLE | {"edges": "planar"}, "events": ["enter"], "meta": {"name": "x"}},
        {"id": "2", "circle": [8.0, 50.0, 5.0], "events": ["inside"]},
        {"id": "e", "where": "a = 1", "events": ["inside"]},
    ]


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ({"geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {}}, "[lon, lat, metres] is wanted"),
        (
            {"geometry": {"type": "Point", "coordinates": [1]}, "properties": {"radius": 4}},
            "[lon, lat, metres] is wanted",
        ),
        ({"geometry": {"type": "Point"}, "properties": {"radius": 4}}, "circle is"),
        ({"geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"radius": -4}}, "radius is -4"),
        ({"geometry": {"type": "LineString", "coordinates": [[1, 2], [2, 3]]}, "properties": {}}, "'LineString'"),
        ({"geometry": "here", "properties": {}}, "'here' is not GeoJSON"),
        ({"geometry": TRIANGLE, "properties": {"polygon": TRIANGLE}}, "'geometry' is nothing that a subscription has"),
        ({"geometry": TRIANGLE, "properties": {"box": [1, 2, 3, 4]}}, "one place is wanted"),
        ({"geometry": TRIANGLE, "properties": {"name": "Soho"}}, "belongs into meta"),
        ({"geometry": TRIANGLE, "properties": 7}, "it is of type int"),
    ],
)
def test_a_bad_feature_is_named(put, feature, said):
    """By its number in a collection."""
    whole = {"type": "FeatureCollection", "features": [FEATURES[0], {"type": "Feature", "id": 7} | feature]}
    read = read_files([put("a.json", json.dumps(whole))])
    assert (len(read.table), [one.row for one in read.bad]) == (1, [2])
    assert said in read.bad[0].reason


def test_an_id_twice_in_one_file_or_two_is_named(put):
    """The first stays."""
    one = put("a.jsonl", lines_of([{"id": 1}, {"id": 2}, {"id": "1"}]))
    two = put("b.jsonl", lines_of([{"id": 5, "box": [1, 1, 1, 1]}, {"id": 3}, {"id": 2}]))
    read = read_files([one, two])
    assert read.table["id"].to_pylist() == ["1", "2", "3"]
    assert [(bad.file, bad.row, bad.id) for bad in read.bad] == [(one, 3, "1"), (two, 1, "5"), (two, 3, "2")]
    assert f"{one}:1 has it too" in read.bad[0].reason
    assert "stands in a file before" in read.bad[2].reason


def test_what_is_no_file_of_subscriptions(put, tmp_path):
    """Missing, empty, broken, of another kind: in a line that names it."""
    for path, said in [
        (str(tmp_path / "none"), "is not there"),
        (str(tmp_path), "is a folder: name its files"),
        (put("a", " \n"), "is empty"),
        (put("b.geojson", '{\n"type": "FeatureCollection",\n'), "it is not JSON: .* at line 3, column 1"),
        (put("c.json", '{"type": "FeatureCollection", "features": 7}'), "without a list of features"),
        (put("d.parquet", b"PAR1 and no more"), "cannot be read"),
        (put("e.csv", "id,x\n1,2\n"), "is no JSON and no Parquet: .* DuckDB and pandas make Parquet of CSV"),
        (put("f.gpkg", b"SQLite format 3\0\xff"), "is no JSON and no Parquet"),
    ]:
        with pytest.raises(InputError, match=said) as raised:
            read_files([path])
        assert path in str(raised.value)
        assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match="no files are given"):
        read_files([])


@pytest.mark.parametrize("fast", [False, True])
def test_json_means_the_same_with_and_without_orjson(monkeypatch, fast):
    """What it refuses, the decoder of the standard library judges."""
    if not fast:
        monkeypatch.setattr(geojson_members, "_fast", lambda: None)
    assert read_json(b'{"a": [1, 2.5, "\xc3\xbc", null]}') == {"a": [1, 2.5, "ü", None]}
    for text, said in [
        (b"", "Expecting value at column 1"),
        (b"[NaN]", "NaN is no value of JSON"),
        (b"[-Infinity]", "-Infinity is no value"),
        (b'{"a": 1,}', "at column"),
        (b"[1]\n]", "Extra data at line 2, column 1"),
        (b'"\xff"', "not in UTF-8 at byte 2"),
        (b"[" * 100_000, "nests too deep"),
    ]:
        with pytest.raises(ValueError, match=f"it is not JSON.*{said}"):
            read_json(text)


def parquet(tmp_path, table, name="a.parquet"):
    pq.write_table(table, tmp_path / name)
    return str(tmp_path / name)


def test_parquet_flat_nested_and_as_it_is_kept(tmp_path):
    """Circles from columns of numbers; a table of our own; a column that is none."""
    flat = pa.table({"id": [1, 2], "lon": [1, 2], "lat": [3, 4], "radius": [5, -5]})
    read = read_files([parquet(tmp_path, flat)])
    assert write_rows(read.table) == [{"id": "1", "circle": [1.0, 3.0, 5.0], "events": ["inside"]}]
    assert [(one.row, one.id) for one in read.bad] == [(2, "2")]
    kept, _ = check_subscriptions(
        [{"id": 1, "around": {"object": "o", "metres": 2}, "expires": 9, "meta": [1]}, {"id": 2}]
    )
    assert read_files([parquet(tmp_path, kept)]).table.equals(kept)
    with pytest.raises(InputError, match=r"a.parquet cannot be read: column 'speed' is nothing"):
        read_files([parquet(tmp_path, pa.table({"id": [1], "speed": [2]}))])


def geo(table, crs="OGC:CRS84"):
    """A table as GeoParquet."""
    column = {"encoding": "WKB", "geometry_types": [], "crs": {"id": {"authority": crs[:4], "code": crs[5:]}}}
    if crs == "OGC:CRS84":
        del column["crs"]
    told = {"version": "1.0.0", "primary_column": "geometry", "columns": {"geometry": column}}
    return table.replace_schema_metadata({"geo": json.dumps(told)})


def test_geoparquet_of_polygons_and_of_points(tmp_path):
    """In well-known binary; the CRS has to be that of the watch."""
    polygon = struct.pack("<BIII8d", 1, 3, 1, 4, *(c for corner in RING for c in corner))
    table = geo(pa.table({"id": [1, 2], "geometry": pa.array([polygon, None], pa.binary()), "where": [None, "a = 1"]}))
    read = read_files([parquet(tmp_path, table)])
    assert read.bad == ()
    assert [row.get("polygon") for row in write_rows(read.table)] == [TRIANGLE | {"edges": "planar"}, None]
    said = table.schema.metadata[b"geo"].replace(b'"encoding"', b'"edges": "spherical", "encoding"')
    sphere = table.replace_schema_metadata({b"geo": said})
    read = read_files([parquet(tmp_path, sphere)])
    assert [row.get("polygon") for row in write_rows(read.table)] == [TRIANGLE | {"edges": "spherical"}, None]
    point = struct.pack("<BI2d", 1, 1, 8.0, 50.0)
    points = geo(pa.table({"id": [1, 2], "geometry": pa.array([point, None], pa.binary()), "radius": [5.0, None]}))
    read = read_files([parquet(tmp_path, points)])
    assert (read.bad, read.table["x"].to_pylist(), read.table["radius"].to_pylist()) == ((), [8.0, None], [5.0, None])
    with pytest.raises(InputError, match="EPSG:32610"):
        read_files([parquet(tmp_path, table)], Space("EPSG:32610", "plane"))


def test_geojson_that_says_a_crs(put):
    """As GDAL writes it; the CRS has to be that of the watch."""
    for name, space in (
        ("urn:ogc:def:crs:OGC:1.3:CRS84", None),
        ("urn:ogc:def:crs:EPSG::32610", space_of("EPSG:32610")),
    ):
        whole = {"type": "FeatureCollection", "features": FEATURES, "crs": {"properties": {"name": name}}}
        path = put("a.geojson", json.dumps(whole))
        assert len(read_files([path], space).table) == 3
        with pytest.raises(InputError, match=r"and the watch in EPSG:32633: transform them first, gdf.to_crs"):
            read_files([path], space_of("EPSG:32633"))


def test_what_is_known_of_a_watch(tmp_path):
    """Degrees, then the CRS of the first change, then all that the last batch says."""
    home = Home(str(tmp_path / "store"))
    check_space(home, space_of("EPSG:32610"))
    known = known_of(home)
    assert (known.space, known.schema, known.text, known.time) == (space_of(), None, None, None)
    plane = space_of("EPSG:32610")
    assert known_of(home, crs="EPSG:32610", allow_everything=True).space == plane
    assert known_of(home, allow_everything=True).allow_everything
    subscribe(home, check_subscriptions([{"id": 1}])[0], space=plane)
    check_space(home, plane)
    with pytest.raises(InputError, match=r"are in EPSG:32610 \(plane\) and the rows in EPSG:4326 \(sphere\)"):
        check_space(home, space_of())
    assert known_of(home).space == plane == known_of(home, crs="epsg:32610").space
    with pytest.raises(InputError, match=r"in EPSG:4326 \(sphere\) and watch 'default' is in EPSG:32610 \(plane\)"):
        known_of(home, crs="EPSG:4326")
    with pytest.raises(InputError, match="sphere"):
        known_of(home, crs="EPSG:32610", metric="sphere")
    settings = Settings(plane, "int64", None, "words", attributes={"speed": pa.float64()})
    home.folder.make("commits")
    Chain(home.folder).append({"kind": "watch", "settings": settings.as_json()}, None)
    known = known_of(home)
    assert (known.space, dict(known.schema or {})["speed"], known.text, known.time) == (
        plane,
        pa.float64(),
        True,
        False,
    )
    with pytest.raises(ValueError, match="crs 'nonsense'"):
        known_of(home, crs="nonsense")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"circle": [8, 50, 20]}, "within 20 m of 8, 50"),
        ({"box": [1, 2, 3, 4.5]}, "from 1, 2 to 3, 4.5"),
        ({"polygon": TRIANGLE}, "a polygon of 4 corners"),
        ({"polygon": {"type": "MultiPolygon", "coordinates": [[RING], [RING, RING]]}}, "12 corners in 2 parts"),
        ({"around": {"object": 7, "metres": 1500}}, "within 1.5 km of object 7"),
        ({}, "everywhere"),
    ],
)
def test_places_in_words(row, words):
    """In metres and kilometres; in a plane in units."""
    table, _ = check_subscriptions([{"id": 1} | row])
    assert words in place_in_words(write_rows(table)[0], True)
    assert ("units" in place_in_words(write_rows(table)[0], False)) == ("circle" in row or "around" in row)


def test_the_collector_works_again_after_a_file(put):
    """Whether it could be read or not; one that rests goes on resting."""
    for path in (put("a.jsonl", '{"id": 1}\n'), put("b.jsonl", " ")):
        for before in (True, False):
            (gc.enable if before else gc.disable)()
            try:
                with contextlib.suppress(InputError):
                    read_files([path])
                assert gc.isenabled() == before
            finally:
                gc.enable()


def test_rows_of_many_pieces_keep_their_lines(put, monkeypatch):
    """Bad ones, and ids that stand in another piece."""
    monkeypatch.setattr(validation, "_AT_ONCE", 3)
    rows = [{"id": number % 11, "circle": [1, 2, -1 if number == 8 else 1]} for number in range(13)]
    read = read_files([put("a.jsonl", "\n" + lines_of(rows))])
    assert sorted(map(int, read.table["id"].to_pylist())) == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert [(bad.row, bad.id) for bad in read.bad] == [(10, "8"), (13, "0"), (14, "1")]
    assert "a.jsonl:2 has it too" in read.bad[1].reason
