"""Rows as a watch takes them: the same by Arrow as by Spark, with those that may be set aside as they were read."""

from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.space import LONLAT, space_of
from dtoss.watch.processing.watch_task import AHEAD_OF_CLOCK
from dtoss.watch.watch_settings import Settings
from pipelines.loop.odd_columns import check_rows
from pipelines.rows.input_columns import REASON, Columns
from pipelines.rows.paths import Unfitting
from pipelines.rows.read_files import positions_in
from pipelines.watching.typed_rows import FAR_TIME, first_settings, fit_rows, of_time, span_of, types_wanted, with_ahead

SPACE = space_of(LONLAT)
NOW = 1_700_000_000
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
    rows = fitted.with_raw()
    if fitted.session is None:
        return pa.Table.from_batches([one for some in rows.collect() for one in some])
    return rows.frame.toArrow()


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
    found = []
    for frame in (table, there):
        positions = positions_in(frame, Columns(attributes="none"))
        settings = first_settings(positions, SPACE, None, False, True)
        fitted = fit_rows(positions, settings, False, unit, NOW * 10**6)
        parts = [
            fitted,
            with_ahead(fitted, NOW * 10**6),
            of_time(fitted, 0, 10),
            of_time(fitted, 0, 10, bad_others=True),
        ]
        found.append([settings, span_of(fitted), *(rows_in(part).to_pylist() for part in parts)])
    assert found[0] == found[1]
    assert {FAR_TIME, AHEAD_OF_CLOCK} & {row[REASON] for row in found[0][3]}


def test_columns_are_as_those_of_the_first_rows(spark):
    """Ids as text and as numbers, columns that came later or are gone, one of text that words are looked for in."""
    first = pa.table(
        {"id": ["1", "x", None], "lon": [0.0] * 3, "lat": [0.0] * 3, "said": ["a", None, ""], "n": [1, 2, 3]}
    )
    later = pa.table({"id": [1, 2], "lon": [0.0] * 2, "lat": [0.0] * 2, "n": ["7", "x"], "new": [1, 2]})
    found = []
    for frames in ([first, later], [spark.createDataFrame(one) for one in (first, later)]):
        one, two = (positions_in(frame, Columns()) for frame in frames)
        texts = first_settings(one, SPACE, "said", False, True)
        numbers = first_settings(two, SPACE, None, False, True)
        parts = [fit_rows(two, texts, False, None), fit_rows(one, numbers, False, None)]
        found.append([texts, numbers, types_wanted(texts, Columns()), *(rows_in(part).to_pylist() for part in parts)])
        with pytest.raises(Unfitting, match="1 of 2 rows are bad"):
            check_rows(parts[0].frame, 0.1)
        with pytest.raises(Unfitting, match="these rows have no column of times, those of the watch have"):
            fit_rows(one, Settings(SPACE, "string", "double", None, False, {}), False, None)
    assert found[0] == found[1]
