"""Structured Streaming: each batch counts once, whatever fails between the store's commit and Spark's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import pipelines.stream
from dtoss.errors import InputError
from dtoss.snapshots.store import Store
from pipelines.cycle import cycle
from pipelines.stream import stream
from tests.pipelines.stores import objects_of

SCHEMA = "id bigint, lon double, lat double, t bigint, speed double"
OPTIONS = {"max_ahead": None, "warn": lambda message: None}


def write(folder, number, rows):
    """A file of rows (id, lon, lat, t), of which Spark sees the older ones first."""
    path = folder / f"{number}.json"
    lines = [dict(zip(("id", "lon", "lat", "t", "speed"), (*row, row[3] / 2.0), strict=True)) for row in rows]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    os.utime(path, (time.time() - 1000 + number, time.time() - 1000 + number))


def moves(number, n=40):
    rng = np.random.default_rng(number)
    ids = rng.permutation(60)[:n]
    return [(int(i), *rng.uniform(-9, 9, 2).round(6).tolist(), number) for i in ids]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "updates"
    made.mkdir()
    return made


def read(spark, folder, files=1):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(str(folder))


def ended(query):
    """What a query has ended with, None where all went well."""
    from pyspark.errors import StreamingQueryException

    try:
        assert query.awaitTermination(600)
    except StreamingQueryException as error:
        return error
    return None


def test_a_batch_that_fails_after_its_commit_counts_once(spark, folder, tmp_path, monkeypatch):
    store, told = tmp_path / "store", []
    start = {"checkpoint": str(tmp_path / "checkpoint"), "every": None, "say": told.append, **OPTIONS}
    wanted = {}
    for number in range(3):
        write(folder, number, moves(number))
        wanted |= {i: (x, y, t) for i, x, y, t in moves(number)}

    def breaks_after_the_second(*arguments, **options):
        made = cycle(*arguments, **options)
        if len(told) == 1:
            raise OSError("the power is gone")
        return made

    monkeypatch.setattr(pipelines.stream, "cycle", breaks_after_the_second)
    query = stream(read(spark, folder), str(store), first={"partitions": 2}, **start)
    assert "the power is gone" in str(ended(query))
    ledger = Store(str(store)).manifest()["ledger"]
    assert ledger == {"files": {}, "batches": {query.id: 1}}
    assert len(told) == 1
    monkeypatch.undo()
    again = stream(read(spark, folder), str(store), **start)
    assert ended(again) is None
    assert again.id == query.id
    # the second batch was there already
    assert [made["ledger"]["batches"][query.id] for made in told] == [0, 2]
    assert objects_of(store) == wanted
    assert told[-1]["cycle"]["late"] == 0
    # another query has batches of its own
    other = stream(read(spark, folder, 9), str(store), **{**start, "checkpoint": str(tmp_path / "other")})
    assert ended(other) is None
    assert Store(str(store)).manifest()["ledger"]["batches"] == {query.id: 2, other.id: 0}
    assert objects_of(store) == wanted


def test_a_frame_that_is_no_stream(spark, tmp_path):
    frame = spark.createDataFrame([(1, 2.0, 3.0, 4, 5.0)], SCHEMA)
    with pytest.raises(InputError, match="the frame is not a stream"):
        stream(frame, str(tmp_path / "store"), checkpoint=str(tmp_path / "checkpoint"))
    assert not Path(tmp_path / "store").exists()
