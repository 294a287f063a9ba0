"""``dtoss history append``: rows of files become a batch of a history."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.command.history.query_history import PastHistory
from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.engine_choice import Engine, session_for
from pipelines.command.terminal.options import DriverMemory, Json, Master, seconds_or_none

if TYPE_CHECKING:
    from dtoss.history.append_frame import AppendResult


@row_options.takes_rows(of_store=True)
def append(
    positions: Annotated[
        list[str], typer.Argument(help="Files, directories or globs: Parquet, GeoParquet, CSV, JSON lines.")
    ],
    history: PastHistory,
    rows: row_options.Rows = row_options.NOTHING_SAID,
    schema: row_options.Schema = "union",
    columns: row_options.Attributes = None,
    deleted: options.Deleted = None,
    max_ahead: options.MaxAhead = "5min",
    max_bad: row_options.MaxBad = 0.10,
    wrap: row_options.Wrap = False,
    crs: Annotated[
        str | None, typer.Option(help="CRS of the positions; that of the history, else EPSG:4326, if not given.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="sphere compares a projected CRS on the sphere.")] = None,
    engine: Engine = "auto",
    master: Master = None,
    driver_memory: DriverMemory = None,
    as_json: Json = False,
) -> None:
    """Append the rows of files, each file once, whatever it is called."""
    from dtoss.export.targets import check_folder
    from dtoss.snapshots.store import on_stderr
    from pipelines.history import append_files
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.input_columns import Columns

    named = Columns(
        **row_options.with_others(
            rows, attributes=columns or None, deleted=deleted, crs=row_options.crs_said(crs, metric)
        )
    )
    ahead = seconds_or_none(max_ahead)
    inputs = look_at(positions, named, schema=schema)
    if "://" not in history:
        check_folder("--history", history)
    for file, why in inputs.skipped:
        print(f"skipped: {file}: {why}", file=sys.stderr)
    done = append_files(
        lambda: session_for(engine, master, driver_memory, inputs, named),
        inputs,
        history,
        named,
        warn=on_stderr,
        schema=schema,
        crs=crs,
        metric=metric,
        max_bad=max_bad,
        max_ahead=ahead,
        wrap=wrap,
    )
    print(json.dumps(facts_of(done)) if as_json else said_of(done))


def facts_of(done: AppendResult) -> dict[str, Any]:
    """Return what an append did, for programs."""
    return {
        "version": done.version,
        "rows": done.rows,
        "repeated": done.repeated,
        "quarantined": dict(done.rejected),
        "quarantine": list(done.files),
        "forgotten": done.forgotten,
    }


def said_of(done: AppendResult) -> str:
    """Return what an append did, in a line."""
    said = [f"{done.rows:,} rows appended"]
    if done.repeated:
        said.append(f"{done.repeated:,} files were there already")
    if done.rejected:
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in sorted(done.rejected.items()))
        said.append(f"{sum(done.rejected.values()):,} quarantined ({reasons})")
    if done.forgotten:
        said.append(f"{done.forgotten:,} forgotten")
    return f"version {done.version}: {', '.join(said)}"
