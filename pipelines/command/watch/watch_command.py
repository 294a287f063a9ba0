"""The command that holds arriving positions against standing questions."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pipelines.command.terminal import options, row_options
from pipelines.command.terminal.engine_choice import Engine, sessions_for
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import seconds_or_off, seconds_said
from pipelines.command.terminal.output import say_compiling
from pipelines.command.watch.watch_options import Memory, Rebalance, Strategy, WatchName, Workers, spread_said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.loop.batch_report import Ran


@row_options.takes_rows()
def watch(
    positions: Annotated[
        list[str],
        typer.Argument(help="Folders in which files of positions arrive; files or globs.", show_default=False),
    ],
    store: options.Store,
    watch: WatchName = "default",
    every: Annotated[str, typer.Option(help="Time from look to look: 2s, 1min.", metavar="TIME")] = "2s",
    once: options.Once = False,
    beat: Annotated[
        str, typer.Option(help="Without rows, adopt subscriptions and let objects expire so often.", metavar="TIME")
    ] = "10s",
    rows: row_options.Rows = row_options.NOTHING_SAID,
    text: Annotated[
        str | None, typer.Option("--text", help="Column of text, which words are looked for in.", metavar="COLUMN")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Columns that conditions may name; all if not given.", metavar="NAMES"),
    ] = None,
    carry: Annotated[
        str | None, typer.Option("--carry", help="Columns that events carry along.", metavar="NAMES")
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Rows are messages, not positions of objects: inside only.")
    ] = False,
    expire: Annotated[
        str | None,
        typer.Option("--expire", help="Objects that were not heard of for so long leave: 15min, 1h.", metavar="TIME"),
    ] = None,
    witnesses: options.Witnesses = None,
    clock: options.BeatClock = "data",
    max_ahead: options.MaxAhead = "5min",
    max_rows_per_batch: options.MaxRowsPerBatch = None,
    max_bad: row_options.MaxBad = 0.10,
    on_odd_file: row_options.OnOddFile = "refuse",
    missing: Annotated[
        Literal["error", "null", "keep"] | None,
        typer.Option(
            "--missing",
            help="What a column that conditions name, and a file lacks, is: an error, null, or as it was; null if not "
            "given, with a warning.",
        ),
    ] = None,
    retain: Annotated[
        str | None, typer.Option("--retain", help="Remove events that are older: 7d, 12h.", metavar="TIME")
    ] = None,
    strategy: Strategy = None,
    workers: Workers = None,
    rebalance: Rebalance = "round",
    memory: Memory = None,
    schema: row_options.Schema = "union",
    wrap: row_options.Wrap = False,
    crs: Annotated[
        str | None, typer.Option(help="Of the positions; that of the subscriptions, or of the store.")
    ] = None,
    metric: options.MetricOfRows = None,
    engine: Engine = "auto",
    master: options.Master = None,
    driver_memory: options.DriverMemory = None,
    as_json: options.Json = False,
) -> int:
    """Tell when objects enter, leave or are inside what was subscribed to."""
    from dtoss.geometry.space import space_of
    from dtoss.snapshots.store import on_stderr
    from dtoss.witnesses import USUAL_WITNESSES
    from pipelines.loop.arriving_batches import BatchesFailed
    from pipelines.loop.tick_clock import clock_of
    from pipelines.rows.input_columns import Columns
    from pipelines.rows.option_checks import check_said
    from pipelines.watch import watch_files
    from pipelines.watching.watch_batches import Rowwise

    has_ids = "id" in rows or not messages
    named = Columns(**row_options.with_others(rows, attributes=columns, crs=row_options.crs_said(crs, metric)))
    check_said(named)
    if not has_ids:
        named = replace(named, id=None)
    unit = "ms" if named.time_format == "epoch_ms" else None
    space = None if crs is None and metric is None else space_of(crs, metric)
    spread = spread_said(strategy, workers, rebalance, memory)
    _warn_of_nothing(store, watch)
    say_compiling("build")
    sessions = sessions_for(engine, master, driver_memory, named)
    try:
        done = watch_files(
            positions,
            store,
            sessions,
            name=watch,
            every=seconds_said(every, "--every"),
            beat=seconds_said(beat, "--beat"),
            once=once,
            columns=named,
            rows=Rowwise(text, messages, has_ids, wrap, unit, space),
            schema=schema,
            expire=seconds_or_off(expire, "--expire"),
            witnesses=witnesses or USUAL_WITNESSES,
            clock=clock_of(clock),
            max_ahead=seconds_or_off(max_ahead, "--max-ahead"),
            max_bad=max_bad,
            carry=tuple(name.strip() for name in carry.split(",")) if carry else (),
            most_rows=max_rows_per_batch,
            retain=seconds_or_off(retain, "--retain"),
            renew=sessions.renew,
            spread=spread,
            on_odd_file=on_odd_file,
            missing=missing,
            say=_say_json if as_json else _say,
            warn=on_stderr,
        )
    except BatchesFailed as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    batches = "1 batch" if done.batches == 1 else f"{done.batches:,} batches"
    what = f"{done.rows:,} rows in {batches}, {done.events:,} events"
    if done.stopped:
        note(f"stopped after {what}")
    elif not as_json:
        print(what if done.batches else "nothing has changed")
    return 0


def _warn_of_nothing(store: str, name: str) -> None:
    """Warn where nothing is subscribed to: rows are read once, and the name may be another one's."""
    from dtoss.names import did_you_mean
    from dtoss.snapshots.store import on_stderr
    from dtoss.watch.subscriptions.current import change_number
    from dtoss.watch.watch_folder import Home, watches_of

    if change_number(Home(store, name)) == 0:
        near = did_you_mean(name, [other for other in watches_of(store) if other != name])
        on_stderr(f"nobody has subscribed to watch {name!r}: its rows are read, and told to nobody{near}")


def _say(told: Ran) -> None:
    """Say what a batch has done, in one line on stderr."""
    from pipelines.watching.watch_batches import events_of, lag_of

    counts, behind = told.counts, lag_of(told)
    rows = counts.get("rows", 0)
    kinds = [f"{counts[kind]:,} {kind}" for kind in ("enter", "leave", "inside", "reset") if counts.get(kind)]
    others = ("late", "repeated", "tied", "outdated", "expired", "forgotten")
    left = [f"{counts[name]:,} {name}" for name in others if counts.get(name)]
    bad = sum(told.commit.document["reasons"].values())
    left += [f"{bad:,} quarantined"] if bad else []
    refused = len(told.commit.document["batch"].get("refused", ()))
    left += [f"{refused:,} files refused"] if refused else []
    rate = f"{rows / told.seconds:,.0f} rows/s, {events_of(told) / told.seconds:,.0f} events/s, " if rows else ""
    lag = "" if behind is None else f", {_duration(behind)} behind"
    what = ", ".join([f"{rows:,} rows", *left, *(kinds or ["no event"])])
    note(
        f"{told.commit.number}: {what}; {rate}{told.seconds:.1f} s, busiest task {told.busiest:.1f} s{lag}"
        f"{_spread(told.commit.document)}"
    )


def _spread(document: Mapping[str, Any]) -> str:
    """Return how even the work of workers was, and what moved, for the line of a batch; nothing where none is."""
    layout = document.get("layout")
    if not layout or not document["work"]:
        return ""
    seconds = [one["seconds"] for one in document["work"]]
    mean = sum(seconds) / layout["workers"]
    moved = f", {layout['moved'] / 1e6:,.1f} MB moved" if layout["moved"] else ""
    return f"; {layout['workers']} workers, the busiest {max(seconds) / mean:.2f} times the mean{moved}" if mean else ""


def _workers(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what workers have done, where rows were spread over some."""
    layout = document.get("layout")
    if not layout:
        return {}
    return {"round": layout["round"], "moved_bytes": layout["moved"], "workers": document["work"]}


def _duration(seconds: float) -> str:
    """Return seconds as people say them."""
    for name, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {name}"
    return f"{seconds:,.0f} s"


def _say_json(told: Ran) -> None:
    """Print what a batch has done, as a line of JSON."""
    from pipelines.watching.watch_batches import events_of, lag_of

    document = told.commit.document
    facts = {
        "commit": told.commit.number,
        "rows": told.counts.get("rows", 0),
        "events": events_of(told),
        "counts": dict(told.counts),
        "reasons": document["reasons"],
        "refused": document["batch"].get("refused", {}),
        "changes": document["changes"],
        "unanswered": document["unanswered_count"],
        "seconds": round(told.seconds, 3),
        "busiest": round(told.busiest, 3),
        **_workers(document),
        "lag": lag_of(told),
    }
    print(json.dumps(facts), flush=True)
