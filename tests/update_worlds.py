"""Small awkward worlds of updates, how they may be cut into cycles, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.oracles import Update

NOW = 100
"""The clock of the last cycle of a world, in seconds; rows are of 0 to 120."""

LONLAT = [
    *[(lon, lat) for lon in (-180.0, 0.0, 45.0, 180.0) for lat in (-90.0, 90.0)],
    *[(lon, lat) for lon in (-180.0, -179.9, 179.9, 180.0) for lat in (-0.0, 0.0, 0.5)],
    *[(10.0 * i, 10.0 * j) for i in range(-2, 3) for j in range(-2, 3)],
    *[(2.35 + i * 1e-5, 48.86) for i in range(4)],
    (-177.65, -48.86),
]
PLANE = [
    *[(float(i), float(j)) for i in range(4) for j in range(4)],
    *[(65.0, 0.0), (-0.0, 65.0), (16.0, 63.0), (33.0, 56.0), (1e6, -1e6), (1e6, 1e6)],
]
NAMES = [None, "", "a", "B", "é", "😀"]
NUMBERS = [None, -0.0, 0.0, 1.5, float("inf"), float("nan")]
STRING_IDS = [" ", "0", "00", "A", "a", "a b", "é", "ē", "😀", "z" * 40, "ﬀ", "-1"]
INT_IDS = [0, 1, -1, 2, 7, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63), 10, 11]
SCHEMA = {"t": pa.int64(), "x": pa.float64(), "y": pa.float64(), "name": pa.string(), "size": pa.float64()}


@st.composite
def updates(draw, *, string_ids=False, plane=False, most=40, deletions=True):
    """Rows of a few ids with ties of time, in no order: none, one object, one id alone, equal rows among them."""
    count = draw(st.integers(0, most))
    known = (STRING_IDS if string_ids else INT_IDS)[: draw(st.integers(1, 12))]
    places = PLANE if plane else LONLAT
    places = places if draw(st.booleans()) else places[: draw(st.integers(1, 3))]
    times = draw(st.sampled_from([(50, 52), (0, 120), (40, 100)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = []
    for _ in range(count):
        x, y = places[rng.integers(len(places))]
        found.append(
            Update(
                known[rng.integers(len(known))],
                int(rng.integers(times[0], times[1] + 1)),
                x,
                y,
                (NAMES[rng.integers(len(NAMES))], NUMBERS[rng.integers(len(NUMBERS))]),
                deletions and bool(rng.random() < 0.2),
            )
        )
    return found


@st.composite
def cycles(draw, rows, most=5):
    """The same rows in up to `most` cycles, in another order, some of them again: of any split nothing is lost."""
    count = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batches: list[list[Update]] = [[] for _ in range(count)]
    for row in (rows[i] for i in rng.permutation(len(rows))):
        batches[rng.integers(count)].append(row)
        while rng.random() < 0.2:
            batches[rng.integers(count)].append(row)
    return batches


def drawn(rng: np.random.Generator, ids: Sequence[Any], count: int, *, plane=False, at=(0, 120), deleted=0.1):
    """Rows of a larger world: half of the places awkward, half anywhere; times whole numbers, so that many tie."""
    places = PLANE if plane else LONLAT
    found = []
    for number in rng.integers(0, len(ids), count).tolist():
        if rng.random() < 0.5:
            x, y = places[rng.integers(len(places))]
        elif plane:
            x, y = rng.uniform(-1000, 1000, 2).tolist()
        else:
            x, y = float(rng.uniform(-180, 180)), float(np.degrees(np.arcsin(rng.uniform(-1, 1))))
        attributes = (NAMES[rng.integers(len(NAMES))], NUMBERS[rng.integers(len(NUMBERS))])
        found.append(Update(ids[number], int(rng.integers(*at)), x, y, attributes, bool(rng.random() < deleted)))
    return found


def table(rows: Iterable[Update], *, string_ids=False, plane=False, time: pa.DataType | None = None) -> pa.Table:
    """Columns id, t, lon and lat (x and y in the plane), name, size and deleted; an epoch second where a time is one.

    Deletions have no place in every second row, as sources send them.
    """
    rows = list(rows)
    bare = [row.deleted and i % 2 == 1 for i, row in enumerate(rows)]
    columns: Mapping[str, Any] = {
        "t": [row.t for row in rows],
        "x": [None if empty else row.x for row, empty in zip(rows, bare, strict=True)],
        "y": [None if empty else row.y for row, empty in zip(rows, bare, strict=True)],
        "name": [row.attributes[0] if row.attributes else None for row in rows],
        "size": [row.attributes[1] if row.attributes else None for row in rows],
    }
    arrays = {name: pa.array(values, SCHEMA[name]) for name, values in columns.items()}
    if time is not None:
        seconds = pa.array(arrays["t"].to_numpy(zero_copy_only=False).astype("datetime64[s]"))
        arrays["t"] = seconds.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(time) else seconds.cast(time)
    names = {"x": "x", "y": "y"} if plane else {"x": "lon", "y": "lat"}
    return pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.string() if string_ids else pa.int64()),
            **{names.get(name, name): array for name, array in arrays.items()},
            "deleted": pa.array([row.deleted for row in rows], pa.bool_()),
        }
    )
