"""``dtoss windows run``: arriving positions counted in windows, or with ``--rebuild`` a time counted anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.terminal import options
from pipelines.command.terminal.engine_choice import Engine
from pipelines.command.terminal.notes import note, say, say_json
from pipelines.command.terminal.option_objects import Without
from pipelines.options.reading import Reading, SaidOf
from pipelines.options.streaming import Arriving, CountingOptions, WindowSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    from pipelines.loop.tick_clock import clock_of
    from pipelines.rows.delimited_frame import check_said
    from pipelines.windowing.begin_windows import Which
    from pipelines.windowing.explaining import told_of
    from pipelines.windowing.move_groups import moving_of
    from pipelines.windowing.running_sets import How
    from pipelines.windowing.window_options import wanted_of
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
