"""Rows as a watch takes them: times as Spark counts them, with those that may be set aside as they were read."""

from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.space import LONLAT, space_of
from dtoss.rows.input_columns import MISTYPED, NOT_WHOLE, RAW, REASON, Columns, Unfitting
from dtoss.watch.processing.watch_task import AHEAD_OF_CLOCK
from dtoss.watch.watch_settings import Settings
from pipelines.loop.odd_columns import check_rows
from pipelines.rows.read_files import positions_in
from pipelines.watching.typed_rows import (
    FAR_TIME,
    MICROS,
    first_settings,
    fit_rows,
    of_time,
    span_of,
    types_wanted,
    with_ahead,
)

SPACE = space_of(LONLAT)
NOW = 1_700_000_000
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000
TIMES = {
    "seconds": ([0.0, 1.25e-5, 2.5e-6, -2.5e-6, NOW + 1e-7, 4e11, -1e12, math.nan, math.inf, None], pa.float64(), None),
    "whole": ([0, NOW, -62_135_596_801, 253_402_300_799, 2**62, None], pa.int64(), None),
    "milliseconds": ([0.0005, 1.5, NOW * 1e3, 1e15, None], pa.float64(), "ms"),
    "days": ([date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None], pa.date32(), None),
    "moments": ([datetime(1969, 12, 31, 23, 59, 59, 999_999), *[datetime(9999, 12, 31, 23, 59, 59, 1)] * 2, None],
                pa.timestamp("us"), None),
    "moments of UTC": ([NOW * 10**6, 2**62, -(2**62)], pa.timestamp("us", "UTC"), None),
}  # fmt: skip


def rows_in(fitted):
    """All rows, by either engine."""
    return fitted.with_raw().table(fitted.frame.schema.append(pa.field(RAW, pa.string())))


def by_spark(frame, unit):
    """The microseconds of times as Spark counts them; None out of range."""
    from pyspark.sql import functions as F

    t, kind = F.col("t"), frame.schema["t"].dataType.simpleString()
    if kind in ("double", "bigint"):
        scaled = t.cast("double") * {"ms": 1e3, None: 1e6}[unit]
        micros = F.when(F.abs(scaled) <= LAST_US, F.round(scaled).cast("bigint"))
    else:
        micros = F.unix_micros(F.to_timestamp_ltz(t) if kind == "timestamp_ntz" else t.cast("timestamp"))
    within = F.when(micros.between(FIRST_US, LAST_US), micros)
    return frame.select("id", within.alias("us")).toArrow().sort_by("id")["us"].to_pylist()


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_the_same_microseconds(spark, kind):
    """With half microseconds, out of range, no numbers; later than what is believed, and between two of them."""
    values, of, unit = TIMES[kind]
    n = len(values)
    lat = np.where(np.arange(n) == 1, 91.0, 1.0)
    table = pa.table({"id": range(n), "lon": [0.0] * n, "lat": lat, "t": pa.array(values, of)})
    there = spark.createDataFrame(table)
    if of == pa.timestamp("us"):  # Spark makes moments of UTC of them
        there = there.withColumn("t", there["t"].cast("timestamp_ntz"))
    positions = positions_in(table, Columns(attributes="none"))
    fitted = fit_rows(positions, first_settings(positions, SPACE, None, False, True), False, unit, NOW * 10**6)
    rows = rows_in(fitted).sort_by("id").to_pylist()
    micros, reasons = [row[MICROS] for row in rows], [row[REASON] for row in rows]
    assert micros == by_spark(there, unit)
    nowhere = [value is None or value != value for value in values]
    assert [reason == FAR_TIME for reason in reasons] == [
        us is None and not nowhere[i] and i != 1 for i, us in enumerate(micros)
    ]
    assert [i for i, reason in enumerate(reasons) if reason not in (None, FAR_TIME)] == [
        i for i in range(n) if i == 1 or nowhere[i]
    ]
    doubted = [reasons[i] is not None or us > NOW * 10**6 for i, us in enumerate(micros)]
    assert [row[RAW] is not None for row in rows] == doubted
    late = {row["id"] for row in rows_in(with_ahead(fitted, NOW * 10**6)).to_pylist() if row[REASON] == AHEAD_OF_CLOCK}
    assert late == {i for i, us in enumerate(micros) if reasons[i] is None and us > NOW * 10**6}
    within = {i for i, us in enumerate(micros) if us is not None and 0 <= us < 10}
    assert ids_in(of_time(fitted, 0, 10)) == within
    assert ids_in(of_time(fitted, 0, 10, bad_others=True)) == {i for i in range(n) if reasons[i]} - within
    good = [us for us, reason in zip(micros, reasons, strict=True) if reason is None]
    assert span_of(fitted) == (min(good), max(good))


def ids_in(fitted):
    return {row["id"] for row in rows_in(fitted).to_pylist()}


def test_columns_are_as_those_of_the_first_rows():
    """Ids as text and as numbers, columns that came later or are gone, one of text that words are looked for in."""
    first = pa.table(
        {"id": ["1", "x", None], "lon": [0.0] * 3, "lat": [0.0] * 3, "said": ["a", None, ""], "n": [1, 2, 3]}
    )
    later = pa.table({"id": [1, 2], "lon": [0.0] * 2, "lat": [0.0] * 2, "n": ["7", "x"], "new": [1, 2]})
    one, two = (positions_in(table, Columns()) for table in (first, later))
    texts, numbers = first_settings(one, SPACE, "said", False, True), first_settings(two, SPACE, None, False, True)
    assert types_wanted(texts, Columns()) == {"id": "string", "said": "string", "n": "bigint"}
    as_texts, as_numbers = fit_rows(two, texts, False, None), fit_rows(one, numbers, False, None)
    names = ("id", "a:said", "a:n", REASON)
    assert [tuple(row[name] for name in names) for row in rows_in(as_texts).to_pylist()] == [
        ("1", None, 7, None), ("2", None, None, MISTYPED)
    ]  # fmt: skip
    names = ("id", "a:n", "a:new", REASON)
    assert [tuple(row[name] for name in names) for row in rows_in(as_numbers).to_pylist()] == [
        (1, "1", None, None), (None, "2", None, NOT_WHOLE), (None, "3", None, "no id")
    ]  # fmt: skip
    with pytest.raises(Unfitting, match="1 of 2 rows are bad"):
        check_rows(as_texts.frame, 0.1)
    with pytest.raises(Unfitting, match="these rows have no column of times, those of the watch have"):
        fit_rows(one, Settings(SPACE, "string", "double", None, False, {}), False, None)
