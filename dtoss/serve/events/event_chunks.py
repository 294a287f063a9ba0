"""Events as text, cut in parts of some kilobytes: what a stream sends at a time, and what streams share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.serve.core.server_settings import USUAL_SIZES
from dtoss.serve.events.own import Own
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_lines import join_lines, line_column
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
        """Return which events are wanted, bool (n,).

        ``subscription``, ``kind``: of the events, texts (n,).
        """
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
    """Yield events as parts.

    ``after``: of the first part; ``most``: bytes of a part, about.
    """
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
    column = events.column(name)
    found = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    return found.dictionary_decode() if isinstance(found, pa.DictionaryArray) else found
