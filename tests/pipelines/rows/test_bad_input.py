"""Nothing bad is dropped without being counted, and a rebuild that fails leaves the store as it was."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import read_positions
from tests.pipelines.rows.reading import read_rows
from tests.pipelines.stores import listing, made, rebuilt, rejected

GOOD = 40
BAD = {
    "no id": (None, 1.0, 1.0),
    "no position": (101, None, 1.0),
    "position is NaN": (102, math.nan, 1.0),
    "position is infinite": (103, 1.0, -math.inf),
    "longitude out of range": (104, 180.0000001, 1.0),
    "latitude out of range": (105, 1.0, -90.5),
}


def good(n=GOOD):
    rng = np.random.default_rng(2)
    return [(i, *rng.uniform(-80, 80, 2).tolist()) for i in range(n)]


def table_of(rows):
    ids, lon, lat = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "lon": pa.array(lon, pa.float64()), "lat": lat})


def test_each_bad_row_is_set_aside_with_its_reason(engine, tmp_path):
    """Null, NaN, infinite and out-of-range positions and null ids: counted, kept in the quarantine, not indexed."""
    table = table_of([*good(), *BAD.values(), (200, 180.0, 90.0), (201, -180.0, -90.0)])
    store = tmp_path / "store"
    manifest = rebuild(engine.createDataFrame(table), str(store), max_bad=0.2)
    assert manifest["counts"] == {
        "read": GOOD + 8, "kept": GOOD + 2, "duplicates": 0, "quarantined": dict.fromkeys(BAD, 1),
    }  # fmt: skip
    found = dict(rejected(store, manifest))
    assert found.keys() == BAD.keys()
    assert {row["id"] for row in found.values()} == {None, 101, 102, 103, 104, 105}
    assert found["latitude out of range"] == {"id": 105, "lon": 1.0, "lat": -90.5}
    index = dtoss.open(str(store))
    assert len(index) == GOOD + 2
    assert 104 not in index


def counted(engine, table, folder, **options):
    """The counts of a rebuild that writes nothing: it judges all rows."""
    return rebuild(engine.createDataFrame(table), str(folder / "store"), dry_run=True, **options)["counts"]


def test_of_several_faults_the_first_reason_counts(engine, tmp_path):
    """A row is counted once."""
    table = table_of([*good(), (None, math.nan, 99.0)])
    assert counted(engine, table, tmp_path)["quarantined"] == {"no id": 1}


@pytest.mark.parametrize(("max_bad", "fails"), [(0.0, True), (0.19, True), (0.2, False), (1.0, False)])
def test_too_many_bad_rows_fail_and_the_store_stays(engine, tmp_path, max_bad, fails):
    """More than the share: an error with the counts by reason; that share exactly is allowed."""
    store = tmp_path / "store"
    made(table_of(good(5)), store, partitions=2)
    before = listing(store)
    table = table_of([*good(8), BAD["no position"], BAD["no id"]])
    if fails:
        with pytest.raises(InputError, match=r"2 of 10 rows are bad \(1 no id; 1 no position\).*--max-bad") as error:
            rebuilt(engine, table, store, max_bad=max_bad)
        assert "\n" not in str(error.value)
        assert listing(store) == before
    else:
        assert len(rebuilt(engine, table, store, max_bad=max_bad)) == 8


def test_all_rows_bad(engine, tmp_path):
    """An error as a rule; a legal empty snapshot where it was allowed."""
    table = table_of(list(BAD.values()))
    with pytest.raises(InputError, match="6 of 6 rows are bad"):
        rebuilt(engine, table, tmp_path / "store")
    assert len(rebuilt(engine, table, tmp_path / "store", max_bad=1.0, allow_empty=True)) == 0


def test_swapped_axes_and_longitudes_to_360_are_recognised(engine, tmp_path):
    """The message says what the rows look like."""
    swapped = table_of([(i, 39.9, 116.4) for i in range(20)])
    with pytest.raises(InputError, match="lon and lat swapped"):
        rebuilt(engine, swapped, tmp_path / "store")
    east = table_of([(i, 15.0 * i, 10.0) for i in range(24)])
    with pytest.raises(InputError, match=r"11 longitude out of range.*0 to 360: subtract 360"):
        rebuilt(engine, east, tmp_path / "store")


def test_many_rows_at_zero_are_legal_but_told(engine, tmp_path):
    """(0, 0) is a place; more than 0.1 % of the rows there are worth a warning."""
    said = []
    one = table_of([*good(999), (1000, 0.0, 0.0)])
    assert counted(engine, one, tmp_path, warn=said.append)["kept"] == 1000
    assert said == []
    two = table_of([*good(998), (1000, 0.0, 0.0), (1001, 0.0, -0.0)])
    assert counted(engine, two, tmp_path, warn=said.append)["kept"] == 1000
    assert said == ["2 of 1,000 rows are at (0, 0): is that where they are, or is it 'unknown'?"]


def test_positions_that_a_projection_cannot_place(engine, tmp_path):
    """In the plane what is neither huge nor tiny is legal; on the sphere of a projected CRS it must be a place."""
    table = pa.table({"id": range(12), "x": [5e5] * 10 + [1e30, 1e91], "y": [4e6 + i for i in range(12)]})
    assert counted(engine, table, tmp_path, crs="EPSG:32610")["quarantined"] == {"position out of range": 1}
    tiny = pa.table({"id": range(12), "x": [0.0] * 10 + [1e-81, -1e-140], "y": [4e6 + i for i in range(12)]})
    assert counted(engine, tiny, tmp_path, crs="none", max_bad=0.2)["quarantined"] == {"position out of range": 2}
    options = {"crs": "EPSG:32610", "metric": "sphere", "max_bad": 0.2}
    counts = rebuild(engine.createDataFrame(table), str(tmp_path / "store"), **options)["counts"]
    assert counts["quarantined"] == {"position out of range": 2}


def test_a_missing_column_lists_those_found(engine, tmp_path):
    """For each role, with the option that names another."""
    frame = engine.createDataFrame(pa.table({"who": [1], "lons": [1.0], "lat": [2.0], "when": [3]}))
    columns = "the columns are who, lons, lat, when"
    for options, missing, meant in (
        ({}, "there is no column 'id' (--id NAME)", ""),
        ({"id": "who"}, "there is no column 'lon' (--x NAME)", "; did you mean lons?"),
        ({"id": "who", "x": "lons", "y": "latitude"}, "there is no column 'latitude' (--y NAME)", ""),
        ({"id": "who", "x": "lons", "time": "t"}, "there is no column 't' (--time NAME)", ""),
        ({"id": "who", "x": "lons", "columns": "speed"}, "there is no column 'speed' (--columns NAME)", ""),
    ):
        with pytest.raises(InputError) as error:
            rebuild(frame, str(tmp_path / "store"), **options)
        assert str(error.value) == f"{missing}; {columns}{meant}"
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("changed", "options", "words"),
    [
        ({"id": [1.5]}, {}, "column 'id' is double: ids are integers or strings"),
        ({"lon": [True]}, {}, "column 'lon' is boolean: coordinates are numbers"),
        ({"t": [True]}, {"time": "t"}, "column 't' is boolean: times are"),
    ],
)
def test_a_column_of_a_useless_type(engine, tmp_path, changed, options, words):
    """The message names the column and its type."""
    table = pa.table({"id": [1], "lon": [1.0], "lat": [2.0]} | changed)
    with pytest.raises(InputError, match=words):
        rebuild(engine.createDataFrame(table), str(tmp_path / "store"), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitions": 0}, "partitions is 0"),
        ({"partitions": 2.0}, "partitions is 2.0"),
        ({"objects_per_partition": -1}, "objects_per_partition is -1"),
        ({"partitions": 2, "objects_per_partition": 5}, "one of them"),
        ({"keep": 0}, "keep is 0"),
        ({"max_bad": 1.1}, "max_bad is 1.1"),
        ({"max_bad": math.nan}, "max_bad is nan"),
        ({"reach": -0.1}, "reach is -0.1"),
        ({"pivots": "random"}, "pivots is 'random': balanced, spread or keep"),
        ({"on_duplicate": "first"}, "on_duplicate is 'first': error or any"),
        ({"crs": "EPSG:1"}, "EPSG:1"),
        ({"metric": "cube"}, "cube"),
        ({"crs": "none", "bounds": [0, 0, 0, 1]}, "bounds"),
    ],
)
def test_a_bad_argument_is_named(engine, tmp_path, options, words):
    """ValueError with the argument and its value; nothing is written."""
    with pytest.raises(ValueError, match=words):
        rebuilt(engine, table_of(good(3)).rename_columns(["id", "x", "y"]), tmp_path / "store", **options)
    assert not list((tmp_path).rglob("manifest.json"))


CSV = """id,lon,lat,name
1,116.40,39.90,a
2,x,39.91,b
3,116.42
4,116.43,39.93,d,more
,116.44,39.94,e
6,,39.95,f
seven,116.46,39.96,g
8,400.17,39.97,h
9,116.48,NaN,i
10,116.49,39.99,"j, k"
""" + "".join(f"{i},1.5,2.5,n\n" for i in range(100, 170))


def test_dirt_in_text(session, tmp_path):
    """Lines of another length, texts for numbers, empty fields: each with its reason and the row as it was read."""
    path = tmp_path / "dirty.csv"
    path.write_text(CSV)
    read = read_positions(session, [str(path)], Columns())
    manifest = rebuild(read, str(tmp_path / "store"))
    assert manifest["counts"]["quarantined"] == {
        "unreadable line": 2,
        "no id": 1,
        "id is not an integer as the others are": 1,
        "no position": 1,
        "position is not a number": 1,
        "position is NaN": 1,
        "longitude out of range": 1,
    }
    raw = rejected(tmp_path / "store", manifest)
    assert {row["_corrupt_record"] for reason, row in raw if reason == "unreadable line"} == {
        "3,116.42",
        "4,116.43,39.93,d,more",
    }
    assert ("position is not a number", "x") in [(reason, row["lon"]) for reason, row in raw]
    index = dtoss.open(str(tmp_path / "store"))
    assert index[10] == {"id": 10, "lon": 116.49, "lat": 39.99, "name": "j, k"}
    assert len(index) == 72


def test_dirt_in_json_lines(session, tmp_path):
    """A line that is no JSON is one bad row."""
    path = tmp_path / "dirty.jsonl"
    lines = [json.dumps({"id": i, "lon": i / 10, "lat": 1.0}) for i in range(30)]
    path.write_text("\n".join([*lines, '{"id": 99, "lon": 1', '{"id": 98, "lat": 1.0}']) + "\n")
    rows = read_rows(session, path)
    assert rows.reasons == {"unreadable line": 1, "no position": 1}
    assert len(rows.by_id) == 30
