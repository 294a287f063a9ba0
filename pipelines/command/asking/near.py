"""``dtoss knn`` and ``dtoss range``: one place, or a file of places."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dtoss.export.targets import check_file
from pipelines.command.asking.one_place import column_list, print_near
from pipelines.command.options import (
    At,
    Carry,
    Check,
    DriverMemory,
    Having,
    Json,
    Master,
    Out,
    Queries,
    QueryId,
    QueryX,
    QueryY,
    Snapshot,
    StoreOrUrl,
    TokenFile,
    Url,
    Where,
    checks_of,
    verify_of,
)
from pipelines.command.output import say_compiling, start_spark


def knn(
    store: StoreOrUrl = None,
    at: At = None,
    k: Annotated[int, typer.Option("-k", help="How many of the nearest objects.")] = 1,
    max_distance: Annotated[
        float | None, typer.Option(help="At most so far away: metres, or CRS units in the plane.")
    ] = None,
    queries: Queries = None,
    out: Out = None,
    how: Annotated[
        Literal["inner", "left"], typer.Option(help="left keeps queries without hits, as a row of nulls.")
    ] = "inner",
    id_: QueryId = "id",
    x: QueryX = None,
    y: QueryY = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The k nearest others of every object of the store; needs --out.")
    ] = False,
    snapshot: Snapshot = None,
    url: Url = None,
    token_file: TokenFile = None,
    check: Check = None,
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Print the k nearest objects of a place, or join those of a file of places."""
    say_compiling("open")
    names = column_list(columns)
    if everything:
        if at is not None or queries is not None or having is not None:
            raise ValueError("--all asks about every object: --at, --queries and --having do not go with it")
        target = _target("--all", out)
        store = _stored(store, url, "--all")
        from pipelines.graph import knn_graph

        session = start_spark(master, driver_memory)
        graph = knn_graph(
            session,
            store,
            k,
            columns=names,
            where=where,
            max_distance=max_distance,
            snapshot=snapshot,
            verify=verify_of(check, "touch"),
        )
        _write(graph, target)
        return
    if queries is None:
        print_near(
            store, _place(at), k=k, max_distance=max_distance, columns=columns, where=where, having=having,
            snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file, as_json=as_json,
        )  # fmt: skip
        return
    from pipelines.join import knn_join

    store = _stored(store, url, "--queries")
    target = _target("--queries", out)
    frame = _queries(queries, at, id_, x, y, master, driver_memory)
    observation = _observation()
    joined = knn_join(
        frame,
        store,
        k,
        how=how,
        columns=names,
        where=where,
        having=having,
        max_distance=max_distance,
        id="id",
        x="x",
        y="y",
        snapshot=snapshot,
        verify=verify_of(check, "touch"),
        observation=observation,
    )
    _write(joined, target)
    _say_unanswered(observation.get)


def range_(
    radius: Annotated[float, typer.Option(help="Metres, or CRS units in the plane; the disc is closed.")],
    store: StoreOrUrl = None,
    at: At = None,
    queries: Queries = None,
    out: Out = None,
    how: Annotated[
        Literal["inner", "left"], typer.Option(help="left keeps queries without hits, as a row of nulls.")
    ] = "inner",
    id_: QueryId = "id",
    x: QueryX = None,
    y: QueryY = None,
    columns: Carry = "",
    where: Where = None,
    having: Having = None,
    count: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    snapshot: Snapshot = None,
    url: Url = None,
    token_file: TokenFile = None,
    check: Check = None,
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Print all objects within a radius of a place, or join those of a file of places."""
    say_compiling("open")
    names = column_list(columns)
    if queries is None:
        print_near(
            store, _place(at), radius=radius, columns=columns, where=where, having=having, count=count,
            snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file, as_json=as_json,
        )  # fmt: skip
        return
    from pipelines.join import range_join

    store = _stored(store, url, "--queries")
    target = _target("--queries", out)
    frame = _queries(queries, at, id_, x, y, master, driver_memory)
    observation = _observation()
    joined = range_join(
        frame,
        store,
        radius,
        how=how,
        columns=names,
        where=where,
        having=having,
        id="id",
        x="x",
        y="y",
        snapshot=snapshot,
        verify=verify_of(check, "touch"),
        observation=observation,
    )
    _write(joined, target)
    _say_unanswered(observation.get)


def _stored(store: str | None, url: str | None, option: str) -> str:
    if store is None or url is not None:
        raise ValueError(f"{option} is answered in Spark from a store: --store STORE is wanted, and no --url")
    return store


def _place(at: tuple[float, float] | None) -> tuple[float, float]:
    if at is None:
        raise ValueError("no place is given: --at LON LAT, or --queries FILE --out FILE")
    return at


def _queries(
    path: str,
    at: tuple[float, float] | None,
    id_: str,
    x: str | None,
    y: str | None,
    master: str | None,
    driver_memory: str | None,
) -> Any:
    """Return the positions in a file of queries."""
    if at is not None:
        raise ValueError("--at and --queries are both given: one of them is wanted")
    from pipelines.rows.inputs import look
    from pipelines.rows.positions import Columns
    from pipelines.rows.read_files import read_positions

    inputs = look([path])
    session = start_spark(master, driver_memory)
    return read_positions(session, inputs, Columns(id=id_, x=x, y=y, attributes="none")).frame


def _target(option: str, out: str | None) -> str:
    if out is None:
        raise ValueError(f"{option} needs --out FILE for the result (.parquet, .csv or .jsonl)")
    suffix = Path(out).suffix
    if suffix not in (".parquet", ".csv", ".jsonl"):
        raise ValueError(f"--out {out} ends in {suffix or 'nothing'}: .parquet, .csv or .jsonl is wanted")
    check_file("--out", out)
    return out


def _observation() -> Any:
    from pyspark.sql import Observation

    return Observation()


def _say_unanswered(seen: dict[str, int]) -> None:
    """Print how many queries could have no hits, and why, where there are any."""
    reasons = {"no_position": "without a position", "not_legal": "out of range"}
    found = [f"{seen[name]:,} {words}" for name, words in reasons.items() if seen[name]]
    if found:
        print(f"warning: of {seen['queries']:,} queries, {' and '.join(found)} have no hits", file=sys.stderr)


def _write(frame: Any, out: str) -> None:
    from pipelines.rows.write_file import write_file

    rows = write_file(frame, out)
    print(f"{rows:,} rows in {out}", file=sys.stderr)
