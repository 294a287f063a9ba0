"""Values as another type by Arrow: what Spark's ``try_cast`` gives, type by type; what it refuses is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from dtoss.geometry.space import LONLAT, space_of
from dtoss.rows.input_columns import MISTYPED, REASON, Columns, Unfitting
from dtoss.watch.watch_settings import Settings
from pipelines.rows.read_files import positions_in
from pipelines.watching.typed_rows import as_kind, fit_rows

MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(2023, 1, 2, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
]
FROM = {
    pa.int64(): [0, 1, -1, 127, 300, 40_000, 2**31, -(2**63), 2**53 + 1],
    pa.int16(): [0, 1, -129],
    pa.float64(): [0.0, -0.0, 1.5, 2.0, -129.0, 1e10, 1e300, math.nan, math.inf, 123456789.125, 1e-5],
    pa.float32(): [0.0, 0.1, 2.0, 3e38],
    pa.decimal128(9, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-7.00")],
    pa.bool_(): [True, False],
    pa.string(): ["", " 7 ", "+7", "007", "1e3", "1.5", "x", "true", " NO ", "é", "9223372036854775808", "-Infinity",
        "2024-02-29", " 2024-2-9T25", "2023-02-29", "2024-03", "2024-1-2 03:04:05.678901+01:00", "12:00:99"],
    pa.date32(): [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
    pa.timestamp("us", "UTC"): MOMENTS,
}  # fmt: skip
TO = (
    pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32(),
    pa.timestamp("us", "UTC"),
)  # fmt: skip


SOME, OTHERS = (pa.float64(), pa.string()), pytest.mark.deep("the same casts of types that say less by themselves")


def table_of(kind, values):
    n = len(values) + 1
    columns = {"id": range(n), "lon": [0.0] * n, "lat": [0.0] * n, "v": pa.array([*values, None], kind)}
    return pa.table(columns)


def fitted(table, wanted):
    """The values and reasons of rows whose column is to be of a type; None where the one type is never the other."""
    positions = positions_in(table, Columns(attributes=["v"]))
    settings = Settings(space_of(LONLAT), "int64", None, None, False, {"v": wanted})
    try:
        frame = fit_rows(positions, settings, False, None).frame
        found = frame.all_rows().table(frame.schema)
    except Unfitting:
        return None
    return pairs(found["a:v"], found[REASON])


def by_spark(frame, wanted):
    """The same, as Spark casts them; of numbers with parts none is a whole one."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    column, held, kind = F.col("v"), frame.schema["v"].dataType, from_arrow_type(wanted)
    try:
        value = column if held == kind else column.try_cast(kind)
        lost = value.isNull()
        if isinstance(kind, T.IntegralType) and isinstance(held, (T.FractionalType, T.DecimalType)):
            lost |= value.cast(held) != column
        found = frame.select("id", value.alias("v"), F.when(column.isNotNull() & lost, MISTYPED).alias("why")).toArrow()
    except AnalysisException:
        return None
    found = found.sort_by("id")
    return pairs(found["v"], found["why"])


def pairs(column, reasons):
    if pa.types.is_timestamp(column.type):  # of years that Python does not have, too
        column = column.cast(pa.int64())
    return [
        (value if reason is None else None, reason)
        for value, reason in zip(map(repr, column.to_pylist()), reasons.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    "held", [pytest.param(kind, marks=[] if kind in SOME else OTHERS, id=str(kind)) for kind in FROM]
)
def test_each_type_is_cast_as_spark_casts_it(spark, held):
    """Numbers out of range, with parts, no numbers, texts of numbers, times: one reason, or the same value."""
    table = table_of(held, FROM[held])
    there = spark.createDataFrame(table)
    for wanted in TO:
        assert fitted(table, wanted) == by_spark(there, wanted), wanted


def test_what_is_never_of_a_type_is_an_error_of_one_line():
    with pytest.raises(Unfitting, match=r"^column 'v' is array<bigint> here and bigint in the rows before: cast it$"):
        as_kind("v", pa.array([[1]]), pa.int64())
