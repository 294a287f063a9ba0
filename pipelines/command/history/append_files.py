"""``dtoss history append``: rows of files become a batch of a history."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.command.history.query_history import PastHistory
from pipelines.command.terminal.engine_choice import Engine
from pipelines.command.terminal.option_objects import Only, Without
from pipelines.command.terminal.options import Json
from pipelines.options.merging import Merging
from pipelines.options.reading import Reading
from pipelines.options.snapshot_options import SnapshotOptions

if TYPE_CHECKING:
    from dtoss.history.append_frame import AppendResult


def append(
    history: PastHistory,
    reading: Annotated[Reading, Without(["on_odd_file"])],
    merging: Annotated[Merging, Only(["max_ahead"])],
    engine: Engine,
    positions: Annotated[
        list[str], typer.Argument(help="Files, directories or globs: Parquet, GeoParquet, CSV, JSON lines.")
    ],
    as_json: Json = False,
) -> None:
    """Append the rows of files, each file once, whatever it is called."""
    from dtoss.export.targets import check_folder
    from dtoss.rows.input_columns import Columns
    from dtoss.snapshots.store import on_stderr
    from pipelines.history import append_files, options_of_cycle
    from pipelines.local_joins.first_look import look_at

    named = Columns(**reading.said)
    inputs = look_at(positions, named, schema=reading.schema)
    if "://" not in history:
        check_folder("--history", history)
    for file, why in inputs.skipped:
        print(f"skipped: {file}: {why}", file=sys.stderr)
    done = append_files(
        lambda: engine.session(inputs), inputs, history, named, warn=on_stderr, schema=reading.schema,
        **options_of_cycle(None, SnapshotOptions(reading, merging=merging)),
    )  # fmt: skip
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
