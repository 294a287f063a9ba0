"""Joins of many queries with many objects in Spark: the data, and the ways that people write it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bench.measuring.points import beside, near, positions
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import space_of

FILES = 8
COLUMNS = "query_id long, id long, distance double, rank int"
DEGREE = np.pi / 180.0


def write_rows(folder: Path, name: str, at: NDArray[np.float64]) -> str:
    """Write numbered positions as Parquet files in one folder, and return its path."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(at)), FILES)):
        table = pa.table({name: rows, "lon": at[rows, 0], "lat": at[rows, 1]})
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


def write_join(folder: Path, kind: str, objects: int, queries: int) -> tuple[str, str]:
    """Write objects and queries near them, in random order; returns both folders."""
    at = positions(kind, objects)
    return write_rows(folder / "objects", "id", at), write_rows(folder / "queries", "query_id", near(kind, at, queries))


def unit_vectors(table: pa.Table | pa.RecordBatch) -> NDArray[np.float64]:
    lon, lat = (table.column(name).to_numpy(zero_copy_only=False) * DEGREE for name in ("lon", "lat"))
    across = np.cos(lat)
    return np.column_stack([across * np.cos(lon), across * np.sin(lon), np.sin(lat)])


def broadcast_tree(session: Any, objects: str) -> Any:
    """Return a kd-tree of all objects and their ids, built on the driver and broadcast."""
    table = pq.read_table(objects)
    return session.sparkContext.broadcast((cKDTree(unit_vectors(table)), table["id"].to_numpy()))


def tree_join(session: Any, queries: Any, tree: Any, k: int, batch: int) -> Any:
    """Return the join that an expert writes: mapInArrow over the queries, each batch asked of the broadcast tree."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found, ids = tree.value
        for one in batches:
            chord, row = found.query(unit_vectors(one), k)
            columns = {
                "query_id": np.repeat(one.column("query_id").to_numpy(), k),
                "id": ids[row.ravel()],
                "distance": 2 * EARTH_RADIUS * np.arcsin(chord.ravel() / 2),
                "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), one.num_rows),
            }
            yield pa.RecordBatch.from_pydict(columns)

    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    return queries.mapInArrow(answer, COLUMNS)


def metres(F: Any) -> Any:
    """Return the haversine of a pair of rows, o and q, as an expression."""
    half = [F.radians(F.col(f"o.{name}") - F.col(f"q.{name}")) / 2 for name in ("lon", "lat")]
    flat = F.cos(F.radians("o.lat")) * F.cos(F.radians("q.lat"))
    return 2 * EARTH_RADIUS * F.asin(F.sqrt(F.pow(F.sin(half[1]), 2) + flat * F.pow(F.sin(half[0]), 2)))


def _nearest(pairs: Any, k: int) -> Any:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    near_first = Window.partitionBy("q.query_id").orderBy("distance", "o.id")
    ranked = pairs.withColumn("distance", metres(F)).withColumn("rank", F.row_number().over(near_first))
    return ranked.where(F.col("rank") <= k).select("q.query_id", "o.id", "distance", "rank")


def cross_join(queries: Any, objects: Any, k: int) -> Any:
    """Return the join as most people write it first: all pairs, then row_number."""
    return _nearest(queries.alias("q").crossJoin(objects.alias("o")), k)


def grid_join(queries: Any, objects: Any, k: int, side: float) -> Any:
    """Return the join by buckets: pairs of the 3 x 3 cells round each query, then row_number; not always right.

    ``side`` is of a cell in degrees. A query whose k-th object is not within a cell's side may be wrong, or short.
    """
    from pyspark.sql import functions as F

    def cell(name: str) -> Any:
        return F.floor(F.col(name) / side)

    steps = F.array(*[F.lit(step) for step in (-1, 0, 1)])
    spread = queries.withColumn("dx", F.explode(steps)).withColumn("dy", F.explode(steps))
    spread = spread.select("*", (cell("lon") + F.col("dx")).alias("x"), (cell("lat") + F.col("dy")).alias("y"))
    held = objects.select("*", cell("lon").alias("x"), cell("lat").alias("y"))
    pairs = spread.alias("q").join(held.alias("o"), (F.col("q.x") == F.col("o.x")) & (F.col("q.y") == F.col("o.y")))
    return _nearest(pairs, k)


def skewed(kind: str, objects: NDArray[np.float64], manifest: Any, count: int) -> NDArray[np.float64]:
    """Return queries of which 90 % lie in one partition, the one with the most objects, in random order."""
    from dtoss.snapshots.manifest import regions_of_manifest

    regions, space = regions_of_manifest(manifest), space_of()
    biggest = max(manifest["partitions"], key=lambda one: one["objects"])["number"]
    home = regions.nearest(space.vectors(objects))
    many = beside(objects[home == biggest], count * 9 // 10, seed=2)
    few = near(kind, objects, count - len(many), seed=3)
    mixed = np.concatenate([many, few])
    return mixed[np.random.default_rng(4).permutation(count)]
