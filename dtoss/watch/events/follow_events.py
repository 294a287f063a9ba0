"""Events as they are committed: asked for again and again, each time from where the last answer ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from dtoss.watch.events.cursor import END_OF_BATCH, Cursor
from dtoss.watch.events.event_log import EventPart, told_events
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import Home

FOLLOW_SECONDS = 0.25
"""Between two looks for a new commit."""


def looks(
    home: Home,
    after: Cursor | None = None,
    subscription: str | None = None,
    kinds: Collection[str] | None = None,
    *,
    goes_on: Callable[[], bool],
    every: float = FOLLOW_SECONDS,
) -> Iterator[Iterator[EventPart]]:
    """Yield what each look for a new commit finds, until it is to end.

    Each is to be read before the next is asked for. ``every``: seconds between two looks; one without a new commit
    costs one small read.
    """
    at, seen = after, 0

    def look(end: Cursor) -> Iterator[EventPart]:
        nonlocal at
        for told in told_events(home, at, subscription, kinds, end):
            at = told.upto
            yield told

    while goes_on():
        head = head_of(home)
        if head is not None and head.number > seen:
            yield look(Cursor(head.number, END_OF_BATCH))
            seen = head.number
        else:
            time.sleep(every)
