"""What tests of SQL share: objects with attributes of all kinds, their stores, and rows in an order."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

import dtoss
from tests.dtoss.snapshots.damaged_stores import stored

KINDS = {
    "flag": "boolean", "tiny": "tinyint", "whole": "bigint", "half": "float", "number": "double", "name": "string",
    "day": "date", "seen": "timestamp", "exact": "decimal(6,2)",
}  # fmt: skip
TEXTS = ["", "a", "ab", "abc", "b", "B", "ä", "z%", "\U0001f695", None]
NUMBERS = [0.0, -0.0, 1.5, -2.25, 1e300, float("inf"), float("-inf"), float("nan"), None]
DAY, SECOND = dt.date(2026, 3, 1), dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def attributes(n, seed=0):
    """Columns of all kinds, with nulls, NaN and both zeros among them."""
    rng = np.random.default_rng(seed)

    def some(values, kind):
        return pa.array([values[i] for i in rng.integers(0, len(values), n)], kind)

    halves = [None if value == 1e300 else value for value in NUMBERS]
    return {
        "flag": some([True, False, None], pa.bool_()),
        "tiny": some([*range(-3, 4), 127, -128, None], pa.int8()),
        "whole": some([0, 1, 2**62, -(2**62), None], pa.int64()),
        "half": some(halves, pa.float32()),
        "number": some(NUMBERS, pa.float64()),
        "name": some(TEXTS, pa.large_string()),
        "day": some([DAY + dt.timedelta(days) for days in range(3)] + [None], pa.date32()),
        "seen": some([SECOND + dt.timedelta(seconds=s) for s in range(3)] + [None], pa.timestamp("us", "UTC")),
        "exact": some([dt_ / 4 for dt_ in range(3)] + [None], pa.float64()).cast(pa.decimal128(6, 2)),
    }


def objects(n, *, texts=False, plane=False, seed=0):
    """Ids, positions and attributes of so many objects; some share a place."""
    rng = np.random.default_rng(seed)
    ids = [f"taxi-{i}" for i in range(n)] if texts else np.arange(n) * 3
    positions = rng.uniform([-180, -90], [180, 90], (n, 2)) if not plane else rng.uniform(-1e4, 1e4, (n, 2))
    if n > 3:
        positions[1], positions[2] = positions[0], (0.0, 0.0) if plane else (-180.0, 90.0)
    return ids, positions, attributes(n, seed)


def store_of(path, n, partitions=1, **how):
    """The index of some objects and the path of its store."""
    ids, positions, columns = objects(n, **how)
    crs = "none" if how.get("plane") else None
    index = dtoss.build(ids, positions, crs=crs, partitions=partitions, columns=columns)
    return index, stored(index, path, kinds=KINDS)


def rows_of(index):
    """The objects of an index as rows, by id, as Spark gives them."""
    return by_id([index[one] for one in index])


def by_id(rows):
    return sorted((comparable(row) for row in rows), key=lambda row: row["id"])


def comparable(row):
    """A row in which NaN equals itself, and 0.0 is not -0.0."""
    return {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}
