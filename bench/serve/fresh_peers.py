"""Moving objects told and asked at the same time: a fresh server beside Redis GEO and PostGIS, the same rows at a rate.

    python -m bench.serve.fresh_peers [--objects N] [--rates ROWS ...] [--places PLACES ...] [--seconds S]
        [--only NAME ...]

One process tells each of them rows at a rate, in batches of a fiftieth of a second, each acknowledged when it is on the
disk (Redis: append-only file, ``appendfsync always``; PostGIS: a transaction a batch, ``fsync`` on). Another one asks
for the 8 nearest, 50 or 1,000 places a request (a dispatcher's open orders), one request after the other. Both are this
program, on the cores that the server has too, so rates are low for all; beside them stands what the server's processes
used. Exact: of 200 places that are
asked at the end, when nothing moves, how many have the distances of brute force within a centimetre.

Needs redis-server and the client ``redis``, or PostGIS and ``psycopg``; what is missing is left out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dtoss
from bench.measuring.machine import processor_seconds
from bench.peers.agreeing import Missing
from bench.peers.servers import postgis_server, redis_server
from bench.serve.requests import pinned, serve_command
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import space_of

Floats = NDArray[np.float64]
K = 8
PLACES = 50
"""Places of a request where it is asked what is right."""
BATCHES = 50
"""Batches of rows a second."""
T0 = 1_790_000_000


@dataclass(frozen=True)
class Contender:
    """A server that takes rows and answers; both functions are called in a process of their own, after ``connect``."""

    name: str
    pid: int
    connect: Callable[[], Any]
    put: Callable[[Any, NDArray[np.int64], Floats, int], None]  # connection, ids, lon and lat, second
    knn: Callable[[Any, Floats], list[list[float]]]  # connection, places; the distances of each in metres
    settle: Callable[[Any], None] = lambda connection: None  # Waits until all that was told is seen


def city(rng: np.random.Generator, count: int) -> Floats:
    """Return places in 50 towns of some kilometres, (n, 2)."""
    towns = np.column_stack([rng.uniform(-10, 30, 50), rng.uniform(36, 60, 50)])
    return towns[rng.integers(0, 50, count)] + rng.normal(0, 0.05, (count, 2))


# -- contenders -------------------------------------------------------------------------------------------------------


@contextmanager
def fresh(places: Floats, folder: Path, options: tuple[str, ...] = ()) -> Iterator[Contender]:
    """Our server, of one worker, with its builder."""
    store, updates = folder / "store", folder / "updates"
    updates.mkdir()
    rows = {"id": np.arange(len(places)), "lon": places[:, 0], "lat": places[:, 1], "t": np.full(len(places), T0)}
    dtoss.build(pa.table(rows), partitions=16).save(store, time="t")
    command = serve_command(str(store), "--updates", str(updates), "--allow-positions", *options)
    with pinned(command, r"on (http://[0-9.:]+)", cores=None) as (server, url):

        def put(index: Any, ids: NDArray[np.int64], at: Floats, second: int) -> None:
            index.put({"id": ids, "lon": at[:, 0], "lat": at[:, 1], "t": np.full(len(ids), T0 + second)})

        def knn(index: Any, at: Floats) -> list[list[float]]:
            found: list[list[float]] = np.asarray(index.knn(at, K).distance).reshape(-1, K).tolist()
            return found

        def settle(index: Any) -> None:
            one = {"id": [len(places)], "lon": [0.0], "lat": [0.0], "t": [T0]}
            index.at_least(index.put(one).seq).knn([0.0, 0.0])

        yield Contender("dtoss", server.pid, lambda: dtoss.connect(url), put, knn, settle)


@contextmanager
def redis(places: Floats, folder: Path) -> Iterator[Contender]:
    """Redis GEO, whose file is synced with each batch; it has no kNN, so a radius that half find 8 in doubles."""
    from redis import Redis

    with redis_server(folder, "--appendonly", "yes", "--appendfsync", "always") as (client, version):
        port = client.connection_pool.connection_kwargs["port"]
        pid = client.info("server")["process_id"]

        def connect() -> Any:
            return Redis(host="127.0.0.1", port=port, socket_timeout=600.0)

        def put(one: Any, ids: NDArray[np.int64], at: Floats, second: int) -> None:
            parts = [part for i, (lon, lat) in zip(ids.tolist(), at.tolist(), strict=True) for part in (lon, lat, i)]
            one.execute_command("GEOADD", "o", *parts)

        def search(one: Any, at: Floats, radius: float) -> list[list[float]]:
            pipe = one.pipeline(transaction=False)
            for lon, lat in at.tolist():
                place, within = ("FROMLONLAT", lon, lat), ("BYRADIUS", radius, "m")
                pipe.execute_command("GEOSEARCH", "o", *place, *within, "ASC", "COUNT", K, "WITHDIST")
            return [[float(hit[1]) * EARTH_RADIUS / 6_372_797.560856 for hit in hits] for hits in pipe.execute()]

        def knn(one: Any, at: Floats) -> list[list[float]]:
            found = search(one, at, first)
            radius, left = first * 2, [i for i, hits in enumerate(found) if len(hits) < K]
            while left:
                for i, hits in zip(left, search(one, at[left], radius), strict=True):
                    found[i] = hits
                left, radius = [i for i in left if len(found[i]) < K], radius * 2
            return found

        for first_row in range(0, len(places), 5_000):
            some = places[first_row : first_row + 5_000]
            put(client, np.arange(first_row, first_row + len(some)), some, 0)
        first = 1.0
        while np.median([len(hits) for hits in search(client, places[:200], first)]) < K:
            first *= 1.5
        yield Contender(f"Redis {version} GEO", pid, connect, put, knn)


@contextmanager
def postgis(places: Floats, folder: Path) -> Iterator[Contender]:
    """PostGIS geography on the sphere, with an index; a batch is one INSERT that replaces what stands."""
    import psycopg

    with postgis_server(folder, fsync=True) as (base, where, pid):
        base.execute("CREATE TABLE objects (id int PRIMARY KEY, at geography)")
        base.execute("CREATE INDEX ON objects USING gist (at)")

        def put(one: Any, ids: NDArray[np.int64], at: Floats, second: int) -> None:
            one.execute(
                "INSERT INTO objects SELECT id, ST_Point(lon, lat, 4326)::geography FROM "
                "unnest(%s::int[], %s::float8[], %s::float8[]) AS r(id, lon, lat) "
                "ON CONFLICT (id) DO UPDATE SET at = excluded.at",
                (ids.tolist(), at[:, 0].tolist(), at[:, 1].tolist()),
            )

        def knn(one: Any, at: Floats) -> list[list[float]]:
            rows = one.execute(
                "SELECT q.n, near.d FROM unnest(%s::int[], %s::float8[], %s::float8[]) AS q(n, lon, lat) "
                "CROSS JOIN LATERAL (SELECT ST_Distance(objects.at, ST_Point(q.lon, q.lat, 4326)::geography, false) "
                "AS d FROM objects "
                f"ORDER BY objects.at <-> ST_Point(q.lon, q.lat, 4326)::geography LIMIT {K}) near",
                (list(range(len(at))), at[:, 0].tolist(), at[:, 1].tolist()),
            ).fetchall()
            found: list[list[float]] = [[] for _ in at]
            for n, d in rows:
                found[n].append(d)
            return found

        for first in range(0, len(places), 10_000):
            some = places[first : first + 10_000]
            put(base, np.arange(first, first + len(some)), some, 0)
        base.execute("VACUUM ANALYZE objects")
        version = base.execute("SELECT postgis_lib_version()").fetchone()[0]
        yield Contender(f"PostGIS {version}", pid, lambda: psycopg.connect(where, autocommit=True), put, knn)


CONTENDERS = {"dtoss": fresh, "redis": redis, "postgis": postgis}

# -- what is measured -------------------------------------------------------------------------------------------------


def tell(one: Contender, places: Floats, rate: int, seconds: float, begin: int, said: Any) -> None:
    """Tell rows at a rate, and say how many were taken, the seconds of each batch, and where all objects are then.

    ``begin``: the moment of the first batch, later than those of all before.
    """
    connection, rng, at = one.connect(), np.random.default_rng(begin), places.copy()
    many, took, order = max(rate // BATCHES, 1), [], rng.permutation(len(places))
    pause = many / rate
    begun, batch = time.perf_counter(), 0
    while (due := begun + batch * pause) - begun < seconds:
        time.sleep(max(due - time.perf_counter(), 0.0))
        if time.perf_counter() - begun > seconds + 5.0:
            break  # it does not keep up
        ids = np.sort(np.take(order, np.arange(batch * many, (batch + 1) * many), mode="wrap"))
        at[ids] += rng.normal(0, 0.002, (many, 2))
        start = time.perf_counter()
        one.put(connection, ids, at[ids], begin + batch)
        took.append(time.perf_counter() - start)
        batch += 1
    said.send((batch * many, time.perf_counter() - begun, took, at))


def ask(one: Contender, places: Floats, many: int, seconds: float, seed: int, said: Any) -> None:
    """Ask one request of so many places after the other, and say the seconds of each."""
    connection, rng, took = one.connect(), np.random.default_rng(seed), []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        one.knn(connection, places[rng.integers(0, len(places), many)] + rng.normal(0, 0.001, (many, 2)))
        took.append(time.perf_counter() - start)
    said.send(took)


def right(one: Contender, at: Floats) -> list[int]:
    """Return of how many of 200 places all distances are those of brute force, within a centimetre and a metre."""
    connection, rng = one.connect(), np.random.default_rng(9)
    one.settle(connection)
    space = space_of()
    places = at[rng.integers(0, len(at), 200)] + rng.normal(0, 0.001, (200, 2))
    vectors, asked = space.vectors(at), space.vectors(places)
    found_right = [0, 0]
    for first in range(0, 200, PLACES):
        some = slice(first, first + PLACES)
        for vector, found in zip(asked[some], one.knn(connection, places[some]), strict=True):
            chords = np.sqrt(np.sort(((vectors - vector) ** 2).sum(axis=1))[:K])
            wanted = 2 * EARTH_RADIUS * np.arcsin(chords / 2)
            off = np.abs(np.sort(found) - wanted).max() if len(found) == K else np.inf
            found_right = [many + bool(off < bound) for many, bound in zip(found_right, (0.01, 1.0), strict=True)]
    return found_right


def measure(one: Contender, places: Floats, rate: int, many: int, seconds: float, begin: int) -> tuple[str, Floats]:
    """Return a row of the table, and where all objects are then.

    ``many``: places of a request. ``begin``: the moment of the first batch.
    """
    before = processor_seconds(one.pid)
    ends = [multiprocessing.Pipe(duplex=False) for _ in range(2)]
    works = [
        multiprocessing.get_context("fork").Process(target=tell, args=(one, places, rate, seconds, begin, ends[0][1])),
        multiprocessing.get_context("fork").Process(target=ask, args=(one, places, many, seconds, 2, ends[1][1])),
    ]
    for work in works:
        work.start()
    rows, wall, told, at = ends[0][0].recv()
    asked = ends[1][0].recv()
    for work in works:
        work.join()
    used = processor_seconds(one.pid) - before
    ms = [np.percentile(one_of, 99) * 1e3 for one_of in (told, asked)]
    per_second = len(asked) * many / seconds
    return (
        f"| {one.name} | {rate:,} | {rows / wall:,.0f} | {ms[0]:.1f} | {many:,} | {per_second:,.0f} | {ms[1]:.1f} | "
        f"{used / wall:.2f} | {' | '.join(map(str, right(one, at)))} |"
    ), at


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--rates", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--places", type=int, nargs="+", default=[50, 1_000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    given = parser.parse_args()
    places = city(np.random.default_rng(0), given.objects)
    print(
        "| server | rows/s wanted | rows/s taken | p99 ms of a batch | places | kNN/s | p99 ms of a request | "
        "cores used | right to 1 cm, of 200 | to 1 m |\n"
        "|---|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            Path(folder).chmod(0o755)
            try:
                one = stack.enter_context(CONTENDERS[name](places, Path(folder)))
            except (Missing, ImportError) as error:
                print(f"| {name} | {error} |", flush=True)
                continue
            at = places
            for number, (many, rate) in enumerate(product(given.places, given.rates)):
                row, at = measure(one, at, rate, many, given.seconds, 1 + 1_000_000 * number)
                print(row, flush=True)


if __name__ == "__main__":
    main()
