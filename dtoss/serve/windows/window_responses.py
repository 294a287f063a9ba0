"""Answers about windows as bytes: JSON for pages and scripts, Arrow streams for frames."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa

from dtoss.arrow_stream import stream_of
from dtoss.serve.core.problems import Problem
from dtoss.watch.subscriptions.expiry_times import instant_of
from dtoss.windows.durations import duration_text, time_text
from dtoss.windows.migration.migration_text import change_of
from dtoss.windows.query.window_query import Windows

ROWS_A_PIECE = 10_000
"""Rows that are made into JSON at a time: other threads wait for so long at most."""


def facts(windows: Windows) -> dict[str, Any]:
    """Return what windows are, as JSON knows it."""
    spec, mark = windows.spec, windows.watermark
    return {
        "name": windows.home.name,
        "batch": windows.head.commit.number,
        "watermark": None if mark is None else time_text(mark),
        "lengths": list(spec.names),
        "slide": duration_text(spec.slide),
        "pane": duration_text(spec.pane),
        "late": duration_text(spec.late),
        "by": spec.by,
        "measures": list(spec.measures),
        "counts": dict(windows.counts),
        "quarantined": dict(windows.reasons),
        "set": windows.home.number,
        "since": None if windows.since is None else time_text(windows.since),
        "change": change_of(windows.sets),
    }


def check_rows(table: pa.Table, most: int) -> pa.Table:
    """Return a table of no more rows than go into an answer."""
    if len(table) > most:
        raise Problem(
            413,
            f"there are {len(table):,} rows: at most {most:,} go into an answer; ask for one key (key=) or for less "
            "time",
            limit="hits",
            value=len(table),
            bound=most,
        )
    return table


def json_body(snapshot: str, windows: Windows, head: dict[str, Any], rows: pa.Table) -> bytes:
    """Return rows as JSON behind what they are; ends of windows are times in ISO 8601."""
    said = orjson.dumps({"snapshot": snapshot, "windows": windows.home.name, **mark_of(windows), **head})
    pieces = []
    for at in range(0, len(rows), ROWS_A_PIECE):
        some = rows.slice(at, ROWS_A_PIECE).to_pylist()
        for row in some:
            if "end" in row:
                row["end"] = time_text(row["end"])
        pieces.append(orjson.dumps(some)[1:-1])
    return said[:-1] + b',"rows":[' + b",".join(pieces) + b"]}"


def arrow_body(snapshot: str, windows: Windows, head: dict[str, Any], rows: pa.Table) -> bytes:
    """Return rows as an Arrow stream, whose schema says what they are; ends are timestamps."""
    told = {"snapshot": snapshot, "windows": windows.home.name, **mark_of(windows), **head}
    if "change" in told:
        told["change"] = orjson.dumps(told["change"]).decode()
    if "end" in rows.column_names:
        at = rows.column_names.index("end")
        rows = rows.set_column(at, "end", rows["end"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    return stream_of(rows.replace_schema_metadata({name: str(value) for name, value in told.items()}))


def mark_of(windows: Windows) -> dict[str, Any]:
    """Return the batch and the watermark that an answer is of, and whether other windows are to take over."""
    mark, change = windows.watermark, change_of(windows.sets)
    said = {"batch": windows.head.commit.number, "watermark": None if mark is None else time_text(mark)}
    return said if change is None else said | {"change": change}


def version_of(windows: Windows) -> str:
    """Return what names a commit of windows among all sets of their name, and whether others are to take over."""
    changes = f".{windows.sets.change}" if windows.sets.change else ""
    return f"{windows.head.commit.number}{changes}"


def moment_of(text: str | None) -> str | float | None:
    """Return a time as windows are asked for it: numbers are seconds since 1970.

    Examples
    --------
    >>> moment_of("1200"), moment_of("2026-01-31T12:00:00"), moment_of(None)
    (1200.0, '2026-01-31T12:00:00', None)
    """
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def end_text(windows: Windows, end: str | None) -> str | None:
    """Return when a window ends that was found; one that was asked for without its end is the last one due."""
    found = windows.watermark if end is None else instant_of(moment_of(end))
    return None if found is None else time_text(found)
