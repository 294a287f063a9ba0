"""What keeping everything costs: `python -m bench.history.appending`.

Parts: ``core`` (100,000 rows by `dtoss.history.append`, committed), ``cycles`` (cycles of a million taxis with a
history and without one, in turns in one warm session), ``open`` (a history of a thousand million rows, of which only
the tables are real: opening it, planning a question, memory).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.cycling import cycling
from bench.measuring.updates import reporting, reports, world
from datasets.tables.command import run, say
from dtoss.geometry.space import space_of
from dtoss.history.append_frame import append
from dtoss.history.data_file import NewFile, write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, commit
from dtoss.history.layouts.rows_in_parts import source_of
from dtoss.history.layouts.write_layout import MAKERS, Sizes
from dtoss.history.row_blocks import BY_PLACE, BY_TIME, ORDER_NAMES, rows_of, sorted_rows
from dtoss.history.schema import Schema
from dtoss.history.versions import Home

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE_ROWS = 8_000_000
"""Of the period that is real; the others have its tables, each a day later."""


def made(rows: int, cabs: int, begin: datetime, seconds: float, seed: int = 0) -> pa.Table:
    """Return reports of cabs around a city, at random moments."""
    rng = np.random.default_rng(seed)
    at = begin.timestamp() * 1e6 + rng.uniform(0.0, seconds * 1e6, rows)
    position = rng.normal([-122.4, 37.75], [0.05, 0.04], (rows, 2)).round(5)
    columns = {
        "id": pa.array(rng.integers(0, cabs, rows)),
        "t": pa.array(at.astype(np.int64), pa.timestamp("us", "UTC")),
    }
    return pa.table({**columns, "x": position[:, 0], "y": position[:, 1]})


def core(turns: int) -> None:
    """Append 100,000 rows again and again."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for turn in range(turns + 1):
            rows = made(100_000, 5_000, BEGIN + timedelta(minutes=turn), 60.0, turn)
            clock = time.perf_counter()
            append(rows, f"{folder}/h", batch=str(turn), crs="EPSG:4326")
            seconds.append(time.perf_counter() - clock)
    say(
        f"append of 100,000 rows, committed: median {median(seconds[1:]) * 1e3:.0f} ms, "
        f"worst {max(seconds[1:]) * 1e3:.0f} ms of {turns}"
    )


def cycles(turns: int) -> None:
    """Say what cycles use with a history and without one, in turns."""
    cars = world()
    rng = np.random.default_rng(1)
    with cycling(cars.rows, 8) as running:
        for share in (0.01, 0.1, 1.0):
            spent: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(2 * turns + 2):
                newer = reports(rng, running.rows, reporting(rng, len(running.rows), share), 1)
                with_history = turn % 2 == 1
                history = str(running.folder / "history") if with_history else None
                cost = running.cycle(newer, history=history)
                if turn >= 2:
                    spent[with_history].append(cost.processor)
            least = [min(spent[kind]) for kind in (False, True)]
            middle = [median(spent[kind]) for kind in (False, True)]
            say(
                f"{share:.0%} report: {least[0]:.2f} s of processor time without, {least[1]:.2f} with a history: "
                f"{least[1] / least[0]:.2f} (of medians {middle[1] / middle[0]:.2f})"
            )


def grow(place: str, rows: int) -> None:
    """Make a history of so many rows of which only one period has real files."""
    schema = Schema(space_of(), "int64", "timestamp", {})
    home = Home(place)
    table = made(TEMPLATE_ROWS, 50_000, BEGIN, 86_400.0)
    given = sorted_rows(rows_of(table.append_column("deleted", pa.repeat(False, len(table))), schema), "time")
    first = write_file(home.folder, BY_TIME, [(given, None)], schema)
    entry = Entry("0", "given", "", -1, first.rows, first.sum)
    version = commit(home, Change("append", ((first, -1),), (), (), (NewPeriod(0),), (entry,), schema), None)
    source = source_of(home, version, version.periods.number)
    placed = MAKERS[BY_PLACE](source, Sizes(500_000.0))
    for day in range(1, rows // TEMPLATE_ROWS):
        files = [_later(home, file, day) for file in (first, *placed)]
        entry = Entry(str(day), "given", "", -1, first.rows, first.sum)
        change = Change("append", tuple((file, -1) for file in files), (), (), (NewPeriod(0),), (entry,), schema)
        version = commit(home, change, version)


def _later(home: Home, file: NewFile, day: int) -> NewFile:
    """Return the tables of a file as of another day; there is no such file but in name."""
    name = f"{ORDER_NAMES[file.order]}/{day:08x}{file.name.split('/')[1][8:]}"
    path = Path(home.folder.path(name))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    shift = day * 86_400_000_000
    blocks = replace(file.blocks, t_from=file.blocks.t_from + shift, t_to=file.blocks.t_to + shift)
    return replace(file, name=name, blocks=blocks)


def look(place: str) -> None:
    """Open a history and plan questions, in a process of its own: what each takes, and memory."""
    from dtoss.history.query.block_queries import BlockQueries, spans_of
    from dtoss.history.query.read_plan import plan

    before = _resident()
    clock = time.perf_counter()
    version = Home(place).version()
    opened = time.perf_counter() - clock
    rows = int(version.periods.rows.sum())
    say(f"{rows:,} rows, {len(version.leaves.count):,} leaves: open {opened * 1e3:.1f} ms")
    middle = BEGIN + timedelta(days=len(version.periods.number) // 2)
    centre = version.schema.space.vectors(np.array([[-122.4, 37.75]]))
    for name, (first, last, chord) in {
        "incident": (middle, middle + timedelta(hours=1), 500.0 / 6_371_008.8),
        "place": (None, None, 150.0 / 6_371_008.8),
        "day": (middle, middle + timedelta(days=1), 400.0 / 6_371_008.8),
        "replay": (middle, middle + timedelta(minutes=10), None),
    }.items():
        spans = spans_of((first, last), version.schema, 1)
        asked = (
            BlockQueries(spans)
            if chord is None
            else BlockQueries(spans, centre, np.array([chord]), np.zeros(1, np.int64))
        )
        seconds = []
        for _ in range(6):
            clock = time.perf_counter()
            planned = plan(version, asked)
            seconds.append(time.perf_counter() - clock)
        say(
            f"  plan of {name}: first {seconds[0] * 1e3:.1f} ms, then {median(seconds[1:]) * 1e3:.2f} ms; "
            f"{len(planned.chosen):,} blocks"
        )
    say(f"  memory {(_resident() - before) / 1024:.0f} MiB more, mapped tables included")


def _resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def main(
    parts: Annotated[str, typer.Option(help="What to measure: core, cycles, open.")] = "core,cycles,open",
    turns: Annotated[int, typer.Option(help="Of each.")] = 20,
    rows: Annotated[int, typer.Option(help="Of the history that is opened.")] = 1_000_000_000,
    opened: Annotated[str | None, typer.Option(help="Open this one, and nothing else.", hidden=True)] = None,
) -> None:
    """Measure appends, cycles with a history, and opening."""
    if opened is not None:
        look(opened)
        return
    wanted = parts.split(",")
    if "core" in wanted:
        core(turns)
    if "cycles" in wanted:
        cycles(max(turns // 4, 3))
    if "open" in wanted:
        with tempfile.TemporaryDirectory() as folder:
            grow(f"{folder}/h", rows)
            subprocess.run([sys.executable, "-m", "bench.history.appending", "--opened", f"{folder}/h"], check=True)


if __name__ == "__main__":
    run(main)
