"""Text in any encoding and with line ends in quotes: read as it is, or set aside record by record; nothing invented."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.delimited.records import UNDECODED, UNENDED
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import read_positions
from tests.pipelines.rows.reading import read_rows


def put(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


CITIES = "id,lon,lat,name\nZürich,8.5,47.4,größer\nZörich,8.6,47.5,kleiner\nBern,7.4,46.9,\N{REPLACEMENT CHARACTER}\n"


def test_bytes_that_are_not_utf_8_are_set_aside(session, tmp_path):
    """Two ids do not become one; a replacement character that was written is a character."""
    path = put(tmp_path / "a.csv", "\ufeff" + CITIES)
    rows = read_rows(session, path)
    assert set(rows.by_id) == {"Zürich", "Zörich", "Bern"}
    assert rows.bad == []
    broken = ("\ufeff" + CITIES).encode().replace("Zü".encode(), b"Z\xfc").replace("Zö".encode(), b"Z\xf6")
    rows = read_rows(session, put(path, broken))
    assert rows.by_id == {"Bern": {"id": "Bern", "lon": 7.4, "lat": 46.9, "name": "\ufffd"}}
    assert rows.reasons == {UNDECODED: 2}
    assert {row["id"] for _, row in rows.bad} == {"Z\ufffdrich"}
    assert {row["name"] for _, row in rows.bad} == {"größer", "kleiner"}


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("latin-1", "latin-1"),
        ("utf-16", None),
        ("utf-16-le", "utf-16-le"),
        pytest.param("cp1252", "cp1252", marks=pytest.mark.deep("another encoding of single bytes by its name")),
    ],
)
def test_other_encodings_are_read(session, tmp_path, written, named):
    """As they are named, or by their mark."""
    text = CITIES.replace("\ufffd", "é")
    rows = read_rows(session, put(tmp_path / "a.csv", text, written), encoding=named)
    assert {id: row["name"] for id, row in rows.by_id.items()} == {"Zürich": "größer", "Zörich": "kleiner", "Bern": "é"}
    assert rows.bad == []


QUOTED = 'id,lon,lat,note\n1,1,1,"one\nline, and\n7,8,9,"\n2,2,2,"a ""quote"""\n3,3,3,5" pipe\n4,4,4,plain\n'


@pytest.mark.parametrize("form", ["plain", "CRLF", "UTF-16", "Latin-1 bytes"])
def test_a_line_end_in_quotes_makes_no_object(session, tmp_path, form):
    """Each line of the record is a bad row, as it is written; with --multiline it is one object with its text."""
    text = {"CRLF": QUOTED.replace("\n", "\r\n"), "Latin-1 bytes": QUOTED + "5,5,5,\xfc\n"}.get(form, QUOTED)
    path = put(tmp_path / "a.csv", text, {"UTF-16": "utf-16", "Latin-1 bytes": "latin-1"}.get(form, "utf-8"))
    undecoded = {UNDECODED: 1} if form == "Latin-1 bytes" else {}
    rows = read_rows(session, path)
    assert {id: row["note"] for id, row in rows.by_id.items()} == {2: 'a "quote"', 3: '5" pipe', 4: "plain"}
    assert rows.reasons == {UNENDED: 3} | undecoded
    assert [row["_corrupt_record"] for reason, row in rows.bad if reason == UNENDED] == [
        '1,1,1,"one', "line, and", '7,8,9,"'
    ]  # fmt: skip
    rows = read_rows(session, path, multiline=True)
    assert rows.by_id[1]["note"] == "one\nline, and\n7,8,9,"
    assert sorted(rows.by_id) == [1, 2, 3, 4]
    assert rows.reasons == undecoded


def test_a_quote_that_is_never_closed_counts_every_line(session, tmp_path):
    """What it swallows is no object, and each line is a bad row: too many of them fail the rebuild."""
    lines = [f"{i},{i / 9},1,note" for i in range(300)]
    lines[100] = '100,1,1,"note'
    path = put(tmp_path / "a.csv", "id,lon,lat,note\n" + "\n".join(lines) + "\n")
    rows = read_rows(session, path)
    assert sorted(rows.by_id) == list(range(100))
    assert rows.reasons == {UNENDED: 200}
    with pytest.raises(InputError, match=r"200 of 300 rows are bad \(200 line end inside quotes\)"):
        rebuild(read_positions(session, [str(path)], Columns()), str(tmp_path / "store"))


def test_a_code_among_numbers_is_no_number(session, tmp_path):
    """007 is not 7, and neither are 7.0 and +7."""
    lines = [f"{i},{i},1" for i in range(60)] + ["007,70,1", "7.0,71,1", "+7,72,1", "-0,73,1"]
    path = put(tmp_path / "a.csv", "id,lon,lat\n" + "\n".join(lines))
    rows = read_rows(session, path)
    assert sorted(rows.by_id) == list(range(60))
    assert rows.reasons == {"id is not an integer as the others are": 4}


def test_decimal_commas_and_no_header(session, tmp_path):
    """Numbers of coordinates, attributes and times; columns are c1, c2 and so on."""
    path = put(tmp_path / "a.csv", "7;8,25;47,5;1,5;1.5;10,5\n7;9;48;-2;x;9,5\n")
    columns = {"id": "c1", "x": "c2", "y": "c3", "time": "c6"}
    rows = read_rows(session, path, delimiter="semicolon", decimal=",", header=False, **columns)
    first = {"id": 7, "lon": 8.25, "lat": 47.5, "t": 10.5, "c4": 1.5, "c5": "1.5", "c6": 10.5}
    second = {"id": 7, "lon": 9.0, "lat": 48.0, "t": 9.5, "c4": -2.0, "c5": "x", "c6": 9.5}
    assert rows.good.to_pylist() == [first, second]
    assert {name: rows.types[name] for name in ("t", "c4", "c5", "c6")} == {
        "t": "double", "c4": "double", "c5": "string", "c6": "double"
    }  # fmt: skip
    with pytest.raises(InputError, match=r"no column 'id' .*the columns are c1, c2, c3, c4, c5, c6"):
        read_positions(session, [str(path)], Columns(delimiter=";", header=False))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"encoding": "klingon"}, "no encoding is called 'klingon'"),
        ({"decimal": "·"}, "decimal is '·'"),
        ({"delimiter": ""}, "delimiter is ''"),
        ({"delimiter": "ab"}, "delimiter is 'ab'"),
    ],
)
def test_how_text_cannot_be_written(columns, words):
    """Said before Spark is asked."""
    with pytest.raises(ValueError, match=words):
        read_positions(None, ["a.csv"], Columns(**columns))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (CITIES.encode("latin-1", "replace"), UNDECODED),
        (b'id,lon,lat,name\n1,8.5,47.4,"a\nb"\n2,8.6,47.5,"a""b"\n', UNENDED),
    ],
    ids=["bytes", "quotes"],
)
def test_packed_text_is_treated_as_what_is_not(session, tmp_path, text, reason):
    """The same rows are set aside, and the same are objects."""
    plain, packed = put(tmp_path / "a.csv", text), put(tmp_path / "b.csv.gz", gzip.compress(text, mtime=0))
    found, again = read_rows(session, plain), read_rows(session, packed)
    assert again.by_id == found.by_id
    assert again.reasons == found.reasons
    assert found.reasons.keys() == {reason}


def test_a_file_that_is_cut_short_is_named(session, tmp_path):
    """One line, wherever in the file."""
    data = gzip.compress(("id,lon,lat\n" + "".join(f"{i},{i / 3e4},{i % 89}\n" for i in range(30_000))).encode())
    path = put(tmp_path / "cut.csv.gz", data[: len(data) // 2])
    with pytest.raises(InputError, match=r"cut.csv.gz cannot be read as csv, it may be cut short") as error:
        read_positions(session, [str(path)], Columns())
    assert "\n" not in str(error.value)


def test_text_that_is_not_utf_8_in_parquet_and_json(session, tmp_path):
    """Whoever wrote it so: the rows are set aside, at any depth of a column."""
    raw = pa.Array.from_buffers(pa.string(), 2, pa.array([b"Z\xfcrich", b"Bern"]).buffers())
    table = pa.table({"id": [1, 2], "lon": [1.0, 2.0], "lat": [1.0, 2.0], "n": raw, "deep": pa.array([["x"], None])})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = read_rows(session, tmp_path / "a.parquet")
    assert list(rows.by_id) == [2]
    assert [(reason, row["n"]) for reason, row in rows.bad] == [(UNDECODED, "Z\ufffdrich")]
    lines = [
        json.dumps({"id": i, "lon": i, "lat": i, "deep": [{"name": "Zürich"}]}, ensure_ascii=False) for i in (1, 2)
    ]
    data = f"{lines[0]}\n".encode("latin-1") + lines[1].encode()
    rows = read_rows(session, put(tmp_path / "b.json", data))
    assert list(rows.by_id) == [2]
    assert [(reason, "Z\ufffdrich" in str(row)) for reason, row in rows.bad] == [("unreadable line", True)]


def test_parquet_files_of_which_some_lack_columns(session, tmp_path):
    """The union, whatever the names of the files; values of folders stay a column."""
    place = {"lon": [1.0], "lat": [2.0]}
    for first, second in (("a", "b"), ("b", "a")):
        for name, columns in ((first, {"id": [1], **place, "v": ["x"]}), (second, {"id": [2], **place, "w": [3]})):
            (tmp_path / "day=1").mkdir(exist_ok=True)
            pq.write_table(pa.table(columns), tmp_path / f"day=1/{name}.parquet")
        found = read_rows(session, tmp_path).by_id
        assert found[1] == {"id": 1, "lon": 1.0, "lat": 2.0, "v": "x", "w": None, "day": 1}
        assert found[2] == {"id": 2, "lon": 1.0, "lat": 2.0, "v": None, "w": 3, "day": 1}


def test_nested_folders_are_read_and_others_named(session, tmp_path, command):
    """By the command: which files were read and skipped, the box; as JSON too."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    put(tmp_path / "in" / "a.csv", "id,lon,lat\n1,1,2\n")
    put(tmp_path / "in" / "deep" / "b.csv", "id,lon,lat\n2,3,4\n")
    put(tmp_path / "in" / "notes.md", "no data")
    ran = command("rebuild", tmp_path / "in", "--store", tmp_path / "store", "--json")
    assert ran.code == 0
    # stages that take long say so
    assert ran.err.startswith(f"skipped: {tmp_path}/in/notes.md: no format that is read\n")
    read = ran.json["input"]
    assert read["files"] == [f"{tmp_path}/in/a.csv", f"{tmp_path}/in/deep/b.csv"]
    assert (read["box"], read["times"]) == ([1.0, 2.0, 3.0, 4.0], None)
