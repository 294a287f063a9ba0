"""What a batch of a watch or of windows gives in Spark is what it gives in process: Spark carries, and decides nothing.

So the matrices of made streams run in process, and tests with Spark are of files, tasks, kills and checkpoints.
"""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest

import dtoss
from dtoss.watch.processing.watch_plan import Options
from dtoss.watch.watch_folder import Home
from dtoss.windows.keys import site_keys
from dtoss.windows.query.window_query import open_windows
from pipelines.watching.watch_batches import Watching
from tests.dtoss.watch.streams import (
    BEGIN,
    SECOND,
    SPHERE,
    change,
    random_asked,
    random_pairs,
    random_rows,
    run,
    settings_of,
)
from tests.dtoss.windows.in_memory_windows import Live
from tests.pipelines.watching.arrivals import OLD, all_told, once, plain
from tests.pipelines.windowing.counted_files import run_windows

SITES = np.array([[0.005, 0.0], [0.02, 0.01], [179.995, 0.005], [10.0, 89.0]])
BAD = [{"id": "", "lon": 0, "lat": 0}, {"id": 3, "lon": 0, "lat": 91}, {"id": 4, "lon": "east", "lat": 0}]
STREAMS = {
    "late, at one moment and bad": {"rows": 70, "seconds": 40, "bad": BAD},
    "text ids, a batch of one row": {"rows": 40, "ids": "string", "bad": BAD[:1], "few": 1},
    "one object": {"rows": 30, "objects": 1, "expire": 15},
}


def batches_of(stream):
    """The rows of three batches."""
    rows = random_rows(
        np.random.default_rng(5), stream["rows"], stream.get("objects", 4), stream.get("seconds", 120)
    )  # fmt: skip
    if stream.get("ids") == "string":
        rows = [row | {"id": f"v{row['id']}"} for row in rows]
    parts = [[rows[row] for row in part] for part in np.array_split(np.arange(len(rows)), 3)]
    return [part[:1] if stream.get("few") == number else part for number, part in enumerate(parts)]


def write(folder, name, rows, bad):
    """Write rows, and bad ones among them, as a file that has been there for long."""
    folder.mkdir(exist_ok=True)
    written = [plain(row) for row in rows]
    written[1:1] = [{"t": BEGIN // SECOND, **row} for row in bad]
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "lon", "lat", "t", "occupied", "kind"], restval="")
        writer.writeheader()
        writer.writerows({key: "" if value is None else value for key, value in row.items()} for row in written)
    os.utime(folder / name, (OLD, OLD))


@pytest.mark.parametrize("name", STREAMS)
def test_batches_of_a_watch_tell_what_is_told_in_process(session, tmp_path, name):
    """Events in their order: subscriptions that change between, rows twice, poles, the antimeridian, bad rows."""
    stream, rng = STREAMS[name], np.random.default_rng(7)
    here, there = (Home(str(tmp_path / store)) for store in ("here", "there"))
    ids, expire = stream.get("ids", "int64"), stream.get("expire")
    micros = None if expire is None else expire * SECOND
    for number, rows in enumerate(batches_of(stream)):
        asked = [random_asked(rng, f"s{number}-{one}", crosses=True) for one in range(6)]
        asked += [random_pairs(np.random.default_rng(1), "near")]
        for home in (here, there):
            change(home, asked, [f"s{number - 1}-0"] if number else [])
        run(here, settings_of(ids=ids), rows, 2, ids=ids, expire=micros)
        Watching(here, Options(micros)).beat()
        write(tmp_path / "in", f"part{number}.csv", rows, stream.get("bad", []))
        once(session, tmp_path / "in", tmp_path / "there", expire=expire, max_bad=0.8)
    assert all_told(tmp_path / "there") == all_told(tmp_path / "here")
    assert sum(map(len, all_told(tmp_path / "here"))) > 10
    pairs = [
        [
            tuple(one[part] for part in ("kind", "object", "near", "lon", "near_lon", "distance"))
            for one in dtoss.events(str(tmp_path / store)) if one.get("near") is not None
        ] for store in ("here", "there")
    ]  # fmt: skip
    assert pairs[0] == pairs[1]
    assert pairs[0] or name == "one object"


@pytest.mark.parametrize("name", STREAMS)
def test_batches_of_windows_count_what_is_counted_in_process(session, tmp_path, name):
    """Each end, shown now and of before: rows late and repeated, text ids, sites across the antimeridian, bad rows."""
    stream, store = STREAMS[name], str(tmp_path / "store")
    sites = tmp_path / "sites.csv"
    sites.write_text("id,lon,lat\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES.tolist())))
    wanted = {
        "lengths": "20s,1min", "slide": "10s", "late": "30s", "by": f"sites:{sites}",
        "measures": "rows,objects,here,arrivals,speed,flow",
    }  # fmt: skip
    live = None
    for number, rows in enumerate(batches_of(stream)):
        write(tmp_path / "in", f"part{number}.csv", rows, stream.get("bad", []))
        asked = {} if number else {"wanted": wanted, "space": SPHERE}
        run_windows(str(tmp_path / "in"), store, "w", lambda: session, once=True, max_bad=0.8, **asked)
        found = open_windows(store, "w")
        live = live or Live(found.spec, site_keys(SPHERE, SITES))
        ids, times = [row["id"] for row in rows], [row["t"] / SECOND for row in rows]
        live.add(ids, times, [(row["x"], row["y"]) for row in rows])
        live.advance()
        assert found.watermark == live.watermark
        for window in ("20s", "1min", "30s"):
            assert found.at(window=window).drop(["name"]).equals(live.at(window))
            assert found.flow(window=window).select(live.flow(window).column_names).equals(live.flow(window))
    assert len(live.at("1min")) > 0
