"""The rows of a batch, by object and time: which count, and which are late, repeated or tied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.geometry.hilbert import radix_order
from dtoss.watch.watch_settings import Rows

_WIDEST = (1 << 63) - 1


@dataclass(frozen=True)
class OrderedRows:
    """Rows by object and time, one for each moment of an object."""

    rows: Rows
    begin: NDArray[np.int64]  # int64 (objects + 1,). Object i has the rows ``begin[i]:begin[i + 1]``
    tied: int  # tied, repeated: how many were left out: of a moment that has another position or the same
    repeated: int

    @property
    def objects(self) -> pa.Array:
        """The ids of the objects, rising."""
        assert self.rows.ids is not None
        return self.rows.ids.take(pa.array(self.begin[:-1]))


def order_rows(rows: Rows) -> OrderedRows:
    """Return rows that have ids and times by object and time; of a moment's rows the greatest (x, y, attributes) stays.

    Cost O(n log n).
    """
    assert rows.ids is not None
    assert rows.t is not None
    placed = rows.take(by_id_and_time(rows.ids, rows.t))
    assert placed.ids is not None
    assert placed.t is not None
    fresh = _differs(placed.ids)
    moment = fresh | np.append(True, placed.t[1:] != placed.t[:-1])[: len(fresh)]
    tied = repeated = 0
    if not moment.all():
        kept, tied, repeated = _greatest(placed, moment)
        placed = placed.take(kept)
        assert placed.ids is not None
        fresh = _differs(placed.ids)
    return OrderedRows(placed, np.append(np.flatnonzero(fresh), len(fresh)).astype(np.int64), tied, repeated)


def by_id_and_time(ids: pa.Array, t: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the stable order of rows by object and time, int64 (n,). Cost O(n) for ids that are numbers."""
    if pa.types.is_integer(ids.type) and len(ids):
        numbers = np.asarray(ids.to_numpy(zero_copy_only=False))
        if int(numbers.max()) - int(numbers.min()) <= _WIDEST and int(t.max()) - int(t.min()) <= _WIDEST:
            early = radix_order(t - t.min())
            return early[radix_order(np.ascontiguousarray(numbers[early] - numbers.min()))].astype(np.int64)
    keys = [("id", "ascending"), ("t", "ascending")]
    return np.asarray(pc.sort_indices(pa.table({"id": ids, "t": t}), sort_keys=keys)).astype(np.int64)


def _differs(ids: pa.Array) -> NDArray[np.bool_]:
    """Return which ids differ from the one before; the first does."""
    found = np.ones(len(ids), np.bool_)
    if len(ids) > 1:
        found[1:] = np.asarray(pc.not_equal(ids[1:], ids[:-1]))
    return found


def _greatest(rows: Rows, moment: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int, int]:
    """Return the greatest row of each moment of an object, and how many others are tied with it or equal to another.

    The counts are the same in whatever order rows come: of a moment of n rows at d positions d - 1 are tied, and n - d
    repeated.
    """
    group = np.cumsum(moment) - 1
    shared = np.bincount(group)[group] > 1
    many = np.flatnonzero(shared)
    of, places = group[many], rows.positions[many] + 0.0
    columns = [rows.attributes[name] for name in sorted(rows.attributes)]
    if rows.text is not None:
        columns.append(rows.text)
    taken = pa.array(many)
    ranks = [ranks_of(column.take(taken)) for column in columns]
    order = np.lexsort((*ranks[::-1], places[:, 1], places[:, 0], of))
    of, places = of[order], places[order]
    last = np.append(of[1:] != of[:-1], True)
    elsewhere = (of[1:] == of[:-1]) & (places[1:] != places[:-1]).any(axis=1)
    tied = int(elsewhere.sum())
    kept = np.concatenate([np.flatnonzero(~shared), many[order[last]]])
    kept.sort()
    return kept, tied, len(many) - int(last.sum()) - tied


def ranks_of(column: pa.Array) -> NDArray[np.int64]:
    """Return numbers in the order of values: a null is less than all else, and NaN is the greatest number."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    try:
        found = np.asarray(pc.rank(column, "ascending", tiebreaker="dense")).astype(np.int64)
    except pa.ArrowNotImplementedError:
        found = np.unique([repr(value) for value in column.to_pylist()], return_inverse=True)[1] + 1
    return np.where(np.asarray(column.is_null()), 0, found)
