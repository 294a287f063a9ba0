"""Appending: from files, frames, rebuilds, loops and streams; each batch once, late rows too, bad ones set aside."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime, timedelta

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.errors import InputError, StoreError
from dtoss.geometry.space import Space
from dtoss.history.adaptive.adapt import adapt
from dtoss.history.append_frame import OF_STREAM, AppendResult, Key, check_stream, commit_batch
from dtoss.history.layouts.compaction import settle
from dtoss.history.maintenance.erase_rows import forget
from dtoss.history.maintenance.history_table import verify_history
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store
from pipelines.history import append, append_files
from pipelines.history_tasks.into_files import key_files
from pipelines.rows.inputs import look
from pipelines.stream import stream
from tests.dtoss.history.worlds import schema_of
from tests.pipelines.history_tasks.engines import session_of, words_of
from tests.pipelines.loops import looped

EPOCH = datetime(2024, 5, 1, tzinfo=UTC)


def frame_of(n=60, seed=0, first=0):
    """Rows of a few objects, as pandas has them."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": random.integers(0, 7, n),
            "t": [EPOCH + timedelta(seconds=int(second)) for second in first + random.integers(0, 4 * n, n)],
            "lon": random.uniform(-1, 1, n).round(4),
            "lat": random.uniform(-1, 1, n).round(4),
            "speed": random.uniform(0, 30, n).round(1),
        }
    )


def rows_in(place):
    """All rows of a history as plain tuples, sorted."""
    history = dtoss.history.open(str(place))
    found = history.box([-180.0, -90.0, 180.0, 90.0], columns=list(history.schema.attributes))
    columns = [found.id.tolist(), *(found.columns[name].to_pylist() for name in found.columns)]
    return sorted(zip(*columns, strict=True), key=repr)


def plain(frame):
    """The same of a frame."""
    rows = frame[["id", "t", "lon", "lat", "speed"]].itertuples(index=False, name=None)
    return sorted(((id, t.to_pydatetime(), *rest) for id, t, *rest in rows), key=repr)


def test_files_count_once_by_what_they_hold(engine, tmp_path, command):
    """Touched, copied, moved and named again they are the same; other bytes under a path are new, with a warning."""
    place, files = tmp_path / "h", tmp_path / "files"
    files.mkdir()
    one, two = frame_of(60, 1), frame_of(50, 2)
    one.to_parquet(files / "a.parquet")
    assert (
        "version 1: 60 rows appended"
        in command("history", "append", files / "a.parquet", "--history", place, *words_of(engine)).out
    )
    os.utime(files / "a.parquet")
    shutil.copy(files / "a.parquet", files / "copy.parquet")
    two.to_parquet(files / "b.parquet")
    said = command("history", "append", files, "--history", place, *words_of(engine), "--json").json
    assert (said["rows"], said["repeated"]) == (50, 2)
    assert rows_in(place) == plain(pd.concat([one, two]))
    three = frame_of(10, 3)
    three.to_parquet(files / "a.parquet")
    (files / "copy.parquet").unlink()
    captured = command("history", "append", files, "--history", place, *words_of(engine))
    assert captured.code == 0
    assert "has other bytes than when it was appended before" in captured.err
    assert "10 rows appended, 1 files were there already" in captured.out
    assert rows_in(place) == plain(pd.concat([one, two, three]))
    assert "0 rows appended, 2 files" in command("history", "append", files, "--history", place, *words_of(engine)).out


def test_text_is_read_as_the_history_has_it_and_bad_rows_are_set_aside(engine, tmp_path, command):
    """CSV with other looks; a row without a place, one with a clock that is wrong; too many of them append nothing."""
    place = tmp_path / "h"
    frame_of(40).to_parquet(tmp_path / "a.parquet")
    command("history", "append", tmp_path / "a.parquet", "--history", place, *words_of(engine))
    ahead = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    good = [f"{i},2024-05-02T00:00:{i:02},0.5,{i},7" for i in range(30)]
    bad = ["1,2024-05-02T00:01:00,,,7", f"2,{ahead},1,1,7"]
    (tmp_path / "more.csv").write_text("\n".join(["id,t,lon,lat,speed", *good, *bad]) + "\n")
    said = command("history", "append", tmp_path / "more.csv", "--history", place, *words_of(engine), "--json").json
    assert said["rows"] == 30
    assert said["quarantined"] == {"no position": 1, "time is ahead of now": 1}
    aside = pq.read_table(place / said["quarantine"][0]).to_pydict()
    assert aside["reason"] == ["no position", "time is ahead of now"]
    assert dtoss.history.open(str(place)).schema.attributes == {"speed": pa.float64()}
    (tmp_path / "worse.csv").write_text("\n".join(["id,t,lon,lat,speed", *bad]) + "\n")
    assert "2 of 2 rows are bad" in command.fails(
        "history", "append", tmp_path / "worse.csv", "--history", place, *words_of(engine)
    )
    assert len(dtoss.history.open(str(place))) == 70


def test_times_that_are_numbers_are_times_where_that_is_said(engine, tmp_path, command):
    """Text and Parquet, seconds and milliseconds; what is no time is set aside and fails nothing."""
    stamps = [EPOCH + timedelta(milliseconds=123), EPOCH + timedelta(seconds=1)]
    numbers = {"epoch_s": [1714521600.123, 1714521601.0], "epoch_ms": [1714521600123, 1714521601000]}
    for form, good in numbers.items():
        bad = 2**62 if form == "epoch_ms" else np.inf
        frame = pd.DataFrame({"id": [1, 2, 3], "t": [*good, bad], "lon": 1.0, "lat": 1.0})
        frame.to_parquet(tmp_path / f"{form}.parquet")
        frame.to_csv(tmp_path / f"{form}.csv", index=False)
        for kind in ("parquet", "csv") if form == "epoch_ms" else ("csv",):
            place = tmp_path / f"{form} {kind}"
            words = (tmp_path / f"{form}.{kind}", "--time-format", form, "--max-bad", "0.5")
            ran = command("history", "append", *words, "--history", place, *words_of(engine))
            assert ran.code == 0
            assert [row[1] for row in rows_in(place)] == stamps
            assert "1 quarantined (1 time cannot be read)" in ran.out
    plain = append(
        engine.createDataFrame(frame.assign(t=[1.5, 2.5, np.inf])), str(tmp_path / "h"), batch="a", max_bad=1
    )
    assert (plain.rows, dict(plain.rejected)) == (2, {"time cannot be read": 1})


def test_folders_whose_names_are_values_are_part_of_a_file(engine, tmp_path, command):
    """The same bytes in two of them are two files; a file that comes later still has its column, odd names too."""
    place, files = tmp_path / "h", tmp_path / "fi[l]es"
    for day in (1, 2):
        (files / f"day={day}").mkdir(parents=True)
        frame_of(20).to_parquet(files / f"day={day}" / "p.parquet")
    first = command("history", "append", files, "--history", place, *words_of(engine))
    assert "40 rows" in first.out
    (files / "day=3").mkdir()
    frame_of(10, 1).assign(kind="taxi").to_parquet(files / "day=3" / "p.parquet")
    said = command("history", "append", files, "--history", place, *words_of(engine), "--json").json
    assert (said["rows"], said["repeated"]) == (10, 2)
    days = dtoss.history.open(str(place)).box([-180, -90, 180, 90], columns=["day"]).columns["day"].to_pylist()
    assert sorted(days) == [1] * 20 + [2] * 20 + [3] * 10


def test_a_column_without_values_has_no_type_yet(engine, tmp_path, command):
    """It fits whatever comes later, and whatever was there."""
    frame = frame_of(20)
    nothing, something = frame.assign(kind=None), frame.assign(kind="taxi")
    for name, order in (("first", (nothing, something)), ("then", (something, nothing))):
        for number, rows in enumerate(order):
            rows.to_parquet(tmp_path / f"{name}{number}.parquet")
            words = ("append", tmp_path / f"{name}{number}.parquet", "--history", tmp_path / name, *words_of(engine))
            assert command("history", *words).code == 0
            dtoss.history.append(rows, str(tmp_path / f"{name} here"), batch=str(number))
        for place in (name, f"{name} here"):
            version = Home(str(tmp_path / place)).version()
            assert (version.rows, dict(version.schema.attributes)["kind"]) == (40, pa.large_string())


def test_the_same_rows_in_two_batches_have_files_of_their_own(tmp_path):
    """So that leaves of one can be cut, and a file of one be lost, without those of the other."""
    home, frame = Home(str(tmp_path / "h")), frame_of(60_000)
    for batch in "ab":
        dtoss.history.append(frame, home.path, batch=batch)
    settle(home, orders=["time", "place", "object"], period_bytes=1000, leaf_bytes=1e9)
    adapt(home, request_bytes=20_000)
    version = home.version()
    assert len(set(version.files.name)) == len(version.files.name) == 6
    history = dtoss.history.open(home.path)
    for _ in range(40):
        history.range([[-0.8, -0.8]], 5000.0)
    history.listen.flush()
    assert adapt(home).cut == 2
    assert len(set(home.version().files.name)) == len(home.version().files.name)
    assert forget(home, [int(frame.id[0])]).rows == 2 * int((frame.id == frame.id[0]).sum())
    assert not verify_history(home).damaged


def test_keys_are_texts_and_others_who_are_faster_are_told(engine, tmp_path, monkeypatch):
    """Without a key nothing is appended; files that could not be appended are an error, not nothing."""
    for batch in ("", " ", None, 7):
        with pytest.raises(ValueError, match="a text that tells this batch from all others"):
            dtoss.history.append(frame_of(3), str(tmp_path / "h"), batch=batch)
    for batch in ([], ["a"], ""):
        with pytest.raises(ValueError, match="a text that tells this batch"):
            append(engine.createDataFrame(frame_of(3)), str(tmp_path / "h"), batch=batch)
    for option, said in (({"max_bad": float("nan")}, "max_bad"), ({"max_ahead": -1.0}, "max_ahead")):
        with pytest.raises(ValueError, match=f"{said} is "):
            append(engine.createDataFrame(frame_of(3)), str(tmp_path / "h"), batch="a", **option)
    frame_of(3).to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr("pipelines.history.append", lambda *rest, **more: AppendResult(1, 0, 1))
    inputs = look([str(tmp_path / "a.parquet")])
    with pytest.raises(StoreError, match="3 times in a row: start again"):
        append_files(lambda: session_of(engine), inputs, str(tmp_path / "h"), Columns(), warn=print)


def test_a_file_that_changes_while_it_is_read_is_told(engine, tmp_path):
    """Its key was taken before: its rows would stand under the key of others."""
    path = tmp_path / "a.parquet"
    frame_of(3).to_parquet(path)
    inputs = look([str(path)])
    keys = key_files(inputs)
    frame_of(4).to_parquet(path)
    with pytest.raises(InputError, match="has changed while it was read: nothing was appended"):
        append_files(lambda: session_of(engine), inputs, str(tmp_path / "h"), Columns(), warn=print, files=keys)
    assert Home(str(tmp_path / "h")).head() is None


def test_what_does_not_fit_is_one_line(engine, tmp_path, command):
    """No time, another CRS, type of ids or of a column; both named, nothing appended."""
    place = tmp_path / "h"
    frame_of(20).to_parquet(tmp_path / "a.parquet")
    command("history", "append", tmp_path / "a.parquet", "--history", place, *words_of(engine))
    frames = {
        "time": (frame_of(20, 1).drop(columns="t"), [], "history needs a time: --time"),
        "ids": (frame_of(20, 1).astype({"id": str}), [], "ids of the rows are string, those of the history int64"),
        "column": (frame_of(20, 1).astype({"speed": str}), [], "'speed' of the rows is large_string, in the history"),
        "crs": (frame_of(20, 1), ["--crs", "EPSG:32610"], "crs EPSG:32610 .*EPSG:4326"),
        "number": (frame_of(20, 1).assign(t=range(20)), [], "times of the rows are int64, those of the history times"),
    }  # fmt: skip
    for name, (frame, options, said) in frames.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
        err = command.fails(
            "history", "append", tmp_path / f"{name}.parquet", "--history", place, *words_of(engine), *options
        )
        assert re.search(said, err), (name, err)
    assert len(dtoss.history.open(str(place))) == 20


def test_a_column_that_is_new_is_null_before(engine, tmp_path):
    """And the sums of what was there stay as they were."""
    old, new = frame_of(20), frame_of(20, 1).assign(kind="taxi")
    append(engine.createDataFrame(old), str(tmp_path / "h"), batch="a")
    before = Home(str(tmp_path / "h")).version().sum
    done = append(engine.createDataFrame(new), str(tmp_path / "h"), batch="b")
    version = Home(str(tmp_path / "h")).version()
    assert done.version == version.number == 2
    history = dtoss.history.open(str(tmp_path / "h"))
    kinds = history.box([-180, -90, 180, 90], columns=["kind"]).columns["kind"].to_pylist()
    assert sorted(kinds, key=str) == [None] * 20 + ["taxi"] * 20
    alone = append(engine.createDataFrame(new), str(tmp_path / "other"), batch="b")
    assert alone.rows == 20
    assert (before + Home(str(tmp_path / "other")).version().sum) % 2**64 == version.sum
    assert append(engine.createDataFrame(new), str(tmp_path / "h"), batch="b").repeated == 1


def test_frames_in_this_process_are_the_same_rows(engine, tmp_path):
    """``dtoss.history.append`` and the job make files with the same sums; deletions need no place."""
    frame = frame_of(80).assign(gone=lambda f: f.index % 10 == 0)
    frame.loc[frame.gone & (frame.index > 20), ["lon", "lat"]] = np.nan
    done = dtoss.history.append(frame, str(tmp_path / "here"), batch="a", id="id", time="t", deleted="gone")
    append(engine.createDataFrame(frame), str(tmp_path / "there"), batch="a", deleted="gone")
    here, there = (Home(str(tmp_path / name)).version() for name in ("here", "there"))
    assert (done.version, done.rows) == (1, 80)
    assert (here.rows, here.sum) == (there.rows, there.sum) == (80, here.sum)
    assert here.schema == there.schema
    assert dtoss.history.append(frame, str(tmp_path / "here"), batch="a").repeated == 1
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert dtoss.history.append(table, str(tmp_path / "here"), batch="b", deleted="gone").rows == 80
    opened = dtoss.history.open(str(tmp_path / "here"))
    assert repr(opened) == f"<dtoss.History of 160 rows, EPSG:4326, version 2 of {tmp_path / 'here'}>"
    there = frame.dropna()
    web = gpd.GeoDataFrame(there[["id", "t"]], geometry=gpd.points_from_xy(there.lon, there.lat, crs=4326)).to_crs(3857)
    place, bad = str(tmp_path / "x"), {"batch": "c"}
    for given, where, options, kind, said in (
        (frame.drop(columns="t"), place, {}, InputError, "needs a time"),
        ([1], place, {}, TypeError, "is no frame"),
        (frame, place, {}, ValueError, "rows have no lon"),
        (frame.assign(lat=100.0), place, {"deleted": "gone"}, ValueError, "positions row 1 is"),
        (frame.dropna(), str(tmp_path / "here"), {"crs": "EPSG:4267"}, InputError, "crs EPSG:4267 .*EPSG:4326"),
        (web, str(tmp_path / "here"), {}, InputError, "crs EPSG:3857 .*EPSG:4326"),
    ):
        with pytest.raises(kind, match=said):
            dtoss.history.append(given, where, **bad, **options)


def test_a_rebuild_keeps_all_rows_and_a_loop_too(engine, tmp_path, command):
    """The history first, then the snapshot: all rows are there, and late ones; what was kept is not kept again."""
    place, store = tmp_path / "h", tmp_path / "store"
    one = frame_of(60, 1, first=1000)
    one.to_parquet(tmp_path / "one.parquet")
    words = ("--store", store, "--history", place, "--partitions", 1, *words_of(engine))
    command.works("rebuild", tmp_path / "one.parquet", *words)
    assert rows_in(place) == plain(one)
    updates = tmp_path / "updates"
    updates.mkdir()
    two = frame_of(40, 2)  # older than what stands
    two.to_parquet(updates / "two.parquet")
    ran = looped(
        str(updates), str(store), lambda: session_of(engine), cycles=1, every=0.1, history=str(place), deleted_for=None
    )
    assert ran.cycles == 1
    assert rows_in(place) == plain(pd.concat([one, two]))
    # as if the loop had died between the two commits
    Store(str(store)).rollback(lambda message: None)
    ran = looped(
        str(updates), str(store), lambda: session_of(engine), cycles=1, every=0.1, history=str(place), deleted_for=None
    )
    assert ran.cycles == 1
    assert rows_in(place) == plain(pd.concat([one, two]))


def test_a_loop_takes_rows_as_its_store_does(engine, tmp_path, command):
    """Its space where the history is new, and what it takes for now."""
    place, store, updates = str(tmp_path / "h"), str(tmp_path / "store"), tmp_path / "updates"
    plain = frame_of(20, 1).rename(columns={"lon": "x", "lat": "y"})
    plain.to_parquet(tmp_path / "one.parquet")
    words = ("--store", store, "--metric", "plane", "--partitions", 1, *words_of(engine))
    assert command("rebuild", tmp_path / "one.parquet", *words).code == 0
    updates.mkdir()
    years = pd.Timedelta(days=365 * 60)
    for name, options in (("now", {"now": "2090-01-01"}), ("data", {"clock": "data"})):
        plain.assign(t=plain.t + years).to_parquet(updates / f"{name}.parquet")
        looped(
            str(updates),
            store,
            lambda: session_of(engine),
            cycles=1,
            every=0.1,
            history=place,
            deleted_for=None,
            **options,
        )
        years += pd.Timedelta(days=3650)
    version = Home(place).version()
    assert (version.rows, version.schema.space) == (40, Space("none", "plane"))


def test_a_stream_appends_each_batch_once_and_no_stranger(spark, tmp_path):
    """A batch that Spark gives again is skipped; a new query over the same source is refused, unless it is said."""
    source, place, store = tmp_path / "in", str(tmp_path / "h"), str(tmp_path / "store")
    source.mkdir()
    one, two = frame_of(30, 1), frame_of(30, 2, first=500)
    schema = spark.createDataFrame(one).schema

    def stream_once(checkpoint, **options):
        frame = spark.readStream.schema(schema).parquet(str(source))
        query = stream(
            frame, store, checkpoint=str(tmp_path / checkpoint), every=None, history=place,
            first={"partitions": 1}, deleted_for=None, **options,
        )  # fmt: skip
        query.awaitTermination()

    spark.createDataFrame(one).coalesce(1).write.parquet(str(source), mode="append")
    stream_once("a")
    assert rows_in(place) == plain(one)
    spark.createDataFrame(two).coalesce(1).write.parquet(str(source), mode="append")
    stream_once("a")
    assert rows_in(place) == plain(pd.concat([one, two]))
    with pytest.raises(Exception, match="of another query"):
        stream_once("b")
    assert rows_in(place) == plain(pd.concat([one, two]))


def test_queries_of_a_source(tmp_path):
    """The first one may; another only of another source."""
    home = Home(str(tmp_path / "h"))
    check_stream(None, "q1", "store")
    version = commit_batch(home, schema_of(), [], [Key("q1:0", OF_STREAM, "store", 0)])
    check_stream(version, "q1", "store")
    check_stream(version, "q2", "another store")
    with pytest.raises(InputError, match=r"another query \(q1\) that led to store: .* new_source=True"):
        check_stream(version, "q2", "store")
    assert sum_of(schema_of().arrow.empty_table()) == 0


def test_a_table_is_appended_once(engine, tmp_path):
    """Its rows as they stand; new files of it are; not what was compacted, or rewritten without some rows."""
    delta = pytest.importorskip("deltalake")
    table, place = str(tmp_path / "t"), str(tmp_path / "h")

    def put():
        return append_files(lambda: session_of(engine), look([table]), place, Columns(time="t"), warn=pytest.fail).rows

    delta.write_deltalake(table, frame_of(30, 1).drop_duplicates())
    delta.write_deltalake(table, frame_of(20, 2), mode="overwrite")
    assert put() == 20
    delta.write_deltalake(table, frame_of(7, 3), mode="append")
    assert put() == 7
    assert put() == 0
    delta.DeltaTable(table).optimize.compact()
    with pytest.raises(InputError, match=r"was appended, and is no more of the Delta table .* append a table once"):
        put()
    assert len(rows_in(place)) == 27
