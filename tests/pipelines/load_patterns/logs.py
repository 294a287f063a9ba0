"""Stores with an access log of several servers, made without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ceps
import dtoss
from dtoss.commits.lease import LEASE_SECONDS, Writer
from dtoss.snapshots.store import Store
from pipelines.load_patterns.live_patterns import Following, LivePatterns
from pipelines.load_patterns.patterns_folder import Home
from pipelines.rows.access_rows import Asks
from tests.dtoss.snapshots.damaged_stores import stored

OBJECTS = 1_500
FIRST = 1_774_483_200  # Thursday 2026-03-26 00:00 UTC: the clocks of Berlin go forward on Sunday
DAYS = 5
NOW = datetime(2026, 5, 1, tzinfo=UTC)
ASKS = Asks(weight="weight", k="k", radius="radius")


@dataclass(frozen=True)
class World:
    """A store, its objects and requests."""

    store: str
    table: pa.Table
    rows: pa.Table
    manifest: dict[str, Any]

    @property
    def log(self):
        return Path(self.store) / "accesses"


def objects(seed=3):
    """Places in clusters, of both hemispheres and beside the antimeridian."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform((-180, -70), (180, 70), (9, 2))
    places = centres[rng.integers(0, 9, OBJECTS)] + rng.normal(0, 3, (OBJECTS, 2))
    return np.stack([(places[:, 0] + 180.0) % 360.0 - 180.0, places[:, 1]], axis=1)


def requests_of(places, count, seed=5, days=DAYS):
    """Rows of a log in the order of time: places near objects, half with a k, a third with a radius."""
    rng = np.random.default_rng(seed)
    at = np.clip(places[rng.integers(0, len(places), count)] + rng.normal(0, 2, (count, 2)), (-180, -90), (180, 90))
    t = np.sort(FIRST * 1_000_000 + rng.integers(0, days * 86_400_000_000, count))
    return pa.table(
        {
            "t": pa.array(t, pa.timestamp("us", "UTC")),
            "lon": at[:, 0],
            "lat": at[:, 1],
            "k": pa.array(rng.integers(1, 30, count).astype(np.int32), mask=rng.random(count) < 0.5),
            "radius": pa.array(rng.uniform(0, 3e5, count), mask=rng.random(count) < 0.7),
            "weight": pa.array(rng.integers(1, 40, count)),
        }
    )


def world_in(path, partitions=9, count=700, seed=5):
    """A world of a new store."""
    places = objects()
    store = stored(dtoss.build(np.arange(OBJECTS), places, partitions=partitions), path)
    table = pa.table({"lon": places[:, 0], "lat": places[:, 1]})
    return World(str(store), table, requests_of(places, count, seed), Store(str(store)).manifest())


def other_pivots(store, partitions=5):
    """Make another snapshot current, with other pivots or the same ones."""
    stored(dtoss.build(np.arange(OBJECTS), objects(), partitions=partitions), store)


def flushes(rows, rng, servers=3, files=24):
    """{name: rows}: what servers write of their shares of requests, cut where it happens to be."""
    whose = rng.integers(0, servers, len(rows))
    found = {}
    for server in range(servers):
        mine = rows.filter(pa.array(whose == server))
        cuts = np.sort(rng.integers(0, len(mine) + 1, files // servers - 1))
        for number, part in enumerate(np.split(np.arange(len(mine)), cuts)):
            if len(part):
                some = mine.take(pa.array(part))
                begin = some["t"][0].as_py()
                slot = (begin.hour * 60 + begin.minute) // 5
                found[f"{begin:%Y-%m-%d}/{slot:03d}-s{server}-0-{number}.parquet"] = some
    return found


def write(log, files):
    """Write files of a log; returns their names."""
    for name, rows in files.items():
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, log / name, compression="zstd")
    return list(files)


def following(world, out, asks=ASKS, name="live", *, patient=False, warn=None, say=None, log=None, idle=LEASE_SECONDS):
    """What a run of the command does."""
    warned = warn or (lambda message: None)
    live = LivePatterns(Home(world.store, name, idle), asks, log, patient, warned)
    return Following(live, str(out), 0.10, say or (lambda look, counted: None))


def patterns_bytes(world, out, asks=ASKS, name="live", **options):
    """The bytes of the patterns file after a run."""
    following(world, out, asks, name).once(**options)
    return Path(out).read_bytes()


def in_one_go(world, out, asks=ASKS):
    """The bytes of the file of live patterns that begin now."""
    return patterns_bytes(world, out, asks, f"other-{Path(out).stem}")


def loads(out):
    return ceps.read_patterns(out, week=False)


def nobodys(home):
    """Remove a lease as if its process were gone: a killed one's is taken over, this one's is its own."""
    (Path(home.folder.root) / "LEASE").unlink(missing_ok=True)


def leaseless(home):
    """A right to write that keeps nobody out."""
    from dtoss.commits.lease import without_lease

    home.folder.make()
    found: Writer = without_lease(home.folder, home.name)
    return found
