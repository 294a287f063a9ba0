"""Counts by day and hour on their way to what varies from day to day: squares and totals, summed exactly.

Each count of a day, hour and partition is one cell beyond `HOURS`. Once a shuffle has summed it, only its square (by
weekday and partition) and its share of the total (by day and hour) go on. A square travels as three whole numbers, so
that it is exact, and no order of summing changes a bit.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ceps.model.variation import Variation, variation_of
from pipelines.rows.access_rows import MILLIONTHS

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
