"""Files in pieces: of any size they hold each line once, and text has the rows of the whole."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from dtoss.delimited.record_batches import Layout, ends_inside, read_text_rows
from dtoss.delimited.records import Dialect
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.rows.delimited_frame import bytes_at_hand, outside_quotes, text_by_spark, text_tasks
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.row_sources import MOST, Piece, blocks_of, bytes_of_task, cut, folder_values, groups_of, reading
from tests.examples import examples

HERE = fs.LocalFileSystem()


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(["a,b\n", '"', "c,", "\n", "\r\n", "1,2\n", 'x,"y"\n', "ü,"]), max_size=25).map("".join),
    st.integers(1, 9),
    st.booleans(),
)
def test_pieces_have_the_rows_of_the_whole(tmp_path_factory, text, each, multiline):
    """Each byte is in one of them; a file is cut no more behind a piece that ends inside quotes."""
    file = tmp_path_factory.mktemp("pieces") / "a.csv"
    file.write_bytes(text.encode())
    place = HERE, str(file)
    pieces = cut([file.stat().st_size], [False], each)
    assert b"".join(b"".join(blocks_of(place, piece, block=3)) for piece in pieces) == text.encode()
    layout = Layout(Dialect(header=False, multiline=multiline), None, ("a", "b"))
    inside = [ends_inside(blocks_of(place, piece), layout.dialect) for piece in pieces]
    rows = [
        row
        for piece in outside_quotes(pieces, inside)
        for part in read_text_rows(blocks_of(place, piece), layout, begins=piece.begin == 0)
        for row in part.rows.to_pylist()
    ]
    assert rows == [row for part in read_text_rows(blocks_of(place), layout) for row in part.rows.to_pylist()]


def test_sizes_of_pieces_and_tasks():
    """A task reads neither little nor much, as many of them as run at a time; what cannot be cut is whole."""
    assert bytes_of_task(10, 4, 1) == 3
    assert bytes_of_task(10, 4, 5) == 5
    assert bytes_of_task(1 << 40, 4) == MOST
    pieces = cut([10, 10, 0], [False, True, False], 4)
    assert pieces == [Piece(0, 0, 5), Piece(0, 5), Piece(1), Piece(2)]
    assert groups_of(pieces, [10, 10, 0], 6) == [pieces[:2], pieces[2:3], pieces[3:]]


def test_what_is_at_hand(tmp_path):
    """Local files of a gibibyte at the most are looked at in this process."""
    places = [(HERE, "a"), (fs.SubTreeFileSystem("there", HERE), "b")]
    assert bytes_at_hand(places, [Piece(0, 0, 1 << 30)])
    assert not bytes_at_hand(places, [Piece(0, 0, (1 << 30) + 1)])
    assert not bytes_at_hand(places, [Piece(1, 0, 1)])


def test_values_of_folders():
    """Whole numbers without their zeros, where all are such; the words of Hive, and what is escaped."""
    found = folder_values(["day=01/of=a%3Db", "day=2/of=__HIVE_DEFAULT_PARTITION__", ""])
    assert found == {"day": ["1", "2", None], "of": ["a=b", None, None]}
    assert folder_values(["day=01", "day=x"]) == {"day": ["01", "x"]}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("Truncated compressed stream"), "a.csv cannot be read as csv, it may be cut short: Truncated"),
        (FileNotFoundError("no such\nfile"), "a.csv cannot be read as csv: no such"),
    ],
)
def test_what_keeps_a_file_from_being_read_names_it(error, words):
    """In one line."""
    with pytest.raises(InputError, match=words) as raised, reading("a.csv", "csv"):
        raise error
    assert "\n" not in str(raised.value)


TEXT = 'id,lon,lat,n\n1,1,1,a\n2,2,2,"b\n3,3,3,c\n4,4,4,d"\n5,5,5,5" pipe\n' + "".join(f"{i},1,1,x\n" for i in range(9))


def frame_rows(frame):
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def rows_of(session, inputs, **how):
    """What tasks read of text, and the columns of it."""
    groups, read, names = text_tasks(session, inputs, Columns(), **how)
    names = [*names, "_corrupt_record", "_dtoss_flaw"]
    return names, [tuple(row[name] for name in names) for group in groups for piece in group for batch in read(piece)
                   for row in batch.to_pylist()]  # fmt: skip


def test_text_in_tasks(spark, tmp_path):
    """In pieces of a few bytes, also where tasks look for quotes; packed; and by Spark where only it reaches files."""
    (tmp_path / "in" / "k=01").mkdir(parents=True)
    (tmp_path / "in" / "k=01" / "a.csv").write_text(TEXT)
    (tmp_path / "in" / "k=02").mkdir()
    (tmp_path / "in" / "k=02" / "b.csv.gz").write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    inputs = look([str(tmp_path / "in")])
    names, rows = rows_of(spark, inputs)
    assert names == ["id", "lon", "lat", "n", "k", "_corrupt_record", "_dtoss_flaw"]
    assert len(rows) == 2 * 14
    assert rows[0] == ("1", "1", "1", "a", "1", None, None)
    assert rows[1] == (None, None, None, None, "1", '2,2,2,"b', "line end inside quotes")
    assert rows_of(spark, inputs, least=20)[1] == rows
    elsewhere = [
        (fs.SubTreeFileSystem(str(tmp_path), HERE), file.removeprefix(f"{tmp_path}/")) for file in inputs.files
    ]
    moved = Inputs(
        inputs.paths, "csv", inputs.files, places=tuple(elsewhere), sizes=inputs.sizes, folders=inputs.folders
    )
    assert rows_of(spark, moved, least=20)[1] == rows
    by_spark = text_by_spark(spark, Inputs(inputs.paths, "csv"), Columns())
    assert by_spark.columns == names
    assert sorted(frame_rows(by_spark), key=repr) == sorted(rows, key=repr)
