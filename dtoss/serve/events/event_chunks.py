"""Events as text, cut in parts of some kilobytes: what a stream sends at a time, and what streams share.

The events of one token's subscriptions: numbered by themselves, so that no number tells of those of others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.serve.core.server_settings import USUAL_SIZES
from dtoss.watch.events.event_files import PLACE_COLUMNS
from dtoss.watch.events.event_lines import carried_columns, join_lines, line_column
from dtoss.watch.events.event_log import EventPart, told_events
from dtoss.watch.events.readers import END_OF_BATCH, Cursor
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

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
