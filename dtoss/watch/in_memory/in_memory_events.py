"""Events without a store: what a batch does with its rows, on rows before that a caller has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dtoss.commits.offsets import Source
from dtoss.names import position_names
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.processing.batch_rows import OrderedRows, order_rows
from dtoss.watch.processing.event_table import EventWriter, carried_as, event_schema
from dtoss.watch.processing.last_rows import Before, keys_of
from dtoss.watch.processing.object_rows import KnownRows, tracks_of
from dtoss.watch.processing.transitions import by_id, write_events, write_messages
from dtoss.watch.processing.watch_clock import Clock
from dtoss.watch.processing.watch_plan import Options, Plan
from dtoss.watch.rows_of_frames import ID_OF_ROWS, FrameRows, times_as
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows, Settings

_NOWHERE = Home("", "unstored")


def events_of(
    standing: Standing,
    settings: Settings,
    before: Rows | None,
    given: FrameRows,
    carry: Sequence[str],
    clock: int | None,
) -> pa.Table:
    """Return the events of rows as a table. Cost O(n log n + m) for n rows with m matches.

    ``before``: rows before; the last of each object counts. None for none; ``clock``: microseconds; subscriptions that
    expire then or before do not count. None for all.
    """
    options = Options(carry=tuple(carry))
    plan = Plan(
        _NOWHERE, settings, options, 0, None, None, None, Source(), clock, Clock(), (), tuple(given.rows.attributes), 0,
        standing,
    )  # fmt: skip
    tables: list[pa.Table] = []
    out = EventWriter(event_schema(settings, carry), 0, 0, tables.append)
    if settings.time is None:
        write_messages(plan, given.rows.take(by_id(given.rows)), out)
    else:
        placed = order_rows(given.rows)
        write_events(plan, tracks_of(plan, placed, _known(before, placed)), out)
    return _shown(pa.concat_tables([out.schema.empty_table(), *tables]), settings, given, carry)


def _known(before: Rows | None, placed: OrderedRows) -> KnownRows:
    """Return the last row of each object before."""
    if before is None:
        before = placed.rows.take(np.zeros(0, np.int64))
    held = order_rows(before)
    last = held.rows.take(held.begin[1:] - 1)
    assert last.ids is not None
    assert last.t is not None
    nothing = np.zeros(len(last), np.int64)
    kept = Before(
        keys_of(last.ids), last.ids, last.t, last.positions, nothing, nothing.astype(np.bool_), last.attributes
    )
    return KnownRows(kept, nothing.astype(np.bool_), ())


def _shown(events: pa.Table, settings: Settings, given: FrameRows, carry: Sequence[str]) -> pa.Table:
    x, y = position_names(settings.space.geographic)
    events = events.combine_chunks()
    columns = {name: events.column(name).cast(pa.string()) for name in ("kind", "subscription")}
    columns["object"] = events.column("object")
    if given.time is not None:
        columns["t"] = times_as(events.column("t"), given.time)
    columns |= {x: events.column("x"), y: events.column("y"), "distance": events.column("distance")}
    columns["meta"] = events.column("meta").cast(pa.string())
    return pa.table(columns | {name: events.column(name) for name in carried_as(carry).values()})


def check_ids(rows: Rows, whose: str) -> None:
    """Check that rows that follow one another say whose they are."""
    if rows.ids is None:
        raise ValueError(f"{whose} have no column {ID_OF_ROWS!r}: enter and leave are of objects")
    if rows.ids.null_count:
        row = int(rows.ids.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"row {row} of {whose} has no {ID_OF_ROWS}: leave such rows out")
