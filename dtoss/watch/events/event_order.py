"""The order of the events of a file: by object, then time, then leave before enter before inside."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_RANKS = {"leave": 0, "enter": 1, "inside": 2, "reset": 3}
_EXPIRED = "expired"


def wrong_order(table: pa.Table) -> str | None:
    """Return what is wrong with the order of a file's events; None where it is right.

    An object that expires leaves first, whatever came of it afterwards. Events without an object, of messages or
    resets, have no order among them. Cost O(events).
    """
    if table.num_rows < 2:
        return None
    objects = _plain(table, "object")
    kinds = _plain(table, "kind")
    unknown = pc.invert(pc.is_in(kinds, pa.array(list(_RANKS))))
    if pc.any(unknown).as_py():
        return f"it has events of kind {kinds.filter(unknown)[0].as_py()!r}"
    same = _and(pc.equal(objects[1:], objects[:-1]))
    lower = _and(pc.less(objects[1:], objects[:-1]))
    if lower.any():
        return "its objects are not in their order"
    expired = _and(pc.equal(_plain(table, "reason"), _EXPIRED))
    late = ~expired
    t = table.column("t").fill_null(0).to_numpy()
    rank = pc.index_in(kinds, pa.array(list(_RANKS))).to_numpy(zero_copy_only=False)
    row = np.arange(len(rank), dtype=np.int64)
    order = np.lexsort((row, rank, np.where(expired, 0, t), late))
    place = np.empty(len(row), np.int64)
    place[order] = row
    if (same & (np.diff(place) < 0)).any():
        return "its events are not in the order of their objects' rows"
    return None


def _plain(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column.cast(column.type.value_type) if isinstance(column, pa.DictionaryArray) else column


def _and(mask: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found
