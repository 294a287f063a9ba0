"""The rows of a stream from files, in the order of their times: positions, and what conditions and words read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import csv

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.watch.rows_of_frames import given_rows
from dtoss.watch.watch_settings import Rows
from pipelines.rows.input_columns import Columns
from pipelines.rows.inputs import look
from pipelines.rows.table_formats import TABLE_FORMATS

_PARSING = {"csv": ds.CsvFileFormat(), "tsv": ds.CsvFileFormat(csv.ParseOptions(delimiter="\t"))}


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
    skipped: int  # Rows without a legal position, or without a time


def read_stream(path: str, space: Space, names: Names, wanted: Sequence[str] = ()) -> Stream:
    """Return the rows of files.

    All rows are held in memory.
    """
    table = _table(path)
    x, y = ("lon", "lat") if space.geographic else ("x", "y")
    at = Columns(x=names.x, y=names.y).coordinates(table.column_names)
    chosen = {x: at[0], y: at[1], "t": names.time or "t"}
    if names.id is not None or "id" in table.column_names:
        chosen["id"] = names.id or "id"
    others = [name for name in (*wanted, names.text) if name is not None and name not in chosen]
    for name in [*chosen.values(), *others]:
        if name not in table.column_names:
            there = ", ".join(table.column_names)
            raise InputError(f"{path} has no column {name!r}; there are {there}: name it (--x, --y, --time, --id)")
    whole = pa.table(
        {mine: table.column(theirs) for mine, theirs in chosen.items()} | {n: table.column(n) for n in others}
    )
    good = _good(whole, x, y, space)
    kept = whole.filter(good)
    rows = given_rows(kept, space, names.text, set(wanted)).rows
    assert rows.t is not None
    order = np.argsort(rows.t, kind="stable")
    return Stream(rows.take(order), len(whole) - len(kept))


def _good(table: pa.Table, x: str, y: str, space: Space) -> pa.ChunkedArray:
    """Return which rows have a time and a position that may be one."""
    good = pc.is_valid(table.column("t"))
    for name, most in ((x, 180.0), (y, 90.0)):
        try:
            values = table.column(name).cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise InputError(f"column {name!r} has values that are no numbers: {error!s:.100}") from None
        inside = pc.less_equal(pc.abs(values), most if space.geographic else np.finfo(np.float64).max)
        good = pc.and_(good, pc.fill_null(inside, False))
    return good


def _table(path: str) -> pa.Table:
    inputs = look([path])
    if not inputs.files:
        raise InputError(f"{path} cannot be reached by this process: copy it to a folder of this machine")
    filesystem, places = inputs.places[0][0], [place for _, place in inputs.places]
    if inputs.kind in TABLE_FORMATS:
        return pa.concat_tables(pa.Table.from_batches(TABLE_FORMATS[inputs.kind].rows(filesystem, at)) for at in places)
    kind = _PARSING.get(inputs.kind, inputs.kind)
    try:
        found: pa.Table = ds.dataset(places, filesystem=filesystem, format=kind).to_table()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
    return found
