"""``dtoss windows run --rebuild``: windows counted anew over a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from dtoss.errors import InputError
from pipelines.options.reading import Reading
from pipelines.options.streaming import Arriving, CountingOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.loop.arriving_batches import Sources
    from pipelines.windowing.backfill_run import Rebuilt
    from pipelines.windowing.begin_windows import Which
    from pipelines.windowing.running_sets import How


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
    from dtoss.windows.backfill.affected_ends import backfill_text
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
