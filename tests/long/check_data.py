"""Every answer on the full data sets against brute force: `python -m tests.long.check_data`, or `make check-data`.

For each real set (``--data`` or DTOSS_DATA says where they are; those missing are named) and each generator: a rebuild
for some numbers of partitions, then kNN and range for places on objects, between them, far outside, at the poles and on
the other side of the globe. The oracle is exact: the distances of all objects, by the function that makes the reported
ones, sorted by (distance, id). Ends with code 1 on a mismatch.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

import dtoss
from bench.measuring.points import DATA
from datasets.cities.taxis import make_fleet
from datasets.degenerate import PLANE, SPHERE, degenerate
from datasets.fleet import fleet_at
from datasets.hotspots import hotspots
from datasets.tables.command import BadInput, run, say
from datasets.tables.seeded_batches import write_parquet
from datasets.uniform import uniform_plane, uniform_sphere
from dtoss.geometry.distance import distance
from dtoss.geometry.space import Space, space_of

REAL = (
    "cabspotting_sf", "uber_nyc_apr_may_2014", "gowalla_checkins", "brightkite_checkins", "gowalla_weekpattern",
    "gowalla_spot_names_nyc", "gowalla_poi_weights", "aircraft_adsb", "ais_piraeus", "earthquakes_usgs_month",
    "cities500",
)  # fmt: skip
KS = (1, 10, 100)
CIRCLES = {f"{kind} sphere" for kind in ("line", "meridian", "parallel", "great-circle", "ring")}
"""All their cells meet at the circle's poles, and each is compared with all others: O(n^2)."""
MOST_ON_CIRCLE = 3_000
MOST_IN_RANGE = 20_000
"""Objects that the widest radius of a query holds, about."""

Batches = Callable[[int], Iterator[pa.RecordBatch]]
MADE: dict[str, Batches] = {
    "uniform sphere": lambda rows: uniform_sphere(rows, seed=1),
    "uniform plane": lambda rows: uniform_plane(rows, seed=2),
    "antimeridian box": lambda rows: uniform_sphere(rows, seed=3, box=(170.0, -20.0, -170.0, 20.0)),
    "hotspots 10": lambda rows: hotspots(rows, seed=4, count=10),
    "hotspots 1000": lambda rows: hotspots(rows, seed=5, count=1000),
    "fleet": lambda rows: fleet_at(make_fleet(rows, 20, seed=6), 3600.0),
    **{f"{kind} sphere": lambda rows, kind=kind: degenerate(kind, rows, 7, "sphere") for kind in SPHERE},
    **{f"{kind} plane": lambda rows, kind=kind: degenerate(kind, rows, 8, "plane") for kind in PLANE},
}


def places(space: Space, positions: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return queries (about ``count``, 2): a third on objects, the others between, near, far outside, opposite."""
    n = max(count // 6, 1)
    some, other = positions[rng.integers(0, len(positions), (2, n))]
    near = some + rng.normal(0, 1e-4 if space.metric == "sphere" else np.ptp(positions, axis=0).max() * 1e-6, (n, 2))
    if space.metric == "plane":
        span = max(float(np.ptp(positions, axis=0).max()), 1.0)
        outside = positions.mean(axis=0) + rng.uniform(-4, 4, (2 * n, 2)) * span
        return np.concatenate([some, other, near, 0.5 * (some + other), outside])
    globe = np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)
    opposite = np.stack([np.where(some[:, 0] > 0, some[:, 0] - 180, some[:, 0] + 180), -some[:, 1]], axis=1)
    fixed = [[0.0, 90.0], [77.0, -90.0], [180.0, 0.0], [-180.0, 12.0], [0.0, 0.0], [179.9999, -45.0]]
    found = np.concatenate([some, other, near, 0.5 * (some + other), globe, opposite, fixed])
    return np.clip(found, [-180.0, -90.0], [180.0, 90.0])


def mismatches(index: dtoss.Index, ids: np.ndarray, vectors: np.ndarray, queries: np.ndarray) -> tuple[int, int]:
    """Return how many questions were asked, and how many of the answers differ from brute force in any way."""
    asked = wrong = 0
    knn = {k: index.knn(queries, k) for k in KS}
    starts = {k: np.searchsorted(hits.query, np.arange(len(queries) + 1)) for k, hits in knn.items()}
    for number, place in enumerate(index.space.vectors(queries)):
        far = distance(vectors, place)
        nearest = np.partition(far, min(MOST_IN_RANGE, len(far) - 1))[min(MOST_IN_RANGE, len(far) - 1)]
        near = np.flatnonzero(far <= nearest)
        near = near[np.lexsort((ids[near], far[near]))]
        for k, hits in knn.items():
            rows = slice(starts[k][number], starts[k][number + 1])
            asked += 1
            wrong += not _same(hits.id[rows], hits.distance[rows], ids, far, near[:k])
        # 0, up to the very distance of an object, and between two of them
        last = far[near[-1]]
        for radius in {0.0, float(far[near[min(50, len(near) - 1)]]), float(0.5 * (far[near[len(near) // 2]] + last))}:
            hits = index.range(queries[number], radius)
            asked += 1
            wrong += not _same(hits.id, hits.distance, ids, far, near[: np.searchsorted(far[near], radius, "right")])
    return asked, wrong


def _same(got_id: np.ndarray, got_far: np.ndarray, ids: np.ndarray, far: np.ndarray, wanted: np.ndarray) -> bool:
    return np.array_equal(got_id, ids[wanted]) and np.array_equal(got_far, far[wanted])


def check(path: Path, partitions: list[int], queries: int, store: Path) -> Iterator[tuple[int, int, int, int, float]]:
    """Yield (rows, partitions, questions, mismatches, seconds of the rebuild) for a file of positions."""
    from pipelines.rebuild import rebuild
    from pipelines.spark.session import spark_session

    session = spark_session()
    names = pq.read_schema(path).names
    x, y = ("lon", "lat") if "lon" in names else ("x", "y")
    table = pq.read_table(path, columns=["id", x, y])
    positions = np.stack([table[x].to_numpy(), table[y].to_numpy()], axis=1)
    space = space_of() if x == "lon" else space_of("none")
    vectors, ids = space.vectors(positions), table["id"].to_numpy()
    asked = places(space, positions, queries, np.random.default_rng(len(positions)))
    for count in partitions:
        # rows with a time are objects of their own here, by their id
        frame = session.read.parquet(str(path)).select("id", x, y)
        began = time.perf_counter()
        rebuild(frame, str(store), crs=space.crs, partitions=count, keep=1)
        spent = time.perf_counter() - began
        index = dtoss.open(str(store))
        yield len(positions), len(index.partitioning), *mismatches(index, ids, vectors, asked), spent


def main(
    data: Annotated[Path, typer.Option(help="Folder of the real sets.")] = DATA,
    partitions: Annotated[list[int] | None, typer.Option(help="Repeat it; 1, 7 and 64 if not given.")] = None,
    queries: Annotated[int, typer.Option(help="Places asked about in each set, about.")] = 120,
    rows: Annotated[int, typer.Option(help="Objects of each generator.")] = 200_000,
    only: Annotated[list[str] | None, typer.Option(help="Names of sets; all if not given. Repeat it.")] = None,
) -> None:
    """Compare every answer on full data sets with brute force."""
    sets = [*REAL, *MADE]
    unknown = set(only or ()) - set(sets)
    if unknown:
        raise BadInput(f"{', '.join(sorted(unknown))}: not one of {', '.join(sets)}")
    table = Table("data", "rows", "partitions", "questions", "mismatches", "rebuild s", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    wrong, missing = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        for name in only or sets:
            path = data / f"{name}.parquet"
            if name in MADE:
                path = Path(scratch) / "made.parquet"
                batches = MADE[name](min(rows, MOST_ON_CIRCLE) if name in CIRCLES else rows)
                first = next(batches)
                write_parquet(_again(first, batches), first.schema, path)
            elif not path.exists():
                missing.append(name)
                continue
            for found in check(path, partitions or [1, 7, 64], queries, Path(scratch) / "store"):
                wrong += found[3]
                table.add_row(name, *(f"{value:,}" for value in found[:4]), f"{found[4]:.1f}")
                say(f"{name}: {found[0]:,} rows, {found[1]} partitions, {found[2]:,} questions, {found[3]} mismatches")
            shutil.rmtree(Path(scratch) / "store", ignore_errors=True)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    if missing:
        say(f"not in {data}: {', '.join(missing)}")
    if wrong:
        say(f"{wrong} answers differ from brute force")
        raise typer.Exit(1)


def _again(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


if __name__ == "__main__":
    run(main)
