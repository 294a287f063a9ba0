"""How soon the map shows a new batch of windows, while a day is replayed; and the picture of the documentation.

    python -m bench.serve.window_frames [POSITIONS] [--frames N] [--minutes M] [--size 1280x720] [--picture PATH]

A frame is timed from the commit of its batch until the browser has drawn it: heat map, arrows of the 25 largest flows,
counts. POSITIONS is a Parquet file with uid, t, lon and lat, of which its fullest day is replayed; a made fleet when
left out. The server, the browser, which draws by software, and the batches share the cores. For a picture some rows
come with the next batch, in part too late.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import dtoss
from dtoss.buckets import bucket_of
from dtoss.commits.offsets import Source
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_regions, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.sorted_rows import WindowRows
from tests.dtoss.serve.map.browsing import browser, opened
from tests.dtoss.serve.served import running
from tests.dtoss.windows.window_batch import run_batch

GOAL_SECONDS = 1.0
SLOW_MS = 180_000
"""That a first picture may take on a busy machine."""
PARTITIONS = 96
LENGTHS, MEASURES = "15min,1h,24h", "rows,objects,here,arrivals,departures,flow,speed,p95_speed"
LATE = 1 << 59
"""A clock ahead of which no row is."""
MINUTE = 60_000_000
_TOWN = np.array([10.0, 50.0])
_DEGREE = np.array([71_600.0, 111_200.0])
"""Metres of a degree there."""
_BEGIN = 1_777_600_800_000_000
"""2026-05-01T02:00:00Z."""

Positions = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def fleet(vehicles: int, minutes: int, seed: int = 0) -> Positions:
    """Return ids, times and places of vehicles that drive to a centre, out again, and round about; a row a minute."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(0.3, 2 * np.pi + 0.3, 8)[:-1]
    hubs = np.concatenate([[[0.0, 0.0]], np.stack([np.cos(angle), np.sin(angle)], 1) * rng.uniform(4e3, 9e3, (7, 1))])
    share = np.array([0.44, *[0.08] * 7])
    at, heart = (hubs[rng.choice(8, vehicles)] + rng.normal(0, 1_500, (vehicles, 2)) for _ in range(2))
    pace = rng.uniform(5, 14, vehicles)
    rows = []
    for _ in range(minutes):
        gap = heart - at
        far = np.linalg.norm(gap, axis=1)
        done = far < 60 * pace
        heart[done] = hubs[rng.choice(8, int(done.sum()), p=share)] + rng.normal(0, 1_200, (int(done.sum()), 2))
        at = at + gap / np.maximum(far, 1)[:, None] * np.minimum(far, 60 * pace)[:, None]
        rows.append(_TOWN + at / _DEGREE)
    ids = np.tile(np.arange(vehicles), minutes)
    t = _BEGIN + np.repeat(np.arange(minutes) * MINUTE, vehicles) + np.tile(rng.integers(0, MINUTE, vehicles), minutes)
    return ids, t, np.concatenate(rows)


def a_day(path: str) -> Positions:
    """Return ids, times and places of the day of a file that has the most rows."""
    table = pq.read_table(path, columns=["uid", "t", "lon", "lat"])
    us = table["t"].cast(pa.timestamp("us")).cast(pa.int64())
    day = pc.floor(pc.divide(pc.cast(us, pa.float64()), 86_400e6))
    counts = day.value_counts()
    fullest = max(counts.to_pylist(), key=lambda one: one["counts"])["values"]
    rows = pc.equal(day, fullest)
    kept = table.filter(rows)
    places = np.stack([kept["lon"].to_numpy(), kept["lat"].to_numpy()], 1)
    return kept["uid"].cast(pa.int64()).to_numpy(), us.filter(rows).to_numpy(), places


def batches(positions: Positions, minutes: int) -> Iterator[WindowRows]:
    """Yield rows in batches of so many minutes."""
    ids, t, places = positions
    number = (t - t.min()) // (minutes * MINUTE)
    order = np.argsort(number, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        column = pa.array(ids[rows])
        yield WindowRows(column, t[rows], places[rows], bucket_of(column))


def delayed(parts: list[WindowRows], seed: int = 0) -> list[WindowRows]:
    """Return batches of which a hundredth of the rows come with the next one: those of its last minutes still count."""
    rng, after, late = np.random.default_rng(seed), [], None
    for rows in parts:
        last = rows.t >= rows.t.max() - 8 * MINUTE
        slow = rng.random(len(rows.t)) < np.where(last, 0.1, 0.002)
        came = rows.take(np.flatnonzero(~slow))
        after.append(came if late is None else joined(came, late))
        late = rows.take(np.flatnonzero(slow))
    return after


def joined(one: WindowRows, other: WindowRows) -> WindowRows:
    """Return rows of two batches as one."""
    ids = pa.concat_arrays([one.ids, other.ids])
    return WindowRows(ids, np.append(one.t, other.t), np.concatenate([one.positions, other.positions]), bucket_of(ids))


def begin(store: str, index: dtoss.Index) -> tuple[Home, FixedSpec]:
    """Return windows by the partitions of an index."""
    home, tables = Home(store, "fleet"), of_regions(index.partitioning)
    digest = keys_from(index.space, tables).digest
    fixed = FixedSpec(spec_of(LENGTHS, "1min", MEASURES, "partition", index.space, digest), write_keys(home, tables))
    fix(home, fixed)
    return home, fixed


def commit(windows: tuple[Home, FixedSpec], rows: WindowRows, number: int) -> int:
    """Return the number of the commit of a batch."""
    source = Source(files={f"{number:06}": len(rows.t)})
    plan = plan_batch(*windows, ("int64", "timestamp"), source, Options(max_bad=1.0), LATE, 2)
    assert plan is not None
    return run_batch(plan, rows).number


def main() -> None:
    """Measure, and print a line; or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("positions", nargs="?")
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--picture")
    given = parser.parse_args()
    positions = a_day(given.positions) if given.positions else fleet(1_200, 240)
    drawn = np.random.default_rng(1).choice(len(positions[0]), min(100_000, len(positions[0])), replace=False)
    index = dtoss.build(np.arange(len(drawn)), positions[2][drawn], partitions=PARTITIONS, progress=False)
    parts = list(batches(positions, given.minutes))
    parts = delayed(parts) if given.picture else parts
    width, height = map(int, given.size.split("x"))
    first, rest = parts[: -given.frames], parts[-given.frames :]
    with tempfile.TemporaryDirectory() as store, running(index, store=store) as server, browser() as driver:
        windows = begin(store, index)
        for number, rows in enumerate(first):
            commit(windows, rows, number)
        lon, lat = np.median(positions[2], axis=0).tolist()
        target = f"/#at={lon:.4f},{lat:.4f}&zoom=11&view=flat&without=objects&measure=objects&length=15min&flows=25"
        url = "http://{}:{}".format(*server.at)
        if given.picture:
            for number, rows in enumerate(rest, len(first)):
                commit(windows, rows, number)
            region = int(index.partitioning.nearest(index.space.vectors(np.array([[lon, lat]])))[0])
            draw(driver, url, f"{target}&region={region}", given.picture, width, height)
        else:
            print(measured(driver, url, target, windows, rest, len(first), width, height))


def measured(
    driver: Any,
    url: str,
    target: str,
    windows: tuple[Home, FixedSpec],
    rest: list[WindowRows],
    number: int,
    width: int,
    height: int,
) -> str:
    """Return a line of what was measured."""
    took = []
    with opened(driver, url, target, width=width, height=height, checked=False) as seen:
        seen.page.set_default_timeout(SLOW_MS)
        seen.page.locator("#stage[data-windows-batch]").wait_for(state="attached")
        for rows in rest:
            batch = commit(windows, rows, number)
            number, began = number + 1, time.time()
            shown = f"() => Number(document.querySelector('#stage').dataset.windowsBatch) >= {batch}"
            seen.page.wait_for_function(shown)
            took.append(float(seen.page.locator("#stage").get_attribute("data-windows-drawn")) / 1e3 - began)
            seen.page.wait_for_timeout(100 + 37 * (number % 11))
    took.sort()
    said = (
        f"median {statistics.median(took):.2f} s, 95% {took[int(0.95 * (len(took) - 1))]:.2f} s, most {took[-1]:.2f} s"
    )
    return f"{len(took)} frames of {width}x{height} on {platform.machine()}: {said}; goal <= {GOAL_SECONDS:g} s"


def draw(driver: Any, url: str, target: str, path: str, width: int, height: int) -> None:
    """Write a picture of the page with one region open."""
    with opened(driver, url, target, width=width, height=height, checked=False) as seen:
        seen.page.set_default_timeout(SLOW_MS)
        seen.page.locator("#stage[data-windows-batch]").wait_for(state="attached")
        seen.page.locator(".series").wait_for()
        seen.page.locator("#windows").evaluate("section => section.scrollIntoView({ block: 'start' })")
        seen.page.locator("#stage[data-idle]").wait_for(state="attached")
        seen.page.wait_for_timeout(2_000)
        seen.page.screenshot(path=path, timeout=SLOW_MS)


if __name__ == "__main__":
    main()
