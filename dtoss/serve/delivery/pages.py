"""Pages of events, for those who ask now and then."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from dtoss.errors import InputError
from dtoss.serve.delivery.parts import EVENT_PART_BYTES, Wanted, pieces_of
from dtoss.serve.delivery.reading import gone
from dtoss.serve.pool import Stop
from dtoss.watch.home import Home
from dtoss.watch.told.cursor import Cursor
from dtoss.watch.told.document import head_of
from dtoss.watch.told.events import told_events, view_of
from dtoss.watch.told.lines import line_column

EVENTS_PAGE_BYTES = 8 << 20
"""Of a page, about: one with longer events has fewer of them."""


@dataclass(frozen=True)
class Page:
    """Some events.

    Parameters
    ----------
    body
        As JSON, with where the next page begins.
    count
        How many they are.
    """

    body: bytes
    count: int


def page_behind(home: Home, at: Cursor, wanted: Wanted, limit: int, snapshot: str, stop: Stop) -> Page:
    """Return the events behind a cursor, so many at the most; in a thread.

    Parameters
    ----------
    home
        Of the watch.
    at
        The cursor.
    wanted
        Which of them.
    limit
        How many at the most.
    snapshot
        The name of the one that is served.
    stop
        Whether anybody waits.

    Raises
    ------
    Problem
        410 if retention has removed events behind the cursor.
    StoreError
        If something is damaged or missing.
    OSError
        If something cannot be read.
    """
    lines: list[str] = []
    size = 0
    head = head_of(home)
    try:
        for told in told_events(home, at, wanted.one, wanted.kinds or None):
            stop.check()
            events = None if told.events is None else wanted.among(told.events)
            if events is None or not events.num_rows or head is None:
                at = told.upto
                continue
            for piece in pieces_of(events.slice(0, limit - len(lines)), EVENT_PART_BYTES):
                found = line_column(piece, head.settings).to_pylist()
                lines += found
                size += sum(map(len, found))
                last = piece.num_rows - 1
                at = Cursor(piece.column("batch")[last].as_py(), piece.column("number")[last].as_py())
                if len(lines) >= limit or size >= EVENTS_PAGE_BYTES:
                    break
            if len(lines) >= limit or size >= EVENTS_PAGE_BYTES:
                break
            at = told.upto
    except InputError:
        view = view_of(home)
        raise gone(at, None if view is None else view.contents.gone) from None
    told_of = {
        "snapshot": snapshot,
        "watch": home.name,
        "events": [orjson.Fragment(line) for line in lines],
        "next": str(at),
    }
    return Page(orjson.dumps(told_of), len(lines))
