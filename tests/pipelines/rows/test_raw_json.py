"""Rows are written as the JSON that Spark's ``to_json`` writes of them."""

from __future__ import annotations

import random
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dtoss.rows.raw_json import number_text, raw_rows
from dtoss.snapshots.column_types import stored_type

NUMBER = re.compile(r'-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?(?=[,}\]"])')
EVIL = "".join(map(chr, range(128))) + "\x85\u2028é中😀\ufeff"
EDGES = (-(2**63), -1, 0, 1, 999, 1500, -62135596800000001, -93784608000000000, 253402300800000001, 2**63 - 1)
DAYS = (-(2**31), -719529, -719163, -719164, 0, 2932896, 2932897, 2**31 - 1)
FLOATS = (
    0.0,
    -0.0,
    0.1,
    1e-3,
    9.99e-4,
    1e7,
    9999999.0,
    123456.75,
    5e-324,
    1.4e-45,
    1e22,
    -2.5e-7,
    1.7976931348623157e308,
)
NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))
SMALL = pa.struct([("x", pa.string()), ("y", pa.struct([("z", pa.int16()), ('"', pa.list_(pa.bool_()))]))])
COLUMNS = {
    "text": pa.array(["", EVIL, None, *EVIL]),
    "large": pa.array([EVIL], pa.large_string()),
    "no UTF-8": pa.array([b"\xff", b"a\xe2\x82", b"\xed\xa0\x80", b"\xed\xb0\x80\xed\xa0", b"\xed\xbfa", b"\xc0\x80"]),
    "byte": pa.array([-128, None, 127], pa.int8()),
    "short": pa.array([-(2**15)], pa.int16()),
    "int": pa.array([-(2**31)], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1]),
    "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "double": pa.array([*FLOATS, *NO_NUMBERS, None]),
    "float": pa.array([*FLOATS[:-1], *NO_NUMBERS, 3.4028234e38, None], pa.float32()),
    "small": pa.array([Decimal("0.0000001"), Decimal(0), Decimal("-12.3400000"), None], pa.decimal128(9, 7)),
    "great": pa.array([Decimal(10) ** 37, Decimal("-1")], pa.decimal128(38, 0)),
    "fine": pa.array([Decimal("1E-38"), Decimal("0")], pa.decimal128(38, 38)),
    "boolean": pa.array([True, False, None]),
    "date": pa.array([*DAYS, None], pa.date32()),
    "zoned": pa.array([*EDGES, None], pa.timestamp("us", "UTC")),
    "local": pa.array([*EDGES, None], pa.timestamp("us")),
    "binary": pa.array([b"", b"\xff\x00abc", None], pa.binary()),
    "list": pa.array([[], [1, None], None, [2]], pa.list_(pa.int8())),
    "lists": pa.array([[[None, "a"], None, []], None], pa.list_(pa.list_(pa.string()))),
    "times": pa.array([[0, None], []], pa.list_(pa.timestamp("us"))),
    "struct": pa.array([None, {"x": None, "y": {"z": 1, '"': [True, None]}}, {"x": '"', "y": None}], SMALL),
    "map": pa.array([[("a", 1), ("", None), (EVIL, 3)], [], None], pa.map_(pa.string(), pa.int32())),
    "maps": pa.array([[("a", [("b", None)]), ("c", None)]], pa.map_(pa.string(), pa.map_(pa.string(), pa.date32()))),
    "of longs": pa.array([[(-5, "a")]], pa.map_(pa.int64(), pa.string())),
    "of doubles": pa.array([[(one, 1) for one in (*FLOATS, *NO_NUMBERS)]], pa.map_(pa.float64(), pa.int8())),
    "of booleans": pa.array([[(True, 1), (False, 2)]], pa.map_(pa.bool_(), pa.int8())),
    "of dates": pa.array([[(5, 1.5)]], pa.map_(pa.date32(), pa.float32())),
    "of times": pa.array([[(-5, b"a")]], pa.map_(pa.timestamp("us", "UTC"), pa.binary())),
    "of local times": pa.array([[(7, None)]], pa.map_(pa.timestamp("us"), SMALL)),
    "of decimals": pa.array([[(Decimal("1E-7"), True)]], pa.map_(pa.decimal128(9, 7), pa.bool_())),
    'a "name".\n`é': pa.array([1]),
}  # fmt: skip
COLUMNS["no UTF-8"] = pa.Array.from_buffers(pa.string(), 6, COLUMNS["no UTF-8"].buffers())


def wide():
    """All columns side by side, with nulls where one is shorter."""
    rows = max(map(len, COLUMNS.values()))
    padded = [pa.concat_arrays([one, pa.nulls(rows - len(one), one.type)]) for one in COLUMNS.values()]
    return pa.record_batch(padded, names=list(COLUMNS))


def drawn(seed, rows=300):
    """Numbers and moments of any size, and lists of them."""
    rng = random.Random(seed)
    doubles = [round(rng.uniform(-180, 180), rng.randrange(18)) * 10.0 ** rng.randint(-30, 30) for _ in range(rows)]
    doubles[: rows // 2] = [rng.uniform(-180, 180) for _ in range(rows // 2)]
    longs = [rng.getrandbits(64) - 2**63 >> rng.randrange(64) for _ in range(rows)]
    columns = {
        "double": pa.array(doubles),
        "zoned": pa.array(longs).cast(pa.timestamp("us", "UTC")),
        "local": pa.array(longs).cast(pa.timestamp("us")),
        "date": pa.array([one >> 32 for one in longs], pa.date32()),
        "decimal": pa.array([Decimal(one).scaleb(-17) for one in longs], pa.decimal128(30, 17)),
        "list": pa.array([rng.sample(doubles, rng.randrange(4)) or None for _ in range(rows)]),
        "text": pa.array(["".join(rng.choices(EVIL, k=rng.randrange(9))) for _ in range(rows)]),
    }
    return pa.record_batch(columns), pa.record_batch({"float": pa.array(doubles).cast(pa.float32(), safe=False)})


def of_spark(spark, batch):
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    batch = batch.cast(pa.schema([pa.field(one.name, stored_type(one.type)) for one in batch.schema]))
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema=from_arrow_schema(batch.schema, True))
    names = [F.col("`" + name.replace("`", "``") + "`") for name in batch.schema.names]
    return [row[0] for row in frame.select(F.to_json(F.struct(*names), {"ignoreNullFields": "false"})).collect()]


def check_alike(ours, theirs, number=float):
    """Java before 19 writes a digit too many of some numbers; those are the same number."""
    assert NUMBER.sub("0", ours) == NUMBER.sub("0", theirs)
    for one, other in zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True):
        assert one == other or (number(one) == number(other) and len(one) < len(other)), (one, other)


def test_rows_are_written_as_spark_writes_them(spark):
    doubles, floats = drawn(1)
    for batch, number in ((wide(), float), (doubles, float), (floats, np.float32)):
        for ours, theirs in zip(raw_rows(batch).to_pylist(), of_spark(spark, batch), strict=True):
            check_alike(ours, theirs, number)


def test_a_row_has_all_its_columns_with_nulls():
    batch = pa.record_batch(
        {
            "a": pa.array(['"\x1f', None]),
            "d": pa.array([1.5e10, float("nan")]),
            "t": pa.array([-1, None], pa.timestamp("us", "UTC")),
            "y": pa.array([-719529, 2932897], pa.date32()),
            "m": pa.array([[(3, [b"\xff"])], None], pa.map_(pa.date32(), pa.list_(pa.binary()))),
        }
    )
    assert raw_rows(batch).to_pylist() == [
        '{"a":"\\"\\u001F","d":1.5E10,"t":"1969-12-31T23:59:59.999Z","y":"-0001-12-31","m":{"3":["/w=="]}}',
        '{"a":null,"d":"NaN","t":null,"y":"+10000-01-01","m":null}',
    ]


def test_rows_in_the_midst_of_others_are_themselves():
    for name, column in COLUMNS.items():
        whole = raw_rows(pa.record_batch([column], names=[name])).to_pylist()
        for i in range(len(column)):
            assert raw_rows(pa.record_batch([column.slice(i, 1)], names=[name])).to_pylist() == whole[i : i + 1]


@pytest.mark.parametrize(
    ("value", "text"),
    [(2e-3, "0.002"), (1e-4, "1.0E-4"), (1e23, "1.0E23"), (5e-324, "4.9E-324"), (100.0, "100.0"), (-0.0, "-0.0")],
)
def test_a_number_has_the_shortest_digits(value, text):
    assert number_text(value) == text


def test_a_float_has_its_own_digits():
    assert number_text(1.0628582e15, single=True) == "1.0628582E15"


def test_what_has_no_name_in_a_manifest_is_not_written():
    with pytest.raises(TypeError, match=r"time64\[us\] has no name"):
        raw_rows(pa.record_batch({"t": pa.array([1], pa.time64("us"))}))
