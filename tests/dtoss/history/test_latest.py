"""One row an object: the latest of each id, ties settled, and ids that repeat where there is no time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.errors import InputError
from dtoss.history.row_blocks import latest
from dtoss.rows.input_columns import Columns
from pipelines.rows.position_frame import from_frame
from tests.examples import examples
from tests.pipelines.stores import listing, rebuilt

VALUES = {
    "int": (pa.int32(), st.integers(-3, 3)),
    "float": (pa.float64(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan])),
    "text": (pa.string(), st.sampled_from(["", "a", "B", "é", "😀"])),
    "bool": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.sampled_from([datetime(2020, 1, d, tzinfo=UTC) for d in (1, 2)])),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 1), max_size=2)),
}


def order(value):
    """Nulls first, -0.0 below 0.0, NaN last, lists by their text, text by its bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value, math.copysign(1.0, value))
    if isinstance(value, list):
        return (1, repr(value).encode())
    return (1, value.encode() if isinstance(value, str) else value)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(VALUES)), st.data())
def test_latest_equals_the_greatest_of_each_group(kind, data):
    """Of rows in any order the one with the greatest (t, x, attribute) stays; equal rows are one."""
    arrow, values = VALUES[kind]
    n = data.draw(st.integers(0, 25))
    drawn = [
        (
            data.draw(st.integers(0, 3)),
            data.draw(st.integers(0, 2)),
            data.draw(st.sampled_from([-0.0, 0.0, 1.0])),
            data.draw(st.none() | values),
        )
        for _ in range(n)
    ]
    table = pa.table(
        {
            "id": pa.array([row[0] for row in drawn], pa.int64()),
            "t": pa.array([row[1] for row in drawn], pa.int64()),
            "x": pa.array([row[2] for row in drawn], pa.float64()),
            "a": pa.array([row[3] for row in drawn], arrow),
        }
    )
    best = {}
    for row in drawn:
        key = tuple(order(value) for value in row[1:])
        if row[0] not in best or key > best[row[0]]:
            best[row[0]] = key
    kept = latest(table, ["x", "a"])
    found = {row["id"]: tuple(order(row[name]) for name in ("t", "x", "a")) for row in kept.to_pylist()}
    assert found == best
    assert len(kept) == len(best)


def test_the_latest_row_of_each_id_counts(spark, tmp_path):
    """By time first, then x, y and the attributes in their order, whatever the order of the rows."""
    rng = np.random.default_rng(1)
    n = 3000
    table = pa.table(
        {
            "id": rng.integers(0, 400, n),
            "t": rng.integers(0, 5, n),
            "lon": rng.integers(0, 3, n).astype(float),
            "lat": rng.integers(0, 2, n).astype(float),
            "a": pa.array([None if v == 0 else f"v{v}" for v in rng.integers(0, 4, n)]),
        }
    )
    best = {}
    for row in table.to_pylist():
        key = (row["t"], row["lon"], row["lat"], row["a"] or "")
        best[row["id"]] = max(key, best.get(row["id"], key))
    index = rebuilt(spark, table, tmp_path / "store", partitions=3)
    assert len(index) == len(best)
    for i, (t, lon, lat, a) in best.items():
        assert index[i] == {"id": i, "lon": lon, "lat": lat, "t": t, "a": a or None}


BEGIN = datetime(2024, 2, 28, 12, tzinfo=UTC)
TIMES = {
    "timestamp": pa.array([BEGIN + timedelta(days=d) for d in (0, 2, 1)], pa.timestamp("us", "UTC")),
    "local timestamp": pa.array([datetime(2024, 2, d) for d in (3, 20, 9)], pa.timestamp("us")),
    "date": pa.array([datetime(2024, 2, d).date() for d in (3, 20, 9)]),
    "int": pa.array([-5, 100, 20], pa.int32()),
    "double": pa.array([0.5, 2.25, math.nan]),
    "ISO 8601": pa.array(["2024-02-28T23:00:00Z", "2024-02-29T00:30:00+01:00", "2024-02-28T23:10:00Z"]),
}


def seen_at(kind):
    """Rows of three objects, the first of which was last seen at longitude 20."""
    # two more objects keep the one time that is NaN below the share of bad rows that is allowed
    moments = pa.concat_arrays([TIMES[kind], TIMES[kind].take(pa.array([0, 1]))])
    return pa.table({"who": [1, 1, 1, 2, 3], "seen": moments, "lon": [10.0, 20.0, 30.0, 0.0, 0.0], "lat": [1.0] * 5})


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_any_type_are_read_in_their_order(spark, kind):
    """Timestamps, dates, numbers, and ISO 8601 in text, which goes by its zone."""
    positions = from_frame(spark.createDataFrame(seen_at(kind)), Columns(id="who", time="seen"))
    read = positions.spark_frame.where("id = 1").select("id", "x", "t").toArrow()
    good = read.filter(pa.compute.is_finite(read["t"])) if kind == "double" else read
    assert len(good) == (2 if kind == "double" else 3)
    assert latest(good, ["x"])["x"].to_pylist() == [20.0]


NUMBERS_AND_TEXT = ("double", "ISO 8601")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in NUMBERS_AND_TEXT else pytest.mark.deep("a rebuild takes what was read"))
        for kind in TIMES
    ],
)
def test_times_of_any_type(spark, tmp_path, kind):
    """A store that is rebuilt of them has the latest row of each object."""
    table = seen_at(kind)
    index = rebuilt(spark, table, tmp_path / "store", id="who", time="seen", partitions=1, max_bad=0.2)
    assert len(index) == 3
    assert index[1]["lon"] == 20.0


def test_a_time_may_be_given_up(spark, tmp_path):
    """Without --time, a column t is the time; where another column is named, t is an attribute."""
    table = pa.table({"id": [1, 1], "t": [1, 2], "u": [9, 8], "lon": [10.0, 20.0], "lat": [0.0, 0.0]})
    assert rebuilt(spark, table, tmp_path / "t")[1]["lon"] == 20.0
    by_u = rebuilt(spark, table, tmp_path / "u", time="u")
    assert by_u[1] == {"id": 1, "lon": 10.0, "lat": 0.0, "t": 1, "u": 9}


def test_ids_that_repeat_without_a_time(spark, tmp_path):
    """An error that names some and the way out, and the store as it was; or the greatest (x, y, attributes)."""
    ids = [5, 5, 5, 6, 7, 7]
    table = pa.table(
        {"id": ids, "lon": [1.0, 3.0, 3.0, 0.0, -1.0, -1.0], "lat": [9.0, 1.0, 2.0, 0.0, 5.0, 5.0], "n": range(6)}
    )
    store = tmp_path / "store"
    rebuilt(spark, table.slice(2, 2), store)
    before = listing(store)
    with pytest.raises(InputError, match=r"2 ids stand more than once, 5, 7 among them: .*--time.*--on-duplicate any"):
        rebuilt(spark, table, store)
    assert listing(store) == before
    index = rebuilt(spark, table, store, on_duplicate="any")
    assert [index[i]["n"] for i in (5, 6, 7)] == [2, 3, 5]
    assert len(index) == 3
