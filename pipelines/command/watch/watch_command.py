"""The command that holds arriving positions against standing questions, and options that these commands share."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtoss.names import DEFAULT_NAME
from dtoss.option import Option
from dtoss.plain_numbers import is_whole
from pipelines.command.terminal import options
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.option_objects import Without
from pipelines.command.terminal.output import Engine
from pipelines.options.snapshot_options import Reading
from pipelines.options.streaming import Arriving, SpreadWishes, WatchOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.loop.batch_report import Ran
    from pipelines.watching.spreading import SpreadOptions


def watch(
    positions: Annotated[
        list[str],
        typer.Argument(help="Folders in which files of positions arrive; files or globs.", show_default=False),
    ],
    store: options.Store,
    asked: WatchOptions,
    arriving: Arriving,
    spreading: SpreadWishes,
    reading: Annotated[Reading, Without(["deleted"])],
    engine: Engine,
    watch: WatchName = "default",
    as_json: options.Json = False,
) -> int:
    """Tell when objects enter, leave, cross, dwell in or are inside what was subscribed to."""
    from dtoss.rows.input_columns import Columns
    from dtoss.snapshots.store import Store, on_stderr
    from dtoss.watch.watch_folder import Home
    from pipelines.loop.arriving_batches import BatchesFailed, Pace, Sources
    from pipelines.loop.batch_report import clock_of
    from pipelines.rows.delimited_frame import check_said
    from pipelines.watch import hold_files, watching_of
    from pipelines.watching.watch_batches import Rowwise

    has_ids = "id" in reading.columns or not asked.messages
    named = Columns(**reading.said)
    check_said(named)
    if not has_ids:
        named = replace(named, id=None)
    unit = "ms" if named.time_format == "epoch_ms" else None
    rows = Rowwise(asked.text, asked.messages, has_ids, reading.wrap, unit, reading.space)
    spread = spread_said(spreading)
    _warn_of_nothing(store, watch)
    sessions = engine.sessions()
    try:
        done = hold_files(
            watching_of(
                Home(Store(store).absolute.path, watch), asked, rows, reading.max_bad, clock_of(arriving.clock), spread,
                _say_json if as_json else _say, on_stderr,
            ),
            Sources(positions, named, reading.schema, arriving.max_rows_per_batch, reading.on_odd_file),
            Pace(asked.every, asked.beat, arriving.once),
            sessions,
            renew=sessions.renew,
        )  # fmt: skip
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
        on_stderr(f"nobody has subscribed to watch {name!r}: its rows are read, and make no events{near}")


def _say(told: Ran) -> None:
    """Say what a batch has done, in one line on stderr."""
    from pipelines.watching.watch_batches import events_of, lag_of

    counts, behind = told.counts, lag_of(told)
    rows = counts.get("rows", 0)
    kinds = [
        f"{counts[kind]:,} {kind}"
        for kind in ("enter", "leave", "cross", "dwell", "inside", "reset")
        if counts.get(kind)
    ]
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


WatchName = Annotated[str, Option("Name of the watch in the store.", "NAME", name="--watch")]
NO_NAME = DEFAULT_NAME
"""The watch where none is named."""


def spread_said(asked: SpreadWishes) -> SpreadOptions | None:
    """Return how rows are spread over workers; None where they are not."""
    from pipelines.options.said_amounts import bytes_of

    if asked.strategy is None:
        for name, given in (("--workers", asked.workers is not None), ("--memory", asked.memory is not None)):
            if given:
                raise ValueError(f"{name} goes with --strategy NAME, which spreads rows over workers")
        if asked.rebalance != "round":
            raise ValueError("--rebalance goes with --strategy NAME, which spreads rows over workers")
        return None
    if asked.workers is None:
        raise ValueError(f"--strategy {asked.strategy} wants --workers N: over how many rows are spread")
    from pipelines.watching.spreading import ROUND_SECONDS, SpreadOptions, check_strategy

    batches = {"round": 1, "off": 0}.get(asked.rebalance, -1)
    if batches < 0:
        if not (is_whole(asked.rebalance) and int(asked.rebalance) > 0):
            raise ValueError(f"--rebalance {asked.rebalance!r}: round, off, or a number of batches from 1 on is wanted")
        batches = int(asked.rebalance)
    seconds = ROUND_SECONDS if asked.rebalance == "round" else 0.0
    memory = None if asked.memory is None else bytes_of(asked.memory)
    spread = SpreadOptions(asked.strategy, asked.workers, batches, memory, seconds)
    check_strategy(spread)
    return spread
