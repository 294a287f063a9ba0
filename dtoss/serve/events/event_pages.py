"""Pages of events, for those who ask now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass

import orjson

from dtoss.serve.core.paces import USUAL_SIZES, Sizes
from dtoss.serve.core.pool import Stop
from dtoss.serve.events.event_chunks import EventFilter, pieces_of
from dtoss.serve.events.event_reader import wanted_behind
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_lines import line_column
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import Home


@dataclass(frozen=True)
class Page:
    """Some events."""

    body: bytes  # As JSON, with where the next page begins, and whether there may be more behind it now
    count: int  # How many they are


def page_behind(
    home: Home,
    at: Cursor,
    wanted: EventFilter,
    limit: int,
    seconds: float,
    snapshot: str,
    stop: Stop,
    sizes: Sizes = USUAL_SIZES,
) -> Page:
    """Return the events behind a cursor, so many at the most; in a thread.

    ``limit``: how many at the most.
    """
    until = time.monotonic() + seconds
    lines: list[str] = []
    size = 0

    def page(*, more: bool) -> Page:
        events = [orjson.Fragment(line) for line in lines]
        said = {"snapshot": snapshot, "watch": home.name, "events": events, "next": str(at), "more": more}
        return Page(orjson.dumps(said), len(lines))

    head = head_of(home)
    if head is None:
        return page(more=False)
    for told in wanted_behind(home, at, wanted):
        stop.check()
        some = () if told.events is None else pieces_of(told.events.slice(0, limit - len(lines)), sizes.event_part)
        for piece in some:
            found = line_column(piece, head.settings).to_pylist()
            lines += found
            size += sum(map(len, found))
            last = piece.num_rows - 1
            at = Cursor(piece.column("batch")[last].as_py(), piece.column("number")[last].as_py())
            if len(lines) >= limit or size >= sizes.events_page:
                return page(more=True)
        at = told.upto
        if time.monotonic() > until:
            return page(more=True)
    return page(more=False)
