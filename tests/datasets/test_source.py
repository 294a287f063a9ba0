from datetime import UTC, datetime

import pyarrow as pa
import pytest

from datasets.delimited import delimited
from datasets.tables.command import BadInput
from datasets.tables.fields import BLOCK, Layout
from datasets.tables.format_source import Column, Notation, Source
from datasets.tables.standard_rows import collect


@pytest.fixture
def read(tmp_path):
    def read(content, *more, **source):
        files = []
        for number, text in enumerate((content, *more)):
            files.append(tmp_path / f"file{number}.csv")
            files[-1].write_text(text)
        schema, parts = delimited(files, Source(**source))
        table, counts = collect(parts, schema)
        assert table.schema == schema
        return table.to_pylist(), counts

    return read


def test_standard_columns_in_their_order_whatever_the_order_of_the_file(read):
    rows, counts = read(
        "speed,lat,when,who,lon\n5,39.9,2008-02-02 15:36:08,7,116.4\n",
        uid="who",
        time=("when",),
        zone="Asia/Shanghai",
        columns={"speed_mps": Column("speed", pa.float32())},
    )
    assert list(rows[0]) == ["id", "uid", "t", "lon", "lat", "speed_mps"]
    assert list(rows[0].values()) == [0, 7, datetime(2008, 2, 2, 7, 36, 8, tzinfo=UTC), 116.4, 39.9, 5.0]
    assert (counts.read, counts.kept, dict(counts.dropped), dict(counts.flawed)) == (1, 1, {}, {})


DIRT = """who,lat,lon,when
1,39.9,116.4,2008-02-02
2,400.17,116.2,2008-02-02
3,91,181,2008-02-02
4,,116.4,2008-02-02
5,north,116.4,2008-02-02
6,116.4,39.9,2008-02-02
7,0,0,2008-02-02

8,39.9,116.4,yesterday
9,39.9,116.4
,39.9,116.4,2008-02-02
x,39.9,116.4,2008-02-02
10,39.9,200.5,2008-02-02
11,90,-180,2008-02-02
"""


def test_dirt_is_dropped_or_flawed_under_its_reason_with_an_example(read):
    rows, counts = read(DIRT, uid="who", time=("when",), uid_type=pa.int64())
    assert [row["uid"] for row in rows] == ["1", "7", "8", "x", "11"]  # one is no number, so all are strings
    rows, counts = read(DIRT.replace("x,", "-,"), uid="who", time=("when",))
    assert [row["uid"] for row in rows] == [1, 7, 8, 11]
    assert [row["id"] for row in rows] == [0, 1, 2, 3]
    assert (counts.read, counts.kept) == (14, 4)
    assert counts.dropped == {
        "latitude out of range": 1,
        "AIS 'position not available' (lon 181 or lat 91)": 1,
        "no position": 1,
        "position is not a number": 1,
        "axes look swapped (|lat| > 90 and |lon| <= 90)": 1,
        "empty line": 1,
        "wrong number of fields": 1,
        "no uid": 2,
        "longitude in (180, 360]": 1,
    }
    assert counts.flawed == {"time null: cannot be read": 1, "position (0, 0): legal, often a default": 1}
    assert counts.examples["latitude out of range"] == "lon=116.2, lat=400.17, when=2008-02-02, who=2 in file0.csv"
    assert rows[2]["t"] is None


def test_ids_are_whole_numbers_or_strings_as_the_first_block_has_it(read):
    rows, _ = read("k,lon,lat\n5,1,2\n7.0,1,2\n", id="k")
    assert [row["id"] for row in rows] == [5, 7]
    rows, _ = read("k,lon,lat\nus1000,1,2\n7,1,2\n", id="k")
    assert [row["id"] for row in rows] == ["us1000", "7"]
    many = "k,lon,lat\n" + "1,1,2\n" * (BLOCK // 6 + 10) + "us1000,1,2\n,1,2\n"
    rows, counts = read(many, id="k")
    assert counts.dropped == {"id is not a whole number": 1, "no id": 1}
    assert read("k,lon,lat\n", id="k")[0] == []


def test_rows_are_numbered_over_files_and_counts_added(read):
    rows, counts = read("lon,lat\n1,2\n1,200\n", "lat,lon\n4,3\n")
    assert [(row["id"], row["lon"], row["lat"]) for row in rows] == [(0, 1, 2), (1, 3, 4)]
    assert (counts.read, counts.dropped["latitude out of range"]) == (3, 1)


def test_one_field_positions(read):
    rows, _ = read("p\n38.74 -90.37\n", position=("p",), notation=Notation.lat_lon)
    assert (rows[0]["lon"], rows[0]["lat"]) == (-90.37, 38.74)
    rows, _ = read("p\n-90.37 38.74\n", position=("p",), notation=Notation.lon_lat)
    assert (rows[0]["lon"], rows[0]["lat"]) == (-90.37, 38.74)
    rows, counts = read("p\nPOINT (-90.37 38.74)\nPOINT EMPTY\n", position=("p",), notation=Notation.wkt)
    assert (rows[0]["lon"], rows[0]["lat"]) == (-90.37, 38.74)
    assert counts.dropped == {"position is not a number": 1}


def test_swapped_axes_are_reported_and_exchanged_on_demand(read):
    new_york = "lon,lat\n" + "\n".join(f"40.{i},-73.9" for i in range(600, 800)) + "\n"
    rows, counts = read(new_york, check_axes=True)
    assert len(rows) == counts.kept == 200
    assert "look swapped" in counts.notes[0]
    rows, counts = read(new_york, check_axes=True, swap=True)
    assert (rows[0]["lon"], rows[0]["lat"]) == (-73.9, 40.6)
    assert counts.notes == ()
    beijing = "lon,lat\n" + "39.9,116.4\n" * 3
    rows, counts = read(beijing)
    assert rows == []
    assert counts.dropped == {"axes look swapped (|lat| > 90 and |lon| <= 90)": 3}


def test_decimal_commas_and_longitudes_from_greenwich_eastward(read):
    rows, _ = read(
        'lon;lat;v\n"286,1";40,7;1,5\n',
        layout=Layout(delimiter=";"),
        decimal=",",
        wrap=True,
        columns={"v": Column("v", pa.float64())},
    )
    assert rows[0]["lon"] == pytest.approx(-73.9)
    assert (rows[0]["lat"], rows[0]["v"]) == (40.7, 1.5)


def test_further_columns_keep_what_they_can_and_say_what_they_cannot(read):
    rows, counts = read(
        "lon,lat,a,b,c\n1,2,5,-777, x \n1,2,500,7,\n1,2,five,,x\n1,2,1.5,1,x\n",
        columns={
            "a": Column("a", pa.int8()),
            "b": Column("b", pa.float64(), missing=(-777.0,)),
            "c": Column("c"),
        },
    )
    assert [row["a"] for row in rows] == [5, None, None, None]
    assert [row["b"] for row in rows] == [None, 7, None, 1]
    assert [row["c"] for row in rows] == ["x", None, "x", "x"]
    assert counts.flawed == {"a null: not a number of its type": 3}


def test_dates_before_the_data_began_are_flawed(read):
    rows, counts = read("lon,lat,t\n1,2,2000-01-01\n1,2,2008-01-01\n", time=("t",), since="2007-04-01")
    assert [row["t"].year for row in rows] == [2000, 2008]
    assert counts.flawed == {"time before 2007-04-01, a clock that was not set (time kept)": 1}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"position": ("lon",)}, "two fields"),
        ({"position": ("lon", "lat"), "notation": Notation.wkt}, "one field"),
        ({"time": ("t",), "date": ("y", "m", "d")}, "give one of them"),
        ({"time": ("t",), "zone": "Mars"}, "'Mars'"),
        ({"formats": ("soon",)}, "'soon'"),
        ({"position": ("x", "lat")}, "'x' is missing; the columns are lon, lat"),
    ],
)
def test_descriptions_that_cannot_be_followed(read, source, says):
    with pytest.raises(BadInput, match=says):
        read("lon,lat\n1,2\n", **source)
