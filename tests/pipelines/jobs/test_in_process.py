"""What Spark builds and joins is what is built and joined in process, byte for byte: it carries, and decides nothing.

So tests of answers make their stores in process (``tests.pipelines.stores.made``), in all worlds and numbers of
partitions, and tests with Spark are of what it may get wrong: order, splits, types, retries, streams.
"""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.snapshots.column_types import stored_column
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from pipelines.join import knn_join, range_join
from pipelines.local_joins.file_join import join_file
from pipelines.rebuild import rebuild
from tests.join_worlds import Question, objects_as_queries, queries_of
from tests.pipelines.cycles.in_place import full_bytes, state_of, stored_bytes
from tests.pipelines.jobs.cases import CASES
from tests.pipelines.jobs.test_join_worlds import arguments_of, small, store_of
from tests.pipelines.rows.test_column_types import KINDS
from tests.pipelines.stores import made, snapshot_bytes, take_regions
from tests.update_worlds import Update, table

OF_THE_RUN = ("snapshot", "created", "timings", "parent", "counts", "quarantine", "input")
"""What a manifest says of when it was made, and of the rows that were read."""


def corners(texts):
    """A pole, both sides of the antimeridian, many at one place, and fewer places than partitions."""
    lon = [180.0, -180.0, 179.9999, -179.9999, 0.0, 90.0, 0.0, 0.0, -0.0, 0.0, 12.5, 12.5]
    lat = [0.0, 0.0, -16.5, -16.5, 90.0, 90.0, -90.0, 0.0, -0.0, 0.0, 41.0, 41.00001]
    ids = ["é", "", "b", "a", "B", "ba", "10", "9", "\U0001f695", "\uffff", "z", " "]
    return pa.table({"id": ids if texts else np.arange(12)[::-1] * 2**59, "lon": lon, "lat": lat, "name": ids})


def many():
    """More objects than partitions are chosen by."""
    rng = np.random.default_rng(3)
    return pa.table(
        {"id": rng.permutation(30_000) - 9, "lon": rng.normal(0, 9, 30_000), "lat": rng.normal(0, 9, 30_000)}
    )


INPUTS = {
    **CASES,
    "more than the sample": (many, {"partitions": 2, "seed": 2**40}),
    "corners of the globe": (lambda: corners(False), {"partitions": 64}),
    "corners of the globe, text ids": (lambda: corners(True).slice(2), {"partitions": 3, "reach": 0.0}),
    "one object": (lambda: corners(False).slice(4, 1), {"partitions": 5}),
    "no object": (lambda: corners(False).slice(0, 0), {"partitions": 5, "allow_empty": True}),
}


def good(rows):
    """The rows that can be used."""
    places = [name for name in ("lon", "lat") if pa.types.is_floating(rows.schema.field(name).type)]
    for name in places:
        rows = rows.filter(pc.is_finite(rows[name]))
    return rows


def decided(manifest):
    """What a manifest says of how a store was built."""
    left = {key: value for key, value in manifest.items() if key not in OF_THE_RUN}
    return left | {"parameters": manifest["parameters"] | {"max_bad": None}}


IN_SPARK = ("string ids", "updates", "plane", "corners of the globe, text ids", "one object", "no object")
ELSEWHERE = pytest.mark.deep("differs from six others by what a rebuild in this process shows as well")


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in IN_SPARK else ELSEWHERE) for one in INPUTS])
def test_a_rebuild_writes_what_is_built_in_process(spark, tmp_path, name):
    """Shuffled over eleven tasks: bad rows, several rows an id and ties, text ids, poles, one object, none, a plane."""
    assert_as_built(lambda rows: spark.createDataFrame(rows).repartition(11), name, tmp_path)


@pytest.mark.parametrize("name", [one for one in INPUTS if one not in IN_SPARK])
def test_a_rebuild_in_process_writes_what_is_built(tmp_path, name):
    assert_as_built(lambda rows: rows, name, tmp_path)


def assert_as_built(frame_of, name, tmp_path):
    """A rebuild of shuffled rows writes the files of an index that is built, and says the same of it."""
    make, options = INPUTS[name]
    rows = make()
    shuffled = rows.take(pa.array(np.random.default_rng(9).permutation(len(rows)), pa.int64()))
    rebuild(frame_of(shuffled), str(tmp_path / "store"), **options)
    here = made(good(rows), **{key: value for key, value in options.items() if key != "allow_empty"})
    found, wanted = snapshot_bytes(tmp_path / "store"), snapshot_bytes(here)
    assert {file for file in found if file.startswith("quarantine")} or len(good(rows)) == len(rows)
    assert {file: data for file, data in found.items() if file.endswith(".arrow")} == {
        file: data for file, data in wanted.items() if file.endswith(".arrow")
    }
    one, other = (Store(str(path)).manifest() for path in (tmp_path / "store", here))
    assert decided(one) == decided(other)


def some(kind, i):
    """The i-th value of a type."""
    if pa.types.is_dictionary(kind):
        return some(kind.value_type, i)
    if pa.types.is_list(kind):
        return [some(kind.value_type, i + more) for more in range(i % 3)]
    if pa.types.is_map(kind):
        return [(some(kind.key_type, i) or "", some(kind.item_type, i))]
    if pa.types.is_struct(kind):
        return {field.name: some(field.type, i) for field in kind}
    if pa.types.is_null(kind) or i % 7 == 0:
        return None
    if pa.types.is_boolean(kind):
        return i % 2 == 0
    if "string" in str(kind):
        return f"é{i % 11}"
    if "binary" in str(kind):
        return f"{i % 900:03}".encode()
    if pa.types.is_float16(kind):
        return np.float16(i % 50 / 4)
    if pa.types.is_date(kind):
        return dt.date(1969, 12, 1) + dt.timedelta(i % 60)
    return decimal.Decimal(i % 90) / 4 if pa.types.is_decimal(kind) else i % 120


@pytest.mark.parametrize(("count", "timed"), [(25_000, False), (700, True)], ids=["large", "timed"])
def test_what_is_saved_is_what_a_rebuild_writes(spark, tmp_path, count, timed):
    """Columns of all types, one with a name of ours, text ids of which some are the sample; cycles go on from times."""
    rng = np.random.default_rng(1)
    values = [([some(kind, i) for i in range(700)] * 36)[:count] for kind in KINDS]
    columns = {f"c{at}": pa.array(held, kind) for at, (held, kind) in enumerate(zip(values, KINDS, strict=True))}
    moments = pa.array(np.arange(count) * 999_999_937 - 10**12).cast(pa.timestamp("ns", "UTC"))
    rows = pa.table({
        "taxi": [f"taxi {i}" for i in rng.permutation(count)], "lon": rng.normal(8, 1, count),
        "lat": rng.normal(50, 1, count), **columns, "t" if timed else "moment": moments,
        "Rank": rng.integers(0, 9, count),
    })  # fmt: skip
    name = dtoss.build(rows, id="taxi", partitions=2, seed=5).save(tmp_path / "saved")
    stored = pa.table({column: stored_column(rows[column].combine_chunks()) for column in rows.column_names})

    def in_spark(table):
        pq.write_table(table, tmp_path / "rows.parquet")
        return spark.read.parquet(str(tmp_path / "rows.parquet")).repartition(5)

    rebuild(in_spark(stored), str(tmp_path / "rebuilt"), id="taxi", partitions=2, seed=5)
    assert_alike(tmp_path)
    assert dtoss.open(tmp_path / "saved").snapshot == name
    if timed:
        later = stored.slice(0, 3).set_column(1, "lon", pa.array([0.0, 0.5, 1.0]))
        later = later.set_column(later.column_names.index("t"), "t", pa.array([10**15] * 3).cast(stored["t"].type))
        for store in ("saved", "rebuilt"):
            cycle(in_spark(later), str(tmp_path / store), now="2100-01-01")
        assert_alike(tmp_path)
        moved = dtoss.open(tmp_path / "saved")
        assert [moved[one]["lon"] for one in later["taxi"].to_pylist()] == [0.0, 0.5, 1.0]


def assert_alike(folder):
    """Two stores hold the same files, and say the same of how they were built."""
    found, wanted = (snapshot_bytes(folder / store) for store in ("saved", "rebuilt"))
    assert {file for file in found.keys() | wanted.keys() if found.get(file) != wanted.get(file)} == {"manifest.json"}
    one, other = (Store(str(folder / store)).manifest() for store in ("saved", "rebuilt"))
    assert decided(one) == decided(other)


def test_a_partition_without_objects_is_built_as_any_other(spark, tmp_path, monkeypatch):
    """With regions that were chosen for other rows; late rows of every object come along."""
    state = state_of(7)
    rows = [Update(number, t, 2.35 + number * 1e-5, 48.86, ("a", 1.5)) for number in range(4) for t in (5, 9)]
    take_regions(monkeypatch, state[1:3])
    frame = spark.createDataFrame(table(rows).drop_columns(["deleted"]))
    manifest = rebuild(frame, str(tmp_path), columns=["name", "size"])
    assert sorted(entry["objects"] for entry in manifest["partitions"])[:6] == [0] * 6
    latest = [row for row in rows if row.t == 9]
    assert stored_bytes(Store(str(tmp_path))) == full_bytes(state, table(latest))


ASKED = {
    "antimeridian": [Question(k=3, how="left", where="v < 9"), Question(radius=1e6, having="rank_ <> 2")],
    "poles": [Question(k=1000, max_distance=2e5), Question(k=2, exclude_self=True)],
    "flat lattice": [Question(radius=1.5, how="left"), Question(k=8)],
}


@pytest.mark.parametrize("kind", ASKED)
def test_a_join_gives_what_is_joined_in_process(spark, tmp_path, kind):
    """The rows of each place by rank, and the types of the columns; places without a position among them."""
    w = small(kind, 500)
    store = store_of(w, 7, tmp_path / "store")
    for asked in ASKED[kind]:
        asking = objects_as_queries(w) if asked.exclude_self else queries_of(w)
        options = arguments_of(asked)
        join_file_of = {"id": "query_id", "k": asked.k, "radius": asked.radius}
        pq.write_table(asking, tmp_path / "q.parquet")
        join_file(str(tmp_path / "q.parquet"), store, str(tmp_path / "o.parquet"), **join_file_of, **options)
        wanted = pq.read_table(tmp_path / "o.parquet")
        join, value = (knn_join, asked.k) if asked.radius is None else (range_join, asked.radius)
        found = join(spark.createDataFrame(asking).repartition(3), store, value, **options).toArrow()
        order = {one: at for at, one in enumerate(asking["query_id"].to_pylist())}
        rows = sorted(found.to_pylist(), key=lambda row: (order[row["query_id"]], row["rank"] or 0))
        assert rows == wanted.to_pylist()
        assert found.schema.types == wanted.schema.types
        assert any(row["id"] is not None for row in rows)
