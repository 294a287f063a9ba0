"""Who was near each of many places and moments: `python -m bench.history.joins`.

Cabspotting (``--data`` or DTOSS_DATA says where) as a history of 18 batches, with and without its order by place, and
as Parquet files by day. Places are those of rows, some 100 m away, at their times. Asked is who was within 100 m, five
minutes before or after; and the three nearest cabs in that time. Beside ours are the join that an expert writes in
Spark (cells and slots of time, then the distance) and DuckDB's. All count the same hits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from bench.history.kept import cab_rows, kept
from bench.measuring.points import DATA
from datasets.tables.command import run, say
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.history.versions import Home

METRES, SECONDS = 100.0, 300.0
CELL = 0.0015
"""Degrees: no less than 100 m, also of longitude at this latitude."""


def places(rows: pa.Table, count: int, seed: int) -> pa.Table:
    """Return so many places and moments near rows."""
    rng = np.random.default_rng(seed)
    some = rows.take(pa.array(rng.permutation(len(rows))[:count]))
    lon, lat = (some[name].to_numpy() + rng.normal(0, 0.001, count) for name in ("x", "y"))
    return pa.table({"query_id": np.arange(count), "lon": lon, "lat": lat, "t": some["t"]})


def haversine(a: str, b: str) -> str:
    """Return SQL for metres between two aliases with lon and lat."""
    half = f"pow(sin(radians({a}.lat - {b}.lat) / 2), 2)"
    half += f" + cos(radians({a}.lat)) * cos(radians({b}.lat)) * pow(sin(radians({a}.lon - {b}.lon) / 2), 2)"
    return f"2 * {EARTH_RADIUS} * asin(sqrt({half}))"


def by_cells(session: Any, files: str, queries: Any) -> int:
    """Return how many hits the join by cells and slots of time finds."""
    cells = {"a": f"floor(lon / {CELL})", "b": f"floor(lat / {CELL})", "c": f"floor(unix_micros(t) / {SECONDS * 1e6})"}
    session.read.parquet(files).createOrReplaceTempView("positions")
    queries.createOrReplaceTempView("asking")
    keyed = ", ".join(f"{text} AS {name}" for name, text in cells.items())
    spread = " ".join(f"LATERAL VIEW explode(array(-1, 0, 1)) d{name} AS d{name}" for name in cells)
    return int(
        session.sql(
            f"WITH r AS (SELECT *, {keyed} FROM positions), k AS (SELECT *, {keyed} FROM asking), "
            f"q AS (SELECT query_id, lon, lat, t, a + da AS a, b + db AS b, c + dc AS c FROM k {spread}) "
            "SELECT count(*) FROM q JOIN r USING (a, b, c) WHERE "
            f"abs(unix_micros(q.t) - unix_micros(r.t)) <= {int(SECONDS * 1e6)} AND {haversine('q', 'r')} <= {METRES}"
        ).collect()[0][0]
    )


def by_duckdb(files: str, asking: pa.Table) -> int:
    """Return how many hits DuckDB finds, one thread for each core."""
    import duckdb

    duckdb.register("asking", asking)
    return int(
        duckdb.sql(
            f"SELECT count(*) FROM asking q JOIN '{files}/*.parquet' r ON r.t BETWEEN q.t - INTERVAL {int(SECONDS)} "
            f"SECOND AND q.t + INTERVAL {int(SECONDS)} SECOND AND abs(q.lon - r.lon) <= {CELL} "
            f"AND abs(q.lat - r.lat) <= {CELL} WHERE {haversine('q', 'r')} <= {METRES}"
        ).fetchall()[0][0]
    )


def main(
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = DATA,
    queries: Annotated[int, typer.Option(help="Places and moments.")] = 50_000,
    rounds: Annotated[int, typer.Option(help="Of which the median counts.")] = 3,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[2]",
    seed: Annotated[int, typer.Option(help="Of the places.")] = 0,
) -> None:
    """Join places and moments with a history, and with files."""
    from pipelines.history_joins import history_knn_join, history_range_join
    from pipelines.spark.session import spark_session

    rows, schema = cab_rows(data)
    with tempfile.TemporaryDirectory() as folder:
        homes = {name: Home(f"{folder}/{name}") for name in ("time", "time and place")}
        for name, home in homes.items():
            kept(home, rows, schema, batches=18, placed=name != "time")
        files = f"{folder}/files"
        _by_day(rows, Path(files))
        session = spark_session(master)
        asking = places(rows, queries, seed)
        frame = session.createDataFrame(asking).persist()
        frame.count()
        around = {"before": SECONDS, "after": SECONDS}
        ways: dict[str, Callable[[], int]] = {}
        for name, home in homes.items():
            ways[f"range, history by {name}"] = lambda home=home: history_range_join(  # type: ignore[misc]
                frame, home.path, METRES, **around
            ).count()
        ways["range, Spark by cells"] = lambda: by_cells(session, files, frame)
        ways["range, DuckDB"] = lambda: by_duckdb(files, asking)
        for name, home in homes.items():
            ways[f"3 nearest, history by {name}"] = lambda home=home: history_knn_join(  # type: ignore[misc]
                frame, home.path, 3, **around
            ).count()
        for name, way in ways.items():
            spent, found = [], 0
            for _ in range(rounds):
                began = time.perf_counter()
                found = way()
                spent.append(time.perf_counter() - began)
            say(f"{name}: {found:,} hits; median {np.median(spent):.1f} s, worst {max(spent):.1f} s")


def _by_day(rows: pa.Table, folder: Path) -> None:
    folder.mkdir()
    table = rows.select(["id", "t", "x", "y"]).rename_columns(["id", "t", "lon", "lat"]).sort_by("t")
    day = table["t"].cast(pa.int64()).to_numpy() // 86_400_000_000
    for number in np.unique(day).tolist():
        begin, end = np.searchsorted(day, [number, number + 1])
        pq.write_table(table.slice(begin, end - begin), folder / f"{number}.parquet", compression="zstd")


if __name__ == "__main__":
    run(main)
