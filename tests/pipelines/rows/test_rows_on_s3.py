"""Files on S3 are read where Spark has no file system for it: the rows that the same files have on a disk."""

from __future__ import annotations

import gzip
import os
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.locks import processors
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store_location import filesystem_of
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from pipelines.rows.table_tasks import json_tasks, table_tasks
from tests.object_store import object_store
from tests.pipelines.rows.reading import read_rows
from tests.pipelines.stores import made


@pytest.fixture(scope="module")
def bucket():
    pytest.importorskip("moto")
    with object_store() as place:
        yield place


def put(uri, folder):
    """Copy the files of a folder to S3."""
    filesystem, root = filesystem_of(uri)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with filesystem.open_output_stream(f"{root}/{file.relative_to(folder)}", compression=None) as stream:
                stream.write(file.read_bytes())
    return uri


TEXT = 'id,lon,lat,t,name\n1,1,2,2026-05-01T10:00:00Z,"a, b"\n2,3,4,2026-05-01T10:01:00Z,ü\n3,x,4,,\n4,"\n'
JSON = '{"id":1,"lon":1.5,"lat":2,"name":"ü"}\n{"id":2,"lon":3,"lat":4,"deep":{"a":1}}\nnot json\n\n{"id":3,"lat":4}\n'


def parquet(folder):
    """Of several row groups and files, some without a column; types that Spark has not."""
    rows = pa.table(
        {
            "id": pa.array(range(9), pa.uint32()),
            "lon": [float(i) for i in range(9)],
            "lat": pa.array(range(9), pa.int8()),
            "t": pa.array([-1001 + 1000 * i for i in range(9)], pa.timestamp("ns", "UTC")),
            "at": pa.array([datetime(2026, 5, 1)] * 9, pa.timestamp("ms")),
            "kind": pa.array(["a", "b", None] * 3).dictionary_encode(),
            "many": pa.array([2**63 + i for i in range(9)], pa.uint64()),
            "list": pa.array([[1, 2]] * 9, pa.large_list(pa.int32())),
        }
    )
    pq.write_table(rows, folder / "a.parquet", row_group_size=2)
    pq.write_table(rows.drop_columns(["kind", "many"]).slice(0, 2).set_column(0, "ID", rows["id"].slice(0, 2)),
                   folder / "b.parquet")  # fmt: skip
    return {"attributes": "at,kind,many,list"}


def text(folder):
    """Also packed."""
    (folder / "a.csv").write_text(TEXT)
    (folder / "b.csv.gz").write_bytes(gzip.compress(TEXT.encode(), mtime=0))
    return {}


def in_folders(folder):
    """Whose names are values."""
    for day in ("01", "2"):
        (folder / f"day={day}").mkdir()
        pq.write_table(pa.table({"id": [int(day)], "lon": [1.0], "lat": [2.0]}), folder / f"day={day}" / "a.parquet")
    return {}


def lines(folder):
    """Of JSON."""
    (folder / "a.jsonl").write_text(JSON)
    (folder / "b.jsonl").write_bytes('{"id":9,"lon":1,"lat":2,"name":"ü"}\n'.encode("latin-1"))
    return {"attributes": "name"}


@pytest.mark.parametrize("write", [parquet, text, in_folders, lines])
def test_rows_are_those_of_a_disk(session, bucket, tmp_path, write):
    """Good ones, bad ones, types."""
    columns = write(tmp_path)
    wanted = read_rows(session, tmp_path, **columns)
    found = read_rows(session, put(bucket.uri(), tmp_path), **columns)
    assert sorted(map(repr, found.good.to_pylist())) == sorted(map(repr, wanted.good.to_pylist()))
    assert sorted(map(repr, found.bad)) == sorted(map(repr, wanted.bad))
    assert found.types == wanted.types
    assert len(found.good) > 0


@pytest.mark.skipif(processors() == 1, reason="who has one processor reads a small file in one piece")
def test_files_in_pieces(tmp_path):
    """Row groups and lines, each read by one of the tasks that share a file; here of a disk."""
    many = pa.table({"id": range(500), "name": [f"n{i}" for i in range(500)]})
    pq.write_table(many, tmp_path / "a.parquet", row_group_size=50)
    groups, read, schema = table_tasks(None, look([str(tmp_path / "a.parquet")]), least=100)
    assert len(groups) > 1
    assert read_all(groups, read, schema.names) == many.to_pylist()
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id":{i},"name":"n{i}"}}\n' for i in range(500)) + "none\n\n")
    groups, read, schema = json_tasks(None, look([str(tmp_path / "a.jsonl")]), multiline=False, least=100)
    assert len(groups) > 1
    found = read_all(groups, read, schema.names)
    good = [{"id": row["id"], "name": row["name"]} for row in found if row["_corrupt_record"] is None]
    assert good == many.to_pylist()
    assert [row["_corrupt_record"] for row in found if row["_corrupt_record"]] == ["none"]


def read_all(groups, read, names):
    return [row for group in groups for piece in group for batch in read(piece, names) for row in batch.to_pylist()]


def test_what_cannot_be_read_is_the_users(session, bucket, tmp_path):
    """A file that is cut short: one line that names it."""
    whole = gzip.compress(b"id,lon,lat\n" + b"".join(b"%d,1,%d\n" % (i * i, i) for i in range(20_000)))
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    uri = put(bucket.uri(), tmp_path)
    with pytest.raises(InputError, match=r"a\.csv\.gz cannot be read as csv, it may be cut short"):
        read_positions(session, [uri], Columns())


def test_commands_read_from_s3(spark, command, bucket, tmp_path):
    """The same URI as a store's, with its options; a missing path ends with exit code 2."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,lon,lat,t\n1,1,2,1\n2,3,4,2\n")
    pq.write_table(pa.table({"id": [1, 2], "lon": [1.0, 3.0], "lat": [2.0, 4.0]}), tmp_path / "b.parquet")
    uri = put(bucket.uri("arriving"), tmp_path)
    one, _, options = uri.partition("?")
    csv, file = f"{one}/in/a.csv?{options}", f"{one}/b.parquet?{options}"
    store = tmp_path / "store"
    command.works("rebuild", file, "--store", store, "--partitions", "1")
    assert len(dtoss.open(str(store))) == 2
    asked = ("knn", "--store", store, "--queries", csv, "--out", tmp_path / "out.parquet")
    command.works(*asked)
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [1, 2]
    assert "nothing is at" in command.fails("rebuild", f"{one}/none.csv?{options}", "--store", tmp_path / "other")


DEEP = pytest.mark.deep("each begins Spark's tasks anew; the rows that all read are in test_rows_are_those_of_a_disk")


@DEEP
def test_more_commands_read_from_s3(spark, command, bucket, tmp_path):
    """What arrives below a prefix: updates, rows of a watch, of windows and of a history, accesses."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,lon,lat,t\n1,1,2,2026-05-01T10:00:00Z\n2,3,4,2026-05-01T10:01:00Z\n")
    os.utime(folder / "a.csv", (1, 1))
    uri = put(bucket.uri(), folder)
    store = made(pa.table({"id": [7], "lon": [-2.08], "lat": [51.8]}), tmp_path / "store", partitions=1)
    (tmp_path / "asked.jsonl").write_text('{"id":"a","lon":1,"lat":2,"radius":1000}\n')
    command.works("subscribe", tmp_path / "asked.jsonl", "--store", store)
    (tmp_path / "sites.csv").write_text("id,lon,lat\n1,-1.5,51\n")
    windows = ("--lengths", "1d", "--slide", "1d", "--by", f"sites:{tmp_path}/sites.csv", "--measures", "rows")
    for words in (
        ("watch", uri, "--store", store, "--once"),
        ("windows", "run", uri, "--store", store, "--name", "w", "--once", *windows, "--witnesses", "1"),
        ("history", "append", uri, "--history", tmp_path / "history"),
        ("run", "--updates", uri, "--store", tmp_path / "new", "--cycles", "1", "--partitions", "1", "--time", "t"),
        ("patterns", uri, "--store", store, "--out", tmp_path / "p.parquet"),
    ):
        ran = command.works(*words, "--json")
        assert '": 2' in ran.out, ran
