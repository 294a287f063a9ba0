"""Attributes of any type come back from a store as they were given."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.rows.input_columns import Columns
from pipelines.join import knn_join
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import positions_in
from tests.pipelines.stores import rebuilt

N = 90
ZONE = timezone(timedelta(hours=2))
MOMENT = datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=ZONE)

VALUES = {
    "text": (pa.string(), ["", "plain", "çé😀", "line\nbreak", "x" * 10_000]),
    "byte": (pa.int8(), [-128, 0, 127]),
    "short": (pa.int16(), [-(2**15), 7]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    "float": (pa.float32(), [1.5, -0.0, float("inf")]),
    "double": (pa.float64(), [0.1, 5e-324, -float("inf")]),
    "bool": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "moment": (pa.timestamp("us", "UTC"), [MOMENT, datetime(1900, 1, 1, tzinfo=ZONE)]),
    "local": (pa.timestamp("us"), [datetime(2024, 3, 31, 2, 30), datetime(1900, 1, 1)]),
    "decimal": (pa.decimal128(20, 4), [Decimal("12345678901234.5678"), Decimal("-0.0001")]),
    "bytes": (pa.binary(), [b"", b"\x00\xff"]),
    "list": (pa.list_(pa.string()), [[], ["a", None, "b"]]),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": "z"}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], []]),
    "never": (pa.float64(), [None]),
    # names that mean something inside the job, and ones with dots and quotes
    "t_": (pa.string(), ["an attribute called t_"]),
    "home": (pa.string(), ["an attribute called home"]),
    "task": (pa.string(), ["an attribute called task"]),
    "pid": (pa.int32(), [1, 2, 3]),
    "a.b `c`": (pa.string(), ["dots and backticks"]),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    columns = {"id": rng.permutation(N), "lon": rng.uniform(-3, 3, N), "lat": rng.uniform(-3, 3, N)}
    for name, (kind, values) in VALUES.items():
        # every third value is null
        columns[name] = pa.array([None if i % 3 == 0 else values[i % len(values)] for i in range(N)], kind)
    return pa.table(columns)


@pytest.fixture(scope="module")
def frame(spark, table, tmp_path_factory):
    """From a file, in which Spark tells times with a zone from those without."""
    path = tmp_path_factory.mktemp("columns") / "a.parquet"
    pq.write_table(table, path)
    return spark.read.parquet(str(path))


@pytest.fixture(scope="module")
def store(frame, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("columns") / "store")
    rebuild(frame, path, x="lon", y="lat", partitions=4, reach=0.005)
    return path


@pytest.mark.parametrize("name", VALUES)
def test_values_and_nulls_come_back_unchanged(store, table, name):
    """From every partition, in process."""
    hits = dtoss.open(store).knn([[0.0, 0.0]], N, columns=[name])
    given = dict(zip(table["id"].to_pylist(), table[name].to_pylist(), strict=True))
    got = hits.to_arrow()[name].to_pylist()
    assert dict(zip(hits.id.tolist(), got, strict=True)) == given
    assert sum(value is None for value in got) >= N // 3


def test_replicas_do_not_double_values(store):
    """There are replicas here, and still every object is answered once."""
    index = dtoss.open(store)
    assert sum(part["replicas"] for part in _entries(store)) > 0
    assert len(index.range([[0.0, 0.0]], 1e7)) == N


def _entries(store):
    from dtoss.snapshots.store import Store

    return Store(store).manifest()["partitions"]


def test_a_join_returns_them_too(spark, frame, store, table):
    """With the types that they had as Spark columns."""
    queries = spark.createDataFrame(pa.table({"query_id": [0], "lon": [0.0], "lat": [0.0]}))
    names = list(VALUES)
    joined = knn_join(queries, store, N, columns=names)
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    assert {field.name: field.dataType for field in joined.schema.fields if field.name in names} == {
        name: kinds[name] for name in names
    }
    got = {row["id"]: {name: row[name] for name in names} for row in joined.toArrow().to_pylist()}
    assert got == {row["id"]: {name: row[name] for name in names} for row in table.to_pylist()}


@pytest.mark.parametrize(
    ("columns", "kept"),
    [("none", []), ("all", ["a", "b"]), ("b", ["b"]), (" b , a ", ["b", "a"]), (["a"], ["a"])],
)
def test_columns_that_are_carried(engine, tmp_path, columns, kept):
    """All but those that begin with an underscore, none, or those named, in that order."""
    table = pa.table({"id": [1], "lon": [0.0], "lat": [0.0], "a": [1], "b": ["x"], "_c": [2]})
    positions = positions_in(engine.createDataFrame(table), Columns(attributes=columns))
    assert list(positions.attributes) == kept
    assert [name for name in positions.columns if name.startswith("a:")] == [f"a:{name}" for name in kept]
    if columns == " b , a ":
        index = rebuilt(engine, table, tmp_path / "store", columns=columns)
        assert index.column_names == kept
        assert list(index[1]) == ["id", "lon", "lat", *kept]


def test_a_type_that_cannot_be_carried(spark, tmp_path):
    """An error that names the column; without it the rebuild goes through."""
    frame = spark.sql("select 1 id, 2.0 lon, 3.0 lat, parse_json('{}') v, 5 n")
    with pytest.raises(InputError, match=r"column 'v' is variant, which cannot be carried along.*--columns"):
        rebuild(frame, str(tmp_path / "store"))
    assert rebuild(frame, str(tmp_path / "store"), columns="n")["columns"] == {"n": "int"}
