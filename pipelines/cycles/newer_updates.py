"""What stands against what arrived: which updates are newer than the object of their id, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.history.row_blocks import order_of_updates
from dtoss.partition import Partition, values_of
from dtoss.rows.input_columns import DELETED
from dtoss.rows.store_clock import Scale
from pipelines.cycles.arrivals import NONE, Arrivals


@dataclass(frozen=True)
class Findings:
    """What a partition says of its objects."""

    number: int  # Which partition it is
    # The name of the file that says of each object, owned or not, whether an update is newer, uint8; None where none is
    replaced: str | None
    deleted: int  # How many of its objects go, because a newer update deletes them
    expired: int  # How many go because nothing was heard of them, or nothing newer
    ages: bool  # Whether one of its objects, owned or not, is too old
    erased: int = 0  # How many of its objects go, because somebody is to be forgotten
    holds: bool = False  # Whether one of those is among its objects, owned or not


@dataclass(frozen=True)
class Verdicts:
    """What a partition says of the updates of its own objects."""

    numbers: NDArray[np.int64]  # int64. The updates
    order: NDArray[np.int8]  # int8. 1 where one is newer, 0 where it says what stands, -1 where it is late


def updates_of(partitions: Sequence[Partition], arrivals: Arrivals) -> list[NDArray[np.int64]]:
    """Return the update of each object of several partitions, or -1; strings are looked for together."""
    if len(arrivals) == 0 or not partitions:
        return [np.full(len(one.ids), NONE, np.int64) for one in partitions]
    if not isinstance(partitions[0].ids, pa.Array):
        return [arrivals.find(one.ids, one.id_order) for one in partitions]
    found = arrivals.find(pa.chunked_array([one.ids for one in partitions]))
    return np.split(found, np.cumsum([len(one.ids) for one in partitions])[:-1])


def findings(
    partition: Partition,
    update: NDArray[np.int64],
    arrivals: Arrivals,
    scale: Scale,
    expired_before: float,
    carried: Sequence[tuple[str, str]],
) -> tuple[Findings, Verdicts]:
    """Return what a partition says of its objects, and of the updates.

    ``update``: int64 (n,). The update of each of its objects, or -1; ``carried``: the updates' attribute columns, and
    the attribute of each, as pairs (column, attribute).

    Who knows an object without owning it has its row as it stands, so all say the same of its update. Cost O(n).
    """
    assert partition.times is not None  # the job has seen to it
    owned = partition.owned_objects
    rows = np.flatnonzero(update != NONE)
    order, deletes = np.empty(0, np.int8), np.empty(0, np.bool_)
    if len(rows):
        order, deletes = _verdicts(partition, rows, update[rows], arrivals, carried)
    mine, newer = rows < owned, order > 0
    replaced = np.zeros(len(update), np.bool_)
    replaced[rows[newer]] = True
    old = np.zeros(len(update), np.bool_)
    if expired_before > -np.inf:
        old = scale.numbers(partition.times) < expired_before
    file = None
    if newer.any():
        file = arrivals.place.write(f"replaced-{partition.number:05d}", pa.py_buffer(replaced.view(np.uint8)))
    found = Findings(
        partition.number,
        file,
        int(np.count_nonzero(deletes & newer & mine)),
        int(np.count_nonzero(old[:owned] & ~replaced[:owned])),
        bool(old.any()),
    )
    return found, Verdicts(update[rows[mine]], order[mine])


def _verdicts(
    partition: Partition,
    rows: NDArray[np.int64],
    numbers: NDArray[np.int64],
    arrivals: Arrivals,
    carried: Sequence[tuple[str, str]],
) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return the order of updates against objects, and which delete theirs."""
    assert partition.times is not None  # the job has seen to it
    came = arrivals.known(numbers, ["t", DELETED, "home"])
    deletes, home = (values_of(came.column(name)) for name in (DELETED, "home"))

    def column_pairs(tied: NDArray[np.int64]) -> Iterator[tuple[pa.ChunkedArray, pa.Array]]:
        arrived = arrivals.rows(numbers[tied], home[tied])
        places = partition.positions[rows[tied]]
        yield from ((arrived.column(name), pa.array(places[:, axis])) for axis, name in enumerate("xy"))
        for column, name in carried:
            mine, theirs = partition.attributes.get(name), arrived.column(column)
            yield theirs, pa.nulls(len(tied), theirs.type) if mine is None else mine.take(pa.array(rows[tied]))

    return order_of_updates(came.column("t"), deletes, partition.times.take(pa.array(rows)), column_pairs), deletes
