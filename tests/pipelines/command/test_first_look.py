"""What is wrong with columns, CRS, formats and folders is said by footers and first lines, before Spark starts."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.local_joins.first_look import check_columns, first_of, look_at, said_of_ids
from pipelines.rows.inputs import look
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.rows.reading import with_points

HEADER = "who,lons,lat,when\n"
ROW = {"who": 1, "lons": 2.0, "lat": 3.0, "when": "2026-05-01"}
WRITE = {
    "csv": lambda path: path.write_text(f"{HEADER}1,2,3,2026-05-01\n"),
    "tsv": lambda path: path.write_text(HEADER.replace(",", "\t")),
    "csv.gz": lambda path: path.write_bytes(gzip.compress(f"\ufeff{HEADER}1,2,3,\n".encode())),
    "jsonl": lambda path: path.write_text(json.dumps(ROW) + "\n{broken\n"),
    "parquet": lambda path: pq.write_table(pa.Table.from_pylist([ROW]), path),
}
MISTAKES = [
    (("--id", "id", "--x", "lons"), "there is no column 'id' (--id NAME); the columns are who, lons, lat, when"),
    (("--id", "who"), "there is no column 'lon' (--x NAME); the columns are who, lons, lat, when; did you mean lons?"),
    (
        ("--id", "who", "--x", "lons", "--time", "wen"),
        "'wen' (--time NAME); the columns are who, lons, lat, when; did yo",
    ),
    (("--id", "who", "--geometry", "shape"), "there is no column 'shape' (--geometry NAME)"),
    (
        ("--id", "who", "--x", "lons", "--geometry", "lat"),
        "--geometry and --x, --y are two ways to say where positions",
    ),
    (
        ("--id", "who", "--x", "lons", "--time", "when", "--time-format", "%Y-%m-%d"),
        "time format '%Y-%m-%d' is not known",
    ),
    (("--id", "who", "--x", "lons", "--time", "when", "--zone", "Asia/Shangai"), "--zone 'Asia/Shangai' is not known"),
]


@pytest.fixture
def here(tmp_path):
    """A folder with a store, and one in which a file arrives."""
    stored(dtoss.build([1], [[2.0, 3.0]]), tmp_path / "store")
    (tmp_path / "in").mkdir()
    return tmp_path


def doors(folder, ending):
    """The commands that read rows, with the file of an ending, and where they write."""
    file, store = folder / "in" / f"a.{ending}", folder / "store"
    return {
        "rebuild": ("rebuild", file, "--store", folder / "new"),
        "updates": ("rebuild", "--updates", folder / "in", "--store", store),
        "run": ("run", "--updates", folder / "in", "--store", store, "--cycles", 1),
        "watch": ("watch", folder / "in", "--store", store, "--once"),
        "windows": ("windows", "run", folder / "in", "--store", store, "--name", "w", "--lengths", "1h", "--once"),
        "append": ("history", "append", file, "--history", folder / "past"),
        "patterns": ("patterns", file, "--store", store, "--out", folder / "p.parquet"),
        "spark": ("knn", "--store", store, "--queries", file, "--out", folder / "q.csv", "--master", "local[1]"),
        "here": ("knn", "--store", store, "--queries", file, "--out", folder / "q.csv"),
    }


def without(mistake, door):
    """Whether a command has no such option."""
    words = set(mistake)
    return ("--id" in words and door == "patterns") or (
        bool({"--time", "--zone"} & words) and door in ("spark", "here")
    )


@pytest.mark.parametrize("ending", WRITE)
def test_a_column_that_is_not_there_costs_no_spark(here, command, no_spark, ending):
    """For each kind of file, with the option that names it."""
    WRITE[ending](here / "in" / f"a.{ending}")
    for mistake, said in MISTAKES:
        assert said in command.fails(*doors(here, ending)["rebuild"], *mistake), mistake


@pytest.mark.parametrize("door", ["updates", "run", "watch", "windows", "append", "spark", "here"])
def test_every_door_looks_first(here, command, no_spark, door):
    """Loops too, which would start Spark with the first file."""
    path = here / "in" / "a.csv"
    WRITE["csv"](path)
    os.utime(path, (1, 1))
    for mistake, said in MISTAKES:
        if not without(mistake, door):
            assert said in command(*doors(here, "csv")[door], *mistake).err, mistake


def test_patterns_look_first(here, command, no_spark):
    """Weights, k and radius are columns or numbers; a column that is not there is named with the option."""
    WRITE["parquet"](here / "in" / "a.parquet")
    patterns = doors(here, "parquet")["patterns"]
    for option in ("--weight", "-k", "--radius"):
        said = command.fails(*patterns, "--x", "lons", "--time", "when", option, "nope")
        assert said.startswith(f"there is no column 'nope' ({option} NAME); the columns are who, lons"), option
    path = here / "in" / "a.parquet"
    pq.write_table(pq.read_table(path).append_column("free", pa.array([True])), path)
    assert "'free' is bool: numbers are wanted" in command.fails(*patterns, "--x", "lons", "--weight", "free")
    assert "weight is -1: a number from 0 to 1e9" in command.fails(*patterns, "--weight", "-1")
    assert "there is no column 'lon' (--x NAME)" in command.fails(*patterns, "--weight", "1000000")


@pytest.mark.parametrize(
    "door", ["rebuild", "updates", "run", "watch", "windows", "append", "patterns", "spark", "here"]
)
def test_a_crs_that_is_null_is_not_known(here, command, no_spark, door):
    """Degrees are no default of it, at any door; another CRS than the store's is not taken either."""
    with_points(here / "in" / "a.parquet", {"crs": None})
    said = command(*doors(here, "parquet")[door])
    assert said.code == 2
    assert "geometry column 'geometry' has no known CRS (crs is null): say it, --crs EPSG:4326" in said.err
    assert "--crs none" in said.err


def test_a_folder_that_cannot_be_one_is_told_first(here, command, no_spark):
    """Of a history, beside the rows that are read."""
    WRITE["csv"](here / "in" / "a.csv")
    names = ("--id", "who", "--x", "lons", "--time", "when", "--history", here / "in" / "a.csv")
    for door in ("rebuild", "updates", "append"):
        asked = [word for word in doors(here, "csv")[door] if word != "--history"]
        asked = asked[:-1] if door == "append" else asked
        assert "a.csv is no folder; name another one" in command.fails(*asked, *names), door


def test_types_of_parquet(tmp_path):
    """Those that are of no use are named; a path leads to the type of a field."""
    at = pa.array([{"lon": 1.0, "lat": True}])
    table = pa.table({"id": [1.5], "code": ["a"], "lon": [1.0], "lat": [2.0], "at": at, "ok": [True]})
    pq.write_table(table, tmp_path / "a.parquet")
    for columns, said in (
        ({}, "column 'id' is double: ids are integers or strings"),
        ({"id": "code", "x": "ok"}, "column 'ok' is bool: coordinates are numbers"),
        ({"id": "code", "x": "at.lon", "y": "at.lat"}, "column 'at.lat' is bool: coordinates are numbers"),
        ({"id": "code", "time": "ok"}, "column 'ok' is bool: times are timestamps"),
        (
            {"id": "code", "x": "at.lo", "y": "lat"},
            r"no column 'at.lo' .*fields of structs are named by their path, as at",
        ),
    ):
        with pytest.raises(InputError, match=said):
            look_at([str(tmp_path / "a.parquet")], Columns(**columns))
    assert look_at([str(tmp_path / "a.parquet")], Columns(id="code", x="at.lon", y="lat")).kind == "parquet"


def test_names_of_folders_and_files_without_a_header(tmp_path):
    """They are columns, too; other lines of JSON may have others, where not all were seen."""
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("id,lon,lat\n")
    check_columns(look([str(tmp_path)]), Columns(time="day"))
    (tmp_path / "b.csv").write_text("1;2;3\n")
    check_columns(look([str(tmp_path / "b.csv")]), Columns(id="c1", x="c2", y="c3", header=False, delimiter=";"))
    long = tmp_path / "c.jsonl"
    long.write_text(f'{json.dumps({"id": 1, "lon": 2, "lat": 3, "note": "x" * 2_000_000})}\n{{"id": 1, "t": 4}}\n')
    assert first_of(look([str(long)]), Columns()) is None
    long.write_text("\n".join(json.dumps({"id": i, "lon": 2, "lat": 3, "note": "x" * 20_000}) for i in range(100)))
    found = first_of(look([str(long)]), Columns())
    assert (found.names, found.whole) == (("id", "lon", "lat", "note"), False)
    check_columns(look([str(long)]), Columns(time="when"))
    with pytest.raises(InputError, match="no column 'uid'"):
        check_columns(look([str(long)]), Columns(id="uid"))


def test_an_empty_or_unreadable_file_is_left_to_the_reader(tmp_path):
    """It says more of it."""
    (tmp_path / "a.csv").write_text("")
    check_columns(look([str(tmp_path / "a.csv")]), Columns())
    check_columns(look(["s3a://bucket/positions.csv"]), Columns())


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ids_of_rows_are_told_from_those_of_objects(tmp_path, ending):
    """Where uid repeats and id does not; not where ids repeat, or one is named."""
    path = tmp_path / f"a.{ending}"

    def told(rows, **columns):
        table = [{"id": id, "uid": uid, "lon": 0.0, "lat": 0.0} for id, uid in rows]
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(table), path)
        elif ending == "jsonl":
            path.write_text("\n".join(map(json.dumps, table)))
        else:
            path.write_text("id,uid,lon,lat\n" + "".join(f"{id},{uid},0,0\n" for id, uid in rows))
        return said_of_ids(look([str(path)]), Columns(**columns))

    odd = [(1, 7), (2, 7), (3, 8)]
    assert "uid repeats (2 in the first 3 rows): --id uid" in told(odd)
    assert told(odd, id="uid") is None
    assert told([(1, 7), (1, 7), (3, 8)]) is None
    assert told([(1, 7), (2, 9), (3, 8)]) is None
