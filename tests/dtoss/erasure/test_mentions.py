"""Which rows that were set aside speak of somebody."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dtoss.erasure.forgotten import Mentions

WHO = Mentions(frozenset(["anna", "7", 'a"b']), "id")


@pytest.mark.parametrize(
    ("row", "speaks"),
    [
        ('{"id": "anna", "lat": 91}', True),
        ('{"id": " anna ", "lat": 91}', True),
        ('{"id": 7}', True),
        ('{"id": 8, "speed": 7, "name": "anna"}', False),
        ('{"id": "a\\"b"}', True),
        ('{"id": null, "name": "with anna"}', True),
        ('{"other": {"deep": [1, "anna"]}}', True),
        ('{"other": {"deep": [1, "annas"]}}', False),
        ("anna,1,2", True),
        ("x;7;1.5", True),
        ("x;17;7.5", True),
        ("susanna,1", False),
        ('{"id": "anna', True),
        ("", False),
        ("[" * 100_000, False),
    ],
)
def test_a_row_speaks_of_whose_id_it_has_or_who_stands_in_it_as_a_word(row, speaks):
    assert WHO.found_in(row) is speaks


def test_rows_that_are_not_known_speak_of_nobody():
    assert WHO.mask(pa.array(["anna,1", None, "b,1"])).tolist() == [True, False, False]
    assert not Mentions(frozenset()).found_in("anything")
