"""``dtoss windows``: arriving positions counted in windows, or a time counted anew, and what windows say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.notes import note, say, say_json
from pipelines.command.terminal.option_objects import GroupedCommands, Without, add_commands
from pipelines.command.terminal.output import Engine
from pipelines.options.snapshot_options import Reading, SaidOf
from pipelines.options.streaming import Arriving, CountingOptions, WindowSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from dtoss.windows.query.window_query import Windows
    from pipelines.loop.arriving_batches import Sources
    from pipelines.windowing.backfill_run import Rebuilt
    from pipelines.windowing.begin_windows import Which
    from pipelines.windowing.running_sets import How


Name = Annotated[str, Option("Name of the windows in the store.", name="--name")]

WAITING = (
    "no window has ended: an end is due once as many objects as --witnesses says have come past it; --clock wall makes "
    "all due that are past now, and rows of before are late from then on"
)
"""What is said of a run that has read rows and told nothing."""


def run(
    positions: Annotated[
        list[str],
        typer.Argument(help="Folders in which files of positions arrive; files or globs.", show_default=False),
    ],
    store: options.Store,
    name: Name,
    spec: Annotated[Mapping[str, Any], SaidOf(WindowSpec)],
    asked: CountingOptions,
    arriving: Arriving,
    reading: Annotated[Reading, Without(["attributes", "deleted"])],
    engine: Engine,
    as_json: options.Json = False,
) -> int:
    """Count the rows of arriving files in overlapping windows, each exactly once."""
    from dtoss.rows.input_columns import Columns
    from dtoss.snapshots.store import Store, on_stderr
    from dtoss.windows.storage.window_document import Home
    from pipelines.loop.arriving_batches import BatchesFailed, Pace, Sources
    from pipelines.loop.batch_report import clock_of
    from pipelines.rows.delimited_frame import check_said
    from pipelines.windowing.begin_windows import Which, wanted_of
    from pipelines.windowing.explaining import told_of
    from pipelines.windowing.running_sets import How
    from pipelines.windowing.window_batches import moving_of
    from pipelines.windows import count_files

    named = Columns(**reading.said)
    check_said(named)
    sessions = engine.sessions()
    wanted = wanted_of({key.replace("_", "-"): value for key, value in spec.items()})
    moving = moving_of(asked.workers, asked.rebalance, asked.move_budget)
    if asked.explain:
        for line in told_of(store, name, wanted, reading.space, moving, asked.replace):
            print(line)
        return 0
    unit = "ms" if named.time_format == "epoch_ms" else None
    how = How(
        reading.max_bad, False, asked.retain, reading.wrap, unit, partial(say_json if as_json else say, None),
        on_stderr, moving, clock_of(arriving.clock),
    )  # fmt: skip
    which = Which(Home(Store(store).absolute.path, name), wanted, reading.space, asked.replace)
    sources = Sources(positions, named, reading.schema, arriving.max_rows_per_batch, reading.on_odd_file)
    if asked.rebuild is not None:
        check_alone(asked, arriving, reading)
        return rebuild(asked.rebuild, which, sources, how, sessions, as_json)
    try:
        pace = Pace(asked.every, asked.every, arriving.once)
        done = count_files(which, sources, pace, how, sessions, renew=sessions.renew)
    except BatchesFailed as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    batches = "1 batch" if done.batches == 1 else f"{done.batches:,} batches"
    what = f"{done.counts.get('rows', 0):,} rows in {batches}, {done.counts.get('results', 0):,} results"
    if done.stopped:
        note(f"stopped after {what}")
    elif not as_json:
        print(what if done.batches else "nothing has changed")
        if arriving.once and done.batches and not done.counts.get("results") and arriving.clock == "data":
            note(WAITING)
    return 0


def rebuild(
    asked: tuple[str, str],
    which: Which,
    sources: Sources,
    how: How,
    sessions: Callable[[], SparkSession | None],
    as_json: bool,
) -> int:
    """Count windows anew between two times, and say what has changed."""
    from pipelines.windowing.backfill_run import rebuild_windows, span_asked

    _say(rebuild_windows(which, sources, how, sessions, span_asked(*asked)), as_json)
    return 0


def check_alone(asked: CountingOptions, arriving: Arriving, reading: Reading) -> None:
    """Check that nothing is asked for that a rebuild does not do."""
    usual = CountingOptions()
    for option, given in (
        ("--max-rows-per-batch", arriving.max_rows_per_batch is not None),
        ("--retain", asked.retain is not None),
        ("--clock wall", arriving.clock == "wall"),
        ("--workers", asked.workers is not None),
        ("--rebalance", asked.rebalance != usual.rebalance),
        ("--move-budget", asked.move_budget != usual.move_budget),
        ("--replace", asked.replace),
        ("--on-odd-file", reading.on_odd_file != "refuse"),
    ):
        if given:
            raise InputError(f"--rebuild counts a time anew and ends: leave {option} out")


def _say(done: Rebuilt, as_json: bool) -> None:
    from dtoss.windows.backfill.recount import backfill_text
    from dtoss.windows.durations import time_text

    counts, rebuild = done.counts, done.rebuild
    if as_json:
        facts = {
            "commit": done.commit.number,
            "reason": done.commit.document["rebuilds"][-1]["reason"],
            "ends_after": time_text(rebuild.first),
            "ends_to": time_text(rebuild.last),
            "state": "replaced" if rebuild.replaced else "kept",
            "counts": dict(counts),
            "reasons": done.commit.document["reasons"],
            "seconds": round(done.seconds, 3),
        }
        print(json.dumps(facts))
        return
    results = "1 result has" if counts["results"] == 1 else f"{counts['results']:,} results have"
    state = "; the state was made anew, too" if rebuild.replaced else ""
    print(f"{counts['rows']:,} rows, {backfill_text(rebuild)}: {results} changed{state}")


_HIDDEN = ("end", "revision", "final")
"""Columns that are the same in all rows of one window, or said beside them."""
_NUMBERS = ("key", "from", "to")
_KEYS = (*_NUMBERS, "name", "from_name", "to_name")


@dataclass(frozen=True)
class View:
    """What of windows is shown."""

    title: ClassVar[str] = "What is shown"
    at: Annotated[
        str,
        Option("Where it ends: a time such as 2026-01-31T12:00, or now.", "TIME"),
    ] = "now"
    window: Annotated[
        str | None,
        Option("Its length: of the windows, or, now, any up to the longest; the first if not given."),
    ] = None
    key: Annotated[str | None, Option("Only this key: its number, or what the place is called.", "KEY")] = None
    top: Annotated[int, Option("Rows, those of most first; 0 for all, by key.", "N", more={"min": 0})] = 20
    flow: Annotated[bool, Option("Moves between keys instead.")] = False
    wide: Annotated[bool, Option("All declared lengths side by side.")] = False
    changed: Annotated[bool, Option("Only keys with other values than at the end before, or --since.")] = False
    since: Annotated[
        str | None,
        Option("With --changed: an end of before, or the number of a batch.", "TIME|N"),
    ] = None


def show(
    store: options.Store,
    name: Name,
    view: View,
    as_json: options.Json = False,
) -> None:
    """Print what happened in each place in the time up to now, or up to an end of before."""
    from dtoss.windows.durations import time_text
    from dtoss.windows.query.window_query import open_windows

    _check(view.flow, view.wide, view.changed, view.window, view.since)
    end = None if view.at.strip() == "now" else view.at
    found = open_windows(store, name).of_end(end)
    length = found.spec.names[0] if view.window is None else view.window
    if view.flow:
        table = found.flow(end, length)
    elif view.changed:
        table = found.changed(end, None if view.wide else length, **_compared(view.since))
    else:
        table = found.wide(end) if view.wide else found.at(end, length)
    if view.key is not None:
        table = _of_key(found, table, view.key)
    table = _first(table, view.top, "moves" if view.flow else _leading(table))
    if as_json:
        for row in table.to_pylist():
            print(json.dumps({"end": time_text(row.pop("end")), **row} if "end" in row else row, ensure_ascii=False))
        return
    _print(found, table, ", ".join(found.spec.names) if view.wide else length, view.flow)


def _check(flow: bool, wide: bool, changed: bool, window: str | None, since: str | None) -> None:
    """Refuse what does not go together."""
    from dtoss.errors import InputError

    if flow and (wide or changed):
        raise InputError(
            f"--flow and --{'wide' if wide else 'changed'} are given: moves have one length; leave one out"
        )
    if wide and window is not None:
        raise InputError(f"--wide and --window {window} are given: wide rows have all lengths; leave one out")
    if since is not None and not changed:
        raise InputError(f"--since {since} is given without --changed, which says what is compared with it")


def _compared(since: str | None) -> dict[str, Any]:
    """Return what is compared with: whole numbers are batches, anything else is a time."""
    if since is None:
        return {}
    text = since.strip()
    return {"commit": int(text)} if text.isascii() and text.isdigit() and len(text) < _SECONDS else {"since": since}


_SECONDS = 9
"""Digits of seconds since 1970, since 1973: a batch has less."""


def _of_key(found: Windows, table: pa.Table, key: str) -> pa.Table:
    import pyarrow.compute as pc

    from dtoss.windows.patches import NO_KEY

    if "from" in table.column_names:
        number = NO_KEY if key.strip() == str(NO_KEY) else found.names.key_of(key)
        return table.filter(pc.or_(pc.equal(table["from"], number), pc.equal(table["to"], number)))
    return table.filter(pc.equal(table["key"], found.names.key_of(key)))


def _leading(table: pa.Table) -> str | None:
    """Return the first measure, by which rows are in order."""
    return next((name for name in table.column_names if name not in (*_KEYS, *_HIDDEN)), None)


def _first(table: pa.Table, top: int, by: str | None) -> pa.Table:
    if top == 0 or by is None:
        return table
    labels = [(name, "ascending") for name in ("key", "from", "to") if name in table.column_names]
    return table.sort_by([(by, "descending"), *labels]).slice(0, top)


def _print(found: Windows, table: pa.Table, length: str, flow: bool) -> None:
    from dtoss.windows.durations import time_text
    from dtoss.windows.migration.migration_text import under_way
    from dtoss.windows.storage.group_placement import in_words
    from pipelines.command.terminal.output import print_columns

    hexadecimal = found.spec.by.startswith("h3:")
    names = [name for name in table.column_names if name not in _HIDDEN and not (hexadecimal and name in _NUMBERS)]
    print_columns(names, [[_cell(name, row[name]) for name in names] for row in table.to_pylist()])
    mark = found.watermark
    ends = {} if flow or not len(table) else {table["end"][0].as_py()}
    which = f"{length} up to {time_text(next(iter(ends)))}" if ends else length
    note(f"{which}; due up to {'nothing yet' if mark is None else time_text(mark)}")
    if (change := under_way(found.sets)) is not None:
        note(change)
    if (workers := in_words(found.head.commit.document)) is not None:
        note(workers)
    quarantined = found.counts.get("quarantined", 0)
    if quarantined:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        note(f"{quarantined:,} of {found.counts['rows']:,} rows were set aside: {reasons}")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if name in _KEYS else f"{value:,}"


windows = typer.Typer(
    cls=GroupedCommands,
    help="What happened in each place in the last minutes, hour and day? Exact, over several lengths at once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
add_commands(windows, {"run": run, "show": show})
