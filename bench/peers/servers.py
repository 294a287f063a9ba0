"""PostGIS and Redis GEO: servers of our own on loopback, in scratch folders, on free ports."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring.machine import processor_seconds
from bench.measuring.points import Points
from bench.measuring.race import timed
from bench.peers.agreeing import Floats, Missing, Pairs, Peer, as_pairs, pieces
from dtoss.geometry.distance import EARTH_RADIUS

REDIS_RADIUS = 6_372_797.560856
"""Metres: the Earth of Redis, which is larger than the mean sphere."""
PATIENCE = 30.0
"""Seconds that a server may take to start."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def served(command: list[str], ready: Callable[[], Any], *, user: str | None = None) -> Iterator[Any]:
    """Run a server until it is no longer needed; yields what `ready` returned once it no longer raised."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user) as server:
        try:
            yield _until(ready, server)
        finally:
            server.terminate()


def _until(ready: Callable[[], Any], server: subprocess.Popen[bytes]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ready()
        except Exception:  # every client has errors of its own for a server that is not up yet
            if server.poll() is not None:
                raise Missing(f"its server ended with exit code {server.returncode}") from None
            if time.monotonic() > end:
                raise Missing(f"its server did not answer within {PATIENCE:g} seconds") from None
            time.sleep(0.1)


def program_at(name: str, *folders: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


@contextmanager
def postgis_server(folder: Path, *, fsync: bool = False) -> Iterator[tuple[Any, str, int]]:
    """A PostGIS of our own: a connection, where others connect, and its process.

    Raises
    ------
    Missing
        If it or its client is not installed, or does not start.
    """
    try:
        import psycopg
    except ImportError as error:
        raise Missing(f"{error.name} cannot be imported") from None
    homes = sorted((str(one) for one in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    postgres, initdb = program_at("postgres", *homes), program_at("initdb", *homes)
    # it does not run as root
    user = None
    if os.geteuid() == 0:
        user = "postgres"
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise Missing("it does not run as root, and there is no user postgres") from None
        shutil.chown(folder, user)
        for above in folder.parents:
            if not above.stat().st_mode & 0o001:
                raise Missing(f"user postgres cannot reach {above}")
    port, data = free_port(), folder / "data"
    make = [initdb, "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
    settings = {
        "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
        "fsync": "on" if fsync else "off", "jit": "off",
        "shared_buffers": "1GB", "work_mem": "256MB", "maintenance_work_mem": "1GB", "max_wal_size": "8GB",
    }  # fmt: skip
    command = [
        postgres,
        "-D",
        str(data),
        *(part for key, value in settings.items() for part in ("-c", f"{key}={value}")),
    ]
    where = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    with served(command, lambda: psycopg.connect(where, autocommit=True), user=user) as base, base:
        try:
            base.execute("CREATE EXTENSION postgis")
        except psycopg.Error as error:
            raise Missing(str(error).splitlines()[0]) from None
        yield base, where, int((data / "postmaster.pid").read_text().split()[0])


@contextmanager
def postgis(at: Points, folder: Path) -> Iterator[Peer]:
    """PostGIS: geography on the sphere, kNN by LATERAL and `<->`, ranges by ST_DWithin without the spheroid."""
    with postgis_server(folder) as (base, _, _):
        version = base.execute("SELECT postgis_lib_version()").fetchone()[0]
        build_seconds, _ = timed(lambda: _load(base, "objects", at.objects, indexed=True), processor_seconds)

        def joined(places: Floats, sql: str) -> Pairs:
            _load(base, "queries", places)
            found = np.array(base.execute(sql).fetchall(), dtype=np.int64).reshape(-1, 2)
            return as_pairs(found[:, 0], found[:, 1])

        def knn(places: Floats, k: int) -> Pairs:
            near = f"SELECT id FROM objects ORDER BY at <-> queries.at LIMIT {k}"
            return joined(places, f"SELECT queries.id, near.id FROM queries CROSS JOIN LATERAL ({near}) near")

        def within(places: Floats, radius: float) -> Pairs:
            inside = f"ST_DWithin(objects.at, queries.at, {radius!r}, false)"
            return joined(places, f"SELECT queries.id, objects.id FROM queries JOIN objects ON {inside}")

        counts = {"k=8": 5_000, "10 hits": 10_000, "1000 hits": 1_000}
        yield Peer(f"PostGIS {version}, geography", build_seconds, knn, within, counts)


def _load(base: Any, name: str, places: Floats, indexed: bool = False) -> None:
    base.execute(f"DROP TABLE IF EXISTS {name}, raw")
    base.execute("CREATE UNLOGGED TABLE raw (id int, lon float8, lat float8)")
    with base.cursor() as cursor, cursor.copy("COPY raw FROM STDIN") as copy:
        for rows in pieces(len(places), 10_000):
            some = zip(rows, places[rows.start : rows.stop].tolist(), strict=True)
            copy.write("".join(f"{i}\t{lon!r}\t{lat!r}\n" for i, (lon, lat) in some))
    base.execute(f"CREATE UNLOGGED TABLE {name} AS SELECT id, ST_Point(lon, lat, 4326)::geography AS at FROM raw")
    if indexed:
        base.execute(f"CREATE INDEX ON {name} USING gist (at)")
    base.execute(f"ANALYZE {name}")


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[tuple[Any, str]]:
    """A Redis of our own: its client and its version.

    Raises
    ------
    Missing
        If redis-server or its client is not installed, or does not start.
    """
    try:
        from redis import Redis
    except ImportError as error:
        raise Missing(f"{error.name} cannot be imported") from None
    program, port = program_at("redis-server"), free_port()
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(folder), *options]

    def ready() -> Any:
        client = Redis(host="127.0.0.1", port=port, socket_timeout=600.0)
        client.ping()
        return client

    with served(command, ready) as client:
        yield client, client.info("server")["redis_version"]


@contextmanager
def redis(at: Points, folder: Path) -> Iterator[Peer]:
    """Redis GEO: GEOADD and GEOSEARCH in pipelines; it has no kNN, so the radius doubles until k objects come."""
    with redis_server(folder) as (client, version):
        build_seconds, _ = timed(lambda: _add(client, at.objects), processor_seconds)

        def search(places: Floats, rows: np.ndarray, radius: float, count: int | None) -> list[list[bytes]]:
            answers: list[list[bytes]] = []
            metres = radius * REDIS_RADIUS / EARTH_RADIUS
            more = [] if count is None else ["COUNT", count]
            for some in pieces(len(rows), 500):
                pipe = client.pipeline(transaction=False)
                for lon, lat in places[rows[some.start : some.stop]].tolist():
                    order = ("GEOSEARCH", "o", "FROMLONLAT", lon, lat, "BYRADIUS", metres, "m", "ASC", *more)
                    pipe.execute_command(*order)
                answers += pipe.execute()
            return answers

        def within(places: Floats, radius: float) -> Pairs:
            return _pairs(dict(enumerate(search(places, np.arange(len(places)), radius, None))))

        def knn(places: Floats, k: int) -> Pairs:
            found: dict[int, list[bytes]] = {}
            left, radius = np.arange(len(places)), first_radius
            while len(left):
                for i, hits in zip(left.tolist(), search(places, left, radius, k), strict=True):
                    found[i] = hits
                left = np.array([i for i in left.tolist() if len(found[i]) < k], dtype=np.int64)
                radius *= 2
            return _pairs(found)

        # in its favour: the radius in which half of the queries find k at once
        first_radius = _half_find(lambda radius: search(at.shuffled, np.arange(200), radius, 8))
        counts = {"k=8": 5_000, "10 hits": 20_000, "1000 hits": 1_000}
        yield Peer(f"Redis {version}, GEO", build_seconds, knn, within, counts)


def _half_find(search: Callable[[float], list[list[bytes]]]) -> float:
    radius = 1.0
    while np.median([len(hits) for hits in search(radius)]) < 8:
        radius *= 1.5
    return radius


def _add(client: Any, places: Floats) -> None:
    for rows in pieces(len(places), 5_000):
        some = zip(places[rows.start : rows.stop].tolist(), rows, strict=True)
        client.execute_command("GEOADD", "o", *(part for (lon, lat), i in some for part in (lon, lat, i)))


def _pairs(found: dict[int, list[bytes]]) -> Pairs:
    query = np.repeat(list(found), [len(hits) for hits in found.values()])
    return as_pairs(query, [int(hit) for hits in found.values() for hit in hits])
