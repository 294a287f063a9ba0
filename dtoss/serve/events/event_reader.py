"""Where a reader of events begins, and how it reads on: a part at a time, from files, in threads.

Pages of events, for those who ask now and then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from dtoss.errors import InputError
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import USUAL_SIZES, Sizes
from dtoss.serve.events.event_chunks import EventFilter, Part, nothing, own_events, parts_of, pieces_of
from dtoss.watch.events.event_lines import line_column
from dtoss.watch.events.event_log import EventPart, told_events, view_of
from dtoss.watch.events.folded_list import Contents
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import Home

FROM_BEGINNING = "beginning"
"""Instead of a cursor: all events that retention has left."""
SECONDS_AT_A_TIME = 0.2
"""For which a thread looks for events before others have their turn."""


def cursor_in(text: str, name: str) -> Cursor:
    """Return the cursor in a text."""
    try:
        return Cursor.of(text)
    except InputError:
        raise Problem(
            400,
            f"{name} is {text[:100]!r}: the id of an event is wanted, such as 12-34, or {FROM_BEGINNING}",
            limit=name,
            value=text[:100],
        ) from None


def beginning_of(home: Home, after: str | None, name: str, *, own: bool = False) -> Cursor:
    """Return where a reader begins; to be called in a thread.

    ``after``: the id of the last event that it knows, ``beginning`` for all that retention has left; None for what is
    committed from now on; ``own``: whether numbers count events of a token alone: what is left of a batch is not told
    then.
    """
    cursor = None if after is None or after == FROM_BEGINNING else cursor_in(after, name)
    view = view_of(home)
    head = BEGINNING if view is None else Cursor(view.head.number, END_OF_BATCH)
    removed = (Contents() if view is None else view.contents).gone
    if own and removed is not None:
        removed = Cursor(removed.batch, END_OF_BATCH)
    if cursor is None:
        return head if after is None else removed or BEGINNING
    if cursor > head:
        newest = "has no batch yet" if view is None else f"has {head.batch:,} batches"
        raise Problem(
            400,
            f"{name} is {cursor}: watch {home.name!r} {newest}; if it was begun anew, ask with after={FROM_BEGINNING}",
            limit=name,
            value=str(cursor),
            bound=str(head),
        )
    if removed is not None and cursor < removed:
        raise gone(cursor, removed, name)
    return cursor


def gone(cursor: Cursor, upto: Cursor | None, name: str = "after") -> Problem:
    """Return what is said where retention has removed events behind a cursor."""
    which = "" if upto is None else f": retention has removed those up to {upto}"
    on = f"after={FROM_BEGINNING}" if upto is None else f"after={upto}"
    return Problem(
        410,
        f"events behind {cursor} are gone{which}; go on with {on}, and read dtoss events --as NAME for a reader that "
        "retention waits for",
        limit=name,
        value=str(cursor),
        bound=None if upto is None else str(upto),
    )


def wanted_behind(home: Home, at: Cursor, wanted: EventFilter) -> Iterator[EventPart]:
    """Yield the wanted events behind a cursor, and where a reader stands behind them; None where a stretch has none."""
    found = told_events(home, at, wanted.one, wanted.kinds or None)
    if wanted.own is not None:
        found = own_events(home, at, wanted.own)
    try:
        for told in found:
            events = None if told.events is None else wanted.among(told.events)
            yield EventPart(events if events is not None and events.num_rows else None, told.upto)
            at = told.upto
    except InputError:
        view = view_of(home)
        upto = None if view is None else view.contents.gone
        if upto is not None and wanted.own is not None:
            upto = Cursor(upto.batch, END_OF_BATCH)
        raise gone(at, upto) from None


class Reading:
    """Events behind a cursor, read from files as they are asked for."""

    def __init__(self, home: Home, at: Cursor, wanted: EventFilter, most: int = USUAL_SIZES.event_part) -> None:
        self._home = home
        self._most = most
        self._wanted = wanted
        self._parts: Iterator[Part] | None = None
        self.at = at
        self.done = False

    def let_go(self) -> None:
        """Hold nothing of files, until the next part is asked for."""
        self._parts = None

    def more(self, stop: Stop) -> tuple[memoryview, int]:
        """Return the next events as they are sent, and how many; none where it took long to find one, or is done."""
        until = time.monotonic() + SECONDS_AT_A_TIME
        try:
            if self._parts is None:
                self._parts = self._read()
            for part in self._parts:
                data, count = part.behind(self.at, EventFilter())
                self.at = part.upto
                if count or time.monotonic() > until:
                    return data, count
                stop.check()
        except BaseException:
            self._parts = None
            raise
        self.done = True
        return memoryview(b""), 0

    def _read(self) -> Iterator[Part]:
        head = head_of(self._home)
        if head is None:
            return
        at = self.at
        for told in wanted_behind(self._home, at, self._wanted):
            if told.events is not None:
                for part in parts_of(told.events, head.settings, at, self._most):
                    yield part
                    at = part.upto
            if told.upto > at or self._wanted.own is not None:  # others may have many of a batch: it takes its time
                yield nothing(at, told.upto)
                at = told.upto


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
    """Return the events behind a cursor, so many at the most; in a thread."""
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
