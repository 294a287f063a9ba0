"""Streams of made rows, and of subscriptions that come, change and go, for the loop and for the watch."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscription import BOX, CIRCLE, DWELL, ENTER, EVERYWHERE, LEAVE, POLYGON, SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.changes import subscribe, unsubscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.watch_folder import EVENTS, Home
from dtoss.watch.watch_settings import Rows, Settings
from tests.dtoss.watch.watch_batch import run_batch

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
NOW = BEGIN + 10**15
ATTRIBUTES = {"occupied": pa.int64(), "kind": pa.string()}
SPHERE = space_of()
PLACES = [
    (0.0, 0.0),
    (0.01, 0.0),
    (0.02, 0.01),
    (180.0, 0.0),
    (-180.0, 0.01),
    (179.99, 0.02),
    (10.0, 90.0),
    (0.0, 89.99),
]
WHERES = [
    None, None, None, None, "occupied = 0", "kind = 'taxi' and occupied > 0", "occupied is null or id = 3",
    "speed > 1000", "speed is null or speed < 500",
]  # fmt: skip


def settings_of(space=SPHERE, ids="int64", messages=False, text=None):
    """The settings of made streams."""
    return Settings(space, ids, "timestamp", text, messages, ATTRIBUTES)


def asked(id, kind=CIRCLE, **more):
    """A subscription as a row of the table."""
    return dict.fromkeys(SUBSCRIPTION_SCHEMA.names) | {"id": id, "kind": kind, "events": 7} | more


def circle(id, lon, lat, radius, **more):
    """A subscription of a circle."""
    return asked(id, CIRCLE, x=lon, y=lat, radius=radius, **more)


def table_of(subscriptions):
    """Subscriptions as a table."""
    return pa.Table.from_pylist(subscriptions, schema=SUBSCRIPTION_SCHEMA)


def random_asked(rng, id, crosses=False, stays=True):
    """A subscription of any kind near the places, of which every third is of stays."""
    made = _random_asked(rng, id, crosses)
    own = np.random.default_rng(zlib.crc32(repr(made).encode()))
    if not stays or not made["events"] & (ENTER | LEAVE) or own.random() < 0.6:
        return made
    said = {}
    if own.random() < 0.6:
        said["dwell"] = {"seconds": float(own.choice([1, 5, 20, 60]))}
        made["events"] |= DWELL
    if own.random() < 0.7 or not said:
        margin = {"metres": float(own.choice([300.0, 1500.0, 5000.0])), "seconds": float(own.choice([3, 10, 40]))}
        which = ["seconds"] if made["kind"] == EVERYWHERE else [["metres"], ["seconds"], list(margin)][own.integers(3)]
        said["margin"] = {name: margin[name] for name in which}
    return made | {"stay": json.dumps(said)}


def _random_asked(rng, id, crosses):
    lon, lat = PLACES[rng.integers(len(PLACES))]
    more = {
        "where": WHERES[rng.integers(len(WHERES))],
        "events": int(rng.integers(1, 16 if crosses else 8)),
        "expires": None if rng.random() < 0.7 else BEGIN + int(rng.integers(0, 120)) * SECOND,
        "meta": None if rng.random() < 0.5 else json.dumps({"of": id}),
    }
    kind = rng.choice([EVERYWHERE, CIRCLE, CIRCLE, BOX, POLYGON])
    if kind == EVERYWHERE:
        more["events"] = more["events"] & 7 or 1
    if kind == CIRCLE:
        return circle(id, lon, lat, float(rng.choice([0.0, 600.0, 1200.0, 3000.0, 1e7, 2.1e7])), **more)
    if kind == BOX:
        west, east = float(np.clip(lon - 0.01, -180, 180)), float(np.clip(lon + 0.01, -180, 180))
        if abs(lon) > 179:
            west, east = 179.99, -179.99
        south, north = float(np.clip(lat - 0.01, -90, 90)), float(np.clip(lat + 0.01, -90, 90))
        return asked(id, BOX, west=west, south=south, east=east, north=north, **more)
    if kind == POLYGON:
        lat = min(lat, 89.0)
        corners = [[lon - 0.02, lat - 0.02], [lon + 0.02, lat - 0.02], [lon, lat + 0.02]]
        corners = [[(x + 180) % 360 - 180, y] for x, y in corners]
        shape = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
        return asked(id, POLYGON, polygon=json.dumps(shape), **more)
    return asked(id, EVERYWHERE, **more)


def random_pairs(rng, id):
    """A subscription to pairs with conditions of one side, of both or of none."""
    near = {"metres": float(rng.choice([1.0, 1200.0, 3000.0, 2.1e7]))}
    if rng.random() < 0.5:
        near["where"] = str(rng.choice([where for where in WHERES if where]))
    where = WHERES[rng.integers(len(WHERES))]
    events = int(rng.choice([ENTER | LEAVE, ENTER | LEAVE, ENTER, LEAVE]))
    return asked(id, EVERYWHERE, events=events, where=where, stay=json.dumps({"near": near}))


def random_rows(rng, count, objects=4, seconds=60):
    """Rows of a few objects near the places, some at one moment, some late, some twice."""
    rows = []
    for _ in range(count):
        lon, lat = PLACES[rng.integers(len(PLACES))]
        rows.append(
            {
                "id": int(rng.integers(objects)),
                "t": BEGIN + int(rng.integers(seconds)) * SECOND,
                "x": lon,
                "y": lat,
                "attributes": {
                    "occupied": [0, 1, None][rng.integers(3)],
                    "kind": ["taxi", "bus", None][rng.integers(3)],
                },
            }
        )
        if rng.random() < 0.1:
            rows.append(dict(rows[-1]))
    return rows


def rows_of(rows, ids="int64"):
    """Rows as the watch takes them."""
    kind = pa.int64() if ids == "int64" else pa.string()
    names = [row["id"] for row in rows]
    return Rows(
        np.array([[row["x"], row["y"]] for row in rows], np.float64).reshape(-1, 2),
        pa.array(names if ids == "int64" else [None if name is None else str(name) for name in names], kind),
        np.array([row["t"] for row in rows], np.int64),
        pa.array([row.get("text") for row in rows], pa.string()) if any("text" in row for row in rows) else None,
        {name: pa.array([row["attributes"].get(name) for row in rows], kind) for name, kind in ATTRIBUTES.items()},
    )


def told(home, number):
    """The events of a commit as (kind, subscription, version, object, t, reason), in their order."""
    out = []
    for file in home.batches.read(number).document["events"]:
        table = pq.read_table(pa.BufferReader(home.folder.read(EVENTS, file["name"])))
        assert len(table) == file["rows"]
        for row in table.to_pylist():
            assert row["batch"] == number
            out.append((row["kind"], row["subscription"], row["version"], row["object"], row["t"], row["reason"]))
    return out


def change(home, add=(), remove=()):
    """Change what stands."""
    if add:
        subscribe(home, table_of(list(add)))
    if remove:
        unsubscribe(home, list(remove))


def stands(home):
    """What stands now, and the number of the change."""
    number = change_number(home)
    return number, table_at(home, number).to_pylist()


def run(home, settings, rows, tasks=1, source=None, ids="int64", **options):
    """Run a batch of the watch."""
    plan = plan_batch(home, settings, source or Source(files={"f": len(rows)}), Options(**options), NOW)
    return None if plan is None else run_batch(plan, rows_of(rows, ids), tasks)


__all__ = ["Home", "asked", "change", "circle", "random_asked", "random_rows", "run", "settings_of", "stands", "told"]
