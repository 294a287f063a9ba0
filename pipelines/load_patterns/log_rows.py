"""Rows of a server's access log, read in this process: the same are good as where Spark reads them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from pipelines.rows.access_rows import LAST_SECOND, MILLIONTHS, NO_K, NO_RADIUS, NO_WEIGHT
from pipelines.rows.input_columns import UNREADABLE_TIME

KEPT = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("k", pa.int32()),
        ("radius", pa.float64()),
        ("weight", pa.int64()),
    ]
)
"""Good rows as live patterns keep them: a place and not a partition, and the weight in whole millionths."""
_FIRST_SECOND = -62_135_596_800  # of the year 1
_STEP = 900  # zones change their offsets at such seconds nearly always


@dataclass(frozen=True)
class LogRows:
    """Rows of some files."""

    good: pa.Table  # Those that count, in the columns of :data:`KEPT`
    bad: dict[str, int]  # How many were set aside, by reason


def read_log_file(filesystem: fs.FileSystem, file: str, names: tuple[str, str]) -> pa.Table:
    """Return a file of a log: t, the coordinates as x and y, k, radius and weight, as numbers."""
    columns = {"t": "t", names[0]: "x", names[1]: "y", "k": "k", "radius": "radius", "weight": "weight"}
    try:
        with filesystem.open_input_file(file) as stream, pq.ParquetFile(stream) as parquet:
            missing = [name for name in columns if name not in parquet.schema_arrow.names]
            if missing:
                raise InputError(
                    f"{file} has no column {missing[0]}: it is no file of an access log of this store; move it away"
                )
            found = parquet.read(list(columns))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{file} is damaged, and its requests cannot be counted: {str(error).splitlines()[0]}; restore it or move "
            "it away"
        ) from None
    arrays = []
    for name, inner in columns.items():
        column = found.column(name)
        is_time = pa.types.is_timestamp(column.type)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not (is_time if inner == "t" else number):
            what = "timestamps are" if inner == "t" else "numbers are"
            raise InputError(f"column {name} of {file} is {column.type}: {what} wanted; move the file away")
        kind = pa.timestamp("us", "UTC") if is_time else pa.float64()
        if is_time and column.type.tz is None:
            column = column.cast(pa.timestamp("us"), safe=False)
        arrays.append(column.cast(kind, safe=False))
    return pa.table(arrays, names=list(columns.values()))


def screened_rows(table: pa.Table, space: Space) -> LogRows:
    """Return which rows of files count, and why others do not, as :func:`pipelines.patterns.patterns` judges them."""
    x, y, k, radius, weight = (_numbers(table, name) for name in ("x", "y", "k", "radius", "weight"))
    places = np.stack([x, y], axis=1)
    t = table.column("t")
    second = _seconds(t)
    number = np.isfinite(places).all(axis=1)
    legal = np.zeros(len(places), np.bool_)
    legal[number] = space.legal(places[number])
    if space.metric == "plane":
        legal[number] &= ~space.too_near(places[number])
    has_k, has_radius = _is_valid(table, "k"), _is_valid(table, "radius")
    off = "position out of range"
    if space.geographic:
        off = "latitude out of range"
    rules = [
        ("no time", ~_is_valid(table, "t")),
        ("no position", ~(_is_valid(table, "x") & _is_valid(table, "y"))),
        ("position is NaN", np.isnan(x) | np.isnan(y)),
        ("position is infinite", np.isinf(x) | np.isinf(y)),
        ("longitude out of range", (np.abs(x) > 180.0) if space.geographic else np.zeros(len(x), np.bool_)),
        (off, ~legal),
        (UNREADABLE_TIME, (second < _FIRST_SECOND) | (second > LAST_SECOND)),
        (NO_WEIGHT.format("weight"), ~((weight >= 0.0) & (weight <= 1e9))),
        (NO_K.format("k"), has_k & ~((k >= 1) & (k <= 1e6) & (k % 1 == 0))),
        (NO_RADIUS.format("radius"), has_radius & ~(radius >= 0.0)),
    ]
    good = np.ones(len(places), np.bool_)
    bad: Counter[str] = Counter()
    for reason, wrong in rules:
        count = int((good & wrong).sum())
        if count:
            bad[reason] += count
            good &= ~wrong
    kept = pa.table(
        [
            t.filter(pa.array(good)).combine_chunks(),
            pa.array(x[good]),
            pa.array(y[good]),
            pa.array(np.where(has_k, k, 0)[good].astype(np.int32), mask=~has_k[good]),
            pa.array(radius[good], mask=~has_radius[good]),
            pa.array(_millionths(weight[good])),
        ],
        schema=KEPT,
    )
    return LogRows(kept, dict(bad))


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    found: NDArray[np.float64] = table.column(name).to_numpy()
    return found


def _is_valid(table: pa.Table, name: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_valid(table.column(name)).to_numpy()
    return found


def _seconds(t: pa.ChunkedArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = t.cast(pa.int64()).fill_null(0).to_numpy() // 1_000_000
    return found


def _millionths(weight: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return weights in whole millionths; halves are rounded up, as Spark does."""
    exact = weight * MILLIONTHS
    whole = np.rint(exact)
    return (whole + (exact - whole == 0.5)).astype(np.int64)


def local_seconds(t: pa.ChunkedArray, zone: str) -> NDArray[np.int64]:
    """Return the seconds since 1970 that clocks of a time zone show, int64 (n,)."""
    second = _seconds(t)
    if zone == "UTC" or len(second) == 0:
        return second
    there = ZoneInfo(zone)
    step, where = np.unique(second // _STEP, return_inverse=True)
    begin, end = (np.array([_offset(there, s) for s in (step * _STEP + more).tolist()]) for more in (0, _STEP - 1))
    local = second + begin[where]
    unsure = np.flatnonzero((begin != end)[where])
    local[unsure] = [s + _offset(there, s) for s in second[unsure].tolist()]
    return local


def _offset(zone: ZoneInfo, second: int) -> int:
    second = min(max(second, _FIRST_SECOND + 86_400), LAST_SECOND - 86_400)  # local times have these years as well
    offset = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
