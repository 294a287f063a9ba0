"""Fences on the hot places of the demo's first city: what they are told while taxis move for some minutes."""

import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dtoss
from datasets.cities.taxis import Fleet, Ints, where
from datasets.fleet import START

__all__ = ["at", "fences"]

RANK = "rank"
"""The fence round the place that the demo asks about."""
RADIUS = 150.0
"""Metres of a fence."""
MINUTES = 4
"""Of the taxis' time, a file each."""
MINUTE = 60.0
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
    told = [_told(event) for event, _ in zip(later, range(SHOWN), strict=False)]
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


def _told(event: dict[str, Any]) -> str:
    far = "" if event["distance"] is None else f" at {event['distance']:.0f} m"
    verb = {"enter": "came", "leave": "left"}[event["kind"]]
    return f"{event['t']:%H:%M} taxi {event['object']} {verb}{far}"
