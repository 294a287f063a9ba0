"""One value of an attribute in JSON: the same as among others."""

from __future__ import annotations

import datetime
import decimal

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.serve.answers.json_out import json_value, json_values
from tests.examples import examples

SOME = {
    "int8": [1, None, -128],
    "uint64": [2**64 - 1, 0],
    "float64": [0.1, float("nan"), float("inf"), None],
    "float32": [0.1, None],
    "bool": [True, None],
    "string": ["a", "é\n", None],
    "large_string": ["a", "é\n", None],
    "binary": [b"\x00\xff", None],
    "date32": [datetime.date(2024, 2, 29), None],
    "time64": [datetime.time(1, 2, 3, 4), None],
    "decimal": [decimal.Decimal("1.50"), None],
    "dictionary": ["a", "b", None],
    "list": [[1, 2], None],
}
TYPES = {
    "date32": pa.date32(), "time64": pa.time64("us"), "decimal": pa.decimal128(10, 2),
    "dictionary": pa.dictionary(pa.int32(), pa.string()), "list": pa.list_(pa.int64()),
}  # fmt: skip


def same(column):
    found = [json_value(column, row) for row in range(len(column))]
    assert orjson.dumps(found) == orjson.dumps(json_values(column))


@pytest.mark.parametrize("name", SOME)
def test_of_each_type(name):
    same(pa.array(SOME[name], TYPES.get(name) or pa.type_for_alias(name)))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@settings(max_examples=examples(100))
@given(data=st.data())
def test_of_moments(unit, zone, data):
    """Of any year that Arrow can write, in each unit, before 1970 too."""
    most = {"s": 253_402_300_799, "ms": 253_402_300_799_999, "us": 253_402_300_799_999_999, "ns": 2**63 - 1}[unit]
    least = {"s": -62_135_596_800, "ms": -62_135_596_800_000, "us": -62_135_596_800_000_000, "ns": -(2**63)}[unit]
    ticks = data.draw(st.lists(st.one_of(st.integers(least, most), st.integers(-5, 5), st.none()), min_size=1))
    same(pa.array(ticks, pa.timestamp(unit, zone)))


def test_of_years_that_python_does_not_know():
    same(pa.array([400_000_000_000], pa.timestamp("s", "UTC")))
