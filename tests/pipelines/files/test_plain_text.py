"""What the bytes of a delimited text say before Arrow reads it as Spark does."""

from __future__ import annotations

import io

import pytest

from pipelines.files.plain_text import Looks, look_at


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        (b"id,x\n1,2\n", Looks()),
        (b'id,x\n"1","2,3"\n4,"5"', Looks()),
        (b'id,x\n1,"2\n3"\n', Looks(plain=False, opened=True)),
        (b'id,x\n1,a"b"\n', Looks(plain=False)),
        (b'id,x\n1,"a"b\n', Looks(plain=False)),
        (b'id,x\n1," a"\n', Looks(plain=False, blanks=True)),
        (b"id,x\n1,\xe9\n", Looks(plain=False)),
    ],
)
@pytest.mark.parametrize("at_a_time", [1, 1 << 22])
def test_quotes_that_stand_around_values_are_plain(text, looks, at_a_time):
    assert look_at(io.BytesIO(text), ",", at_a_time=at_a_time) == looks
