"""Rows of a batch by object and time, and what they meet of what is known of their objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.geometry.hilbert import radix_order
from dtoss.windows.keys import Numbers
from dtoss.windows.trajectories.fold_horizon import in_order, merge
from dtoss.windows.trajectories.known_rows import ObjectState

_WIDEST = (1 << 63) - 1


@dataclass(frozen=True)
class WindowRows:
    """Rows that count, unless another of the same object and time does."""

    ids: pa.Array  # int64 or string (n,), none null
    t: Numbers  # int64 (n,). Microseconds since 1970
    positions: NDArray[np.float64]  # float64 (n, 2), legal ones
    # int64 (n,). Of the object, 0 or more: all objects of a bucket are in one state. Speeds that were the greatest are
    # kept by it
    bucket: Numbers

    def __len__(self) -> int:
        return len(self.t)

    take = take_rows


@dataclass(frozen=True)
class Placed:
    """Rows by object and time."""

    rows: WindowRows
    ids: pa.Array  # (k,). The objects, rising
    first: Numbers  # int64 (k + 1,). Object i has the rows ``first[i]:first[i + 1]``
    # int64 (n,). The number of each among the rows as they came; None where they came in this order
    order: Numbers | None = None


def placed(rows: WindowRows) -> Placed:
    """Return rows by object and time. Cost O(n), and O(k log k) for k texts as ids."""
    if len(rows) == 0:
        return Placed(rows, rows.ids, np.zeros(1, np.int64))
    if pa.types.is_integer(rows.ids.type):
        number = np.asarray(rows.ids.cast(pa.int64()).to_numpy(zero_copy_only=False))
    else:
        coded = rows.ids.dictionary_encode()
        rank = np.empty(len(coded.dictionary), np.int64)
        rank[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(len(rank))
        number = rank[np.asarray(coded.indices)]
    order = None
    if not in_order(number, rows.t):
        order = _order(number, rows.t)
        rows, number = rows.take(order), number[order]
    begin = np.flatnonzero(number[1:] != number[:-1]) + 1
    first = np.concatenate([[0], begin, [len(number)]]).astype(np.int64)
    return Placed(rows, rows.ids.take(pa.array(first[:-1])), first, order)


def _order(number: Numbers, t: Numbers) -> Numbers:
    wide = max(int(number.max()) - int(number.min()), int(t.max()) - int(t.min()))
    if wide > _WIDEST:
        return np.lexsort((t, number))
    early = radix_order(t - t.min())
    return early[radix_order(np.ascontiguousarray(number[early] - number.min()))].astype(np.int64)


@dataclass(frozen=True)
class Met:
    """Objects that are known or have rows, with all their rows that count."""

    ids: pa.Array  # (k,), rising
    # known, came: int64 (k,). The number of each in the state, and among the objects of the batch; -1 where it is not
    # there
    known: Numbers
    came: Numbers
    # int64 (n,). Rows by object and time: those of the state have their numbers, those of the batch follow them
    order: Numbers
    # begin, start: int64 (k + 1,) and (k,). Object i has the rows ``order[begin[i]:begin[i + 1]]``, of which those from
    # ``start[i]`` on are others than before: all others are in the state one after another
    begin: Numbers
    start: Numbers
    duplicates: int  # Rows that do not count: another of the same object and time has a greater position, or the same


def met(state: ObjectState, batch: Placed) -> Met:
    """Return what rows meet. Cost O(objects and rows of the state and the batch)."""
    ids, known, came = _all_ids(state.ids, batch.ids)
    rows, held = batch.rows, len(state.t)
    order = np.empty(held + len(rows), np.int64)
    begin, start = np.zeros(len(known) + 1, np.int64), np.empty(len(known), np.int64)
    duplicates = merge(
        known, came, state.first, state.t, state.positions, batch.first, rows.t, rows.positions, order, begin, start
    )
    return Met(ids, known, came, order[: begin[-1]], begin, start, duplicates)


def _all_ids(known: pa.Array, came: pa.Array) -> tuple[pa.Array, Numbers, Numbers]:
    """Return the union of rising ids, and the number of each among the known ones and those that came, or -1."""
    came = came.cast(known.type)
    if len(known) == 0 or len(came) == 0:
        none, all_of = np.full(len(known) + len(came), -1), np.arange(len(known) + len(came))
        return (came, none, all_of) if len(known) == 0 else (known, all_of, none)
    at = np.asarray(pc.fill_null(pc.index_in(came, value_set=known), -1)).astype(np.int64)
    fresh = np.flatnonzero(at < 0)
    whole = pa.concat_arrays([known, came.take(pa.array(fresh))])
    order = np.asarray(pc.sort_indices(whole)).astype(np.int64)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    number_known, number_came = np.full(len(order), -1), np.full(len(order), -1)
    number_known[place[: len(known)]] = np.arange(len(known))
    where = np.where(at >= 0, at, 0)
    where[fresh] = np.arange(len(known), len(order))
    number_came[place[where]] = np.arange(len(came))
    return whole.take(pa.array(order)), number_known, number_came
