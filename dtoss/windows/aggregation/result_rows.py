"""Values of a sweep as rows of results: one for each end and key with any value, and what was said of it before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.windows.aggregation.columns import Columns
from dtoss.windows.aggregation.pane_cells import Cells, Numbers
from dtoss.windows.aggregation.slots import Slots


def rows_of(columns: Columns, block: Numbers) -> NDArray[np.bool_]:
    """Return which ends and keys of a block have any value, bool (ends, keys)."""
    flat = block.reshape(len(block), block.shape[1] * block.shape[2])
    there, plain = np.zeros(flat.shape[1], np.bool_), len(flat) - columns.speeds
    empty = np.arange(len(there))
    for row in (*reversed(range(plain)), *range(plain, len(flat))):  # sums of the longest first
        some = flat[row].take(empty) != (0 if row < plain else -1)
        there[empty[some]] = True
        empty = empty[~some]
        if len(empty) == 0:
            break
    return there.reshape(block.shape[1:])


def table_of(
    columns: Columns,
    block: Numbers,
    there: NDArray[np.bool_],
    ends: Numbers,
    keys: Numbers,
    revisions: Numbers,
    final_until: int,
) -> pa.Table:
    """Return rows of a block as a table, by end and key.

    ``block``: int64 (columns, ends, keys); ``there``: bool (ends, keys). The rows; ``ends``, ``keys``: microseconds of
    the ends, and the keys; ``revisions``: int64 (rows,); ``final_until``: the latest end that does not change any more,
    in microseconds.
    """
    flat, rows = block.reshape(len(block), there.size), np.flatnonzero(there)
    if len(rows) < there.size:
        flat = flat.take(rows, axis=1)
    end = ends.repeat(len(keys)).take(rows)
    made: dict[str, pa.Array] = {
        "end": pa.array(end),
        "key": pa.array(np.tile(keys, len(ends)).take(rows)),
        "revision": pa.array(revisions),
        "final": pa.array(end <= final_until),
    }
    made |= dict(zip(columns.measured, _arrays(flat, columns.speeds), strict=True))
    return pa.table([made[field.name] for field in columns.results], schema=columns.results)


def _arrays(values: Numbers, speeds: int) -> list[pa.Array]:
    """Return rows of numbers as arrays over the same memory; the last ``speeds`` of them are null where below 0."""
    held, wide = pa.py_buffer(values), values.shape[1] * values.itemsize
    bits = np.packbits(values[len(values) - speeds :] >= 0, axis=1, bitorder="little")
    valid = [None] * (len(values) - speeds) + [pa.py_buffer(row) for row in bits]
    return [
        pa.Array.from_buffers(pa.int64(), values.shape[1], [mask, held.slice(i * wide, wide)])
        for i, mask in enumerate(valid)
    ]


def put_in_order(columns: Columns, values: Mapping[str, Numbers], keys: Numbers) -> pa.Table:
    """Return values of one end by key, without an end: as answers to questions have them."""
    made = {"key": pa.array(keys)}
    for field in columns.results:
        if field.name in values:
            column = values[field.name]
            made[field.name] = pa.array(column, mask=column < 0) if columns.is_speed(field.name) else pa.array(column)
    return pa.table(made)


def told_before(revisions: Cells, ends: Numbers, keys: Numbers) -> Numbers:
    """Return the last revision of each end and key, int64 (ends, keys); 0 where nothing was revised.

    ``ends``: int64, in microseconds; ``keys``: int64, rising.
    """
    found = np.zeros((len(ends), len(keys)), np.int64)
    at_end, at_key = Slots(ends).of(revisions.pane), Slots(keys).of(revisions.labels[:, 0])
    mine = (at_end >= 0) & (at_key >= 0)
    found[at_end[mine], at_key[mine]] = revisions.values[mine, 0]
    return found
