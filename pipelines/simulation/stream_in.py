"""The rows of a stream from files, in the order of their times: positions, and what conditions and words read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.rows.input_columns import Columns, attribute_column
from dtoss.watch.rows_of_frames import given_rows
from dtoss.watch.watch_settings import Rows
from pipelines.rows.inputs import look
from pipelines.rows.position_frame import screen_positions
from pipelines.rows.read_files import names_in, read_positions


@dataclass(frozen=True)
class Names:
    """Which columns mean what."""

    # id, x, y, time, text: of ids, positions, times and texts; None takes ``id``, ``lon`` or ``x``, ``lat`` or ``y``,
    # ``t``, and no text
    id: str | None = None
    x: str | None = None
    y: str | None = None
    time: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Stream:
    """Rows by time."""

    rows: Rows
    skipped: int  # Rows that cannot be used, as a job judges them: without a legal position, say, or a time


def read_stream(path: str, space: Space, names: Names, wanted: Sequence[str] = ()) -> Stream:
    """Return the rows of files, which are read as those of any job.

    All rows are held in memory.
    """
    inputs = look([path])
    columns = Columns(id=names.id, x=names.x, y=names.y, time=names.time or "t", attributes="none")
    there = names_in(None, inputs, columns)
    if columns.id is None and "id" in there:
        columns = replace(columns, id="id")
    called = {"x": "lon", "y": "lat", "t": "t"} if space.geographic else {"x": "x", "y": "y", "t": "t"}
    if columns.id is not None:
        called["id"] = "id"
    named = [*wanted, *([] if names.text is None else [names.text])]
    others = [name for name in dict.fromkeys(named) if name not in called.values()]
    for name in others:
        if name not in there:
            raise InputError(f"{path} has no column {name!r}; there are {', '.join(there)}")
    # what all texts look like is no matter: words are asked of them
    text = {} if names.text is None else {names.text: "string"}
    read = read_positions(None, inputs, replace(columns, attributes=others or "none"), wanted=text)
    frame = screen_positions(read, space).frame
    called |= {attribute_column(name): name for name in others}
    kept = frame.rows(list(called)).table(pa.schema([frame.schema.field(name) for name in called]))
    rows = given_rows(kept.rename_columns(list(called.values())), space, names.text, set(wanted)).rows
    assert rows.t is not None
    order = np.argsort(rows.t, kind="stable")
    return Stream(rows.take(order), frame.tally.read - len(kept))
