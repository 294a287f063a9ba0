"""Tasks of Spark yield what tasks of this process do: rows, reasons, rows as they were read; and whom they dropped.

What the rows are is tested where they are read, in this process, and by both engines in the deep tier.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.rows.input_columns import RAW, Columns
from pipelines.engines.spark_rows import SparkRows, numbered_tasks, task_counts
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import positions_in, read_positions
from tests.pipelines.rows.reading import with_points
from tests.pipelines.rows.test_table_formats import FEATURES, GPX, ROWS

N = 40
CSV = "id,lon,lat,t,name\n" + "".join(f'{i},{i},{i - 20},2026-05-01T10:00:{i:02},"n, {i}"\n' for i in range(N))
DIRT = '7,x,4,,\n8,1,2\n,1,2,2026-05-01,ü\n9,1,99,2026-13-01,"a"\n'
JSON = "".join(json.dumps({"id": i, "lon": i / 2, "lat": 3, "deep": {"a": [i]}}) + "\n" for i in range(N))
JSON += 'not json\n{"id":"x","lon":1,"lat":2}\n{"id":99,"lon":"far"}\n\n'


def rows_with_dirt():
    """Of types that Spark has not, too; some rows are bad, some delete, one is no UTF-8."""
    rng = np.random.default_rng(1)
    names = pa.array([b"a", b"\xff", *[b"b"] * (N - 2)], pa.binary()).cast(pa.string(), safe=False)
    return pa.table(
        {
            "id": pa.array([None, *range(1, N)], pa.uint32()), "lon": rng.uniform(-250, 250, N),
            "lat": pa.array([None if i == 5 else float("nan") if i == 6 else 1.5 for i in range(N)]),
            "t": pa.array([-1001 + 1000 * i for i in range(N)], pa.timestamp("ns", "UTC")),
            "gone": [i % 7 == 0 for i in range(N)], "name": names,
            "kind": pa.array(["a", "b"] * (N // 2)).dictionary_encode(), "list": pa.array([[1, 2]] * N),
        }
    )  # fmt: skip


def folders(folder):
    for day in ("01", "2"):
        (folder / f"day={day}").mkdir()
        (folder / f"day={day}" / "a.jsonl").write_text('{"id": 1, "lon": 2, "lat": 3}\nno\n')


FILES = {
    "Parquet": ("a.parquet", lambda p: pq.write_table(rows_with_dirt(), p, row_group_size=7), {"deleted": "gone"}),
    "GeoParquet": ("a.parquet", lambda p: with_points(p, {"crs": None}), {"crs": "EPSG:4326"}),
    "CSV": ("a.csv", lambda p: p.write_text(CSV + DIRT + '10,"'), {}),
    "UTF-16": ("a.csv", lambda p: p.write_text(CSV + DIRT, encoding="utf-16"), {}),
    "TSV, gzip": ("a.tsv.gz", lambda p: p.write_bytes(gzip.compress((CSV + DIRT).replace(",", "\t").encode())), {}),
    "JSON lines": ("a.jsonl", lambda p: p.write_text(JSON), {}),
    "JSON in folders": ("in", lambda p: p.mkdir() or folders(p), {}),
    "JSON": ("a.json", lambda p: p.write_text('[{"id":1,"lon":2,"lat":3},\n{"id":2}]'), {"multiline": True}),
    "GeoJSON": ("a.geojsonl", lambda p: p.write_text("\n".join(map(json.dumps, FEATURES))), {}),
    "GPX": ("a.gpx", lambda p: p.write_text(GPX), {}),
    "Arrow IPC": ("a.feather", lambda p: pa.feather.write_feather(ROWS, p), {}),
}  # fmt: skip


def all_of(positions):
    """All rows, their reasons, and of the bad ones what they were read as."""
    positions = screen_positions(positions, space_of(positions.crs), True)
    return positions.types, positions.with_raw().table(positions.frame.schema.append(pa.field(RAW, pa.string())))


def alike(one, other):
    """Whether rows are the same: texts as bytes, as not all are UTF-8, and no number is one."""
    (kinds, here), (others, there) = one, other
    assert kinds == others
    texts = pa.schema([(f.name, pa.binary() if pa.types.is_string(f.type) else f.type) for f in here.schema])
    found = [sorted(map(repr, rows.cast(texts).to_pylist())) for rows in (here, there)]
    assert found[0] == found[1]
    return here


@pytest.mark.parametrize("kind", FILES)
def test_files_of_all_kinds(spark, tmp_path, kind):
    name, write, columns = FILES[kind]
    write(tmp_path / name)
    here, there = (read_positions(one, [str(tmp_path / name)], Columns(**columns)) for one in (None, spark))
    assert (here.taken, here.attributes, here.string_ids) == (there.taken, there.attributes, there.string_ids)
    rows = alike(all_of(here), all_of(there))
    assert kind in ("GeoParquet",) or 0 < rows["_reason"].null_count < len(rows)


def test_files_that_only_spark_reaches(spark, tmp_path):
    """It hands over raw rows, which are screened as all others are."""
    table = rows_with_dirt().drop_columns(["name"])
    plain = table.set_column(3, "t", table["t"].cast(pa.timestamp("us", "UTC"), safe=False))
    pq.write_table(plain.set_column(0, "id", table["id"].cast(pa.int64())), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(CSV + DIRT)
    (tmp_path / "a.jsonl").write_text(JSON)
    for name, kind in (("a.parquet", "parquet"), ("a.csv", "csv"), ("a.jsonl", "json")):
        here = read_positions(None, [str(tmp_path / name)], Columns())
        there = read_positions(spark, Inputs((str(tmp_path / name),), kind), Columns())
        alike(all_of(here), all_of(there))
    with pytest.raises(InputError, match=r"nothing is at .*none\.parquet: check the path"):
        read_positions(spark, Inputs((str(tmp_path / "none.parquet"),), "parquet"), Columns())
    with pytest.raises(InputError, match="cannot be reached by this process: --engine spark reads it"):
        read_positions(None, Inputs(("hdfs://there/a.csv",), "csv"), Columns())


def test_a_frame_of_the_users(spark, tmp_path):
    """Columns are found whatever they are called; of those that Arrow cannot carry nothing is told."""
    rows = pa.table({"id": [1, 2], "lon": [1.0, None], "lat": [0.0] * 2, "a.b `c`": ["x", "y"], "n": [None, 1]})
    frame = spark.createDataFrame(rows)
    alike(all_of(positions_in(rows, Columns())), all_of(positions_in(frame, Columns())))
    odd = frame.selectExpr("*", "parse_json('1') v", "interval 1 day i", "null nothing")
    told = all_of(positions_in(odd, Columns(attributes="nothing")))
    assert told[0]["a:nothing"] == "string"
    assert [json.loads(raw) for raw in told[1][RAW].drop_null().to_pylist()] == [
        {"id": 2, "lon": None, "lat": 0.0, "a.b `c`": "y", "n": 1.0, "nothing": None}
    ]


def test_maps_that_follow_each_other_are_one(spark, capsys):
    """A worker of Python's runs them all; each knows the number of its task, and counts of a task count once."""
    counts = task_counts(spark)

    def count(task, batches):
        yield from batches
        counts.add({task: 10 + task})

    rows = numbered_tasks(spark, 3).map_numbered(count, "id bigint")
    rows = rows.map(lambda batches: batches, pa.schema([("id", pa.int64())])).map_numbered(
        lambda task, batches: (pa.record_batch([[task + batch.column(0)[0].as_py()]], ["sum"]) for batch in batches),
        "sum bigint",
    )
    assert isinstance(rows, SparkRows)
    rows.frame.explain()
    assert capsys.readouterr().out.count("MapInArrow") == 1
    assert sorted(rows.values()) == [0, 2, 4]
    assert sorted(rows.values()) == [0, 2, 4]
    assert counts.value == {0: 10, 1: 11, 2: 12}


def test_moments_in_names_of_folders(tmp_path):
    """As tables have them, whose types are known."""
    folder = tmp_path / "at=2026-01-02 03%3A04%3A05"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "lon": [1.0], "lat": [2.0]}), folder / "a.parquet")
    read = read_positions(None, replace(look([str(tmp_path)]), types={"at": "timestamp"}), Columns())
    (row,) = all_of(read)[1].to_pylist()
    assert row["a:at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
