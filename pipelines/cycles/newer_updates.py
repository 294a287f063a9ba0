"""What stands against what arrived: which updates are newer than the object of their id, partition by partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.history.row_blocks import order_between, order_of_rows
from dtoss.partition import Ids, Partition
from dtoss.rows.input_columns import DELETED
from dtoss.rows.store_clock import Scale
from pipelines.cycles.arrivals import Arrivals

NONE = -1
"""Stands where an object has no update."""


@dataclass(frozen=True)
class Findings:
    """What a partition says of the updates."""

    number: int  # Which partition it is
    # The name of the file with the update of each of its objects, int32, -1 where it has none; None where none has
    matches: str | None
    late: NDArray[np.int32]  # int32. Updates that are older than the object
    same: NDArray[np.int32]  # int32. Updates that say what stands
    # int32. Updates that are newer; with ``late`` and ``same``, those whose id the partition owns
    newer: NDArray[np.int32]
    deleted: int  # How many of its objects go, because a newer update deletes them
    expired: int  # How many go because nothing was heard of them, or nothing newer
    ages: bool  # Whether one of its objects, owned or not, is too old
    erased: int = 0  # How many of its objects go, because somebody is to be forgotten
    holds: bool = False  # Whether one of those is among its objects, owned or not


def matched(ids: Ids, among: pa.Table, order: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """Return the update of each id, int32 (n,): its number, or -1.

    ``among``: the updates' ids and numbers, sorted by id; ``order``: the order of whole numbers, as far as they have
    one: looking for them in it spares the memory.

    Cost O(n log u) of whole numbers, O(n + u) of strings.
    """
    number = among.column("number").to_numpy()
    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        at = pc.index_in(ids, value_set=among.column("id").combine_chunks()).fill_null(NONE).to_numpy()
        return np.where(at >= 0, number[np.maximum(at, 0)], NONE).astype(np.int32)
    sought = among.column("id").to_numpy()
    found = np.full(len(ids), NONE, np.int32)
    first = 0 if order is None else len(order)
    for some in (order, np.arange(first, len(ids))):
        if some is None or len(some) == 0:
            continue
        wanted = ids[some]
        at = np.minimum(np.searchsorted(sought, wanted), len(sought) - 1)
        hit = sought[at] == wanted
        found[some[hit]] = number[at[hit]]
    return found


def updates_of(partitions: Sequence[Partition], arrivals: Arrivals) -> list[NDArray[np.int32]]:
    """Return the update of each object of several partitions, or -1; strings are looked for together."""
    if len(arrivals) == 0 or not partitions:
        return [np.empty(0, np.int32) for _ in partitions]
    if not isinstance(partitions[0].ids, pa.Array):
        return [matched(one.ids, arrivals.ids, one.id_order) for one in partitions]
    found = matched(pa.chunked_array([one.ids for one in partitions]), arrivals.ids)
    return np.split(found, np.cumsum([len(one.ids) for one in partitions])[:-1])


def findings(
    partition: Partition,
    update: NDArray[np.int32],
    arrivals: Arrivals,
    scale: Scale,
    expired_before: float,
    carried: Sequence[tuple[str, str]],
) -> Findings:
    """Return what a partition says of the updates.

    ``update``: int32 (n,). The update of each of its objects, or -1; empty where there are no updates; ``carried``: the
    updates' attribute columns, and the attribute of each, as pairs (column, attribute).

    Cost O(n).
    """
    assert partition.times is not None  # the job has seen to it
    owned = partition.owned_objects
    old = scale.numbers(partition.times) < expired_before if expired_before > -np.inf else None
    ages = old is not None and bool(old.any())
    nothing = np.empty(0, np.int32)
    if len(arrivals) == 0:
        gone = int(np.count_nonzero(old[:owned])) if old is not None else 0
        return Findings(partition.number, None, nothing, nothing, nothing, 0, gone, ages)
    rows = np.flatnonzero(update[:owned] >= 0)
    numbers = update[rows]
    verdict, goes = _verdicts(partition, rows, numbers, arrivals, carried)
    replaced = np.zeros(owned, np.bool_)
    replaced[rows[verdict > 0]] = True
    expired = int(np.count_nonzero(old[:owned] & ~replaced)) if old is not None else 0
    file = None
    if (update >= 0).any():
        file = arrivals.place.write(f"matches-{partition.number:05d}", pa.py_buffer(update))
    return Findings(
        partition.number,
        file,
        numbers[verdict < 0],
        numbers[verdict == 0],
        numbers[verdict > 0],
        int(np.count_nonzero(goes & (verdict > 0))),
        expired,
        ages,
    )


def _verdicts(
    partition: Partition,
    rows: NDArray[np.int64],
    numbers: NDArray[np.int32],
    arrivals: Arrivals,
    carried: Sequence[tuple[str, str]],
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return of each object with an update whether that is newer (1), the same (0) or older (-1), and deletes it."""
    index = arrivals.ids
    at = arrivals.place_in_order[numbers]
    assert partition.times is not None  # the job has seen to it
    stands = partition.times.take(pa.array(rows))
    verdict = order_between(index.column("t").combine_chunks().take(pa.array(at)), stands)
    goes = index.column(DELETED).combine_chunks().to_numpy(zero_copy_only=False)[at]
    # at equal times a deletion wins
    verdict[(verdict == 0) & goes] = 1
    ties = np.flatnonzero(verdict == 0)
    if len(ties):
        home = index.column("home").to_numpy()[at[ties]]
        arrived = arrivals.rows(numbers[ties].astype(np.int64), home)
        places = partition.positions[rows[ties]]
        compared = [(arrived.column(name), pa.array(places[:, axis])) for axis, name in enumerate("xy")]
        for column, name in carried:
            mine = partition.attributes.get(name)
            theirs = arrived.column(column)
            mine = pa.nulls(len(ties), theirs.type) if mine is None else mine.take(pa.array(rows[ties]))
            compared.append((theirs, mine))
        verdict[ties] = order_of_rows(compared)
    return verdict, goes
