"""The command that counts arriving positions in windows."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.command import options, row_options
from pipelines.command.notes import note
from pipelines.command.output import say_compiling
from pipelines.command.sessions import Sessions

if TYPE_CHECKING:
    from pipelines.windowing.batches import Ran

Name = Annotated[str, typer.Option("--name", help="Name of the windows in the store.", show_default=False)]
Duration = "TIME"


def run(
    positions: Annotated[
        str, typer.Argument(help="Folder in which files of positions arrive; a file or a glob.", show_default=False)
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
        typer.Option(help="Keys: partition, sites:FILE, polygons:FILE.geojson; partition if not given."),
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
    every: Annotated[str, typer.Option(help="Time from look to look: 10s, 1min.", metavar=Duration)] = "10s",
    once: Annotated[bool, typer.Option("--once", help="Read what there is, and end.")] = False,
    max_rows_per_batch: Annotated[
        int | None, typer.Option(help="Rows of a batch, about, of whole files; all there are if not given.", min=1)
    ] = None,
    max_bad: row_options.MaxBad = 0.10,
    id_: Annotated[
        str, typer.Option("--id", help="Column with the object's id; id if not given.", metavar="COLUMN")
    ] = "id",
    x: Annotated[
        str | None, typer.Option("--x", help="Column with lon or x; lon, or x without a lon.", metavar="COLUMN")
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", help="Column with lat or y; lat, or y without a lon.", metavar="COLUMN")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="Column with the time of a row; t if not given.", metavar="COLUMN")
    ] = None,
    time_format: row_options.TimeFormat = None,
    delimiter: row_options.Delimiter = None,
    encoding: row_options.Encoding = None,
    multiline: row_options.Multiline = False,
    decimal: row_options.Decimal = None,
    no_header: row_options.NoHeader = False,
    schema: row_options.Schema = "union",
    wrap: row_options.Wrap = False,
    crs: Annotated[str | None, typer.Option(help="Of the positions; that of the store, or degrees.")] = None,
    metric: Annotated[Literal["sphere", "plane"] | None, typer.Option(help="Of a projected CRS.")] = None,
    master: options.Master = None,
    driver_memory: options.DriverMemory = None,
    as_json: options.Json = False,
) -> int:
    """Count the rows of arriving files in overlapping windows, each exactly once."""
    say_compiling("build")
    from dtoss.geometry.space import space_of
    from dtoss.snapshots.store import on_stderr
    from pipelines.loop.batches import BatchesFailed
    from pipelines.rows.positions import Columns
    from pipelines.windowing.asked import wanted_of
    from pipelines.windows import run_windows

    asked: dict[str, Any] = {
        "id": id_, "x": x, "y": y, "time": time, "time_format": time_format, "delimiter": delimiter,
        "encoding": encoding, "multiline": multiline, "decimal": decimal, "header": not no_header,
    }  # fmt: skip
    of_spec = {
        "lengths": lengths, "slide": slide, "by": by, "measures": measures, "late": late, "delay": delay,
        "max-gap": max_gap, "expire": expire, "witnesses": witnesses, "max-ahead": max_ahead, "max-speed": max_speed,
    }  # fmt: skip
    sessions = Sessions(master, driver_memory)
    try:
        done = run_windows(
            positions,
            store,
            name,
            sessions,
            wanted_of({key: value for key, value in of_spec.items() if value is not None}),
            space=None if crs is None and metric is None else space_of(crs, metric),
            every=_seconds(every, "--every"),
            once=once,
            columns=Columns(**{key: value for key, value in asked.items() if value is not None}),
            wrap=wrap,
            unit="ms" if time_format == "epoch_ms" else None,
            schema=schema,
            max_bad=max_bad,
            most_rows=max_rows_per_batch,
            renew=sessions.renew,
            say=_say_json if as_json else _say,
            warn=on_stderr,
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
    return 0


def _seconds(text: str, option: str) -> float:
    from dtoss.errors import InputError
    from pipelines.rows.amounts import seconds_of

    try:
        return seconds_of(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _say(ran: Ran) -> None:
    """Say what a batch has done, in one line on stderr."""
    counts, document = ran.counts, ran.commit.document
    left = [f"{counts[name]:,} {name}" for name in ("losers", "jumps", "quarantined") if counts.get(name)]
    what = ", ".join([f"{counts['rows']:,} rows", *left, f"{counts['results']:,} results"])
    revised = f" ({counts['revised']:,} revised)" if counts["revised"] else ""
    mark = "" if document["watermark"] is None else f"; due up to {_time(document['watermark'])}"
    note(f"{ran.commit.number}: {what}{revised}; {ran.seconds:.1f} s, busiest task {ran.busiest:.1f} s{mark}")


def _time(microseconds: int) -> str:
    from dtoss.windows.stored.asked import time_text

    return time_text(microseconds)


def _say_json(ran: Ran) -> None:
    """Print what a batch has done, as a line of JSON."""
    document = ran.commit.document
    facts = {
        "commit": ran.commit.number,
        "counts": dict(ran.counts),
        "reasons": document["reasons"],
        "watermark": None if document["watermark"] is None else _time(document["watermark"]),
        "seconds": round(ran.seconds, 3),
        "busiest": round(ran.busiest, 3),
    }
    print(json.dumps(facts), flush=True)
