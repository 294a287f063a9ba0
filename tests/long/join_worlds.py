"""Joins in Spark about small random worlds, against an oracle: `python -m tests.long.join_worlds --worlds 64`.

Each world in 1, 2, 7 and 64 partitions, one of these rebuilt by Spark and the others written in process: a kNN join, a
range join and one that leaves each query's own object out, with the conditions that its seed says; every eighth world
also by the commands. Ends with code 1 where a row differs from `tests/join_worlds.py`.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

import dtoss
from datasets.tables.command import run, say
from pipelines.command.main import main as command
from pipelines.join import knn_join, range_join
from pipelines.rebuild import rebuild
from pipelines.spark.session import spark_session
from tests import join_worlds, worlds
from tests.dtoss.snapshots.damaged_stores import stored
from tests.join_worlds import KINDS, PARTITIONS, Question, World, objects_as_queries, objects_of, queries_of

MOST = 700
"""Objects of a world: the oracle compares them all with each query."""


def store_of(w: World, partitions: int, path: str, spark: Any) -> str:
    """Write a world's store: in process, or by Spark where a session is given."""
    crs = None if w.metric == "sphere" else "none"
    if spark is not None:
        frame = spark.createDataFrame(objects_of(w))
        rebuild(frame, path, id="object", crs=crs, partitions=partitions, pivots=w.pivots, allow_empty=True)
        return path
    ids = w.ids.tolist() if w.ids.dtype == object else w.ids
    columns = join_worlds.attributes(w)
    index = dtoss.build(ids, w.positions, crs=crs, partitions=partitions, pivots=w.pivots, columns=columns)
    return str(stored(index, path, kinds=KINDS))


def joined(spark: Any, store: str, asked: Question, queries: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a join in Spark."""
    frame = spark.createDataFrame(queries).repartition(2)
    options: dict[str, Any] = {
        "how": asked.how, "where": asked.where, "having": asked.having, "exclude_self": asked.exclude_self,
        "columns": [*KINDS],
    }  # fmt: skip
    if asked.radius is not None:
        found = range_join(frame, store, asked.radius, **options)
    else:
        assert asked.k is not None
        found = knn_join(frame, store, asked.k, max_distance=asked.max_distance, **options)
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def by_command(store: str, asked: Question, queries: pa.Table, folder: Path) -> list[dict[str, Any]]:
    """Return the rows that ``dtoss knn --queries`` or ``dtoss range --queries`` writes; k and radius are numbers."""
    given, out = folder / "queries.parquet", folder / "out.parquet"
    pq.write_table(queries, given)
    arguments = ["knn", "-k", asked.k] if asked.radius is None else ["range", "--radius", asked.radius]
    arguments += ["--store", store, "--queries", given, "--out", out, "--id", "query_id", "--how", asked.how]
    for option, value in (("where", asked.where), ("having", asked.having), ("max-distance", asked.max_distance)):
        arguments += [f"--{option}", value] if value is not None else []
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
        command([str(argument) for argument in [*arguments, "--columns", ",".join(KINDS)]])
    assert out.exists(), said.getvalue()
    rows: list[dict[str, Any]] = pq.read_table(out).to_pylist()
    return rows


def main(
    count: Annotated[int, typer.Option("--worlds", help="How many, spread evenly over the kinds.")] = 64,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other worlds.")] = 1000,
) -> None:
    """Compare joins about small random worlds with an independent oracle."""
    warnings.filterwarnings("ignore", "lon and lat look swapped")  # by chance
    spark = spark_session("local[2]", driver_memory="1g", settings={"spark.sql.shuffle.partitions": "2"})
    began, differ, joins = time.perf_counter(), 0, 0
    for number in range(count):
        kind = worlds.KINDS[number % len(worlds.KINDS)]
        seed = first + number
        while len((w := worlds.world(kind, seed)).ids) > MOST:
            seed += count
        with tempfile.TemporaryDirectory() as scratch:
            for turn, partitions in enumerate(PARTITIONS):
                by_spark = turn == number % len(PARTITIONS)
                store = store_of(w, partitions, f"{scratch}/{partitions}", spark if by_spark else None)
                for asked in join_worlds.questions(w):
                    queries = objects_as_queries(w) if asked.exclude_self else queries_of(w)
                    lines = join_worlds.wrong(w, asked, queries, joined(spark, store, asked, queries))
                    joins += 1
                    if by_spark and number % 8 == 0 and not asked.exclude_self:
                        same = Question(
                            k=None if asked.k is None else 4, radius=None if asked.radius is None else 1e5,
                            how=asked.how, where=asked.where, having=asked.having, max_distance=asked.max_distance,
                        )  # fmt: skip
                        rows = by_command(store, same, queries, Path(scratch))
                        lines += join_worlds.wrong(w, same, queries, rows)
                        joins += 1
                    differ += bool(lines)
                    for line in lines[:1]:
                        say(f"{partitions} partitions: {line}")
    say(f"{joins:,} joins about {count} worlds, {differ} differ from the oracle, {time.perf_counter() - began:.0f} s")
    if differ:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
