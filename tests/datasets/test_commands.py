"""The modules as commands: what they write and say, and what they refuse in one line."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datasets.tables.command import BadInput

ROOT = Path(__file__).parents[2]


def started(module, *options):
    """(exit code, what it prints, what it says) of a command in a process of its own, as users start it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"datasets.{module}", *map(str, options)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    return done.returncode, done.stdout, done.stderr


def test_uniform_writes_either_metric_and_refuses_in_one_line(tmp_path, dataset):
    out = tmp_path / "a.parquet"
    box = ("--box", -75, 40, -73, 41)
    said = dataset("uniform", "--rows", 10, "--out", out, "--seed", 3, "--metric", "sphere", *box)
    assert said == f"uniform: 10 rows -> {out}\n"
    table = pq.read_table(out)
    assert table.column_names == ["id", "lon", "lat"]
    assert -75 <= table["lon"][0].as_py() <= -73
    said = dataset("uniform", "--rows", -1, "--out", out, code=2)
    assert said == "error: rows is -1: give 0 or more\n"
    said = dataset("uniform", "--rows", 1, "--out", tmp_path / "nowhere" / "a.parquet", code=2)
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "Missing option '--out'" in dataset("uniform", "--rows", 1, code=2)


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("uniform", ("--rows", 10**12)),
        ("hotspots", ("--rows", 10**12)),
        ("degenerate", ("--kind", "grid", "--rows", 10**12)),
        ("fleet", ("--taxis", 10**9)),
        ("fleet", ("--taxis", 10**9, "--cycles", 1)),
        ("delimited", ("missing.csv",)),
        ("snap", ("missing.csv",)),
        ("capri", ("missing.csv", "--places", "missing.txt")),
        ("workloads", ()),
        ("demo", ()),
    ],
)
def test_a_result_that_cannot_be_written_is_refused_before_the_work(tmp_path, module, options, dataset):
    """A file as a folder: the line names it, not the input that is missing, and nothing long begins."""
    (tmp_path / "file").touch()
    said = dataset(module, *options, "--out", tmp_path / "file" / "a.parquet", code=2)
    assert said.startswith(f"error: --out {tmp_path}/file/a.parquet: ")
    assert said.count("\n") == 1


def test_fleet_writes_updates_and_cycles(tmp_path, dataset):
    common = ("--taxis", 50, "--city", "San Francisco", "--seed", 1)
    dataset("fleet", *common, "--steps", 3, "--out", tmp_path / "updates.parquet")
    assert pq.read_table(tmp_path / "updates.parquet").num_rows == 150
    dataset("fleet", *common, "--cycles", 2, "--period", 300, "--out", tmp_path / "cycles")
    files = sorted((tmp_path / "cycles").iterdir())
    assert [file.name for file in files] == ["cycle-00000.parquet", "cycle-00001.parquet"]
    first, second = (pq.read_table(file) for file in files)
    assert first["uid"].equals(second["uid"])
    assert not first["lon"].equals(second["lon"])
    assert "exclude each other" in dataset("fleet", "--at", 1, "--rows", 1, "--out", "x", code=2)
    assert "no city 'Utopia Bay'" in dataset("fleet", "--city", "Utopia Bay", "--out", "x", code=2)


def test_hotspots_and_degenerate_write_what_they_say(tmp_path, dataset):
    out = tmp_path / "a.parquet"
    assert "100 rows round 10 cities" in dataset("hotspots", "--rows", 100, "--hotspots", 10, "--out", out)
    assert pq.read_table(out).column_names == ["id", "lon", "lat", "hotspot"]
    said = dataset("degenerate", "--kind", "great-circle", "--metric", "sphere", "--rows", 5, "--out", out)
    assert "5 rows, great-circle on the sphere" in said
    assert "poles does not exist on the plane" in dataset(
        "degenerate", "--kind", "poles", "--rows", 5, "--out", out, code=2
    )


SEEN = """\ufeffwhat;who;where;when\r
bird;x1;POINT (5.5 50.1);36327\r
fish, wet;x2;POINT (5.5 91);8/14/10 23:00\r
"""


def test_delimited_reads_what_its_options_describe_and_reports_on_stderr(tmp_path, dataset):
    source, out = tmp_path / "seen.csv", tmp_path / "seen.parquet"
    source.write_bytes(SEEN.encode() + b"cat;x3;POINT (-5.5 -50.1);8/14/10 23:00\r\n")
    options = ("--delimiter", "semicolon", "--wkt", "where", "--uid", "who", "--columns", "what")
    times = ("--time", "when", "--time-format", "%m/%d/%y %H:%M", "--time-format", "excel")
    said = dataset("delimited", source, "--out", out, *options, *times)
    assert said.splitlines()[0] == "delimited: 3 rows read, 2 kept, 1 dropped"
    assert said.splitlines()[1].startswith("  dropped 1: AIS 'position not available'")
    rows = pq.read_table(out).to_pylist()
    assert [(row["uid"], row["lon"], row["lat"], row["what"]) for row in rows] == [
        ("x1", 5.5, 50.1, "bird"),
        ("x3", -5.5, -50.1, "cat"),
    ]
    assert [row["t"].isoformat()[:16] for row in rows] == ["1999-06-16T00:00", "2010-08-14T23:00"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "column 'lon' is missing; the columns are what;who;where;when"),
        (("--delimiter", "semicolon", "--wkt", "x", "--lat-lon", "y"), "give one"),
        (("--delimiter", "ab"), "delimiter is 'ab': one character, or tab,"),
        (("--delimiter", "semicolon", "--wkt", "where", "--time", "when", "--zone", "Mars"), "'Mars'"),
    ],
)
def test_delimited_refuses_in_one_line_and_writes_nothing(tmp_path, options, says, dataset):
    source, out = tmp_path / "seen.csv", tmp_path / "seen.parquet"
    source.write_bytes(SEEN.encode())
    said = dataset("delimited", source, "--out", out, *options, code=2)
    assert says in said
    assert said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["seen.csv"]


def test_codes_with_leading_zeros_stay_apart(tmp_path, dataset):
    source, out = tmp_path / "seen.csv", tmp_path / "seen.parquet"
    source.write_text("who,lon,lat\n007,1,2\n7,3,4\n")
    dataset("delimited", source, "--out", out, "--uid", "who")
    assert pq.read_table(out)["uid"].to_pylist() == ["007", "7"]
    # whole numbers in the first block, a code behind it
    source.write_text("who,lon,lat\n" + "7,3,4\n" * 200_000 + "007,1,2\n0,1,2\n")
    said = dataset("delimited", source, "--out", out, "--uid", "who")
    assert "200,001 kept, 1 dropped" in said
    assert "dropped 1: uid is not a whole number (first: lon=1, lat=2, who=007 in seen.csv)" in said
    assert pq.read_table(out)["uid"].unique().to_pylist() == [7, 0]


def test_a_reader_that_keeps_no_row_fails_after_its_report(tmp_path, dataset):
    source, out = tmp_path / "seen.csv", tmp_path / "seen.parquet"
    out.write_text("what was there")
    source.write_text("lon,lat\n" + "east,north\n" * 301)
    said = dataset("delimited", source, "--out", out, code=2).splitlines()
    assert said[0] == "delimited: 301 rows read, 0 kept, 301 dropped"
    assert said[-1] == f"error: none of 301 rows could be kept, {out} is not written: is this the format?"
    assert out.read_text() == "what was there"
    source.write_text("lon,lat\n")
    dataset("delimited", source, "--out", out)
    assert len(pq.read_table(out)) == 0


@pytest.mark.parametrize(
    ("module", "name", "content"),
    [
        ("cabspotting", "new_a.txt", "37.7 -122.4 0 1211033530\n"),
        ("geolife", "a.plt", "-\n" * 6 + "39.9,116.3,0,492,39744.1,2008-10-23,02:53:04\n"),
        ("tdrive", "1.txt", "1,2008-02-02 15:36:08,116.5,39.9\n"),
        ("snap", "loc-gowalla_totalCheckins.txt", "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t1\n"),
        ("uber", "uber-raw-data-apr14.csv", "Date/Time,Lat,Lon,Base\n4/1/2014 0:11:00,40.7,-73.9,B1\n"),
        (
            "earthquakes",
            "a.csv",
            "time,latitude,longitude,depth,mag,id,place\n2015-08-01T00:07:41Z,1,2,3,4,us1,x\n",
        ),
        ("ais", "a.csv", "t,oid,lon,lat,speed,course\n1494341250000,7,23.6,37.9,1.5,\n"),
        ("aircraft", "a.json", '[{"timestamp": 1, "icao24": "a", "latitude": 1, "longitude": 2}]'),
    ],
)
def test_every_reader_converts_files_and_folders(tmp_path, capsys, module, name, content):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(content)
    out = tmp_path / "out.parquet"
    main = importlib.import_module(f"datasets.{module}").main
    main([str(tmp_path / "in")], out=out)
    said = capsys.readouterr()
    assert said.err == f"{module}: 1 rows read, 1 kept, 0 dropped\n{module}: -> {out}\n"
    assert said.out == ""
    table = pq.read_table(out)
    assert table.column_names[0] == "id"
    assert {"t", "lon", "lat"} < set(table.column_names)
    assert table.num_rows == 1
    with pytest.raises(BadInput, match="does not exist"):
        main([str(tmp_path / "nothing")], out=out)


def test_readers_are_commands(tmp_path):
    """Of processes, too."""
    (tmp_path / "checkins.txt").write_text("0\t1\t1236972291.0\n")
    (tmp_path / "places.txt").write_text("1\t30.5\t-97.5\n")
    out = tmp_path / "out.parquet"
    note = "  note: places.txt: 1 places, 0 of them without a legal position"
    said = started("capri", tmp_path / "checkins.txt", "--places", tmp_path / "places.txt", "--out", out)
    assert said == (0, "", f"capri: 1 rows read, 1 kept, 0 dropped\n{note}\ncapri: -> {out}\n")
    assert pq.read_table(out)["lon"].to_pylist() == [-97.5]
    said = started("tdrive", tmp_path / "nothing", "--out", out)
    assert said == (2, "", f"error: {tmp_path / 'nothing'} does not exist\n")


def test_every_command_of_the_documentation_exists():
    named = set(re.findall(r"(?:datasets\.|\.\.\. )([a-z]+) ", (ROOT / "docs" / "datasets.md").read_text()))
    modules = {path.stem for path in (ROOT / "datasets").glob("*.py") if "run(main)" in path.read_text()}
    assert modules
    assert modules <= named
    for name in modules:
        assert callable(importlib.import_module(f"datasets.{name}").main)
