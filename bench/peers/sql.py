"""SedonaDB and DuckDB, which run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measuring.machine import processor_seconds
from bench.measuring.points import Points
from bench.measuring.race import timed
from bench.peers.agreeing import Floats, Missing, Pairs, Peer, as_pairs
from dtoss.geometry.distance import EARTH_RADIUS


def _table(name: str, at: Floats) -> pa.Table:
    return pa.table({name: np.arange(len(at)), "lon": at[:, 0], "lat": at[:, 1]})


@contextmanager
def sedonadb(at: Points, folder: Path) -> Iterator[Peer]:
    """SedonaDB: ST_KNN with spheroid=true ranks by great-circle distance; ST_DWithin over geography."""
    try:
        import sedonadb as module
    except ImportError as error:
        raise Missing(f"{error.name} cannot be imported") from None
    base = module.connect()

    def load(view: str, column: str, places: Floats) -> None:
        base.create_data_frame(_table(column, places)).to_view("raw", overwrite=True)
        for kind, make in (("p", "ST_SetSRID(ST_Point(lon, lat), 4326)"), ("g", "ST_GeogPoint(lon, lat)")):
            frame = base.sql(f"SELECT {column}, {make} AS at FROM raw").to_memtable()
            frame.to_view(f"{view}_{kind}", overwrite=True)

    def joined(sql: str) -> Pairs:
        found = pa.table(base.sql(sql))
        return as_pairs(found["q"], found["o"])

    def knn(places: Floats, k: int) -> Pairs:
        load("queries", "q", places)
        return joined(f"SELECT q, o FROM queries_p a JOIN objects_p b ON ST_KNN(a.at, b.at, {k}, true)")

    def within(places: Floats, radius: float) -> Pairs:
        load("queries", "q", places)
        return joined(f"SELECT q, o FROM queries_g a JOIN objects_g b ON ST_DWithin(a.at, b.at, {radius!r})")

    build_seconds, _ = timed(lambda: load("objects", "o", at.objects), processor_seconds)
    yield Peer(
        f"SedonaDB {module.__version__}, geography",
        build_seconds,
        knn,
        within,
        {"k=8": 20, "10 hits": 100_000, "1000 hits": 5_000},
    )


@contextmanager
def duckdb(at: Points, folder: Path) -> Iterator[Peer]:
    """DuckDB: its spatial join by boxes in degrees, then the haversine; kNN has no index, so it reads every object."""
    try:
        import duckdb as module
    except ImportError as error:
        raise Missing(f"{error.name} cannot be imported") from None
    base = module.connect(str(folder / "peer.db"))
    spatial = _spatial(base)
    half = "pow(sin(radians(b.lat - a.lat) / 2), 2) + cos(radians(a.lat)) * cos(radians(b.lat))"
    metres = f"{2 * EARTH_RADIUS!r} * asin(sqrt({half} * pow(sin(radians(b.lon - a.lon) / 2), 2)))"

    def load(view: str, column: str, places: Floats) -> None:
        raw = _table(column, places)
        base.register("raw", raw)
        shape = ", ST_Point(lon, lat) AS at" if spatial else ""
        base.execute(f"CREATE OR REPLACE TABLE {view} AS SELECT *{shape} FROM raw")
        base.unregister("raw")

    def joined(sql: str) -> Pairs:
        found = base.execute(sql).fetchnumpy()
        return as_pairs(found["q"], found["o"])

    def knn(places: Floats, k: int) -> Pairs:
        load("queries", "q", places)
        return joined(
            f"SELECT q, unnest(near) AS o FROM (SELECT q, min_by(o, {metres}, {k}) AS near "
            "FROM queries a, objects b GROUP BY q)"
        )

    def within(places: Floats, radius: float) -> Pairs:
        load("queries", "q", places)
        north = float(np.degrees(radius / EARTH_RADIUS)) * (1 + 1e-9)
        east = f"({north!r} / cos(radians(a.lat)) * 1.01)"  # boxes near neither pole
        if spatial:
            box = f"ST_MakeEnvelope(a.lon - {east}, a.lat - {north!r}, a.lon + {east}, a.lat + {north!r})"
            inside = f"ST_Intersects({box}, b.at)"
        else:
            inside = f"b.lat BETWEEN a.lat - {north!r} AND a.lat + {north!r} AND abs(b.lon - a.lon) <= {east}"
        return joined(f"SELECT q, o FROM queries a JOIN objects b ON {inside} WHERE {metres} <= {radius!r}")

    def build() -> None:
        load("objects", "o", at.objects)

    build_seconds, _ = timed(build, processor_seconds)
    kind = "spatial" if spatial else "plain SQL"
    counts = {"10 hits": 20_000, "1000 hits": 2_000} if spatial else {"10 hits": 50, "1000 hits": 50}
    if at.kind == "uniform":
        counts = {}  # boxes in degrees are wrong at the poles and the antimeridian
    yield Peer(f"DuckDB {module.__version__}, {kind}", build_seconds, knn, within, {"k=8": 20, **counts})
    base.close()


def _spatial(base: Any) -> bool:
    """Load the spatial extension, from its package or as DuckDB finds it; return whether it is there."""
    try:
        from duckdb_extensions import import_extension

        import_extension("spatial")
    except (ImportError, OSError, ValueError, RuntimeError):
        pass
    import duckdb as module

    try:
        base.load_extension("spatial")
    except module.Error:
        return False
    return True
