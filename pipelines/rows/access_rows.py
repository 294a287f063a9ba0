"""Accesses: raw requests with a place and a time, and their counts by day and hour, summed exactly.

Each count of a day, hour and partition is one cell beyond `HOURS`. Once a shuffle has summed it, only its square (by
weekday and partition) and its share of the total (by day and hour) go on. A square travels as three whole numbers, so
that it is exact, and no order of summing changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.model.patterns import DAY
from ceps.model.servers import RequestCosts
from ceps.model.variation import Variation, variation_of
from dtoss.errors import InputError
from dtoss.partition import numbers as arrow_of
from dtoss.partition import texts, values_of
from dtoss.rows.input_columns import REASON, REASONS, UNREADABLE_TIME, Columns, attribute_column
from dtoss.rows.row_plan import as_double, is_number, where
from dtoss.snapshots.column_types import is_text, type_name
from dtoss.text.text_times import moments_of_numbers
from dtoss.text.time_patterns import LAST_SECOND
from pipelines.rows.position_frame import Positions

MILLIONTHS = 1_000_000
"""Weights are counted in whole millionths, so that sums do not depend on the order of the rows."""
REQUESTS = f"x double, y double, day int, slot int, weight bigint, k double, radius double, `{REASON}` string"
"""Requests, as Spark writes their columns: day since 1970 and slot of it in a time zone, weight in millionths."""
_FIRST_SECOND = -62_135_596_800  # of the year 1
_STEP = 900  # zones change their offsets at such seconds nearly always
_NAN, _NEVER = arrow_of(np.array([np.nan]))[0], arrow_of(np.array([np.iinfo(np.int64).min]))[0]
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


def check_accesses(accesses: Positions, asks: Asks, time_format: str | None) -> None:
    """Check that the columns of positions say what a request is."""
    if not accesses.timed:
        raise InputError("accesses have no time: name its column (--time NAME)")
    kinds = accesses.arrow_types
    if pa.types.is_date(kinds["t"]):
        raise InputError("the time column holds dates: a time of day is needed")
    if is_number(kinds["t"]) and time_format not in ("epoch_s", "epoch_ms"):
        raise InputError("the time column holds numbers: say what they are, --time-format epoch_s or epoch_ms")
    for name in asks.columns:
        kind = kinds[attribute_column(name)]
        if not (is_number(kind) or is_text(kind)):
            raise InputError(f"column {name!r} is {type_name(kind)}: numbers are wanted")


def reasons_for(asks: Asks) -> list[str]:
    """Return why a row of accesses may be set aside, in the order in which reasons are looked for."""
    named = ((NO_WEIGHT, asks.weight), (NO_K, asks.k), (NO_RADIUS, asks.radius))
    return [*REASONS, *(reason.format(name) for reason, name in named if isinstance(name, str))]


def requests_of(asks: Asks, time_format: str | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of positions as :data:`REQUESTS`; one that cannot be counted has a reason."""
    t = rows.column("t")
    second = seconds_of_moments(moments_of_numbers(t, time_format) if is_number(t.type) else t)
    local = local_seconds(second, asks.time_zone)
    weight, k, radius = (_numbers(rows, asked) for asked in (asks.weight, asks.k, asks.radius))
    legal = (weight >= 0.0) & (weight <= 1e9)
    # a row without a k asks for none
    marks = [
        (UNREADABLE_TIME, (second < _FIRST_SECOND) | (second > LAST_SECOND)),
        (NO_WEIGHT.format(asks.weight), ~legal & (asks.weight is not None)),
        (NO_K.format(asks.k), _is_said(rows, asks.k) & ~((k >= 1) & (k <= 1e6) & (k % 1 == 0))),
        (NO_RADIUS.format(asks.radius), _is_said(rows, asks.radius) & ~(radius >= 0.0)),
    ]
    reason = rows.column(REASON)
    for why, bad in marks:
        if bad.any():
            reason = pc.coalesce(reason, pc.if_else(arrow_of(bad), texts([why])[0], None))
    made = {
        "x": rows.column("x"),
        "y": rows.column("y"),
        "day": arrow_of((local // DAY).astype(np.int32)),
        "slot": arrow_of((local % DAY // asks.slot_seconds).astype(np.int32)),
        "weight": arrow_of(_millionths(np.where(legal, weight, 0.0 if asks.weight is not None else 1.0))),
        "k": arrow_of(k, ~np.isnan(k)),
        "radius": arrow_of(radius, ~np.isnan(radius)),
        REASON: reason,
    }
    return pa.record_batch([*made.values()], names=[*made])


def _numbers(rows: pa.RecordBatch, asked: float | str | None) -> NDArray[np.float64]:
    """Return a number for every row, of a column or the same for all, float64 (n,): NaN where there is none."""
    if not isinstance(asked, str):
        return np.full(len(rows), np.nan if asked is None else asked, np.float64)
    return values_of(pc.fill_null(as_double(rows.column(attribute_column(asked))), _NAN))


def _is_said(rows: pa.RecordBatch, asked: float | str | None) -> NDArray[np.bool_]:
    """Return which rows have something in the column that is asked for, bool (n,)."""
    if not isinstance(asked, str):
        return np.zeros(len(rows), np.bool_)
    return where(rows.column(attribute_column(asked)).is_valid())


def _millionths(weight: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return weights in whole millionths; halves are rounded up."""
    exact = weight * MILLIONTHS
    whole = np.rint(exact)
    return (whole + (exact - whole == 0.5)).astype(np.int64)


def seconds_of_moments(t: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the seconds since 1970 of moments, rounded down, int64 (n,); beyond all years where there is none."""
    micros = t.cast(pa.timestamp("us", t.type.tz), safe=False).cast(pa.int64())
    return np.asarray(values_of(pc.fill_null(micros, _NEVER)) // 1_000_000)


def local_seconds(second: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Return the seconds since 1970 that clocks of a time zone show, int64 (n,), when it is so many of UTC."""
    if zone == "UTC" or len(second) == 0:
        return second
    step, place = np.unique(second // _STEP, return_inverse=True)
    begin, end = (np.array([_offset(zone, s) for s in (step * _STEP + more).tolist()]) for more in (0, _STEP - 1))
    local = second + begin[place]
    unsure = np.flatnonzero((begin != end)[place])
    local[unsure] = [s + _offset(zone, s) for s in second[unsure].tolist()]
    return local


@lru_cache(maxsize=1 << 17)
def _offset(zone: str, second: int) -> int:
    second = min(max(second, _FIRST_SECOND + DAY), LAST_SECOND - DAY)  # local times have these years as well
    offset = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


HOURS = 1 << 56
"""The first cell of a day, an hour and a partition."""
_TOTALS = 1 << 57  # the first cell of a day and an hour
_SQUARES = 1 << 58  # the first cell of a weekday, a partition, and a part of the sum of squares
_BITS = 20  # (high 2^20 + low)^2 has three parts: high^2, high low and low^2
_PARTS = (2.0 ** (2 * _BITS), 2.0 ** (_BITS + 1), 1.0)
_EPOCH = date(1970, 1, 1)  # a Thursday


def hours_of(slot_seconds: int) -> int:
    """Return how many parts of a day are told apart: hours, or slots where those are longer."""
    return 24 if slot_seconds <= 3600 else 86_400 // slot_seconds


def hour_cells(
    day: NDArray[np.int64], slot: NDArray[np.int64], partition: NDArray[np.int64], slot_seconds: int, partitions: int
) -> NDArray[np.int64]:
    """Return the cell of each request's day, hour and partition, int64 (n,)."""
    hours = hours_of(slot_seconds)
    hour = slot * slot_seconds * hours // 86_400
    return HOURS + (day.astype(np.int64) * hours + hour) * partitions + partition


def spread(batch: pa.RecordBatch, slot_seconds: int, partitions: int, by_weekday: bool) -> pa.RecordBatch:
    """Return summed rows with those of hours replaced by their squares and their shares of the totals.

    ``batch``: rows of `cell`, `together` and `weight`, each cell of an hour once in all of them; ``by_weekday``:
    whether days differ by their weekday; else all are one kind.
    """
    cell = batch.column("cell").to_numpy(zero_copy_only=False)
    hourly = cell >= HOURS
    if not hourly.any():
        return batch
    weight = batch.column("weight").to_numpy(zero_copy_only=False)[hourly]
    hours = hours_of(slot_seconds)
    place, partition = np.divmod(cell[hourly] - HOURS, partitions)
    weekday = (place // hours + 3) % 7 if by_weekday else np.zeros_like(place)
    high, low = weight >> _BITS, weight & ((1 << _BITS) - 1)
    key = _SQUARES + (weekday * partitions + partition) * len(_PARTS)
    kinds = ((_TOTALS + place, weight), (key, high * high), (key + 1, high * low), (key + 2, low * low))
    rows = [batch.filter(pa.array(~hourly))]
    for cells, values in kinds:
        found, whose = np.unique(cells, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, whose, values)
        nothing = pa.nulls(len(found), batch.schema.field("together").type)
        rows.append(pa.record_batch([pa.array(found), nothing, pa.array(sums)], schema=batch.schema))
    return pa.concat_batches(rows)


def is_of_days(cell: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which cells :func:`spread` made."""
    return np.asarray(cell >= HOURS)


def variation(
    cell: NDArray[np.int64],
    weight: NDArray[np.int64],
    by_slot: NDArray[np.float64],
    first: date,
    last: date,
    slot_seconds: int,
) -> Variation:
    """Return how days differ from their patterns.

    ``cell``, ``weight``: int64 (n,), the rows of :func:`spread`; ``by_slot``: float64 (7, P, slots), requests of each
    weekday; where days are of one kind, all in the first; ``first``, ``last``: the days that count, both included.
    """
    kinds, partitions, slots = by_slot.shape
    hours = hours_of(slot_seconds)
    days = (last - first).days + 1
    weekday = (np.arange(days) + first.weekday()) % 7
    if not by_slot[1:].any():
        weekday = np.zeros(days, np.int64)
    observed = np.bincount(weekday, minlength=kinds)
    hour = np.arange(slots) * slot_seconds * hours // 86_400
    hourly = np.zeros((kinds, partitions, hours))
    for slot in range(slots):
        hourly[:, :, hour[slot]] += by_slot[:, :, slot]
    mean = hourly / np.maximum(observed, 1)[:, None, None]
    sums = np.zeros(days * hours, np.int64)
    some = (cell >= _TOTALS) & (cell < _SQUARES)
    np.add.at(sums, cell[some] - _TOTALS - (first - _EPOCH).days * hours, weight[some])
    totals = sums.reshape(days, hours) / MILLIONTHS
    parts = np.zeros(kinds * partitions * len(_PARTS), np.int64)
    some = cell >= _SQUARES
    np.add.at(parts, cell[some] - _SQUARES, weight[some])
    squares = parts.reshape(-1, len(_PARTS)) @ np.array(_PARTS) / MILLIONTHS**2
    freedom = np.where(observed > 1, observed / np.maximum(observed - 1, 1), 1.0)
    known = (observed > 1)[:, None]
    power = (mean**2).sum(axis=2)
    away = squares.reshape(kinds, partitions) - observed[:, None] * power
    return variation_of(
        totals,
        mean.sum(axis=1)[weekday],
        freedom[weekday],
        np.where(known, np.maximum(away, 0.0) * freedom[:, None], 0.0).sum(axis=0),
        np.where(known, observed[:, None] * mean.sum(axis=2), 0.0).sum(axis=0),
        np.where(known, observed[:, None] * power, 0.0).sum(axis=0),
    )
