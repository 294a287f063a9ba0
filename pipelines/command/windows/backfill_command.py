"""``dtoss windows run --rebuild``: windows counted anew over a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dtoss.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.windowing.backfill_run import Rebuilt


def rebuild(
    asked: tuple[str, str],
    positions: Sequence[str],
    store: str,
    name: str,
    sessions: Callable[[], SparkSession | None],
    wanted: Mapping[str, Any] | None,
    as_json: bool,
    options: Mapping[str, Any],
) -> int:
    """Count windows anew between two times, and say what has changed."""
    from pipelines.windowing.backfill_run import rebuild_windows, span_asked

    done = rebuild_windows(positions, store, name, sessions, span_asked(*asked), wanted, **options)
    _say(done, as_json)
    return 0


def check_alone(given: Mapping[str, bool]) -> None:
    """Check that nothing is asked for that a rebuild does not do."""
    for option, asked in given.items():
        if asked:
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
