"""The events of a watch, from Python.

Events as rows of Python's values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dtoss.names import DEFAULT_NAME, position_names
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_lines import carried_columns, json_values
from dtoss.watch.events.event_log import events as tables_of_events
from dtoss.watch.events.watch_document import begun_watch
from dtoss.watch.processing.event_table import CROSS_COLUMNS, OTHER_COLUMN, OTHER_PLACE
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings


def events(
    store: str,
    watch: str = DEFAULT_NAME,
    *,
    after: str | int | Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of a watch in their order, each once.

    Parameters
    ----------
    store
        Path or URI of the store.
    watch
        The name of the watch.
    after
        The id of an event, as in ``12-34``: events behind it. Or the number of a batch: events behind all of it. All
        that there are when None.
    subscription
        The id of the only one; all when None.
    kinds
        Of "dwell", "cross", "leave", "enter", "inside" and "reset"; all when None.

    Raises
    ------
    InputError
        If the cursor, the name or a kind is none, or events behind the cursor were removed or are another watch's.
    StoreError
        If there is no such watch, or something of it is missing or damaged.
    OSError
        If something cannot be read.

    Notes
    -----
    A dict has id, subscription, version, kind, object, t, lon and lat (x and y in a plane), distance, batch, reason,
    meta and the carried columns. Events that are committed after it was begun come with the next call, after the last
    id.
    """
    home = Home(str(store), watch)
    at = after if after is None or isinstance(after, Cursor) else Cursor.of(after)
    settings = begun_watch(home).settings
    for table in tables_of_events(home, at, subscription, kinds):
        yield from plain_rows(table, settings)


ROWS_AT_ONCE = 4096
"""Rows of a table that are Python's values at a time."""
_START = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = 1e6


def plain_rows(events: pa.Table, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield events as dicts.

    The keys are those of the JSON lines. t is a datetime in UTC, or seconds where the watch has numbers; meta is what
    its JSON means. A time of a year that Python has not, before 1 or after 9999, is a text as in the JSON lines.
    """
    x, y = position_names(settings.space.geographic)
    carried = carried_columns(events.column_names)
    metas: dict[str, Any] = {}
    for begin in range(0, events.num_rows, ROWS_AT_ONCE):
        some = events.slice(begin, ROWS_AT_ONCE)
        columns = {name: _values(some.column(name)) for name in events.column_names}
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
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
            found.update((name, moment_of(row[name], settings.time)) for name in CROSS_COLUMNS if name in row)
            near = {OTHER_COLUMN: OTHER_COLUMN, **dict(zip(OTHER_PLACE, (f"near_{x}", f"near_{y}"), strict=True))}
            found.update((said, row[name]) for name, said in near.items() if name in row)
            found.update((name, row[name]) for name in carried)
            yield found


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; those that Python has not are texts as in the JSON lines."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        texts = pa.chunked_array([json_values(chunk) for chunk in column.chunks]).to_pylist()
        found = [_value(one, text) for one, text in zip(column, texts, strict=True)]
    return found


def _value(one: pa.Scalar, text: str | None) -> Any:
    try:
        return one.as_py()
    except (OverflowError, ValueError):
        return None if text is None else json.loads(text)


def moment_of(microseconds: int | None, time: str | None) -> datetime | float | str | None:
    """Return a time as the rows of a watch have theirs.

    ``microseconds``: since 1970; None where there is none.
    """
    if microseconds is None:
        return None
    if time == "double":
        return microseconds / _SECOND
    try:
        return _START + timedelta(microseconds=microseconds)
    except OverflowError:
        text: str = json.loads(json_values(pa.array([microseconds], pa.timestamp("us", "UTC")))[0].as_py())
        return text
