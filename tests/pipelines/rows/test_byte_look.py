"""What the bytes of text say before Spark reads them, against the lines themselves."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.rows.byte_look import MOST, bytes_at_hand, look_at_bytes

PIECES = [
    b'"',
    b'""',
    b"a",
    b",",
    b"\n",
    b"\r\n",
    b"\r",
    "ü".encode(),
    "😀".encode(),
    b"\xfc",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
]


def oracle(text):
    lines = re.split(rb"\r\n|\r|\n", text)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return any(line.count(b'"') % 2 for line in lines), True
    return any(line.count(b'"') % 2 for line in lines), False


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.integers(1, 7))
def test_pieces_say_what_the_lines_do(tmp_path_factory, text, at_a_time):
    file = tmp_path_factory.mktemp("text") / "a.csv"
    file.write_bytes(text)
    assert look_at_bytes([str(file)], at_a_time=at_a_time) == oracle(text)
    assert look_at_bytes([str(file)]) == oracle(text)


def test_one_bad_file_of_many_is_seen(tmp_path):
    texts = {"a.csv": b'id,x\n1,"2"\n', "b.csv": b'id,x\n1,"2\n3"\n', "c.csv": b"id,x\n1,\xe9\n", "d.csv": b"id,x\n"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    files = {name: str(tmp_path / name) for name in texts}
    assert look_at_bytes([files["a.csv"], files["d.csv"]]) == (False, False)
    assert look_at_bytes(list(files.values())[:2]) == (True, False)
    assert look_at_bytes([files["c.csv"], files["a.csv"]]) == (False, True)
    assert look_at_bytes(list(files.values())) == (True, True)


@pytest.mark.parametrize(
    ("paths", "name", "size", "at_hand"),
    [
        (["{}"], "a.csv", 3, True),
        (["file://{}"], "a.csv", 3, True),
        (["s3://bucket/a.csv"], "a.csv", 3, False),
        (["{}"], "a.csv.GZ", 3, False),
        (["{}"], "a.csv", MOST, True),
        (["{}"], "a.csv", MOST + 1, False),
    ],
)
def test_what_is_at_hand(tmp_path, paths, name, size, at_hand):
    file = tmp_path / name
    with file.open("wb") as out:
        out.truncate(size)
    named = [path.format(file) for path in paths]
    assert bytes_at_hand(named, [str(file)], (".gz", ".bz2")) is at_hand
    assert bytes_at_hand(named, [str(file), str(tmp_path / "missing.csv")], (".gz", ".bz2")) is False
    assert bytes_at_hand(named, [], (".gz", ".bz2")) is False
