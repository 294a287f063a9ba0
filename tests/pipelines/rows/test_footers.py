"""Footers of many files: read by the tasks of Spark, and what they say, or what is wrong, is what one process says."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from dtoss.errors import InputError
from pipelines.rows.footers import MOST_HERE, alike_files
from pipelines.rows.inputs import footer, look

ROWS = pa.table({"id": [1], "lon": [1.0], "lat": [2.0]})


def bytes_of(rows):
    """A Parquet file of rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return sink.getvalue().to_pybytes()


def said_of(folder, **how):
    """What is found at a folder, or the line that says what is wrong."""
    try:
        return replace(look([str(folder)], **how), places=())
    except InputError as error:
        return str(error)


def test_tasks_say_what_one_process_says(spark, tmp_path):
    """One schema, a column that some lack, another type of it, a file that is none, and both: the same line."""
    usual, other = bytes_of(ROWS), bytes_of(ROWS.append_column("n", pa.array(["a"])))
    for number in range(MOST_HERE + 3):
        (tmp_path / f"{number:04d}.parquet").write_bytes(other if number % 400 > 300 else usual)
    asked = []

    def session(inputs):
        asked.append(inputs)
        return spark

    changes = {0: None, 900: bytes_of(ROWS.append_column("n", pa.array([1]))), 800: b"PAR1 cut short"}
    for number, data in changes.items():
        if data is not None:
            (tmp_path / f"{number:04d}.parquet").write_bytes(data)
        for schema in ("union", "strict"):
            here, by_tasks = said_of(tmp_path, schema=schema), said_of(tmp_path, schema=schema, session=session)
            assert by_tasks == here
        assert ("0800.parquet cannot be read" in here) == (number == 800)
    assert [len(one.sizes) for one in asked] == [MOST_HERE + 3] * 6


def test_few_files_are_looked_at_without_spark(tmp_path):
    """Nobody is asked for one."""
    pq.write_table(ROWS, tmp_path / "a.parquet")
    assert look([str(tmp_path)], session=lambda _: pytest.fail("asked for Spark")).names == ["id", "lon", "lat"]


def test_what_is_kept_of_files_does_not_grow_with_them(tmp_path):
    """Files that differ in nothing but their boxes are one; another CRS, or a column, begins another one."""
    places = []
    crs = [None] * 5 + ["EPSG:2056"]
    for number, one in enumerate(crs):
        about = {"encoding": "WKB", "bbox": [number] * 4} | ({} if one is None else {"crs": one})
        geo = {"primary_column": "geometry", "columns": {"geometry": about}}
        path = tmp_path / f"{number}.parquet"
        pq.write_table(ROWS.replace_schema_metadata({"geo": json.dumps(geo)}), path)
        places.append((fs.LocalFileSystem(), str(path)))
    assert [(run.first, run.last) for run in alike_files(places, footer, None)] == [(0, 4), (5, 5)]
