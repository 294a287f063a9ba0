import bz2
import gzip

import pyarrow as pa
import pytest

from datasets.tables.command import BadInput
from datasets.tables.fields import BLOCK, Layout, header, read_fields
from datasets.tables.standard_rows import add_up


def fields(path, wanted, **layout):
    parts = list(read_fields(path, Layout(**layout), wanted))
    table = pa.Table.from_batches([batch for batch, _ in parts])
    return table.to_pylist(), add_up(counts for _, counts in parts)


def values(rows):
    return [tuple(row.values()) for row in rows]


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


PLAIN = "name,lon,lat\na,1,2\nb,3,4\n"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (PLAIN.encode(), "lf.csv"),
        (PLAIN.replace("\n", "\r\n").encode(), "crlf.csv"),
        (PLAIN.rstrip().encode(), "no newline at the end.csv"),
        (b"\xef\xbb\xbf" + PLAIN.encode(), "mark.csv"),
        (b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(), "mark crlf.csv"),
        (PLAIN.replace("a,", '"a",').encode(), "quotes.csv"),
        (gzip.compress(PLAIN.encode(), mtime=0), "packed.csv.gz"),
        (gzip.compress(PLAIN[:20].encode(), mtime=0) + gzip.compress(PLAIN[20:].encode(), mtime=0), "two members.gz"),
        (bz2.compress(PLAIN.encode()), "packed.bz2"),
    ],
)
def test_the_same_fields_however_they_are_written(write, content, name):
    rows, counts = fields(write(content, name), ("lat", "name"))
    assert values(rows) == [("2", "a"), ("4", "b")]
    assert counts.read == 0


def test_a_mark_before_data_without_a_header(write):
    for options in ({}, {"text": "b"}):
        rows, _ = fields(write(b"\xef\xbb\xbf1,2\n3,4\n"), ("a", "b"), names=("a", "b"), **options)
        assert values(rows) == [("1", "2"), ("3", "4")]


def test_other_encodings_and_bytes_that_do_not_decode(write):
    text = "name,lon\nZürich,1\n"
    assert values(fields(write(text.encode("latin-1")), ("name",), encoding="latin-1")[0]) == [("Zürich",)]
    assert values(fields(write(text.encode("utf-16")), ("name",), encoding="utf-16")[0]) == [("Zürich",)]
    rows, counts = fields(write(text.encode("latin-1")), ("name",))
    assert values(rows) == [("Z\ufffdrich",)]
    assert counts.notes == ("file.csv: 1 bytes that are no utf-8 text, replaced",)
    rows, counts = fields(write(b"name\nab\xc3"), ("name",))  # cut in the middle of a letter
    assert values(rows) == [("ab\ufffd",)]
    with pytest.raises(BadInput, match="no encoding is called 'utf-9'"):
        fields(write(text), ("name",), encoding="utf-9", names=("name", "lon"))


def test_lines_of_the_wrong_length_and_empty_ones_are_counted(write):
    rows, counts = fields(write("a,b,c\n1,2,3\n4,5\n\n6,7,8,9\n,,\n7,8,9\n\n"), ("a", "c"))
    assert values(rows) == [("1", "3"), ("7", "9")]
    assert counts.read == 5
    assert counts.dropped == {"wrong number of fields": 2, "empty line": 3}
    assert counts.examples == {"wrong number of fields": "'4,5' in file.csv"}


def test_headers_are_found_by_name_skipped_or_given(write):
    path = write("made by a logger\n\nlon;lat\n1;2\n")
    assert header(path, Layout(skip=2, delimiter=";")) == ("lon", "lat")
    assert values(fields(path, ("lat",), skip=2, delimiter=";")[0]) == [("2",)]
    given = {"names": ("x", "y"), "delimiter": ";", "skip": 3}
    assert values(fields(path, ("y", "x"), **given)[0]) == [("2", "1")]
    with pytest.raises(BadInput, match="column 'latitude' is missing; the columns are lon, lat"):
        fields(write("lon,lat\n1,2\n"), ("latitude",))
    with pytest.raises(BadInput, match="column 'lon' is there twice"):
        fields(write("lon,lon\n1,2\n"), ("lon",))
    assert values(fields(write("lon,x,x\n1,2,3\n"), ("lon",))[0]) == [("1",)]
    with pytest.raises(BadInput, match="is empty"):
        fields(write(""), ("lon",))
    assert fields(write(""), ("lon",), names=("lon",))[0] == []
    assert fields(write("lon,lat\n"), ("lon",))[0] == []


TEXTS = {
    "1,plain,2,3": ("1", "plain", "3"),
    "1,a, b, and c,2,3": ("1", "a, b, and c", "3"),
    '1,"a, b",2,3': ("1", "a, b", "3"),
    '1,"he said ""no""",2,3': ("1", 'he said "no"', "3"),
    "1,,2,3": ("1", "", "3"),
    '1,5" pipe,2,3': ("1", '5" pipe', "3"),
    '1,",2,3': ("1", '"', "3"),
}


def test_a_text_column_may_hold_the_delimiter(write):
    content = "id,text,lon,lat\n" + "\n".join([*TEXTS, "1,2,3", "", "x"]) + "\n"
    rows, counts = fields(write(content), ("id", "text", "lat"), text="text")
    assert values(rows) == list(TEXTS.values())
    assert counts.dropped == {"wrong number of fields": 2, "empty line": 1}
    for place, line in enumerate(["a, b,1,2", "1,a, b,2", "1,2,a, b"]):
        names = ["x", "y"]
        names.insert(place, "text")
        assert fields(write(line), ("text",), names=tuple(names), text="text")[0] == [{"text": "a, b"}]
    with pytest.raises(BadInput, match="text column 'title' is missing"):
        fields(write(content), ("id",), text="title")


def test_lines_inside_a_quote_that_another_line_opened_do_not_vanish(write):
    content = 'a,b,c\n1,2,3\n4,"5,6\n7,8,9\n10,"11",12\n13,14,15\n'
    rows, counts = fields(write(content), ("a", "c"))
    assert len(rows) + counts.read == 5
    # the line that opens the quote, the one inside, and the one that closes it
    assert counts.dropped == {"inside a quote that another line opened (--multiline if it may)": 3}
    rows, counts = fields(write(content), ("a", "c"), quote=None)
    assert values(rows) == [("1", "3"), ("4", "6"), ("7", "9"), ("10", "12"), ("13", "15")]
    endless = 'a,b\n1,"2\n' + "3,4\n" * (BLOCK // 3)
    with pytest.raises(BadInput, match="--quote none"):
        fields(write(endless), ("a",))


def test_quoted_values_may_hold_line_ends_when_asked(write):
    rows = [f'{i},"line\n{i}\r\nend",x' for i in range(50_000)]
    path = write("a,b,c\n" + "\n".join(rows) + "\n")
    found, counts = fields(path, ("a", "b"), multiline=True)
    assert [row["a"] for row in found] == [str(i) for i in range(50_000)]
    assert found[7]["b"].split() == ["line", "7", "end"]
    assert counts.read == 0
    with pytest.raises(BadInput, match="--multiline"):
        fields(path, ("a", "b"))


def test_a_broken_archive_is_named(write):
    with pytest.raises(BadInput, match=r"file\.csv\.gz"):
        fields(write(b"not packed", "file.csv.gz"), ("a",))
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)
    with pytest.raises(BadInput, match=r"cut\.gz"):
        fields(write(whole[: len(whole) // 2], "cut.gz"), ("a",))


def test_blocks_join_without_a_seam(write):
    lines = [f"{i},{'x' * (i % 97)}" for i in range(60_000)]
    rows, counts = fields(write("i,x\n" + "\n".join(lines)), ("i",))
    assert [row["i"] for row in rows] == [str(i) for i in range(60_000)]
    assert counts.read == 0
