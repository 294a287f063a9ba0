"""Events as they are handed to who reads them: so many lines of JSON at a time, and where the reader stands then."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_lines import json_lines
from dtoss.watch.events.event_log import EventPart
from dtoss.watch.watch_settings import Settings


@dataclass(frozen=True)
class Lines:
    """Some events as lines of JSON, none perhaps, and where a reader stands behind them."""

    pieces: tuple[bytes, ...]  # The lines, in UTF-8, one piece after the other
    tables: tuple[pa.Table, ...]  # The same events, a table for each piece
    upto: Cursor  # All events that were asked for up to this cursor are in these lines or in those before

    @property
    def events(self) -> int:
        """How many there are."""
        return sum(table.num_rows for table in self.tables)

    @property
    def first(self) -> Cursor:
        """The cursor of the first event."""
        return _cursor(self.tables[0], 0)

    @property
    def last(self) -> Cursor:
        """The cursor of the last event."""
        return _last(self.tables[-1])

    @property
    def each(self) -> Iterator[tuple[Cursor, bytes]]:
        """The cursor and the line of each event."""
        for piece, table in zip(self.pieces, self.tables, strict=True):
            batches, numbers = table.column("batch").to_pylist(), table.column("number").to_pylist()
            for batch, number, line in zip(batches, numbers, piece.splitlines(keepends=True), strict=True):
                yield Cursor(batch, number), line


def line_parts(
    look: Iterator[EventPart], settings: Callable[[], Settings], most: int, share: tuple[int, int] = (1, 1)
) -> Iterator[Lines]:
    """Yield the events of a look as lines: as many as may be at a time, and what is left at its end.

    Stretches without an event are told of too, for the reader to move on. Memory: the lines of ``most`` events, and a
    table of the look.
    """
    pieces: list[bytes] = []
    tables: list[pa.Table] = []
    count, upto = 0, None
    for part in look:
        events = None if part.events is None else events_of_share(part.events, share)
        begin, rows = 0, 0 if events is None else events.num_rows
        while events is not None and begin < rows:
            table = events.slice(begin, most - count)
            pieces.append(bytes(json_lines(table, settings())))
            tables.append(table)
            begin, count = begin + table.num_rows, count + table.num_rows
            if count == most:
                yield Lines(tuple(pieces), tuple(tables), part.upto if begin == rows else _last(table))
                pieces, tables, count = [], [], 0
        upto = part.upto
        if not count and not rows:
            yield Lines((), (), upto)
    if upto is not None:
        yield Lines(tuple(pieces), tuple(tables), upto)


def events_of_share(events: pa.Table, share: tuple[int, int]) -> pa.Table:
    """Return the events of those subscriptions that are a share's: by the CRC-32 of their ids, modulo the shares."""
    number, of = share
    if of == 1:
        return events
    ids = events.column("subscription").cast(pa.large_string())
    mine = [one for one in pc.unique(ids).to_pylist() if zlib.crc32(one.encode()) % of == number - 1]
    return events.filter(pc.is_in(ids, value_set=pa.array(mine, pa.large_string())))


def _last(table: pa.Table) -> Cursor:
    return _cursor(table, table.num_rows - 1)


def _cursor(table: pa.Table, row: int) -> Cursor:
    return Cursor(table.column("batch")[row].as_py(), table.column("number")[row].as_py())
