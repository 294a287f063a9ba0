"""``dtoss windows show``: one window of all keys, one key over its windows, or flows between keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.command import options
from pipelines.command.notes import note
from pipelines.command.windows.running import Name

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.windows.stored.asked import Windows

_HIDDEN = ("end", "revision", "final")
"""Columns that are the same in all rows of one window, or said beside them."""


def show(
    store: options.Store,
    name: Name,
    at: Annotated[
        str,
        typer.Option("--at", help="Where it ends: a time such as 2026-01-31T12:00, or now.", metavar="TIME"),
    ] = "now",
    window: Annotated[
        str | None,
        typer.Option(help="Its length: of the windows, or, now, any up to the longest; the first if not given."),
    ] = None,
    key: Annotated[int | None, typer.Option(help="Only this key.", metavar="N")] = None,
    top: Annotated[int, typer.Option(help="Rows, those of most first; 0 for all, by key.", min=0, metavar="N")] = 20,
    flow: Annotated[bool, typer.Option("--flow", help="Moves between keys instead.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print what happened in each place in the time up to now, or up to an end of before."""
    from dtoss.windows.stored.asked import open_windows, time_text

    found = open_windows(store, name)
    length = window or found.spec.names[0]
    end = None if at.strip() == "now" else at
    table = found.flow(end, length) if flow else found.at(end, length)
    if key is not None:
        table = _of_key(table, key, flow)
    table = _first(table, top, "moves" if flow else _leading(table))
    if as_json:
        for row in table.to_pylist():
            print(json.dumps({"end": time_text(row.pop("end")), **row} if "end" in row else row))
        return
    _print(found, table, length, flow)


def _of_key(table: pa.Table, key: int, flow: bool) -> pa.Table:
    import pyarrow.compute as pc

    if flow:
        return table.filter(pc.or_(pc.equal(table["from"], key), pc.equal(table["to"], key)))
    return table.filter(pc.equal(table["key"], key))


def _leading(table: pa.Table) -> str | None:
    """Return the first measure, by which rows are in order."""
    return next((name for name in table.column_names if name not in ("key", *_HIDDEN)), None)


def _first(table: pa.Table, top: int, by: str | None) -> pa.Table:
    if top == 0 or by is None:
        return table
    labels = [(name, "ascending") for name in ("key", "from", "to") if name in table.column_names]
    return table.sort_by([(by, "descending"), *labels]).slice(0, top)


def _print(found: Windows, table: pa.Table, length: str, flow: bool) -> None:
    from dtoss.windows.stored.asked import time_text
    from pipelines.command.output import print_columns

    names = [name for name in table.column_names if name not in _HIDDEN]
    print_columns(names, [[_cell(name, row[name]) for name in names] for row in table.to_pylist()])
    mark = found.watermark
    ends = {} if flow or not len(table) else {table["end"][0].as_py()}
    which = f"{length} up to {time_text(next(iter(ends)))}" if ends else length
    note(f"{which}; due up to {'nothing yet' if mark is None else time_text(mark)}")
    quarantined = found.counts.get("quarantined", 0)
    if quarantined:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        note(f"{quarantined:,} of {found.counts['rows']:,} rows were set aside: {reasons}")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if name in ("key", "from", "to") else f"{value:,}"
