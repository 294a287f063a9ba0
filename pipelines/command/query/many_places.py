"""Joins of a file of places: in this process, by a server, or in Spark where a master is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoss.export.targets import check_file
from pipelines.command.query.one_place import token_of
from pipelines.command.query.query_options import Filter, PlacesFile, Reach, Target
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Length, in_space, in_store
from pipelines.command.terminal.output import start_spark

if TYPE_CHECKING:
    from dtoss.rows.input_columns import Columns
    from pipelines.command.terminal.output import Engine

SUFFIXES = (".parquet", ".csv", ".jsonl")


def join_places(target: Target, places: PlacesFile, reach: Reach, objects: Filter, spark: Engine | None) -> None:
    """Write the hits of each place in a file, and say how many rows there are and which places could have none.

    As :func:`pipelines.local_joins.file_join.join_file`, or :func:`pipelines.join.knn_join` where a master is named; a
    server is asked where one is named.
    """
    from dtoss.rows.input_columns import Columns
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.delimited_frame import check_said

    out = target_of("--queries", places.out)
    given = {name: getattr(places, name) for name in ("id", "x", "y", "geometry", "id_type", "crs")}
    named = Columns(**given, attributes="none", **places.text)
    check_said(named)
    assert places.queries is not None
    given["rows"] = places.text
    asked: dict[str, Any] = {"how": places.how, "columns": objects.columns, "where": objects.where}
    asked |= {"having": objects.having, "snapshot": target.snapshot}
    if spark is not None and spark.has_master:
        store = target.stored("--queries")
        asked |= _bounds(reach, partial(in_store, store=store, snapshot=target.snapshot))
        _join_in_spark(store, places.queries, out, named, spark, asked | {"verify": target.checked_by("touch")})
        return
    if spark is not None and spark.driver_memory is not None:
        raise ValueError("--driver-memory is for Spark: name --master too, such as 'local[*]', or leave both out")
    if (target.store is None) == (target.url is None):
        raise ValueError("one of --store STORE and --url URL is wanted")
    if target.url is None:
        look_at([places.queries], named)
    from dtoss.answer_rows import Ask
    from pipelines.engines.progress import work_shown
    from pipelines.local_joins.file_join import join_file, join_with_server, read_places

    if target.url is not None:
        if objects.having is not None:
            raise ValueError("--having does not go with --queries and --url: a server does not tell the ranks")
        if target.check is not None:
            raise ValueError("--verify is for a store: a server compares checksums before it serves a snapshot")
        from dtoss.client.connecting import connect

        token = token_of(target.token_file)
        index = connect(target.url, token, target.snapshot)
        asked |= {"snapshot": index.snapshot} | _bounds(reach, lambda name, one: in_space(name, one, index.space))
        read = read_places(places.queries, **given)
        with work_shown("join"):
            done = join_with_server(places.queries, read, Ask(target.url, **asked), out, token=token)
    else:
        if target.token_file is not None:
            raise ValueError("--token-file is for a server, named by --url")
        assert target.store is not None
        asked |= _bounds(reach, partial(in_store, store=target.store, snapshot=target.snapshot))
        asked |= {"verify": target.checked_by("touch")}
        with work_shown("join"):
            done = join_file(places.queries, target.store, out, **given, **asked)
    _say(done.rows, out, done.unanswered)


def _bounds(reach: Reach, convert: Callable[[str, Length], float]) -> dict[str, Any]:
    """Return how many objects are asked for, or how far from a place, as numbers."""

    def number(option: str, length: Length | None) -> float | None:
        return None if length is None else convert(option, length)

    if reach.k is None:
        return {"radius": number("--radius", reach.radius)}
    return {"k": reach.k, "max_distance": number("--max-distance", reach.max_distance)}


def _join_in_spark(store: str, queries: str, out: str, named: Columns, spark: Engine, asked: dict[str, Any]) -> None:
    from pipelines.join import knn_join, range_join
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.read_files import read_positions
    from pipelines.rows.write_file import write_file

    inputs = look_at([queries], named)
    session = start_spark(spark.master, spark.driver_memory)
    from pyspark.sql import Observation

    read = read_positions(session, inputs, named)
    observation = Observation()
    asked |= {"id": "id", "x": "x", "y": "y", "crs": read.crs, "observation": observation}
    join = range_join if "radius" in asked else knn_join
    joined = join(read.spark_frame, store, **asked)
    _say(write_file(joined, out), out, observation.get)


def target_of(option: str, out: str | None) -> str:
    """Return where the result goes, after a look whether it can be written."""
    if out is None:
        raise ValueError(f"{option} needs --out FILE for the result (.parquet, .csv or .jsonl)")
    suffix = Path(out).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"--out {out} ends in {suffix or 'nothing'}: .parquet, .csv or .jsonl is wanted")
    check_file("--out", out)
    return out


def _say(rows: int, out: str, seen: Mapping[str, int]) -> None:
    """Print how many rows were written, and how many places could have no hits, and why, where there are any."""
    note(f"{rows:,} rows in {out}")
    reasons = {"no_position": "without a position", "not_legal": "out of range"}
    found = [f"{seen[name]:,} {words}" for name, words in reasons.items() if seen[name]]
    if found:
        print(f"warning: of {seen['queries']:,} queries, {' and '.join(found)} have no hits", file=sys.stderr)
