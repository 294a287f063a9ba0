"""``dtoss history``: the commands of the history of positions."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.command.history import maintain_history, query_history
from pipelines.command.history.query_history import PastHistory
from pipelines.command.terminal.option_objects import GroupedCommands, Only, Without, add_commands
from pipelines.command.terminal.options import Json
from pipelines.command.terminal.output import Engine
from pipelines.options.snapshot_options import Merging, Reading, SnapshotOptions

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
    inputs = look_at(positions, named, schema=reading.schema, session=engine.session)
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


history = typer.Typer(
    cls=GroupedCommands,
    help="Where was everything? Every row kept, asked by place and time.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
add_commands(
    history,
    {
        "append": append,
        "range": query_history.range_,
        "within": query_history.within,
        "knn": query_history.knn,
        "count": query_history.count,
        "trajectory": query_history.trajectory,
        "at": query_history.at,
        "settle": maintain_history.settle,
        "report": maintain_history.report,
        "info": maintain_history.info,
        "files": maintain_history.files,
        "log": maintain_history.log,
        "verify": maintain_history.verify,
        "gc": maintain_history.gc,
        "forget": maintain_history.forget,
        "export": maintain_history.export,
        "adapt": maintain_history.adapt,
        "calibrate": maintain_history.calibrate,
    },
)
