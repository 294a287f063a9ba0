"""The whole thing in two minutes: a million taxis, an index of them, answers, a picture, the hour before, and fences.

`python -m datasets.demo` writes into ./demo; `make demo` sets everything up first.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import dtoss
from datasets.cities.taxis import Fleet, Ints, make_fleet, where
from datasets.fleet import SCHEMA, START, fleet_at
from datasets.tables.command import BadInput, run, say
from datasets.tables.seeded_batches import write_parquet
from dtoss.export.targets import check_folder
from dtoss.geometry.distance import distance

RANK = "rank"
"""The fence round the place that the demo asks about."""
RADIUS = 150.0
"""Metres of a fence."""
MINUTES = 4
"""Of the taxis' time, a file each."""
SHOWN = 3
"""Events that are printed."""


def fences(fleet: Fleet, uid: Ints, place: tuple[float, float], begin: float, out: Path) -> list[tuple[str, str]]:
    """Return what fences in the first city are told by the taxis there, as rows of a table.

    Parameters
    ----------
    fleet
        All taxis.
    uid
        Those of the city.
    place
        Longitude and latitude of the fence that is shown; others lie round the city's hotspots.
    begin
        Seconds into the day of the fleet.
    out
        The folder with the store; fences and files that arrive are left there.
    """
    from dtoss.watch.events.event_counts import event_counts
    from dtoss.watch.subscriptions.changes import subscribe
    from dtoss.watch.subscriptions.subscription_files import read_files
    from dtoss.watch.watch_folder import Home
    from pipelines.watch import watch_files

    store, asked, arriving = out / "store", out / "fences.jsonl", out / "arriving"
    home = Home(str(store))
    shutil.rmtree(home.path, ignore_errors=True)
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.mkdir()
    city = fleet.cities[0]
    centres = [(RANK, *place), *((f"{city} {n + 1}", *at) for n, at in enumerate(_hotspots(fleet)))]
    lines = [
        {"id": name, "circle": [round(lon, 5), round(lat, 5), RADIUS], "where": "occupied = 0",
         "events": ["enter", "leave"], "meta": {"city": city}}
        for name, lon, lat in centres
    ]  # fmt: skip
    asked.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for minute in range(MINUTES):
        pq.write_table(pa.table(at(fleet, uid, begin + minute * MINUTE)), arriving / f"{minute:02}.parquet")

    changed = subscribe(home, read_files([str(asked)]).table)
    began = time.perf_counter()
    done = watch_files(str(arriving), str(store), lambda: None, once=True, max_ahead=None, most_rows=len(uid))
    spent = time.perf_counter() - began
    counts = event_counts(home)
    rank = counts.get(RANK, {})
    busiest = max(counts, key=lambda name: sum(counts[name].values()), default=RANK)
    later = (event for event in dtoss.events(str(store), subscription=RANK) if event["batch"] > 1)
    told = [_event_line(event) for event, _ in zip(later, range(SHOWN), strict=False)]
    return [
        ("asked", f"{changed.added} fences: tell when a free taxi enters or leaves {RADIUS:.0f} m of a hot place"),
        ("watched", f"{done.rows:,} rows in {done.batches} batches, {done.events:,} events, {spent:.1f} s"),
        (f"the {RANK} above", f"{rank.get('enter', 0):,} enter, {rank.get('leave', 0):,} leave"),
        ("its first", "; ".join(told) or "nobody came or went"),
        ("busiest", f"{busiest}: {sum(counts.get(busiest, {}).values()):,} events"),
    ]


def at(fleet: Fleet, uid: Ints, seconds: float) -> dict[str, Any]:
    """Return where some taxis are at a moment, as columns.

    Parameters
    ----------
    fleet
        All taxis.
    uid
        Some of them.
    seconds
        Into the day of the fleet.
    """
    state = where(fleet, uid, np.full(len(uid), seconds))
    moment = datetime.fromtimestamp(START.timestamp() + seconds, UTC).replace(tzinfo=None)
    t = pa.array(np.full(len(uid), np.datetime64(moment, "us"))).cast(pa.timestamp("us", "UTC"))
    return {"id": uid, "t": t, "lon": state.lon, "lat": state.lat, "occupied": state.occupied}


def _hotspots(fleet: Fleet) -> list[tuple[float, float]]:
    return list(zip(fleet.lon[0].tolist(), fleet.lat[0].tolist(), strict=True))


def _event_line(event: dict[str, Any]) -> str:
    far = "" if event["distance"] is None else f" at {event['distance']:.0f} m"
    verb = {"enter": "came", "leave": "left"}[event["kind"]]
    return f"{event['t']:%H:%M} taxi {event['object']} {verb}{far}"


MOMENT = 3600.0
"""Seconds into the day of the fleet."""
SAMPLE = 100_000
"""Taxis that ask for their neighbours in the join."""
ALONE = 10_000
"""Questions that are asked one at a time."""
TOWN = 15_000.0
"""Metres round a city's middle, whose taxis have a history."""
MINUTE = 60.0
PASSING = 100.0
"""Metres within which a taxi passes a place."""
MEASURES = "rows,objects,here,flow,speed"
"""Of the windows over that hour."""


def main(
    out: Annotated[Path, typer.Option(help="Folder for everything that is made.")] = Path("demo"),
    objects: Annotated[int, typer.Option(help="Number of taxis.")] = 1_000_000,
    cities: Annotated[int, typer.Option(help="The world's largest cities, so many.")] = 100,
    partitions: Annotated[int, typer.Option(help="Partitions of the index.")] = 128,
) -> None:
    """Make a fleet, build an index of it, ask it, draw its partitions, and watch fences in its first city."""
    from datasets.demo_picture import draw_partitions
    from dtoss.rows.input_columns import Columns
    from pipelines.engines.progress import Stages
    from pipelines.rebuild import rebuild, summary
    from pipelines.rows.read_files import read_positions

    if objects < 1:
        raise BadInput(f"objects is {objects}: give 1 or more")
    check_folder("--out", str(out))
    out.mkdir(parents=True, exist_ok=True)
    positions, store = out / "fleet.parquet", out / "store"
    fleet = make_fleet(objects, cities)
    say(f"{objects:,} taxis in the world's {cities} largest cities")
    write_parquet(_shown(fleet_at(fleet, MOMENT), objects), SCHEMA, positions)
    _write_places(fleet, out / "places.csv")

    say("rebuild: positions in, a snapshot out")
    read = read_positions(None, [str(positions)], Columns())
    manifest = rebuild(read, str(store), partitions=partitions, stages=Stages(shown=True))
    _table("the index", summary(manifest))

    index = dtoss.open(str(store))
    _table("answers in process", _answers(index, fleet))
    _table("a join of files", _join(positions, store))

    picture = out / "partitions.png"
    draw_partitions(index, positions, picture, near=fleet)
    say(f"the partitions are drawn in {picture}")

    say("the hour before, minute by minute: a history of the first city")
    uid = np.sort(index.range([float(fleet.lon[0, 0]), float(fleet.lat[0, 0])], TOWN).id)
    rows, taxi = _hour(fleet, uid, out / "history", out / "hour")
    _table("the hour before", rows)

    say("fences on its hot places, and the minutes after: questions that stay")
    _table("standing questions", fences(fleet, uid, _place(fleet), MOMENT, out))
    _say_next(out, fleet, objects, cities, taxi, partitions)


def _shown(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches, with a bar on stderr where that is a terminal."""
    columns = (TextColumn("{task.description:<10}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task("generate", total=rows)
        for batch in batches:
            yield batch
            bar.advance(line, batch.num_rows)


def _write_places(fleet: Fleet, path: Path) -> None:
    """Write the middle of every city, as queries for a join."""
    rows = [
        f'"{name}",{lon:.5f},{lat:.5f}'
        for name, lon, lat in zip(fleet.cities, fleet.lon[:, 0].tolist(), fleet.lat[:, 0].tolist(), strict=True)
    ]
    path.write_text("\n".join(["id,lon,lat", *rows]) + "\n", encoding="utf-8")


def _place(fleet: Fleet) -> tuple[float, float]:
    """Return a place in the first city, some streets away from its middle, where many taxis stand on one rank."""
    return float(fleet.lon[0, 0]) + 0.004, float(fleet.lat[0, 0]) + 0.003


def _answers(index: dtoss.Index, fleet: Fleet) -> list[tuple[str, str]]:
    name, here = fleet.cities[0], [_place(fleet)]
    hits = index.knn(here, 5)
    nearest = ", ".join(f"{i} at {d:.0f} m" for _, i, d in hits)
    first = int(hits.id[0])
    rng = np.random.default_rng(0)
    spot = rng.integers(0, fleet.lon.size, 200_000)
    places = np.stack([fleet.lon.ravel()[spot], fleet.lat.ravel()[spot]], axis=1) + rng.normal(0, 0.01, (len(spot), 2))
    # the first question and the first batch load compiled kernels, and each partition is opened once
    index.knn(places, 1)
    index.knn(places[:1], 8)
    began = time.perf_counter()
    for place in places[:ALONE]:
        index.knn(place, 8)
    alone = (time.perf_counter() - began) / ALONE
    began = time.perf_counter()
    many = index.knn(places, 8)
    batch = time.perf_counter() - began
    return [
        (f"5 nearest in {name}", nearest),
        ("within 1 km", f"{int(index.count(here, 1000.0)[0]):,} taxis"),
        (
            f"taxi {first}",
            f"the nearest to all places on {index.area(first):,.0f} m²; {len(index.neighbours(first))} neighbours",
        ),
        ("one at a time, k = 8", f"{alone * 1e6:,.0f} µs each, {ALONE:,} asked"),
        (f"{len(places):,} at once, k = 8", f"{len(places) / batch:,.0f} a second, {len(many):,} hits"),
    ]


def _join(positions: Path, store: Path) -> list[tuple[str, str]]:
    from pipelines.local_joins.file_join import join_file

    with tempfile.TemporaryDirectory(dir=store.parent) as folder:
        asking, near, crowd = (str(Path(folder, f"{name}.parquet")) for name in ("asking", "near", "crowd"))
        pq.write_table(pq.read_table(positions, columns=["id", "lon", "lat"], filters=[("id", "<", SAMPLE)]), asking)
        began = time.perf_counter()
        join_file(asking, str(store), near, k=1, exclude_self=True)
        spent = time.perf_counter() - began
        far = pq.read_table(near, columns=["distance"]).column(0).to_numpy()
        join_file(asking, str(store), crowd, radius=100.0, exclude_self=True)
        others = pq.read_metadata(crowd).num_rows
    some = f"median {np.median(far):,.1f} m, furthest {far.max():,.0f} m" if len(far) else "none"
    return [
        (f"nearest other taxi of {len(far):,}", some),
        ("others within 100 m", f"{others / max(len(far), 1):,.1f} on average"),
        ("seconds", f"{spent:.1f} for the first"),
    ]


def _hour(fleet: Fleet, uid: Ints, home: Path, hour: Path) -> tuple[list[tuple[str, str]], int]:
    """Return what was where in the hour before, of the taxis of the first city, and the taxi that it is about.

    The rows are left in ``hour``, a file a minute.
    """
    from dtoss.history.layouts.compaction import settle
    from dtoss.history.versions import Home

    shutil.rmtree(home, ignore_errors=True)
    began = time.perf_counter()
    moments = np.arange(0.0, MOMENT + 1.0, MINUTE)
    hour.mkdir(exist_ok=True)
    for number, seconds in enumerate(moments):
        rows = at(fleet, uid, seconds)
        pq.write_table(pa.table(rows), hour / f"{number:02}.parquet")
        dtoss.history.append(rows, str(home), batch=f"{seconds:.0f} s")
    appended = time.perf_counter() - began
    settle(Home(str(home)), orders=("time", "place", "object"), period_bytes=1.0)
    past = dtoss.history.open(str(home))
    here, half = [_place(fleet)], START + timedelta(seconds=MOMENT / 2)
    began = time.perf_counter()
    passed = past.range(here, PASSING)
    asked = time.perf_counter() - began
    taxi = int(passed.id[0]) if len(passed) else int(uid[0])
    track = past.trajectory(taxi)
    vectors = past.space.vectors(track.positions)
    driven = float(distance(vectors[1:], vectors[:-1]).sum())
    return [
        ("kept", f"{len(past):,} rows of {len(uid):,} taxis in {len(moments)} batches, {appended:.1f} s"),
        (
            f"within {PASSING:.0f} m of one place",
            f"{len(passed):,} rows of {len(np.unique(passed.id)):,} taxis in that hour, {asked * 1e3:.0f} ms",
        ),
        (f"where taxi {taxi} was", f"{len(track)} places, {driven / 1e3:.1f} km in straight lines"),
        (f"as it stood at {half:%H:%M}", f"{len(past.at(half, max_age=2 * MINUTE)):,} taxis"),
    ], taxi


def _table(title: str, rows: list[tuple[str, str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(f"  {name}", text)
    console = Console(highlight=False)
    Console(highlight=False, width=console.width if console.is_terminal else 140).print(table)


def _say_next(out: Path, fleet: Fleet, objects: int, cities: int, taxi: int, partitions: int) -> None:
    store, (lon, lat) = out / "store", _place(fleet)
    later, past = out / "fleet-later.parquet", out / "history"
    half = START + timedelta(seconds=MOMENT / 2)
    print(
        f"""
Try next:
  . .venv/bin/activate
  dtoss knn   --store {store} --at {lon:.4f} {lat:.4f} -k 8
  dtoss range --store {store} --at {lon:.4f} {lat:.4f} --radius 300
  dtoss knn   --store {store} --queries {out / "places.csv"} --out {out / "answers.csv"} -k 3
  python -m datasets.fleet --taxis {objects} --cities {cities} --at {MOMENT + 300:g} --out {later}
  dtoss rebuild {later} --store {store} --pivots keep --partitions {partitions}
  dtoss info  --store {store}
  dtoss history range --history {past} --at {lon:.4f} {lat:.4f} --radius {PASSING:g}m --between {half:%FT%T} - --limit 5
  dtoss history trajectory --history {past} --id {taxi} --line {out / "taxi.parquet"}
  dtoss rebuild --history {past} --as-of {half:%FT%T} --store {out / "half-past"}
  dtoss subscriptions --store {store}
  dtoss events --store {store} --subscription {RANK} --kind enter
  dtoss subscribe {out / "fences.jsonl"} --store {store} --watch what-if
  dtoss watch {out / "arriving"} --store {store} --watch what-if --once
  dtoss windows run {out / "hour"} --store {store} --name hour --lengths 5min,15min,1h --measures {MEASURES} --once
  dtoss windows show --store {store} --name hour --window 1h --top 5
  dtoss serve --store {store} &
  curl 'http://127.0.0.1:8080/knn?lon={lon:.4f}&lat={lat:.4f}&k=3'

The map of them all, of the fences and of the windows, while dtoss serve runs: http://127.0.0.1:8080/"""
    )


if __name__ == "__main__":
    run(main)
