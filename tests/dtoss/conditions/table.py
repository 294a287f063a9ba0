"""The table that conditions are tested on."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa

HOURS = [datetime.datetime(2008, 5, 18, hour) for hour in range(4)]


TABLE = {
    "occupied": pa.array([0, 1, None, 0], pa.int8()),
    "kind": pa.array(["taxi", "bus", "taxi", None]),
    "utc": pa.array([h.replace(tzinfo=datetime.UTC) for h in HOURS], pa.timestamp("us", "UTC")),
    "naive": pa.array(HOURS, pa.timestamp("ms")),
    "fine": pa.array(HOURS, pa.timestamp("ns")),
    "day": pa.array([datetime.date(2008, 5, 17 + i) for i in range(4)]),
    "speed": pa.array([1.5, 2.5, float("nan"), None]),
    "fare": pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.50"), None, decimal.Decimal("0")]),
    "free": pa.array([True, False, None, True]),
    "my col": pa.array([1, 2, 3, 4], pa.uint64()),
    "a.b": pa.array([1, 2, 3, 4]),
    "stops": pa.array([[1], [2], None, [3]]),
    "make": pa.array(["vw", "bmw", "vw", "o'k"]).dictionary_encode(),
}


SCHEMA = {name: column.type for name, column in TABLE.items()}
