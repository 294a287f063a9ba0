"""Names of types as manifests have them are Spark's own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dtoss.snapshots.column_types import stored_column, stored_type, type_name

KINDS = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary(),
    pa.large_binary(), pa.binary(3), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin"),
    pa.duration("us"), pa.decimal128(9, 2), pa.null(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.uint32()),
    pa.map_(pa.string(), pa.list_(pa.float16())),
    pa.struct([("Ein Name", pa.int64()), ("b", pa.struct([("c", pa.date64())]))]),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_type_is_called_as_spark_calls_it(kind):
    from pyspark.sql.pandas.types import from_arrow_type

    assert type_name(stored_type(kind)) == from_arrow_type(stored_type(kind), True).simpleString()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_column_gets_its_stored_type(kind):
    """Names within lists are Spark's too."""
    assert str(stored_column(pa.nulls(2, kind)).type) == str(stored_type(kind))


def test_nothing_stands_where_there_is_no_value():
    """As in what Spark writes: no bytes of a value that is null."""
    column = stored_column(pa.array([b"abc", None, b"def"], pa.binary(3)))
    assert column.buffers()[2].to_pybytes()[:6] == b"abcdef"
    assert column.to_pylist() == [b"abc", None, b"def"]


def test_moments_are_cut_to_microseconds():
    moments = pa.array([-1, 1999, None]).cast(pa.timestamp("ns", "UTC"))
    assert stored_column(moments).cast(pa.int64()).to_pylist() == [-1, 1, None]


def test_a_type_that_spark_lacks_has_no_name():
    with pytest.raises(TypeError, match=r"type time64\[us\] has no name in a manifest"):
        type_name(pa.time64("us"))
