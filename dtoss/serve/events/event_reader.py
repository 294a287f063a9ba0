"""Events as text in parts that streams share, where a reader of them begins, and how it reads on, in threads.

Pages of events, for those who ask now and then.

The events of one token's subscriptions: numbered by themselves, so that no number tells of those of others.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.errors import InputError
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import USUAL_SIZES, Sizes
from dtoss.watch.events.event_lines import carried_columns, join_lines, line_column
from dtoss.watch.events.event_log import PLACE_COLUMNS, EventPart, told_events, view_of
from dtoss.watch.events.folded_list import Contents
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

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


_ROW_BYTES = 250
"""Of an event, without its texts."""


@dataclass(frozen=True)
class EventFilter:
    """Which events a reader wants."""

    subscriptions: tuple[str, ...] = ()  # Of these; of all when empty
    kinds: tuple[str, ...] = ()  # Of these; of all when empty
    own: Own | None = None  # Only those of the subscriptions of a token; None for those of all

    @property
    def everything(self) -> bool:
        """Whether that is all of them."""
        return not self.subscriptions and not self.kinds

    @property
    def one(self) -> str | None:
        """The only subscription; None where there are several, of which files are not searched for."""
        return self.subscriptions[0] if len(self.subscriptions) == 1 else None

    def among(self, events: pa.Table) -> pa.Table:
        """Return the wanted ones of a table of events."""
        columns = (_plain(events, name) for name in ("subscription", "kind"))
        return events if self.everything else events.filter(pa.array(self.rows(*columns)))

    def rows(self, subscription: pa.Array, kind: pa.Array) -> NDArray[np.bool_]:
        """Return which events are wanted, bool (n,)."""
        found = np.ones(len(kind), np.bool_)
        for values, names in ((subscription, self.subscriptions), (kind, self.kinds)):
            if names:
                found &= _are_in(values, names)
        return found


def _are_in(values: pa.Array, names: Collection[str]) -> NDArray[np.bool_]:
    wanted = pa.array(list(names), values.type)
    return np.asarray(pc.is_in(values, wanted).to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, eq=False)
class Part:
    """Some events that follow one another, as server-sent events."""

    after: Cursor  # after, upto: all events behind the one cursor, up to the other, are in it
    upto: Cursor
    frames: pa.Array  # Large string (n,), an event each
    batch: NDArray[np.int64]  # (n,) int64, of each event
    number: NDArray[np.int64]  # (n,) int64, of each event
    subscription: pa.Array  # Texts (n,), of each event
    kind: pa.Array  # Texts (n,), of each event

    def behind(self, cursor: Cursor, wanted: EventFilter) -> tuple[memoryview, int]:
        """Return those of its events that are behind a cursor and wanted, as they are sent, and how many they are."""
        frames = self.frames
        if cursor > self.after or not wanted.everything:
            kept = (self.batch > cursor.batch) | ((self.batch == cursor.batch) & (self.number > cursor.number))
            kept &= wanted.rows(self.subscription, self.kind)
            if not kept.any():
                return memoryview(b""), 0
            frames = frames.filter(pa.array(kept))
        return memoryview(join_lines(frames)) if len(frames) else memoryview(b""), len(frames)


def nothing(after: Cursor, upto: Cursor) -> Part:
    """Return a part without events."""
    none, texts = np.zeros(0, np.int64), pa.array([], pa.string())
    return Part(after, upto, pa.array([], pa.large_string()), none, none, texts, texts)


def parts_of(events: pa.Table, settings: Settings, after: Cursor, most: int = USUAL_SIZES.event_part) -> Iterator[Part]:
    """Yield events as parts."""
    for piece in pieces_of(events, most):
        batch, number = (_plain(piece, name).to_numpy() for name in ("batch", "number"))
        upto = Cursor(int(batch[-1]), int(number[-1]))
        subscription, kind = (_plain(piece, name) for name in ("subscription", "kind"))
        yield Part(after, upto, _frames(piece, settings), batch, number, subscription, kind)
        after = upto


def pieces_of(events: pa.Table, most: int) -> Iterator[pa.Table]:
    """Yield events a few at a time, so that their text has so many bytes, about; an event at least."""
    ends = np.cumsum(_sizes(events))
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + most, "right")), first + 1)
        yield _with_its_own(events.slice(first, last - first))
        first = last


def _with_its_own(piece: pa.Table) -> pa.Table:
    """Return a piece without dictionaries that are longer than it: text is made of all that a dictionary holds."""
    for at, column in enumerate(piece.columns):
        if pa.types.is_dictionary(column.type) and sum(len(part.dictionary) for part in column.chunks) > len(piece):
            plain = column.type.value_type
            piece = piece.set_column(at, piece.field(at).with_type(plain), column.cast(plain))
    return piece


def _sizes(events: pa.Table) -> NDArray[np.int64]:
    """Return about how many bytes the text of each event has; O(n)."""
    sizes = np.full(events.num_rows, _ROW_BYTES, np.int64)
    for column in events.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            at = 0
            for chunk in column.chunks:
                if isinstance(chunk, pa.DictionaryArray):
                    lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
                else:
                    lengths = pc.binary_length(chunk)
                sizes[at : at + len(chunk)] += lengths.fill_null(0).to_numpy(zero_copy_only=False)
                at += len(chunk)
    return sizes


def _frames(events: pa.Table, settings: Settings) -> pa.Array:
    """Return events as they are sent: id, data, a line that is blank."""

    def text(value: str) -> pa.Scalar:
        return pa.scalar(value, pa.large_string())

    batch, number = (_plain(events, name).cast(pa.large_string()) for name in ("batch", "number"))
    lines = line_column(events, settings)
    return pc.binary_join_element_wise(
        text("id: "), batch, text("-"), number, text("\ndata: "), lines, text("\n\n"), text("")
    )


def _plain(events: pa.Table, name: str) -> pa.Array:
    found = one_chunk(events.column(name))
    return found.dictionary_decode() if isinstance(found, pa.DictionaryArray) else found


@dataclass(frozen=True)
class Own:
    """Whose events these are."""

    prefix: str  # Of the ids of its subscriptions
    columns: tuple[str, ...] | None  # Attributes that are told; None for all
    # Whether it may not see all objects: what leaves may be one of the others by then, and where it is, is not told
    some: bool

    def shown(self, events: pa.Table) -> pa.Table:
        """Return events without what is not told of them."""
        carried = carried_columns(events.column_names)
        hidden = [name for name in carried if self.columns is not None and name not in self.columns]
        events = events.drop_columns(hidden) if hidden else events
        if not self.some:
            return events
        left = pc.equal(_decode(events.column("kind")), "leave")
        places = [name for name in PLACE_COLUMNS if name in events.column_names]
        for name in (*places, *(name for name in carried if name not in hidden)):
            values = _decode(events.column(name))
            at = events.column_names.index(name)
            events = events.set_column(at, name, pc.if_else(left, pa.scalar(None, values.type), values))
        return events


def start_of(cursor: Cursor) -> Cursor:
    """Return from where events are read to number those of a cursor's batch: they are counted from its first one."""
    return cursor if cursor.number == END_OF_BATCH else Cursor(cursor.batch - 1, END_OF_BATCH)


def own_events(home: Home, at: Cursor, own: Own) -> Iterator[EventPart]:
    """Yield the events of a token's subscriptions behind a cursor, numbered from 1 in each batch."""
    last, count = -1, 0  # the batch that was counted last, and how many it has
    for told in told_events(home, start_of(at)):
        mine = None
        if told.events is not None and told.events.num_rows:
            mine = told.events.filter(pc.starts_with(_decode(told.events.column("subscription")), own.prefix))
        if mine is not None and mine.num_rows:
            batch = mine.column("batch").to_numpy()
            first = np.searchsorted(batch, batch)
            number = np.arange(1, len(batch) + 1) - first + np.where(batch == last, count, 0)
            last, count = int(batch[-1]), int(number[-1])
            fresh = (batch > at.batch) | ((batch == at.batch) & (number > at.number))
            mine = mine.set_column(mine.column_names.index("number"), "number", pa.array(number, pa.int64()))
            mine = own.shown(mine.filter(pa.array(fresh)))
            at = max(at, Cursor(last, count))
        elif told.upto.number == END_OF_BATCH:
            at = max(at, told.upto)
        yield EventPart(mine if mine is not None and mine.num_rows else None, at)


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
