"""Streaming DataFrames held against subscriptions: a commit for each micro-batch, checkpoints that belong to it."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter

import numpy as np
import pytest

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.watch.watch_folder import Home
from pipelines.watch import watch
from pipelines.watching.watch_batches import Watching
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.watch.oracle import Watched
from tests.dtoss.watch.streams import SPHERE, asked, change, circle, random_asked, random_rows, settings_of, stands
from tests.pipelines.watching.arrivals import all_told, arrive, once

SCHEMA = "id bigint, lon double, lat double, t bigint, occupied bigint, kind string"


def streamed(spark, folder):
    """A stream of the files of a folder, one a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def ended(query):
    """Wait until a query has read what there is; return what it failed with."""
    try:
        query.awaitTermination(600)
    except Exception as error:
        return str(error)
    return None


def test_each_batch_of_a_stream_is_one_commit(spark, tmp_path):
    """The events are the loop's; another run goes on; a lost checkpoint is refused, and one of another watch too."""
    folder, store = tmp_path / "in", tmp_path / "store"
    rng = np.random.default_rng(4)
    home = Home(str(store))
    change(home, [random_asked(rng, f"s{number}") | {"expires": None} for number in range(8)])
    rows = sorted(random_rows(rng, 40), key=lambda row: row["t"])
    parts = [rows[:15], rows[15:40]]
    loop = Watched(SPHERE, settings_of().schema)
    number, table = stands(home)
    for part, name in zip(parts, "ab", strict=True):
        arrive(folder, name, part, "jsonl")
        assert ended(watch(streamed(spark, folder), str(store), every=None)) is None
        assert Counter(all_told(store)[-1]) == Counter(loop.batch(part, number, table)), name
    assert len(all_told(store)) == 2
    assert ended(watch(streamed(spark, folder), str(store), every=None)) is None
    assert len(all_told(store)) == 2
    arrive(folder, "c", random_rows(rng, 5), "jsonl")
    shutil.move(store / "watch" / "default" / "checkpoint", tmp_path / "kept")
    error = ended(watch(streamed(spark, folder), str(store), every=None))
    assert "the checkpoint is not that of watch default" in error
    assert "--new-source" in error
    error = ended(
        watch(streamed(spark, folder), str(store), name="other", every=None, checkpoint=str(tmp_path / "kept"))
    )
    assert "watch other has no batch before it" in error
    assert len(all_told(store)) == 2
    assert ended(watch(streamed(spark, folder), str(store), every=None, checkpoint=str(tmp_path / "kept"))) is None
    assert len(all_told(store)) == 3


def test_a_frame_that_does_not_stream_is_refused(spark, tmp_path):
    """The way out is named."""
    with pytest.raises(InputError, match=r"the frame is not a stream: read it with spark\.readStream"):
        watch(spark.range(3), str(tmp_path / "store"))


def test_a_beat_adopts_what_is_asked_and_lets_objects_expire(spark, tmp_path):
    """Without rows, once: no Spark is asked for. What rows of a batch end is told in it already."""
    folder, store = tmp_path / "in", tmp_path / "store"
    home = Home(str(store))
    change(home, [circle("a", 0.0, 0.0, 1000.0)])
    rows = [
        {"id": id, "t": 1_700_000_000_000_000 + t * 1_000_000, "x": 0.0, "y": 0.0, "attributes": {}}
        for id, t in ((1, 0), *((id, t) for id in (2, 3, 4) for t in (500, 600, 700)))
    ]
    arrive(folder, "a", rows)
    once(spark, folder, store, expire=60.0)
    assert [event[:5] for event in all_told(store)[0]][-1] == ("leave", "a", 1, 1, 1_700_000_060_000_000)
    assert len(all_told(store)) == 1
    change(home, [circle("b", 0.0, 0.0, 1000.0)], ["a"])
    once(None, folder, store, expire=60.0)
    assert all_told(store)[1] == [("reset", "a", 1, None, None, "removed")]
    assert once(None, folder, store, expire=60.0).batches == 0


def test_the_clock_of_the_machine_lets_a_lone_object_expire_at_a_beat(spark, tmp_path):
    """Once, though that clock goes back and the watch is started again; without it the lone object stays."""
    folder, store = tmp_path / "in", tmp_path / "store"
    change(Home(str(store)), [circle("a", 0.0, 0.0, 1000.0)])
    row = {"id": 1, "t": 1_700_000_000_000_000, "x": 0.0, "y": 0.0, "attributes": {}}
    arrive(folder, "a", [row])
    once(spark, folder, store, expire=60.0)
    assert once(None, folder, store, expire=60.0).batches == 0
    assert once(None, folder, store, expire=60.0, clock=lambda: row["t"] + 59_000_000).batches == 0
    assert once(None, folder, store, expire=60.0, clock=lambda: row["t"] + 61_000_000).batches == 1
    assert all_told(store)[1] == [("leave", "a", 1, 1, row["t"] + 60_000_000, "expired")]
    for later in (62_000_000, 0, 10**12):
        assert once(None, folder, store, expire=60.0, clock=lambda later=later: row["t"] + later).batches == 0


def test_around_an_object_is_where_the_snapshot_has_it(spark, tmp_path):
    """The centre is taken anew once the store has another snapshot; an object that is gone holds nothing."""
    folder, store = tmp_path / "in", tmp_path / "store"
    home = Home(str(store))

    stored(dtoss.build([7, 8], [[0.0, 0.0], [50.0, 0.0]]), store)
    change(
        home,
        [asked("near7", 4, object="7", radius=1000.0, events=1), asked("none", 4, object="9", radius=9e6, events=1)],
    )
    row = {"id": 1, "t": 1_700_000_000_000_000, "x": 0.0, "y": 0.0, "attributes": {}}
    arrive(folder, "a", [row])
    once(spark, folder, store)
    assert [event[:2] for event in all_told(store)[0]] == [("inside", "near7")]
    stored(dtoss.build([7], [[50.0, 0.0]]), store)
    arrive(folder, "b", [row | {"t": row["t"] + 1_000_000}, row | {"t": row["t"] + 2_000_000, "x": 50.0}])
    once(spark, folder, store)
    assert [(event[1], event[4] - row["t"]) for event in all_told(store)[1]] == [("near7", 2_000_000)]
    assert len(dtoss.open(str(store))) == 1


def eventually(met):
    """Wait until something is so, two minutes at most."""
    ends = time.monotonic() + 120.0
    while time.monotonic() < ends:
        if met():
            return
        time.sleep(0.02)
    raise AssertionError("it has not come")


def committed(home):
    """The number of the last batch of a watch."""
    head = home.batches.head()
    return 0 if head is None else head.number


def test_two_streams_of_a_store_and_a_beat_without_rows(spark, tmp_path):
    """Of a source at a rate; a second one of a name ends at once; what is asked is adopted while no rows come."""
    store = tmp_path / "store"
    homes = [Home(str(store), name) for name in ("a", "b")]
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).option("numPartitions", 1)
    source = source.option("startTimestamp", 1_700_000_000_000).option("advanceMillisPerBatch", 1000).load()
    frame = source.selectExpr("value % 4 AS id", "0D AS lon", "0D AS lat", "timestamp AS t")
    for home in homes:
        change(home, [circle(home.name, 0.0, 0.0, 1000.0)])
    queries = [watch(frame, str(store), name=home.name, every=0.3) for home in homes]
    try:
        with pytest.raises(StoreError, match=r"watch a of .* is being written by process \d+ "):
            watch(frame, str(store), name="a")
        eventually(lambda: all(committed(home) > 1 for home in homes))
    finally:
        for query in queries:
            query.stop()
    for home in homes:
        assert Counter(event[:2] for event in all_told(store, home.name)[0]) == {
            ("enter", home.name): 4, ("inside", home.name): 4,
        }  # fmt: skip
        eventually(lambda home=home: not (store / "watch" / home.name / "LEASE").exists())
    last = committed(homes[0])
    (tmp_path / "none").mkdir()
    other = str(tmp_path / "checkpoint")
    query = watch(streamed(spark, tmp_path / "none"), str(store), name="a", beat=0.2, checkpoint=other)
    try:
        change(homes[0], [], ["a"])
        eventually(lambda: committed(homes[0]) > last)
    finally:
        query.stop()
    assert all_told(store, "a")[last] == [("reset", "a", 1, None, None, "removed")]


def test_a_query_that_was_stopped_makes_way_for_the_next_at_once(spark, tmp_path, monkeypatch):
    """Also while its thread still beats."""
    folder, store = tmp_path / "in", tmp_path / "store"
    folder.mkdir()
    change(Home(str(store)), [circle("s", 0.0, 0.0, 1e3)])
    slow, free = threading.Event(), threading.Event()

    def beat(watching):
        slow.set()
        free.wait(120)

    monkeypatch.setattr(Watching, "beat", beat)
    first = watch(streamed(spark, folder), str(store), every=0.1, beat=0.1)
    assert slow.wait(120)
    ends = threading.Timer(0.2, free.set)
    ends.start()
    first.stop()
    second = watch(streamed(spark, folder), str(store), every=0.1)
    second.stop()
    ends.join()
