"""How Spark reads times, as its own functions have it: what Arrow is held equal to."""

from __future__ import annotations

from pyspark.sql import functions as F

from dtoss.text.time_patterns import COUNTED_TIMES, EXCEL_SECONDS, LAST_SECOND, OWN_ZONE, names_zone
from pipelines.rows.row_sources import number


def moment(value, pattern=None, zone=None):
    """The time in a text, null where it cannot be read; times without a zone are of ``zone``."""
    if pattern in COUNTED_TIMES:
        return counted(number(value), pattern, zone)
    if pattern is not None:
        found = F.try_to_timestamp(value, F.lit(pattern))
        return found if zone is None or names_zone(pattern) else F.to_utc_timestamp(found, zone)
    found = F.try_to_timestamp(value)
    return found if zone is None else F.when(value.rlike(OWN_ZONE), found).otherwise(F.to_utc_timestamp(found, zone))


def counted(value, pattern, zone=None):
    """The moment that a number counts to; null where it is beyond the year 9999. Days of Excel have a zone."""
    seconds = value.cast("double") / COUNTED_TIMES[pattern]
    if pattern == "excel":
        # a day has 86,400,000 milliseconds, and a double of days no more digits
        seconds = F.round(seconds, 3) - float(EXCEL_SECONDS)
    found = F.when(F.abs(seconds) <= float(LAST_SECOND), F.timestamp_seconds(seconds))
    if pattern == "epoch_us":
        found = F.when(F.abs(seconds) <= float(LAST_SECOND), F.timestamp_micros(value.cast("bigint")))
    return F.to_utc_timestamp(found, zone) if pattern == "excel" and zone is not None else found
