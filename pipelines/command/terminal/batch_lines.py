"""What a batch of windows has done, in a line for people or of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipelines.command.terminal.notes import note

if TYPE_CHECKING:
    from pipelines.loop.batch_report import Ran


def say(name: str | None, ran: Ran) -> None:
    """Say what a batch has done, in one line on stderr, after the name of the windows where there may be others."""
    counts, document = ran.counts, ran.commit.document
    left = [f"{counts[kind]:,} {kind}" for kind in ("losers", "jumps", "quarantined", "forgotten") if counts.get(kind)]
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
    from dtoss.windows.time_text import time_text

    return time_text(microseconds)
