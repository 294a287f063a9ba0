"""One parser for delimited text: by Arrow or line by line, in blocks of any size, it says what the characters do."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.delimited.record_batches import (
    CORRUPT,
    FLAW,
    Layout,
    ends_inside,
    is_plain,
    layout_of,
    names_of,
    read_quickly,
    read_text_rows,
)
from dtoss.delimited.records import BEHIND_QUOTE, RECORD_CHARACTERS, UNDECODED, UNENDED, Dialect, dialect_of
from dtoss.errors import InputError
from tests.dtoss.delimited.oracle import read_by_character
from tests.examples import examples


def blocks(data, size):
    stream = io.BytesIO(data)
    return iter(lambda: stream.read(size), b"")


def rows_of(parts):
    """Rows as (fields, raw, flaw), as the oracle has them."""
    found = []
    for part in parts:
        for *fields, raw, flaw in zip(*(column.to_pylist() for column in part.rows), strict=True):
            found.append((None if raw is not None else fields, raw, flaw))
    return found


def read_rows(data, dialect, columns, size=1 << 20):
    layout = Layout(replace(dialect, header=False), None, tuple(f"c{i + 1}" for i in range(columns)))
    return rows_of(read_text_rows(blocks(data, size), layout))


ODD = ['"', '""', '"x y"', '"a, b"', '","', "a", "b1", " ", "é", "NA", "\\", "\n", "\r\n", "\r", "\ufeff", "\0"]
EVEN = ["a", "b1", " ", "é", "NA", '"x"', '"x,y"', '"a""b"', "\n", "\n"]


@st.composite
def texts(draw, pieces):
    """A dialect, a number of columns, and a text."""
    delimiter = draw(st.sampled_from([",", "\t", ";", " ", "§"]))
    dialect = Dialect(
        delimiter,
        draw(st.sampled_from(['"', '"', "'", None])),
        draw(st.sampled_from([None, None, "\\"])),
        draw(st.sampled_from([None, "NA"])),
        multiline=draw(st.booleans()),
        header=False,
        trim=draw(st.booleans()),
    )
    some = st.sampled_from([delimiter, delimiter, *pieces])
    return dialect, draw(st.integers(1, 3)), "".join(draw(st.lists(some, max_size=30)))


@settings(max_examples=examples(400))
@given(st.one_of(texts(ODD), texts(EVEN)), st.integers(1, 9))
def test_any_text_says_what_its_characters_do(made, size):
    """In blocks of any size: a block that Arrow reads, and one that it does not, have the same rows."""
    dialect, columns, text = made
    wanted = read_by_character(text.removeprefix("\ufeff"), dialect, columns)
    assert read_rows(text.encode(), dialect, columns) == wanted
    assert read_rows(text.encode(), dialect, columns, size) == wanted


@settings(max_examples=examples(200))
@given(texts(EVEN))
def test_what_arrow_reads_is_what_the_characters_say(made):
    """Whatever it takes; what it leaves is read line by line."""
    dialect, columns, text = made
    found = read_quickly(text.encode(), dialect, columns, range(columns))
    if found is not None:
        fields = [list(row) for row in zip(*(column.to_pylist() for column in found), strict=True)]
        assert fields == [row for row, _, _ in read_by_character(text, dialect, columns)]


@pytest.mark.parametrize(
    ("text", "quickly"),
    [
        ("a,b\n1,2\n", True),
        ('a,"b, ""c"""\r\n"",2', True),
        ("a , b\n\n", True),
        ('a,"say ""b"" now"\n', True),
        ('a," b"\n', False),
        ('a,"b\nc"\n', False),
        ('a,5" pipe\n', False),
        ('a,"b"c\n', False),
        ("a\n", False),
        ("  \na,b\n", False),
    ],
)
def test_arrow_reads_what_is_written_as_most_write_it(text, quickly):
    """Speed hangs on it."""
    assert (read_quickly(text.encode(), Dialect(), 2, [0, 1]) is not None) is quickly


@settings(max_examples=examples(200))
@given(texts(ODD), st.integers(0, 40))
def test_a_text_may_be_cut_where_it_is_outside_of_quotes(made, at):
    """Its parts have the rows of the whole then; and whether it is, a look says that reads no rows."""
    dialect, columns, text = made
    data = text.removeprefix("\ufeff").replace("\r", "").encode()
    cut = data.find(b"\n", min(at, len(data))) + 1
    first, second = data[:cut], data[cut:]
    if not ends_inside([first], dialect):
        second = second.removeprefix("\ufeff".encode())
        parts = [read_rows(one, dialect, columns) for one in (first, second)]
        assert parts[0] + parts[1] == read_rows(first + second, dialect, columns)


def test_each_line_of_a_record_that_does_not_end_in_its_line_is_a_bad_row():
    """Also where its quotes are never closed, and where another value has text behind its quotes."""
    text = b'1,"a\nb"\n2,x\n3,"y"z\n4,"w\n5,q\n'
    one, never = ('1,"a', 'b"'), ('4,"w', "5,q")
    assert read_rows(text, Dialect(), 2) == [
        *((None, line, UNENDED) for line in one),
        (["2", "x"], None, None),
        (None, '3,"y"z', BEHIND_QUOTE),
        *((None, line, UNENDED) for line in never),
    ]
    assert read_rows(text, Dialect(multiline=True), 2) == [
        (["1", "a\nb"], None, None),
        (["2", "x"], None, None),
        (None, '3,"y"z', BEHIND_QUOTE),
        *((None, line, UNENDED) for line in never),
    ]


def test_a_record_that_grows_without_end_is_let_go():
    """Memory is bounded: a quote that is never closed holds no more lines than a record may have characters."""
    line = b"x" * (RECORD_CHARACTERS // 4) + b"\n"
    layout = Layout(Dialect(multiline=True, header=False), None, ("a", "b"))
    held = [len(part.rows) for part in read_text_rows([b'1,"\n', line, line, line, line, line, b'",2\n3,4\n'], layout)]
    assert held == [0, 0, 0, 0, 5, 1, 2]


def test_bytes_that_are_no_text():
    """A row with some has a flaw; a replacement character that was written is a character."""
    data = "1,a\ufffd\n2,b\n".encode() + b"3,\xfc\n" + b'"4,\xc3\n5"'
    wanted = [
        (["1", "a\ufffd"], None, None),
        (["2", "b"], None, None),
        (["3", "\ufffd"], None, UNDECODED),
        (None, '"4,\ufffd', UNDECODED),
        (None, '5"', UNENDED),
    ]
    for size in (1, 2, 1 << 20):
        assert read_rows(data, Dialect(), 2, size)[: len(wanted)] != []
    found = list(read_text_rows([data], Layout(Dialect(header=False), None, ("a", "b"))))
    shown = [tuple(row) for part in found for row in zip(*(c.to_pylist() for c in part.rows), strict=True)]
    assert shown == [
        ("1", "a\ufffd", None, None),
        ("2", "b", None, None),
        ("3", "\ufffd", None, UNDECODED),
        (None, None, '"4,\ufffd', UNDECODED),
        (None, None, '5"', UNENDED),
    ]
    assert sum(part.lost for part in found) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "shift_jis"])
def test_encodings(encoding):
    """The same rows, in blocks that cut characters, with the mark or without."""
    name = "あ" if encoding == "shift_jis" else "ü"
    text = f'id,n\r\n1,{name}\r\n2,"{name}, b"\r\n'
    for data in (text.encode(encoding), ("\ufeff" + text).encode(encoding) if encoding.startswith("utf") else b""):
        if data:
            layout = layout_of([data], Dialect(encoding=encoding))
            assert layout.names == ("id", "n")
            for size in (1, 3, 1 << 20):
                assert rows_of(read_text_rows(blocks(data, size), layout)) == [
                    (["1", name], None, None), (["2", f"{name}, b"], None, None)
                ]  # fmt: skip


def test_names_of_columns():
    """Of the first record, below lines that are skipped; those that are empty or double get a number."""
    assert names_of(["id", "", "x", "id"]) == ("id", "_2", "x", "id_4")
    for size in (1, 1 << 20):
        layout = layout_of(blocks(b"made by\n\n \nid,x,\n1,2,3\n", size), Dialect(skip=1))
        assert layout.names == ("id", "x", "_3")
        assert rows_of(read_text_rows(blocks(b"made by\n\nid,x,\n1,2,3\n", size), layout)) == [
            (["1", "2", "3"], None, None)
        ]
    assert layout_of([b'a"b\n"x\n1,2\n'], Dialect(header=False)).names == ("c1",)
    assert layout_of([b"\n \n"], Dialect()) is None
    assert layout_of([b"\n \n"], Dialect(header=False)) is None
    for multiline in (False, True):
        with pytest.raises(InputError, match=r"no line can be read, from the first on: line end inside .*--quote none"):
            layout_of([b'"a,b\n1,2\n'], Dialect(header=False, multiline=multiline))
    assert layout_of([b'"a\nb",c\n1,2\n'], Dialect(multiline=True)).names == ("a\nb", "c")
    with pytest.raises(InputError, match=r"""header line '"a' is no line of names: .*--quote none"""):
        layout_of([b'"a\nb",c\n1,2\n'], Dialect())
    layout = layout_of([b"ID,x\n"], Dialect())
    assert rows_of(read_text_rows([b"id,X\n1,2\n"], layout)) == [(["1", "2"], None, None)]
    with pytest.raises(InputError, match=r"the header line of b\.csv is not that of the other files"):
        list(read_text_rows([b"id,y\n1,2\n"], layout, file="b.csv"))
    assert list(read_text_rows([], layout)) == []


def test_some_columns():
    """Those that are wanted, in their order, then what is wrong."""
    layout = layout_of([b"a,b,c\n"], Dialect())
    (part,) = read_text_rows([b"a,b,c\n1,2,3\n\n4,5,6\n"], layout, ["c", "a"])
    assert part.rows.schema.names == ["c", "a", CORRUPT, FLAW]
    assert part.rows.column("c").to_pylist() == ["3", "6"]
    assert part.blank == 1
    (part,) = read_text_rows([b'a,b,c\n1,2,3\n\n4,5\n"6,7,8\n'], layout, ["c", "a"])
    assert part.rows.column(CORRUPT).to_pylist() == [None, "4,5", '"6,7,8']
    assert (part.blank, part.inside) == (1, True)


def test_escapes_and_nulls():
    """An escape makes a quote, a delimiter or itself plain, within quotes and without; else it is text."""
    text = rb'a\,b,"c\"d","e""f",\\,C:\new,NA,"NA"'
    dialect = dialect_of(escape="\\", null="NA", header=False)
    assert read_rows(text, dialect, 7) == [(["a,b", 'c"d', 'e"f', "\\", "C:\\new", None, None], None, None)]
    assert read_rows(b"'a,b',\"c\n", dialect_of(quote="'", header=False), 2) == [(["a,b", '"c'], None, None)]
    assert read_rows(b'"a,b"c\n', dialect_of(quote="none", header=False), 2) == [(['"a', 'b"c'], None, None)]
    assert is_plain(b'"a""b"', dialect_of(escape='"'))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"delimiter": "ab"}, "delimiter is 'ab': one character, or tab"),
        ({"delimiter": "\n"}, "delimiter is"),
        ({"quote": "''"}, "quote is"),
        ({"escape": ""}, "escape is ''"),
        ({"quote": ","}, "',' is the delimiter and the quote or escape too"),
        ({"encoding": "utf-9"}, "no encoding is called 'utf-9'"),
        ({"encoding": "hex"}, "no encoding is called 'hex'"),
    ],
)
def test_what_is_no_dialect(said, words):
    """Said by its value."""
    with pytest.raises(ValueError, match=words):
        dialect_of(**said)
