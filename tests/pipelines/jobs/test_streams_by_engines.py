"""Spark and this process do the same batches: every byte of every file that a watch and windows commit is the same."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.locks import processors
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.store import Store
from dtoss.watch.watch_folder import Home
from dtoss.windows.storage.window_document import Home as WindowHome
from pipelines.loop.arriving_batches import Sources
from pipelines.watch import watch_files
from pipelines.watching.spreading import SpreadOptions
from pipelines.watching.watch_batches import Rowwise
from pipelines.windowing.backfill_run import rebuild_windows
from pipelines.windowing.begin_windows import Which
from pipelines.windowing.running_sets import How
from pipelines.windowing.window_batches import moving_of
from tests.dtoss.watch.streams import SPHERE, change, random_asked, random_rows
from tests.pipelines.jobs.test_streams_in_process import BAD, SITES, write
from tests.pipelines.watching.arrivals import OLD
from tests.pipelines.windowing.counted_files import run_windows

WHEN = {"wall_us", "seconds", "load", "ended"}
"""What documents say of the clock of the machine, and of what work took: files of loads are named by their bytes."""


def said(found):
    """A document without times of the machine."""
    if isinstance(found, dict):
        return {name: said(value) for name, value in found.items() if name not in WHEN}
    return [said(value) for value in found] if isinstance(found, list) else found


def committed(store):
    """All files of a store by their names: bytes, and what documents of commits say."""
    files = {}
    for path in store.rglob("*"):
        name = str(path.relative_to(store))
        if path.is_file() and path.name != "CURRENT" and path.parent.name != "load":
            documents = path.parent.name == "commits"
            files[name] = said(json.loads(path.read_text())["document"]) if documents else path.read_bytes()
    return files


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder with sites, in which both engines make a store."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{i},{x},{y}" for i, (x, y) in enumerate(SITES.tolist())]
    (tmp_path / "sites.csv").write_text("\n".join(["id,lon,lat", *lines]) + "\n")
    return tmp_path


def engines(spark):
    """Either engine, by the name of its store."""
    return {"local": None, "spark": spark}


def as_parquet(folder, name, rows, seed):
    """Rows as Parquet of several row groups, of narrower types than those before, with moments for times."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    t = pa.array([row["t"] for row in rows], pa.timestamp("us", "UTC"))
    table = pa.table({
        "id": pa.array([row["id"] for row in rows], pa.int32()),
        "lon": [row["x"] for row in rows], "lat": np.where(rng.integers(0, 9, len(rows)), [r["y"] for r in rows], 95.0),
        "t": t.cast(pa.timestamp("ms", "UTC")), "occupied": pa.array(rng.integers(0, 2, len(rows)), pa.int16()),
        "kind": pa.array([row["attributes"]["kind"] for row in rows]).dictionary_encode(), "more": [None] * len(rows),
    })  # fmt: skip
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=20)
    os.utime(folder / f"{name}.parquet", (OLD, OLD))


def test_windows_are_the_same_to_the_byte(spark, places):
    """Bad rows and late ones, three workers after two, a mended file and a rebuild, other windows that take over."""
    wanted = {"lengths": "20s,1min", "slide": "10s", "late": "30s", "by": "sites:sites.csv"}
    wanted["measures"] = "rows,objects,here,arrivals,speed,flow,p95_speed"
    how = {"space": SPHERE, "max_bad": 0.9}
    streams = [random_rows(np.random.default_rng(seed), 90, 5, 200) for seed in (3, 4, 5)]
    streams = [[row | {"t": row["t"] + 60_000_000 * number} for row in rows] for number, rows in enumerate(streams)]
    write(places / "in", "0.csv", streams[0], BAD)
    anew = streams[1][40]["t"], streams[1][40]["t"] + 60_000_000
    for name, session in engines(spark).items():

        def run(number, workers, session=session, name=name, **other):
            moving = moving_of(workers, "1s", "100%")
            told = run_windows(
                "in", name, "w", lambda: session, wanted | other, **how, most_rows=1, moving=moving, once=True,
                replacing=bool(other),
            )  # fmt: skip
            assert told.batches == number

        (places / "in" / "1.csv").unlink(missing_ok=True)
        run(1, 2)
        write(places / "in", "1.csv", streams[1], BAD)
        run(1, 3)
        write(places / "in", "1.csv", streams[1][:70], BAD[:1])
        which = Which(WindowHome(Store(name).absolute.path, "w"), None, SPHERE)
        rebuild_windows(which, Sources("in"), How(0.9, warn=print), lambda session=session: session, anew)
        write(places / "in", "2.csv", streams[2], BAD)
        run(1, 3, lengths="30s")
        (places / "in" / "2.csv").unlink()
    found = committed(places / "local")
    assert len(found) > 40
    assert found == committed(places / "spark")


@pytest.mark.skipif(processors() != 2, reason="a watch has as many tasks as there are cores, and this Spark has two")
@pytest.mark.parametrize("spread", [None, SpreadOptions("ours", 3)], ids=["plain", "on workers"])
def test_a_watch_is_the_same_to_the_byte(spark, places, unfolded, spread):
    """Text, then Parquet of other types; bad and late rows, expiry, columns that events carry; messages, by hash."""
    rng = np.random.default_rng(7)
    streams = [random_rows(rng, 80, 5, 200) for _ in range(3)]
    asked = [random_asked(rng, f"s{number}", crosses=True) | {"expires": None} for number in range(9)]
    for store in engines(spark):
        for watch in ("default", "messages"):
            change(Home(str(places / store), watch), asked)
    write(places / "text", "0.csv", streams[0], BAD)
    for number, rows in enumerate(streams[1:], 1):
        as_parquet(places / "in", f"{number}", rows, number)
    for name, session in engines(spark).items():
        how = {"once": True, "most_rows": 1, "max_bad": 0.9, "max_ahead": None, "warn": lambda line: None}
        how["carry"], how["spread"] = ("kind", "occupied"), spread
        for folder in ("text", "in"):
            told = watch_files(folder, name, lambda session=session: session, expire=30.0, **how)
            assert told.events > 0
        if spread is None:
            rows = Rowwise(messages=True, has_ids=False)
            watch_files(
                "text", name, lambda session=session: session, name="messages", columns=Columns(id=None), rows=rows,
                **how,
            )  # fmt: skip
    found = committed(places / "local")
    assert len([name for name in found if "/quarantine/" in name]) > 2
    assert found == committed(places / "spark")
