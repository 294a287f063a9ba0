"""Rows, their orders and sums: independent of the order of rows and columns, and of columns that come later."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.history.row_blocks import rows_of, sorted_rows
from dtoss.history.schema import Schema, attribute_names, plain_type, time_type_of
from dtoss.history.sums import row_hashes, sum_of
from tests.dtoss.history.worlds import PLANE, SPHERE, schema_of, small_rows, table_of
from tests.examples import examples

SCHEMAS = [schema_of(), schema_of(PLANE, "string", "int64"), schema_of(SPHERE, "int64", "double")]
VALUES = {
    "speed": (pa.float64(), [1.5, None, float("nan"), -0.0]),
    "kind": (pa.large_string(), ["taxi", None, "", "taxi, and more than eight bytes"]),
    "free": (pa.bool_(), [True, None, False, True]),
    "seats": (pa.int8(), [4, None, -1, 4]),
    "far": (pa.uint64(), [2**64 - 1, None, 0, 1]),
    "raw": (pa.large_binary(), [b"a", None, b"", b"\x00"]),
    "day": (pa.date32(), [1, None, 2, 1]),
    "tags": (pa.list_(pa.int64()), [[1], None, [], [1, 2]]),
}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(SCHEMAS), st.data())
def test_sorted_rows_are_those_of_a_sort_by_python(schema, data):
    """By (t, id) or (id, t), text by its bytes, and however the rows stood before."""
    rows = data.draw(small_rows(schema))
    shuffled = rows.take(pa.array(data.draw(st.permutations(range(len(rows)))), pa.int64()))

    def word(value):
        return value.encode() if isinstance(value, str) else value

    for order, first in (("time", ("t", "id")), ("object", ("id", "t"))):
        found = sorted_rows(rows, order)
        wanted = sorted(tuple(word(row[name]) for name in first) for row in rows.to_pylist())
        assert [tuple(word(row[name]) for name in first) for row in found.to_pylist()] == wanted
        again = sorted_rows(shuffled, order)
        assert [list(map(repr, row.values())) for row in again.to_pylist()] == [
            list(map(repr, row.values())) for row in found.to_pylist()
        ]


@pytest.mark.checked
@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(SCHEMAS), st.data())
def test_a_sum_knows_neither_the_order_nor_how_rows_are_split(schema, data):
    """And is another one when a row is left out, doubled, or has another place."""
    rows = data.draw(small_rows(schema))
    shuffled = rows.take(pa.array(data.draw(st.permutations(range(len(rows)))), pa.int64()))
    cut = data.draw(st.integers(0, len(rows)))
    assert sum_of(rows) == sum_of(shuffled)
    assert sum_of(rows) == (sum_of(rows.slice(0, cut)) + sum_of(rows.slice(cut))) % 2**64
    if len(rows):
        assert sum_of(rows.slice(1)) != sum_of(rows)
        assert sum_of(pa.concat_tables([rows, rows.slice(0, 1)])) != sum_of(rows)


@pytest.mark.parametrize("name", VALUES)
def test_every_value_counts_and_no_null_does(name):
    """A column that comes later leaves the sums of rows before it as they were, wherever it stands."""
    kind, values = VALUES[name]
    schema = schema_of(**{name: kind})
    bare = table_of(schema_of(), [1] * 4, [1] * 4, [[0.0, 0.0]] * 4)
    full = table_of(schema, [1] * 4, [1] * 4, [[0.0, 0.0]] * 4, **{name: values})
    hashes, without = row_hashes(full), row_hashes(bare)
    assert [a == b for a, b in zip(hashes, without, strict=True)] == [value is None for value in values]
    different = {repr(value) for value in values}
    assert len(set(hashes.tolist())) == len(different)
    turned = full.select(list(reversed(full.column_names)))
    assert row_hashes(turned).tolist() == hashes.tolist()
    halves = pa.concat_tables([full.slice(0, 2), full.slice(2)])
    assert row_hashes(halves).tolist() == hashes.tolist()


def test_columns_are_told_apart():
    """The same value in another column is another row."""
    kinds = {"a": pa.int64(), "b": pa.int64()}
    one = table_of(schema_of(**kinds), [1], [1], [[0.0, 0.0]], a=[7], b=[None])
    two = table_of(schema_of(**kinds), [1], [1], [[0.0, 0.0]], a=[None], b=[7])
    assert sum_of(one) != sum_of(two)


def test_rows_are_completed_and_judged():
    """Attributes that are missing are nulls, a time without a zone is UTC; ids, times and places have to be there."""
    schema = schema_of(speed=pa.float64())
    naive = pa.array([0], pa.timestamp("ms"))
    given_rows = pa.table({"id": [1], "t": naive, "x": [1.0], "y": [2.0]})
    rows = rows_of(given_rows, schema)
    assert rows.schema == schema.arrow
    assert rows.column("speed").to_pylist() == [None]
    assert rows.column("deleted").to_pylist() == [False]
    for column, bad in (("id", pa.nulls(1, pa.int64())), ("t", pa.nulls(1, pa.timestamp("us")))):
        broken = given_rows.set_column(given_rows.column_names.index(column), column, bad)
        with pytest.raises(InputError, match=f"1 rows have no {column}"):
            rows_of(broken, schema)
    nowhere = given_rows.set_column(2, "x", pa.array([np.nan]))
    with pytest.raises(InputError, match="1 rows have no position: only a deletion may have none"):
        rows_of(nowhere, schema)
    assert len(rows_of(nowhere.append_column("deleted", pa.array([True])), schema)) == 1
    with pytest.raises(InputError, match="no column y"):
        rows_of(given_rows.drop(["y"]), schema)
    with pytest.raises(InputError, match="cannot be kept as int64"):
        rows_of(given_rows.set_column(0, "id", pa.array(["a"])), schema)


def test_a_schema_survives_its_document_and_takes_only_what_fits():
    """New attributes are added; another CRS, type of ids, times or of an attribute is refused with both named."""
    kinds = {name: kind for name, (kind, _) in VALUES.items()}
    schema = schema_of(**kinds)
    assert Schema.of(schema.as_json()) == schema
    assert schema_of().merged(schema).attributes == kinds
    for other, said in (
        (schema_of(PLANE), "crs none .*EPSG:4326"),
        (schema_of(id_type="string"), "ids of the rows are string, those of the history int64"),
        (schema_of(t_type="double"), "times of the rows are double, those of the history timestamp"),
        (schema_of(seats=pa.int64()), "column 'seats' of the rows is int64, in the history int8"),
    ):
        with pytest.raises(InputError, match=said):
            schema.merged(other)


def test_types_and_names_that_are_kept():
    """Text is large strings, a taken name gets an underscore, times are one of three."""
    assert plain_type(pa.dictionary(pa.int8(), pa.string())) == pa.large_string()
    assert plain_type(pa.binary()) == pa.large_binary()
    assert attribute_names(["t", "T_", "deleted", "speed"]) == {
        "t": "t__", "T_": "T_", "deleted": "deleted_", "speed": "speed",
    }  # fmt: skip
    assert [time_type_of(kind) for kind in (pa.date32(), pa.int16(), pa.float32())] == ["timestamp", "int64", "double"]
    with pytest.raises(InputError, match="times are of type large_string"):
        time_type_of(pa.large_string())


def test_both_zeros_are_one_time():
    """A deletion at -0.0 counts beside a position at 0.0."""
    schema = schema_of(PLANE, "int64", "double")
    rows = table_of(schema, [1, 1], [-0.0, 0.0], [[0, 0], [1, 1]], [True, False])
    assert not np.signbit(rows.column("t").to_numpy()).any()
