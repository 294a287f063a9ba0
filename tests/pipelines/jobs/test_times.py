"""A timed snapshot holds each object's time, owned or copied, whether the time is an attribute or not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.opening import open_index
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from pipelines.rebuild import rebuild
from pipelines.rows.position_frame import from_frame, source_of, time_of
from pipelines.rows.read_files import read_positions
from tests.pipelines.stores import table

N = 80
BEGIN = datetime(2026, 1, 1, 12, 30, 0, 250, UTC)
KINDS = {
    "timestamp": ([BEGIN + timedelta(seconds=i) for i in range(2 * N)], pa.timestamp("us", "UTC"), None),
    "timestamp_ntz": (
        [BEGIN.replace(tzinfo=None) + timedelta(minutes=i) for i in range(2 * N)], pa.timestamp("us"), None
    ),
    "date": ([date(2020, 1, 1) + timedelta(days=i) for i in range(2 * N)], pa.date32(), None),
    "bigint": (list(range(-5, 2 * N - 5)), pa.int64(), "s"),
    "tinyint": ([i // 2 for i in range(2 * N)], pa.int8(), "s"),
    "double": ([i / 3 for i in range(2 * N)], pa.float64(), "s"),
    "decimal(12,3)": ([Decimal(i) / 8 for i in range(2 * N)], pa.decimal128(12, 3), "s"),
}  # fmt: skip


def timed(kind, name="t"):
    """Each id twice; the second row is the later one."""
    values, arrow, _ = KINDS[kind]
    held = pa.concat_tables([table(N, seed=1), table(N, seed=2)])
    return held.append_column(name, pa.array(values, arrow))


def times_of(index):
    """The time of each object, by id, and how many are known to other partitions; these say the same."""
    found, copies = {}, 0
    parts = index.parts.all()
    for part in parts:
        for one, when in zip(part.ids[: part.owned_objects].tolist(), part.times.to_pylist(), strict=False):
            found[one] = when
    for part in parts:
        own = part.owned_objects
        for one, when in zip(part.ids[own:].tolist(), part.times.to_pylist()[own:], strict=True):
            assert found[one] == when
            copies += 1
    return found, copies


MORE = pytest.mark.deep("more types on the same way; test_types_of_times has all of them")
BUILT = [*((kind, "none") for kind in ("date", "decimal(12,3)")), ("timestamp", "all")]


def test_types_of_times(spark, tmp_path):
    """As a manifest says them, and as rows are built."""
    held = pa.concat_tables([table(N, seed=1), table(N, seed=2)])
    for kind, (values, arrow, _) in KINDS.items():
        held = held.append_column(kind, pa.array(values, arrow))
    pq.write_table(held, tmp_path / "in.parquet")
    frame = spark.read.parquet(str(tmp_path / "in.parquet"))
    for kind, (_, _, unit) in KINDS.items():
        positions = from_frame(frame, Columns(time=kind, attributes="none"))
        assert time_of(positions) == {"column": kind, "type": kind, "unit": unit}
        assert (positions.attributes, positions.types["t"]) == ((), kind)
    assert time_of(from_frame(frame, Columns(attributes="none"))) is None


@pytest.mark.parametrize(
    ("kind", "columns"),
    [*BUILT, *(pytest.param(kind, "none", marks=MORE) for kind in KINDS if (kind, "none") not in BUILT)],
)
def test_times_of_every_kind(session, tmp_path, kind, columns):
    """The latest one of each object; seven partitions of which some may be empty; no attribute unless asked for."""
    values, _, unit = KINDS[kind]
    path, store = str(tmp_path / "in.parquet"), str(tmp_path / "store")
    pq.write_table(timed(kind, "seen"), path)
    manifest = rebuild(
        pq.read_table(path) if session is None else session.read.parquet(path),
        store,
        time="seen",
        columns=columns,
        partitions=7,
        reach=0.05,
    )
    assert manifest["time"] == {"column": "seen", "type": kind, "unit": unit}
    assert list(manifest["columns"]) == (["seen"] if columns == "all" else [])
    index = open_index(store, verify=True)
    found, copies = times_of(index)
    assert found == dict(enumerate(values[N:]))
    assert copies > 0
    assert verify_store(Store(store)).damaged == []
    assert list(index.column_names) == list(manifest["columns"])


def test_a_partition_without_objects_has_times_of_the_type(engine, tmp_path):
    """All objects lie in one place: the other partitions are empty, and the index opens."""
    one = pa.array([5.0] * 2 * N)
    held = timed("timestamp").set_column(1, "lon", one).set_column(2, "lat", one)
    rebuild(engine.createDataFrame(held), str(tmp_path), columns="none", partitions=4)
    parts = open_index(str(tmp_path), verify=True).parts.all()
    assert sorted(part.owned_objects for part in parts)[-1] == N
    assert {str(part.times.type) for part in parts} == {"timestamp[us, tz=UTC]"}


def test_rows_without_a_time(engine, tmp_path):
    manifest = rebuild(engine.createDataFrame(table(9)), str(tmp_path), partitions=2)
    assert manifest["time"] is None
    assert manifest["tombstones"] is None
    assert [part.times for part in dtoss.open(str(tmp_path)).parts.all()] == [None, None]


@pytest.mark.parametrize(
    ("value", "time_format", "kind", "unit"),
    [
        ("1767225600500", "epoch_ms", "timestamp", None),
        ("1767225600.5", None, "double", "s"),
        ("2026-01-01T00:00:00.5Z", None, "timestamp", None),
    ],
)
def test_times_of_text(spark, tmp_path, value, time_format, kind, unit):
    """What is read of a file of text says how, for the cycles after it."""
    path = tmp_path / "in.csv"
    path.write_text("name;lon;lat;when\n" + "".join(f"n{i};{i},5;2,25;{value}\n" for i in range(5)))
    asked = Columns(
        id="name", time="when", attributes="none", delimiter=";", decimal=",", time_format=time_format, x="lon", y="lat"
    )
    if kind == "double":
        path.write_text(path.read_text().replace(value, value.replace(".", ",")))
    read = read_positions(spark, [str(path)], asked)
    time = {"column": "when", "type": kind, "unit": unit}
    source = {
        "id": "name", "x": "lon", "y": "lat", "time": "when", "columns": "none", "time_format": time_format,
        "delimiter": ";", "encoding": None, "multiline": False, "decimal": ",", "header": True, "deleted": None,
        "quote": '"', "escape": None, "null": None, "id_type": None, "zone": None, "geometry": None, "crs": None,
    }  # fmt: skip
    assert (time_of(read), source_of(read)) == (time, source)
    if time_format is None:
        moments = set(read.spark_frame.toArrow()["t"].to_pylist())
    else:
        manifest = rebuild(read, str(tmp_path / "store"), partitions=2)
        assert (manifest["time"], manifest["source"]) == (time, source)
        moments = {when for part in open_index(str(tmp_path / "store")).parts.all() for when in part.times.to_pylist()}
    assert moments == {1767225600.5 if kind == "double" else datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC)}


def test_numbers_in_milliseconds_say_so(spark, tmp_path):
    """The format is said for numbers that a file holds as numbers, too."""
    held = table(6).append_column("t", pa.array(np.arange(6)))
    pq.write_table(held, tmp_path / "in.parquet")
    read = read_positions(spark, [str(tmp_path / "in.parquet")], Columns(time_format="epoch_ms", attributes="none"))
    assert time_of(read) == {"column": "t", "type": "bigint", "unit": "ms"}
    source = source_of(read)
    assert (source["time"], source["x"], source["id"]) == ("t", None, "id")
