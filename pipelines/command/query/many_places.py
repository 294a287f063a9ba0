"""Joins of a file of places: in this process, by a server, or in Spark where a master is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from dtoss.export.targets import check_file
from pipelines.command.query.one_place import column_list, token_of
from pipelines.command.terminal.lengths import Length, in_space, in_store
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.output import say_compiling, start_spark

if TYPE_CHECKING:
    from pipelines.rows.input_columns import Columns

SUFFIXES = (".parquet", ".csv", ".jsonl")


def join_places(
    store: str | None,
    queries: str,
    out: str | None,
    *,
    k: int | None = None,
    radius: Length | None = None,
    max_distance: Length | None = None,
    how: str = "inner",
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
    columns: str = "",
    where: str | None = None,
    having: str | None = None,
    snapshot: str | None = None,
    verify: bool | Literal["touch"] | None = None,
    url: str | None = None,
    token_file: str | None = None,
    master: str | None = None,
    driver_memory: str | None = None,
    geometry: str | None = None,
    id_type: str | None = None,
    crs: str | None = None,
) -> None:
    """Write the hits of each place in a file, and say how many rows there are and which places could have none.

    As :func:`pipelines.local_joins.file_join.join_file`, or :func:`pipelines.join.knn_join` with ``master``;
    ``columns`` are separated by commas. With ``url`` a server is asked.
    """
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.option_checks import check_said

    target = target_of("--queries", out)
    named = Columns(id=id, x=x, y=y, geometry=geometry, id_type=id_type, crs=crs, attributes="none", **rows)
    check_said(named)
    names = column_list(columns)
    asked: dict[str, Any] = {
        "how": how, "columns": names, "where": where, "having": having, "snapshot": snapshot,
    }  # fmt: skip
    if master is None:
        if driver_memory is not None:
            raise ValueError("--driver-memory is for Spark: name --master too, such as 'local[*]', or leave both out")
        if (store is None) == (url is None):
            raise ValueError("one of --store STORE and --url URL is wanted")
        if url is None:
            look_at([queries], named)
        say_compiling("open")
        from pipelines.local_joins.file_join import join_file, join_with_server

        asked |= {"k": k, "id": id, "x": x, "y": y, "geometry": geometry, "id_type": id_type, "crs": crs, "rows": rows}
        if url is not None:
            if asked.pop("having") is not None:
                raise ValueError("--having does not go with --queries and --url: a server does not tell the ranks")
            if verify is not None:
                raise ValueError("--verify is for a store: a server compares checksums before it serves a snapshot")
            from dtoss.client.connecting import connect

            token = token_of(token_file)
            space = connect(url, token, snapshot).space
            asked["radius"] = _bound(k, radius, max_distance, lambda name, one: in_space(name, one, space), asked)
            done = join_with_server(queries, url, target, token=token, **asked)
        else:
            if token_file is not None:
                raise ValueError("--token-file is for a server, named by --url")
            assert store is not None
            read = partial(in_store, store=store, snapshot=snapshot)
            asked["radius"] = _bound(k, radius, max_distance, read, asked)
            done = join_file(queries, store, target, verify="touch" if verify is None else verify, **asked)
        _say(done.rows, target, done.unanswered)
        return
    asked["verify"] = "touch" if verify is None else verify
    store = stored(store, url, "--queries")
    within = _bound(k, radius, max_distance, partial(in_store, store=store, snapshot=snapshot), asked)
    _join_in_spark(store, queries, target, k, within, named, master, driver_memory, asked)


def _bound(
    k: int | None,
    radius: Length | None,
    max_distance: Length | None,
    convert: Callable[[str, Length], float],
    asked: dict[str, Any],
) -> float | None:
    """Return the radius of a range; of a kNN there is none, and its largest distance is put into what is asked."""
    if k is not None:
        bound = None if max_distance is None else convert("--max-distance", max_distance)
        asked["max_distance"] = bound
    return None if radius is None else convert("--radius", radius)


def _join_in_spark(
    store: str,
    queries: str,
    target: str,
    k: int | None,
    radius: float | None,
    named: Columns,
    master: str,
    driver_memory: str | None,
    asked: dict[str, Any],
) -> None:
    from pipelines.join import knn_join, range_join
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.read_files import read_positions
    from pipelines.rows.write_file import write_file

    inputs = look_at([queries], named)
    session = start_spark(master, driver_memory)
    from pyspark.sql import Observation

    read = read_positions(session, inputs, named)
    observation = Observation()
    asked |= {"id": "id", "x": "x", "y": "y", "crs": read.crs, "observation": observation}
    if radius is not None:
        joined = range_join(read.spark_frame, store, radius, **asked)
    else:
        joined = knn_join(read.spark_frame, store, 1 if k is None else k, **asked)
    _say(write_file(joined, target), target, observation.get)


def stored(store: str | None, url: str | None, option: str) -> str:
    """Return the store that Spark is to read."""
    if store is None or url is not None:
        raise ValueError(f"{option} is answered in Spark from a store: --store STORE is wanted, and no --url")
    return store


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
