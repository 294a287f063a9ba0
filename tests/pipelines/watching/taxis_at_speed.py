"""Real taxis, faster than they drove, through ``dtoss watch``: every event is held to a plain account.

``python -m tests.pipelines.watching.taxis_at_speed`` lets hours of a day of 500 taxis of San Francisco arrive a hundred
times as fast, against 100,000 fences that ask for free ones (a part of check-data). It prints rows/s, how long batches
take, and how old a row is when its events are committed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer

from datasets.tables.command import run, say
from dtoss.watch.events.event_log import events
from dtoss.watch.events.watch_tables import verify_watch
from dtoss.watch.watch_folder import Home
from tests.data import real_set
from tests.dtoss.watch.real.held_real import World, compared
from tests.dtoss.watch.real.plain import Fence, told, track_of
from tests.dtoss.watch.real.worlds import beside, rows_of

ROOT = Path(__file__).parents[3]
BEGIN_US = 1_211_673_600_000_000
"""Midnight of 2008-05-25, UTC: five in the afternoon there."""
HOUR_US = 3_600_000_000
FREE = ("occupied = 0", lambda columns: columns["occupied"] == 0)
QUIET_SECONDS = 900.0
"""After the last file, until all are taken to be read."""


def day(hours: float) -> pa.Table:
    """The rows of some hours, by time."""
    table = pq.read_table(real_set("cabspotting_sf"), columns=["uid", "t", "lon", "lat", "occupied"])
    t = table.column("t").cast(pa.int64())
    some = pc.and_(pc.greater_equal(t, BEGIN_US), pc.less(t, round(BEGIN_US + hours * HOUR_US)))
    return table.filter(some).sort_by([("t", "ascending"), ("uid", "ascending")])


def fences_in(table: pa.Table, count: int) -> list[Fence]:
    """Circles of 10 to 60 m beside where taxis were."""
    rng = np.random.default_rng(0)
    lon, lat = table.column("lon").to_numpy(), table.column("lat").to_numpy()
    found = []
    for number, row in enumerate(rng.integers(0, len(table), count).tolist()):
        radius = float(np.exp(rng.uniform(np.log(10.0), np.log(60.0))))
        x, y = beside(lon[row], lat[row], rng.uniform(0, 2 * np.pi, 1), 0.7 * radius)[0].tolist()
        found.append(Fence(f"f{number}", circle=(x, y, radius), where=FREE, events=("enter", "leave")))
    return found


def arrived(incoming: Path, watch: subprocess.Popen[str], source: Path, speed: float, every: str) -> None:
    """Let files arrive, each when its time comes."""
    command = [sys.executable, "-m", "datasets.replay", str(source), "--to", str(incoming)]
    subprocess.run([*command, "--speed", str(speed), "--every", every], cwd=ROOT, check=True)
    assert watch.poll() is None, "the watch has ended"


def read_of(home: Home) -> list[tuple[int, str, list[str]]]:
    """Commits that have read files: the number, when it was made, and which they are."""
    found: list[tuple[int, str, list[str]]] = []
    known: set[str] = set()
    head = home.batches.head()
    for number in range(1, (0 if head is None else head.number) + 1):
        commit = home.batches.read(number)
        fresh = sorted(set(commit.document["ledger"]["files"]) - known)
        known |= set(fresh)
        if fresh:
            found.append((number, commit.time, fresh))
    return found


def held(home: Home, fences: list[Fence]) -> tuple[int, int]:
    """Hold all that was told to the plain account over the files that each commit has read."""
    batches = read_of(home)
    table = [pq.read_table(file) for _, _, files in batches for file in files]
    ends = np.cumsum([sum(pq.read_metadata(file).num_rows for file in files) for _, _, files in batches]).tolist()
    rows = rows_of(pa.concat_tables(table), ["occupied"])
    place = {number: at for at, (number, _, _) in enumerate(batches)}
    found: list[Any] = [[] for _ in batches]
    for some in events(home):
        for number in pc.unique(some.column("batch")).to_pylist():
            found[place[number]].append(some.filter(pc.equal(some.column("batch"), number)))
    track = track_of(rows, ends)
    wanted = told(fences, rows, track)
    world = World("taxis at speed", rows, fences, {"occupied": pa.int8()})
    tables = [pa.concat_tables(parts) if parts else None for parts in found]
    total, _ = compared(world, wanted, tables, track, dict.fromkeys(range(len(fences)), 1))
    return total, len(wanted.unsure)


def main(
    hours: Annotated[float, typer.Option(help="Of the taxis' time.")] = 24.0,
    speed: Annotated[float, typer.Option(help="Seconds of the taxis' time in a second.")] = 100.0,
    fences: Annotated[int, typer.Option(help="How many.")] = 100_000,
    every: Annotated[str, typer.Option(help="From file to file, and from batch to batch.")] = "2s",
) -> None:
    """Watch taxis at speed, and hold what is told to a plain account."""
    table = day(hours)
    asked = fences_in(table, fences)
    with tempfile.TemporaryDirectory() as scratch:
        source, incoming, store = (Path(scratch) / name for name in ("day.parquet", "in", "store"))
        pq.write_table(table, source)
        incoming.mkdir()
        lines = Path(scratch) / "fences.jsonl"
        lines.write_text("".join(json.dumps(fence.record()) + "\n" for fence in asked))
        dtoss = [sys.executable, "-m", "dtoss"]
        subprocess.run([*dtoss, "subscribe", str(lines), "--store", str(store)], cwd=ROOT, check=True)
        with (Path(scratch) / "told").open("w") as out:
            watch = subprocess.Popen(
                [*dtoss, "watch", str(incoming), "--store", str(store), "--every", every, "--id", "uid",
                 "--columns", "occupied", "--json"],
                cwd=ROOT, stdout=out, text=True, start_new_session=True,
            )  # fmt: skip
            try:
                arrived(incoming, watch, source, speed, every)
                files, last = sorted(map(str, incoming.glob("*.parquet"))), time.monotonic()
                home = Home(str(store))
                while sum(len(one) for _, _, one in read_of(home)) < len(files):
                    assert time.monotonic() - last < QUIET_SECONDS, "files are not read"
                    assert watch.poll() is None, "the watch has ended"
                    time.sleep(1.0)
                watch.send_signal(signal.SIGTERM)
                assert watch.wait(120) == 0
            finally:
                if watch.poll() is None:
                    watch.kill()
                    watch.wait()
        assert verify_watch(home).damaged == []
        say(_figures(home, Path(scratch) / "told", table))
        total, unsure = held(home, asked)
        say(f"taxis at speed: {total:,} events, none differs, {unsure} pairs of a taxi and a fence are unsure")


def _figures(home: Home, lines: Path, table: pa.Table) -> str:
    """How fast it was."""
    told_ = [json.loads(line) for line in lines.read_text().splitlines()]
    some = [one for one in told_ if one["rows"]]
    seconds = np.array([one["seconds"] for one in some])
    rows = sum(one["rows"] for one in some)
    ages = [
        datetime.fromisoformat(when).timestamp() - Path(file).stat().st_mtime
        for _, when, files in read_of(home) for file in files
    ]  # fmt: skip
    assert rows == len(table)
    return (
        f"taxis at speed: {rows:,} rows in {len(some)} batches, {rows / seconds.sum():,.0f} rows/s of a batch's time; "
        f"a batch takes {np.quantile(seconds, 0.5):.1f} s, 99 % of them {np.quantile(seconds, 0.99):.1f} s; a file is "
        f"committed {np.quantile(ages, 0.5):.1f} s after it came, 99 % within {np.quantile(ages, 0.99):.1f} s"
    )


if __name__ == "__main__":
    run(main)
