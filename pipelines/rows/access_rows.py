"""Accesses: raw requests with a place and a time, and what each of them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from ceps.model.costs import RequestCosts
from ceps.model.patterns import DAY
from dtoss.errors import InputError
from pipelines.rows.input_columns import REASON, REASONS, Columns, attribute_column
from pipelines.rows.position_frame import Positions
from pipelines.text import text_types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MILLIONTHS = 1_000_000
"""Weights are counted in whole millionths, so that sums do not depend on the order of the rows."""
LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
NO_WEIGHT, NO_K, NO_RADIUS = (
    "{} is not a number from 0 to 1e9",
    "{} is not a whole number of at least 1",
    "{} is not a number of at least 0",
)
"""Why a row is set aside, for the name of its column."""


@dataclass(frozen=True)
class Asks:
    """What accesses ask for, and how it is counted."""

    weight: float | str | None = None  # The requests that a row stands for, or the column that says so; 1 when None
    # How many nearest each request asks for, or the column that says so; without a k in its row it asks for none
    k: int | str | None = None
    # How far each request looks, metres or CRS units, or the column that says so. With neither k nor radius a request
    # reads the one partition that holds its place
    radius: float | str | None = None
    slot_seconds: int = 300  # Length of a slot; divides a day
    time_zone: str = "UTC"  # Where slot 0 begins at midnight
    by_weekday: bool = False  # A pattern for each weekday, besides that of all days
    smooth_seconds: int = 0  # Each slot becomes the mean of so much time round it
    # since, until: the days that count, of the time zone; the last one is not included. All when None
    since: date | None = None
    until: date | None = None
    requests_per_access: float = 1.0  # How many requests each observed one stands for
    # How many base requests each counts as by its k and radius; one, whatever it asks for, when None
    costs: RequestCosts | None = None

    def __post_init__(self) -> None:
        if self.slot_seconds < 1 or DAY % self.slot_seconds:
            raise ValueError(f"slots of {self.slot_seconds} s do not divide a day: use 60, 300, 900 or 3600")
        if not 0 <= self.smooth_seconds <= DAY:
            raise ValueError(f"smoothing over {self.smooth_seconds} s is not possible: 0 to {DAY} is")
        if self.time_zone != "UTC":
            try:
                ZoneInfo(self.time_zone)
            except (OSError, ValueError, KeyError):
                raise ValueError(
                    f"time zone {self.time_zone!r} is not known: write a name such as UTC or Europe/Berlin"
                ) from None
        if isinstance(self.weight, float) and not 0.0 <= self.weight <= 1e9:
            raise ValueError(f"weight is {self.weight:g}: a number from 0 to 1e9, or a column, is wanted")
        if isinstance(self.k, int) and self.k < 1:
            raise ValueError(f"k is {self.k}: a whole number of at least 1, or a column, is wanted")
        if isinstance(self.radius, float) and not self.radius >= 0.0:
            raise ValueError(f"radius is {self.radius}: a number that is not negative, or a column, is wanted")
        if not 0 < self.requests_per_access < np.inf:
            raise ValueError(f"requests per access are {self.requests_per_access}: a number above 0 is wanted")
        if self.since and self.until and self.since >= self.until:
            raise ValueError(f"no day lies from {self.since} to {self.until}: the last day is not included")

    @property
    def columns(self) -> list[str]:
        """The columns that these name."""
        named = [name for name in (self.weight, self.k, self.radius) if isinstance(name, str)]
        return list(dict.fromkeys(named))


def access_columns(asks: Asks, **how: Any) -> Columns:
    """Return how accesses are to be read: no ids, the columns that are asked for, and what else ``how`` says."""
    return Columns(id=None, attributes=asks.columns or "none", **how)


def rows_of(accesses: Positions, asks: Asks, time_format: str | None) -> tuple[DataFrame, list[str]]:
    """Return x, y, day (since 1970) and slot of the time zone, weight, k, radius and a reason; and all reasons."""
    from pyspark.sql import functions as F

    if not accesses.timed:
        raise InputError("accesses have no time: name its column (--time NAME)")
    frame = accesses.spark_frame
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    moment = _moment(kinds["t"], time_format)
    if asks.time_zone != "UTC":
        moment = F.from_utc_timestamp(moment, asks.time_zone)
    second = F.unix_seconds(moment)
    weight, k, radius = (_number(name, kinds) for name in (asks.weight, asks.k, asks.radius))
    wrong = [("time cannot be read", second.isNull())]
    # only what is in range may be cast
    legal = weight.between(0.0, 1e9)
    millionths = F.when(legal, F.round(weight * MILLIONTHS)).cast("bigint")
    if isinstance(asks.weight, str):
        wrong.append((NO_WEIGHT.format(asks.weight), _not(legal)))
    if isinstance(asks.k, str):
        # a row without a k asks for none
        bad = F.col(f"`{attribute_column(asks.k)}`").isNotNull() & _not((k >= 1) & (k <= 1e6) & (k % 1 == 0))
        wrong.append((NO_K.format(asks.k), bad))
    if isinstance(asks.radius, str):
        bad = F.col(f"`{attribute_column(asks.radius)}`").isNotNull() & _not((radius >= 0.0) & ~F.isnan(radius))
        wrong.append((NO_RADIUS.format(asks.radius), bad))
    reason = F.lit(None).cast("string")
    for text, where in reversed(wrong):
        reason = F.when(where, F.lit(text)).otherwise(reason)
    rows = frame.select(
        "x",
        "y",
        F.floor(second / DAY).cast("int").alias("day"),
        F.floor(F.pmod(second, F.lit(DAY)) / asks.slot_seconds).cast("int").alias("slot"),
        (F.lit(MILLIONTHS).cast("bigint") if asks.weight is None else millionths).alias("weight"),
        k.alias("k"),
        radius.alias("radius"),
        F.coalesce(F.col(REASON), reason).alias(REASON),
    )
    return rows, list(dict.fromkeys([*REASONS, *(text for text, _ in wrong)]))


def _not(good: Column) -> Column:
    from pyspark.sql import functions as F

    return ~F.coalesce(good, F.lit(False))


def _moment(kind: Any, time_format: str | None) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    t = F.col("t")
    if isinstance(kind, T.TimestampType):
        return t
    if isinstance(kind, T.TimestampNTZType):
        return t.cast("timestamp")
    if isinstance(kind, T.DateType):
        raise InputError("the time column holds dates: a time of day is needed")
    if time_format not in ("epoch_s", "epoch_ms"):
        raise InputError("the time column holds numbers: say what they are, --time-format epoch_s or epoch_ms")
    seconds = t.cast("double") / (1000.0 if time_format == "epoch_ms" else 1.0)
    return F.when(F.abs(seconds) <= float(LAST_SECOND), F.timestamp_seconds(seconds))


def _number(name: int | float | str | None, kinds: dict[str, Any]) -> Column:
    """Return a number for every row: of a column, or the same for all."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if not isinstance(name, str):
        return F.lit(name).cast("double")
    held = attribute_column(name)
    column, kind = F.col(f"`{held}`"), kinds[held]
    if isinstance(kind, T.NumericType):
        return column.cast("double")
    if isinstance(kind, T.StringType):
        return text_types.number(column)
    raise InputError(f"column {name!r} is {kind.simpleString()}: numbers are wanted")
