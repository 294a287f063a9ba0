"""The events of a watch, from Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_log import events as tables_of_events
from dtoss.watch.events.plain_rows import plain_rows
from dtoss.watch.events.watch_document import begun_watch
from dtoss.watch.watch_folder import DEFAULT_NAME, Home


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
        Of "leave", "enter", "inside" and "reset"; all when None.

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
