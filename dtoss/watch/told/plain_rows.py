"""Events as rows of Python's values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dtoss.names import position_names
from dtoss.watch.settings import Settings
from dtoss.watch.told.cursor import Cursor
from dtoss.watch.told.lines import carried_columns

ROWS_AT_ONCE = 4096
"""Rows of a table that are Python's values at a time."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = 1e-6


def plain_rows(events: pa.Table, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield events as dicts.

    Parameters
    ----------
    events
        As files have them, with all columns.
    settings
        Of the watch.

    Notes
    -----
    The keys are those of the JSON lines. t is a datetime in UTC, or seconds where the watch has numbers; meta is what
    its JSON means.
    """
    x, y = position_names(settings.space.geographic)
    carried = carried_columns(events.column_names)
    metas: dict[str, Any] = {}
    for begin in range(0, events.num_rows, ROWS_AT_ONCE):
        for row in events.slice(begin, ROWS_AT_ONCE).to_pylist():
            meta = row["meta"]
            if meta is not None and meta not in metas:
                if len(metas) >= ROWS_AT_ONCE:
                    metas.clear()
                metas[meta] = json.loads(meta)
            found = {
                "id": str(Cursor(row["batch"], row["number"])),
                "subscription": row["subscription"],
                "version": row["version"],
                "kind": row["kind"],
                "object": row["object"],
                "t": moment_of(row["t"], settings.time),
                x: row["x"],
                y: row["y"],
                "distance": row["distance"],
                "batch": row["batch"],
                "reason": row["reason"],
                "meta": None if meta is None else metas[meta],
            }
            found.update((name, row[name]) for name in carried)
            yield found


def moment_of(microseconds: int | None, time: str | None) -> datetime | float | None:
    """Return a time as the rows of a watch have theirs.

    Parameters
    ----------
    microseconds
        Since 1970; None where there is none.
    time
        As :class:`~dtoss.watch.settings.Settings` has it.
    """
    if microseconds is None:
        return None
    return microseconds * _MICRO if time == "double" else _START + timedelta(microseconds=microseconds)
