"""``dtoss knn`` and ``dtoss range``: one place, or a file of places."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipelines.command.query.many_places import join_places, stored, target_of
from pipelines.command.query.one_place import column_list, print_near
from pipelines.command.query.print_answers import form_of
from pipelines.command.terminal import row_options
from pipelines.command.terminal.lengths import in_store
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import (
    At,
    Carry,
    Check,
    DriverMemory,
    GeoJson,
    Having,
    Json,
    Limit,
    Master,
    MaxDistance,
    Out,
    Queries,
    QueryCrs,
    QueryGeometry,
    QueryId,
    QueryIdType,
    QueryX,
    QueryY,
    Radius,
    Snapshot,
    StoreOrUrl,
    TokenFile,
    Url,
    Where,
    checks_of,
    verify_of,
)
from pipelines.command.terminal.output import say_compiling, start_spark


@row_options.takes_rows(only=row_options.TEXT)
def knn(
    store: StoreOrUrl = None,
    at: At = None,
    k: Annotated[int, typer.Option("-k", help="How many of the nearest objects.")] = 1,
    max_distance: MaxDistance = None,
    queries: Queries = None,
    out: Out = None,
    how: Annotated[
        Literal["inner", "left"], typer.Option(help="left keeps queries without hits, as a row of nulls.")
    ] = "inner",
    id_: QueryId = "id",
    x: QueryX = None,
    y: QueryY = None,
    rows: row_options.Rows = row_options.NOTHING_SAID,
    geometry: QueryGeometry = None,
    id_type: QueryIdType = None,
    crs: QueryCrs = None,
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
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print the k nearest objects of a place, or join those of a file of places."""
    names = column_list(columns)
    if everything:
        if at is not None or queries is not None or having is not None:
            raise ValueError("--all asks about every object: --at, --queries and --having do not go with it")
        target = target_of("--all", out)
        form_of(as_json, geojson, limit, "--all")
        _check_unasked(rows)
        store = stored(store, url, "--all")
        say_compiling("open")
        from pipelines.graph import knn_graph
        from pipelines.rows.write_file import write_file

        session = start_spark(master, driver_memory)
        graph = knn_graph(
            session,
            store,
            k,
            columns=names,
            where=where,
            max_distance=None if max_distance is None else in_store("--max-distance", max_distance, store, snapshot),
            snapshot=snapshot,
            verify=verify_of(check, "touch"),
        )
        note(f"{write_file(graph, target):,} rows in {target}")
        return
    if queries is None:
        _check_unasked(rows)
        place = _place(at)
        say_compiling("open")
        print_near(
            store, place, k=k, max_distance=max_distance, columns=columns, where=where, having=having,
            snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file, as_json=as_json,
            geojson=geojson, limit=limit,
        )  # fmt: skip
        return
    if at is not None:
        raise ValueError("--at and --queries are both given: one of them is wanted")
    form_of(as_json, geojson, limit, "--queries")
    join_places(
        store, queries, out, k=k, max_distance=max_distance, how=how, id=id_, x=x, y=y, rows=rows, columns=columns,
        where=where, having=having, snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file,
        master=master, driver_memory=driver_memory, geometry=geometry, id_type=id_type, crs=crs,
    )  # fmt: skip


@row_options.takes_rows(only=row_options.TEXT)
def range_(
    radius: Radius,
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
    rows: row_options.Rows = row_options.NOTHING_SAID,
    geometry: QueryGeometry = None,
    id_type: QueryIdType = None,
    crs: QueryCrs = None,
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
    geojson: GeoJson = False,
    limit: Limit = None,
) -> None:
    """Print all objects within a radius of a place, or join those of a file of places."""
    if queries is None:
        _check_unasked(rows)
        place = _place(at)
        say_compiling("open")
        print_near(
            store, place, radius=radius, columns=columns, where=where, having=having, count=count,
            snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file, as_json=as_json,
            geojson=geojson, limit=limit,
        )  # fmt: skip
        return
    if at is not None:
        raise ValueError("--at and --queries are both given: one of them is wanted")
    form_of(as_json, geojson, limit, "--queries")
    join_places(
        store, queries, out, radius=radius, how=how, id=id_, x=x, y=y, rows=rows, columns=columns, where=where,
        having=having, snapshot=snapshot, verify=checks_of(check), url=url, token_file=token_file, master=master,
        driver_memory=driver_memory, geometry=geometry, id_type=id_type, crs=crs,
    )  # fmt: skip


def _check_unasked(rows: row_options.Rows) -> None:
    """Check that nothing is said of how text is written where none is read."""
    if rows:
        raise ValueError(f"{', '.join(row_options.option_names(rows))} is for text in files: --queries FILE is wanted")


def _place(at: tuple[float, float] | None) -> tuple[float, float]:
    if at is None:
        raise ValueError("no place is given: --at LON LAT, or --queries FILE --out FILE")
    return at
