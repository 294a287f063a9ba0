"""The kNN join in Spark against what an expert writes: k = 8, `local[2]`, warm, from Parquet to the `noop` sink.

Ours asks a built store. The expert's builds a cKDTree of all objects on the driver, broadcasts it, and asks it in
`mapInArrow`, in batches of some size. Both give query, id, distance and rank, and all rows of both are compared. Best
of the rounds, in turns, by the clock and by the processor time of all processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bench.experiments.results import Results, Row, grid, point
from bench.measuring.machine import processor_seconds
from bench.measuring.points import missing, near, positions
from bench.measuring.race import in_turns
from datasets.tables.command import say
from dtoss.geometry.distance import EARTH_RADIUS
from pipelines.join import knn_join
from pipelines.rebuild import rebuild
from pipelines.spark.session import spark_session

SIZES = {
    "smoke": (3_000, 400, 1, ("uniform",), (100,)),
    "here": (5_000_000, 1_000_000, 3, ("uniform", "taxi"), (10_000, 50_000, 250_000)),
    "full": (5_000_000, 1_000_000, 9, ("uniform", "taxi"), (10_000, 50_000, 250_000)),
}
"""Objects, queries, rounds, sets, rows of a batch."""
K, FILES = 8, 8
COLUMNS = "query_id long, id long, distance double, rank int"
DEGREE = np.pi / 180.0
RATE, TIMES = "queries/s", "times as fast"


def write_rows(folder: Path, name: str, at: NDArray[np.float64]) -> str:
    """Write numbered positions as Parquet files in one folder, and return its path."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(at)), FILES)):
        pq.write_table(pa.table({name: rows, "lon": at[rows, 0], "lat": at[rows, 1]}), folder / f"{number}.parquet")
    return str(folder)


def unit_vectors(table: pa.Table | pa.RecordBatch) -> NDArray[np.float64]:
    """Return lon and lat in degrees as an expert makes vectors of them."""
    lon, lat = (table.column(name).to_numpy(zero_copy_only=False) * DEGREE for name in ("lon", "lat"))
    across = np.cos(lat)
    return np.column_stack([across * np.cos(lon), across * np.sin(lon), np.sin(lat)])


def broadcast_tree(session: Any, objects: str) -> Any:
    """Return a kd-tree of all objects and their ids, built on the driver and broadcast."""
    table = pq.read_table(objects)
    return session.sparkContext.broadcast((cKDTree(unit_vectors(table)), table["id"].to_numpy()))


def tree_join(session: Any, queries: Any, tree: Any, batch: int) -> Any:
    """Return the join that an expert writes: mapInArrow over the queries, each batch asked of the broadcast tree."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found, ids = tree.value
        for one in batches:
            chord, row = found.query(unit_vectors(one), K)
            columns = {
                "query_id": np.repeat(one.column("query_id").to_numpy(), K),
                "id": ids[row.ravel()],
                "distance": 2 * EARTH_RADIUS * np.arcsin(chord.ravel() / 2),
                "rank": np.tile(np.arange(1, K + 1, dtype=np.int32), one.num_rows),
            }
            yield pa.RecordBatch.from_pydict(columns)

    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    return queries.mapInArrow(answer, COLUMNS)


def assert_same(ours: pa.Table, other: pa.Table, queries: int) -> None:
    """Both have k rows a query, equal distances by rank and, ties aside, equal ids."""
    for name in ("query_id", "rank"):
        assert ours[name].equals(other[name].cast(ours[name].type))
    assert len(ours) == queries * K
    a, b = (table["distance"].to_numpy().reshape(-1, K) for table in (ours, other))
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-6)
    ids = ours["id"].to_numpy().reshape(-1, K)
    alone = np.ones(a.shape, bool)
    alone[:, 1:] &= a[:, 1:] - a[:, :-1] > 1e-5
    alone[:, :-1] &= a[:, 1:] - a[:, :-1] > 1e-5
    alone[:, -1] = False  # what comes next is not listed: it may be as far
    assert (ids == other["id"].to_numpy().reshape(-1, K))[alone].all()


def run(size: str) -> Iterator[Row]:
    """Yield rates of ours, and how many times as fast it is; x is the set, and what is compared."""
    objects, queries, rounds, kinds, batches = SIZES[size]
    session = spark_session("local[2]", driver_memory="4g", name="bench")
    for kind in kinds:
        if why := missing(kind):
            say(f"{kind}: {why}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            yield from of_set(session, Path(folder), kind, objects, queries, rounds, batches)


def of_set(
    session: Any, folder: Path, kind: str, objects: int, queries: int, rounds: int, batches: tuple[int, ...]
) -> Iterator[Row]:
    """Yield rows of one set; the results of both joins are compared."""
    at = positions(kind, objects)
    given = write_rows(folder / "objects", "id", at)
    asked = session.read.parquet(write_rows(folder / "queries", "query_id", near(kind, at, queries)))
    store = str(folder / "store")
    rebuild(session.read.parquet(given), store)
    tree = broadcast_tree(session, given)

    def sink(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def whole() -> None:
        fresh = broadcast_tree(session, given)
        sink(tree_join(session, asked, fresh, batches[-1]))
        fresh.destroy()

    def rows(frame: Any, name: str) -> pa.Table:
        frame.write.parquet(str(folder / name))
        return pq.read_table(folder / name).sort_by([("query_id", "ascending"), ("rank", "ascending")])

    works = {"ours": lambda: sink(knn_join(asked, store, K))}
    works |= {
        f"tree ready, batches of {size:,}": lambda size=size: sink(tree_join(session, asked, tree, size))
        for size in batches
    }
    works["tree built and broadcast too"] = whole
    for work in works.values():
        work()  # workers are there, and kernels loaded
    spent, _ = in_turns(works, rounds, lambda: np.array([perf_counter(), processor_seconds()]))
    assert_same(
        rows(knn_join(asked, store, K), "ours"), rows(tree_join(session, asked, tree, batches[0]), "tree"), queries
    )
    tree.destroy()
    best = {name: np.min(times, axis=0) for name, times in spent.items()}
    data = f"{objects:,} objects and {queries:,} queries of {kind}"
    wall, busy = best.pop("ours")
    for name, (seconds, processor) in best.items():
        x = f"{kind}, {name}"
        yield point("ours", x, queries / wall, RATE, data=data)
        yield point("by the clock", x, seconds / wall, TIMES, data=data)
        yield point("by processor time", x, processor / busy, TIMES, data=data)


def draw(results: Results) -> str:
    """Return a set and what is compared a row."""
    return grid(results, None, "data, the other", lambda y: f"{y:,.0f}" if y > 1000 else f"{y:.2f}")
