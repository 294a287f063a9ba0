"""Questions to a history beside DuckDB: `python -m bench.history.asking`.

Cabspotting (``--data`` or DTOSS_DATA says where): 8.3 M rows. DuckDB reads the same rows from five layouts of Parquet,
with one thread and its cache of footers; the history has all three orders. Both read warm files of this machine, all
answers are held equal, and what counts is processor time of the process.

Parts: ``questions`` (four kinds, and trajectories), ``rounds`` (how many rounds and blocks the nearest take).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from bench.history.kept import BAY, HOTSPOTS, METRES, SPREAD, cab_rows, kept
from bench.measuring.points import DATA
from datasets.tables.command import run, say
from dtoss.geometry.hilbert import curve_keys
from dtoss.history.layouts.compaction import settle
from dtoss.history.query.history import History
from dtoss.history.versions import Home

KINDS = ("incident", "place", "day", "replay", "trajectory")
EAST = METRES * float(np.cos(np.radians(37.7)))
"""Metres of a degree of longitude in San Francisco."""
EVERYWHERE = (-180.0, -90.0, 180.0, 90.0)


@dataclass(frozen=True)
class Question:
    """A box in lon, lat and two times, both included, or a cab and a day."""

    box: tuple[float, float, float, float]
    first: datetime
    last: datetime
    cab: int | None = None


def asked(kind: str, rows: pa.Table, count: int, seed: int = 11) -> list[Question]:
    """Return questions of a kind at the hotspots, as the layouts are compared on, and at random moments of the data."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    t = rows.column("t")
    begin, end = (pc.min_max(t)[name].as_py().replace(tzinfo=UTC) for name in ("min", "max"))
    cabs = pc.unique(rows.column("id")).to_numpy()
    spots = np.array(list(HOTSPOTS.values()))
    found = []
    for _ in range(count):
        lon, lat = (spots[rng.integers(len(spots))] + rng.normal(0.0, SPREAD, 2) / (EAST, METRES)).tolist()
        moment = begin + (end - begin) * float(rng.uniform())
        midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        half, first, last = {
            "incident": (500.0, moment, moment + timedelta(hours=1)),
            "place": (150.0, begin, end),
            "day": (400.0, midnight, midnight + timedelta(days=1)),
            "replay": (0.0, moment, moment + timedelta(minutes=10)),
            "trajectory": (0.0, midnight, midnight + timedelta(days=1)),
        }[kind]
        box = (lon - half / EAST, lat - half / METRES, lon + half / EAST, lat + half / METRES)
        cab = int(rng.choice(cabs)) if kind == "trajectory" else None
        found.append(Question(box if half else EVERYWHERE, first, last, cab))
    return found


def layouts(rows: pa.Table, folder: Path) -> dict[str, str]:
    """Write the same rows in the layouts that people use and return a pattern of the files of each."""
    t = pc.cast(pc.cast(rows.column("t"), pa.timestamp("s")), pa.int64()).to_numpy()
    xy = np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1)
    key = curve_keys(np.ascontiguousarray((xy - BAY[:2]) / (BAY[2] - BAY[0], BAY[3] - BAY[1])))
    plain = rows.drop_columns(["deleted"])

    def whole(name: str, order: NDArray[np.int64], group: int) -> str:
        (folder / name).mkdir(parents=True)
        pq.write_table(plain.take(pa.array(order)), folder / name / "all.parquet", row_group_size=group)
        return f"{folder}/{name}/*.parquet"

    def cut(name: str, part: NDArray[np.int64], within: NDArray[Any], group: int) -> str:
        (folder / name).mkdir(parents=True)
        order = np.lexsort((within, part))
        firsts = np.flatnonzero(np.diff(part[order], prepend=part[order[0]] - 1))
        for number, mine in enumerate(np.split(order, firsts[1:])):
            pq.write_table(plain.take(pa.array(mine)), folder / name / f"{number:05d}.parquet", row_group_size=group)
        return f"{folder}/{name}/*.parquet"

    ids = rows.column("id").to_numpy()
    return {
        "hours": cut("hours", t // 3600, t, 122_880),
        "by time, 8,192 a group": whole("time", np.argsort(t, kind="stable"), 8_192),
        "Hilbert, 122,880 a group": whole("curve", np.argsort(key, kind="stable"), 122_880),
        "day and Hilbert, 16,384 a group": cut("days", t // 86_400, key, 16_384),
        "by cab and time, 8,192 a group": whole("cabs", np.lexsort((t, ids)), 8_192),
    }


def ours(history: History, question: Question) -> Callable[[], Any]:
    """Return what asks a history."""
    between = (question.first, question.last)
    if question.cab is not None:
        return lambda: history.trajectory(question.cab, between=between)
    return lambda: history.box(question.box, between=between)


def theirs(connection: Any, pattern: str, question: Question) -> Callable[[], Any]:
    """Return what asks DuckDB about files."""
    west, south, east, north = question.box
    conditions = [f"t BETWEEN TIMESTAMP '{_text(question.first)}' AND TIMESTAMP '{_text(question.last)}'"]
    if question.cab is not None:
        conditions.append(f"id = {question.cab}")
    elif question.box != EVERYWHERE:
        conditions.append(f"x BETWEEN {west!r} AND {east!r} AND y BETWEEN {south!r} AND {north!r}")
    text = f"SELECT id, t, x, y FROM read_parquet('{pattern}') WHERE {' AND '.join(conditions)}"
    return lambda: connection.sql(text).to_arrow_table()


def _text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(sep=" ")


def spent(work: Callable[[], Any], turns: int) -> tuple[float, float, Any]:
    """Return the least processor time and time by the clock of some turns, after one that is not counted."""
    answer = work()
    cpu, wall = [], []
    for _ in range(turns):
        begin = process_time(), perf_counter()
        work()
        cpu.append(process_time() - begin[0])
        wall.append(perf_counter() - begin[1])
    return min(cpu), min(wall), answer


def questions(history: History, rows: pa.Table, folder: Path, count: int, turns: int) -> None:
    """Ask both, hold their answers equal, and say what each kind of question took."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET parquet_metadata_cache = true; SET TimeZone = 'UTC'")
    patterns = layouts(rows, folder)
    for kind in KINDS:
        took: dict[str, list[float]] = {name: [] for name in ("ours", *patterns)}
        walls: dict[str, list[float]] = {name: [] for name in took}
        hits = []
        for question in asked(kind, rows, count):
            cpu, wall, answer = spent(ours(history, question), turns)
            took["ours"].append(cpu)
            walls["ours"].append(wall)
            found = sorted(zip(answer.id.tolist(), _seconds(answer.columns["t"]), strict=True))
            hits.append(len(found))
            for name, pattern in patterns.items():
                cpu, wall, table = spent(theirs(connection, pattern, question), turns)
                took[name].append(cpu)
                walls[name].append(wall)
                others = sorted(zip(table.column("id").to_pylist(), _seconds(table.column("t")), strict=True))
                assert others == found, (kind, name, question, len(others), len(found))
        best = min(patterns, key=lambda name: float(np.median(took[name])))
        ratios = np.array(took["ours"]) / np.minimum.reduce([took[name] for name in patterns])
        say(
            f"{kind}: {count} questions, {int(np.median(hits)):,} hits in the median. Ours over DuckDB's best layout "
            f"of each question: median {np.median(ratios):.2f}, worst {ratios.max():.2f}; best for the kind: {best}"
        )
        for name, values in took.items():
            say(
                f"  {name}: {np.median(values) * 1e3:.1f} ms of processor time, worst {max(values) * 1e3:.1f}; "
                f"by the clock {np.median(walls[name]) * 1e3:.1f}"
            )


def _seconds(times: Any) -> list[int]:
    return [int(value) for value in pc.cast(pc.cast(times, pa.timestamp("s")), pa.int64()).to_pylist()]


def rounds(history: History, rows: pa.Table, count: int) -> None:
    """Say how many rounds the nearest take, and how many blocks for each that is needed."""
    rng = np.random.default_rng(5)
    near = rng.choice(len(rows), count)
    beside = np.stack([rows.column(name).take(pa.array(near)).to_numpy() for name in ("x", "y")], axis=1)
    beside += rng.normal(0.0, 0.002, beside.shape)
    anywhere = rng.uniform(BAY[:2], BAY[2:], (count, 2))
    moments = pc.take(rows.column("t"), pa.array(near)).to_pylist()
    hour = [(one.replace(tzinfo=UTC), one.replace(tzinfo=UTC) + timedelta(hours=1)) for one in moments]
    for name, places, k, more in (
        ("beside rows, k = 8, all times", beside, 8, {}),
        ("beside rows, k = 8, an hour", beside, 8, {"between": hour}),
        ("beside rows, k = 8 rows, an hour", beside, 8, {"between": hour, "per": "row"}),
        ("anywhere in the Bay, k = 8, an hour", anywhere, 8, {"between": hour}),
        ("beside rows, k = 100, an hour", beside, 100, {"between": hour}),
        ("beside rows, k = 8 rows, all times, 1 cab in 100", beside, 8, {"where": "id % 100 = 7", "per": "row"}),
        (
            "beside rows, k = 8 rows, an hour, 1 cab in 100",
            beside,
            8,
            {"between": hour, "where": "id % 100 = 7", "per": "row"},
        ),
        ("beside rows, k = 8, all times, 1 cab in 20", beside, 8, {"where": "id % 20 = 7"}),
        ("beside rows, k = 8, an hour, 1 cab in 20", beside, 8, {"between": hour, "where": "id % 20 = 7"}),
    ):
        taken, shares, worst = [], [], 0.0
        for row, place in enumerate(places):
            said = dict(more)
            if "between" in said:
                said["between"] = hour[row]
            clock = perf_counter()
            facts = history.explain("knn", place, k, **said)
            worst = max(worst, perf_counter() - clock)
            taken += facts["rounds"]
            shares.append((facts["read"]["blocks"], facts["needed"]))
        read, needed = np.array(shares).sum(axis=0)
        say(
            f"{name}: rounds mean {np.mean(taken):.2f}, at most {max(taken)}; "
            f"{read / max(needed, 1):.2f} blocks read for each that is needed ({read / count:.1f} a question); "
            f"worst {worst * 1e3:.0f} ms"
        )


def main(
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = DATA,
    parts: Annotated[str, typer.Option(help="What to measure: questions, rounds.")] = "questions,rounds",
    count: Annotated[int, typer.Option(help="Questions of each kind.")] = 40,
    batches: Annotated[int, typer.Option(help="That the rows come in; 1 leaves nothing unsettled.")] = 18,
    turns: Annotated[int, typer.Option(help="Of each question; the least counts.")] = 3,
) -> None:
    """Measure questions."""
    rows, schema = cab_rows(data)
    rows = rows.filter(pc.is_valid(rows.column("x")))
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(f"{folder}/h")
        kept(home, rows, schema, batches=batches, placed=False)
        settle(home, orders=["time", "place", "object"])
        history = History(home, home.version())
        if "questions" in parts.split(","):
            questions(history, rows, Path(folder) / "theirs", count, turns)
        if "rounds" in parts.split(","):
            rounds(history, rows, count * 5)


if __name__ == "__main__":
    run(main)
