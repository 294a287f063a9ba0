"""The events of one token's subscriptions: numbered by themselves, so that no number tells of those of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.watch.events.cursor import END_OF_BATCH, Cursor
from dtoss.watch.events.event_lines import carried_columns
from dtoss.watch.events.event_log import EventPart, told_events
from dtoss.watch.watch_folder import Home

_OF_PLACE = ("x", "y", "distance")


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
        left = pc.equal(_plain(events.column("kind")), "leave")
        for name in (*_OF_PLACE, *(name for name in carried if name not in hidden)):
            values = _plain(events.column(name))
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
            mine = told.events.filter(pc.starts_with(_plain(told.events.column("subscription")), own.prefix))
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


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
