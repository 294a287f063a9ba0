"""Notes on stderr: what a command tells beside its answer, and what quiet means.

``--quiet``, before a command or behind it, is ``DTOSS_QUIET=1`` for one run: no progress and no notes. Warnings, what
is said of bad data, and errors are told all the same.

What a batch of windows has done, in a line for people or of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from dtoss.compiled.notice import QUIET, quiet

if TYPE_CHECKING:
    from pipelines.loop.batch_report import Ran


def hush() -> None:
    """Keep quiet from now on, also in the processes that this one starts."""
    os.environ[QUIET] = "1"


def note(line: str) -> None:
    """Print a line on stderr at once, unless notes are unwanted."""
    if not quiet():
        print(line, file=sys.stderr, flush=True)


def warn(line: str) -> None:
    """Print a warning on stderr at once, quiet or not."""
    print(f"warning: {line}", file=sys.stderr, flush=True)


def say(name: str | None, ran: Ran) -> None:
    """Say what a batch has done, in one line on stderr, after the name of the windows where there may be others."""
    counts, document = ran.counts, ran.commit.document
    kinds = {"losers": "duplicates", "jumps": "jumps", "quarantined": "quarantined", "forgotten": "forgotten"}
    left = [f"{counts[kind]:,} {shown}" for kind, shown in kinds.items() if counts.get(kind)]
    refused = len(document["batch"].get("refused", ()))
    left += [f"{refused:,} files refused"] if refused else []
    what = ", ".join([f"{counts['rows']:,} rows", *left, f"{counts['results']:,} results"])
    revised = f" ({counts['revised']:,} revised)" if counts["revised"] else ""
    mark = "" if document["watermark"] is None else f"; due up to {_time(document['watermark'])}"
    whose = "" if name is None else f"windows {name}, "
    note(f"{whose}{ran.commit.number}: {what}{revised}; {ran.seconds:.1f} s, busiest task {ran.busiest:.1f} s{mark}")


def say_json(name: str | None, ran: Ran) -> None:
    """Print what a batch has done, as a line of JSON, with the name of the windows where there may be others."""
    document = ran.commit.document
    facts = {
        **({} if name is None else {"windows": name}),
        "commit": ran.commit.number,
        "counts": dict(ran.counts),
        "reasons": document["reasons"],
        "refused": document["batch"].get("refused", {}),
        "watermark": None if document["watermark"] is None else _time(document["watermark"]),
        "seconds": round(ran.seconds, 3),
        "busiest": round(ran.busiest, 3),
    }
    print(json.dumps(facts), flush=True)


def _time(microseconds: int) -> str:
    from dtoss.windows.durations import time_text

    return time_text(microseconds)
