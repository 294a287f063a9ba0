"""The command that counts arriving positions in windows."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import typer

from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.engine_choice import Engine, sessions_for
from pipelines.command.terminal.notes import note, say, say_json
from pipelines.command.terminal.output import say_compiling
from pipelines.command.windows.backfill_command import check_alone
from pipelines.command.windows.backfill_command import rebuild as rebuilt

Name = Annotated[str, typer.Option("--name", help="Name of the windows in the store.", show_default=False)]
Duration = "TIME"

WAITING = (
    "no window has ended: an end is due once as many objects as --witnesses says have come past it; --clock wall makes "
    "all due that are past now, and rows of before are late from then on"
)
"""What is said of a run that has read rows and told nothing."""


@row_options.takes_rows()
def run(
    positions: Annotated[
        list[str],
        typer.Argument(help="Folders in which files of positions arrive; files or globs.", show_default=False),
    ],
    store: options.Store,
    name: Name,
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Of the windows: 5min,1h,24h; without any of these options those of before.", metavar="TIMES"
        ),
    ] = None,
    slide: Annotated[
        str | None, typer.Option(help="Time from one end to the next; 1min if not given.", metavar=Duration)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Keys: partition, sites:FILE, polygons:FILE.geojson, h3:RES; partition if not given."),
    ] = None,
    measures: Annotated[
        str | None,
        typer.Option(
            help="rows, objects, here, arrivals, departures, flow, speed, max_speed, p50_speed, p95_speed; "
            "rows,objects if not given.",
            metavar="NAMES",
        ),
    ] = None,
    late: Annotated[
        str | None,
        typer.Option(help="Rows so long behind the watermark still count; 10min if not given.", metavar=Duration),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(help="The watermark stays so long behind; 0s if not given.", metavar=Duration),
    ] = None,
    max_gap: Annotated[
        str | None,
        typer.Option("--max-gap", help="Rows further apart are no move; 10min if not given.", metavar=Duration),
    ] = None,
    expire: Annotated[
        str | None,
        typer.Option(help="An object is here so long after its last row; for ever if not given.", metavar=Duration),
    ] = None,
    witnesses: Annotated[
        str | None,
        typer.Option(help="Objects that move the watermark: 1%, or a count; 1% if not given.", metavar="SHARE"),
    ] = None,
    max_ahead: Annotated[
        str | None,
        typer.Option("--max-ahead", help="Rows so long after now are set aside; 5min if not given.", metavar=Duration),
    ] = None,
    max_speed: Annotated[
        float | None,
        typer.Option("--max-speed", help="Faster moves, in metres a second, are jumps and no moves.", metavar="SPEED"),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the steps, what is shuffled and why, and run nothing.")
    ] = False,
    clock: options.BeatClock = "data",
    every: Annotated[str, typer.Option(help="Time from look to look: 10s, 1min.", metavar=Duration)] = "10s",
    once: options.Once = False,
    max_rows_per_batch: options.MaxRowsPerBatch = None,
    workers: Annotated[
        int | None, typer.Option(help="Tasks of a batch; as many as there are cores if not given.", min=1, max=256)
    ] = None,
    rebalance: Annotated[
        str,
        typer.Option(
            help="Time of rows after which groups of objects may move between workers; off leaves them.",
            metavar=Duration,
        ),
    ] = "30min",
    move_budget: Annotated[
        str, typer.Option("--move-budget", help="State that moves at once: bytes, or such as 5%.")
    ] = "1%",
    rebuild: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--rebuild",
            help="Count the ends that rows from FROM on and before TO can change anew, from the files that are there.",
            metavar="FROM TO",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Let other windows under this name, or other pivots, take over without a gap, once they are whole.",
        ),
    ] = False,
    retain: Annotated[
        str | None,
        typer.Option(
            help="Results of ends so long behind the watermark are removed, by whole hours; all are kept if not given.",
            metavar=Duration,
        ),
    ] = None,
    max_bad: row_options.MaxBad = 0.10,
    on_odd_file: row_options.OnOddFile = "refuse",
    rows: row_options.Rows = row_options.NOTHING_SAID,
    schema: row_options.Schema = "union",
    wrap: row_options.Wrap = False,
    crs: Annotated[str | None, typer.Option(help="Of the positions; that of the store, or degrees.")] = None,
    metric: options.MetricOfRows = None,
    engine: Engine = "auto",
    master: options.Master = None,
    driver_memory: options.DriverMemory = None,
    as_json: options.Json = False,
) -> int:
    """Count the rows of arriving files in overlapping windows, each exactly once."""
    from dtoss.geometry.space import space_of
    from dtoss.snapshots.store import on_stderr
    from pipelines.loop.arriving_batches import BatchesFailed
    from pipelines.loop.tick_clock import clock_of
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.option_checks import check_said
    from pipelines.windowing.explaining import told_of
    from pipelines.windowing.move_groups import MOVE_BUDGET, REBALANCE, moving_of
    from pipelines.windowing.window_options import wanted_of
    from pipelines.windows import run_windows

    named = Columns(**row_options.with_others(rows, crs=row_options.crs_said(crs, metric)))
    check_said(named)
    of_spec = {
        "lengths": lengths, "slide": slide, "by": by, "measures": measures, "late": late, "delay": delay,
        "max-gap": max_gap, "expire": expire, "witnesses": witnesses, "max-ahead": max_ahead, "max-speed": max_speed,
    }  # fmt: skip
    sessions = sessions_for(engine, master, driver_memory, named)
    wanted = wanted_of({key: value for key, value in of_spec.items() if value is not None})
    how: dict[str, Any] = {
        "space": None if crs is None and metric is None else space_of(crs, metric),
        "columns": named,
        "wrap": wrap, "unit": "ms" if named.time_format == "epoch_ms" else None, "schema": schema, "max_bad": max_bad,
        "warn": on_stderr,
    }  # fmt: skip
    moving = moving_of(workers, rebalance, move_budget)
    say_compiling("windows")
    if explain:
        for line in told_of(store, name, wanted, how["space"], moving, replace):
            print(line)
        return 0
    if rebuild is not None:
        check_alone(
            {
                "--max-rows-per-batch": max_rows_per_batch is not None,
                "--retain": retain is not None,
                "--clock wall": clock == "wall",
                "--workers": workers is not None,
                "--rebalance": rebalance != REBALANCE,
                "--move-budget": move_budget != MOVE_BUDGET,
                "--replace": replace,
                "--on-odd-file": on_odd_file != "refuse",
            }
        )
        return rebuilt(rebuild, positions, store, name, sessions, wanted, as_json, how)
    try:
        done = run_windows(
            positions,
            store,
            name,
            sessions,
            wanted,
            **how,
            every=options.seconds_said(every, "--every"),
            once=once,
            most_rows=max_rows_per_batch,
            renew=sessions.renew,
            say=partial(say_json if as_json else say, None),
            moving=moving,
            retain=retain,
            clock=clock_of(clock),
            replacing=replace,
            on_odd_file=on_odd_file,
        )
    except BatchesFailed as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    batches = "1 batch" if done.batches == 1 else f"{done.batches:,} batches"
    what = f"{done.counts.get('rows', 0):,} rows in {batches}, {done.counts.get('results', 0):,} results"
    if done.stopped:
        note(f"stopped after {what}")
    elif not as_json:
        print(what if done.batches else "nothing has changed")
        if once and done.batches and not done.counts.get("results") and clock == "data":
            note(WAITING)
    return 0
