"""The files that hold the events now, for readers such as DuckDB: whole, without one twice."""

from __future__ import annotations

from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_log import view_of
from dtoss.watch.events.watch_document import documents
from dtoss.watch.watch_folder import EVENTS, Home


def event_paths(home: Home, after: Cursor | None = None) -> list[str]:
    """Return the paths of the files that hold all events that are left, in their order.

    Parameters
    ----------
    home
        Of the watch.
    after
        Files that end before it are left out; where its own batch is, other events of its files come too.

    Raises
    ------
    InputError
        If retention has removed events behind the cursor, or there is no such event yet.
    StoreError
        If a commit or a list is missing or damaged.
    OSError
        If something cannot be read.

    Notes
    -----
    They stay for an hour at least: files that were folded go with the next fold.
    """
    view = view_of(home)
    if view is None:
        return []
    if after is not None:
        view.check_behind(after)
    names = [file.file.name for file in view.contents.files if after is None or file.last > after]
    first = max(view.contents.last + 1, 1 if after is None else after.batch)
    for document in documents(home, first, view.head.number):
        names += [file.name for file in document.events if file.rows]
    return [home.folder.path(EVENTS, name) for name in names]
