"""What runs on the workers of a cycle: each partition compared with what arrived, and built anew where that matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.building.border import Border, border_of
from dtoss.building.renew import Grounds
from dtoss.building.renew import renew as renew_partition
from dtoss.partition import Partition
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.column_types import type_named
from dtoss.snapshots.partition_file import decode
from dtoss.snapshots.read_file import check_sum
from pipelines.cycles.arrivals import Arrivals, Batches
from pipelines.cycles.build_tasks import BuildPlan, share_of, write_built, write_share
from pipelines.cycles.newer_updates import Findings, Verdicts, findings, updates_of

ROWS_AT_ONCE = 100_000
"""Rows of a batch that goes to Spark."""
COMPARED_AT_ONCE = 2_000_000
"""Objects whose ids are looked for together among those of the updates."""


@dataclass(frozen=True)
class CyclePlan:
    """What the workers of a cycle need to know."""

    build: BuildPlan  # What is built, and where to
    last: str  # The snapshot whose objects stand
    entries: tuple[dict[str, Any], ...]  # Of its partitions in the manifest, in their order
    arrivals: Arrivals
    scale: Scale
    expired_before: float  # Objects older than this go
    # The updates' attribute columns, and the attribute of each, in the order in which they are stored
    carried: tuple[tuple[str, str], ...]
    erased: pa.Array | None = None  # Ids of objects that go, whatever arrived; None for none
    types: Mapping[str, str] = field(default_factory=dict)  # Spark's names of the types of attributes that are new

    def kind(self, column: str) -> pa.DataType:
        """Return the type of a column of updates that the objects which stand do not have."""
        return type_named(self.types[dict(self.carried)[column]])

    def standing(self, number: int, *, compared: bool = False) -> Partition:
        """Return a partition as it stands, its checksum compared if so wanted."""
        entry = self.entries[number]
        source = self.build.store.source(self.last, entry["file"], entry["bytes"])
        if compared:
            check_sum(source, entry, "xxh64")
        return decode(source.data, source.path)


@dataclass(frozen=True)
class Compared:
    """What some partitions say: of their objects, and the file of what they say of the updates."""

    findings: tuple[Findings, ...]
    verdicts: Batches | None  # By task: row, int32, and order, int8, of its updates; None where they say nothing


def compare(plan: CyclePlan, numbers: Sequence[int]) -> list[Compared]:
    """Return what partitions say of their objects and of the updates, in one."""
    found = [one for some in standing_together(plan, numbers, compared=True) for one in _compared(plan, some)]
    number, order = (
        np.concatenate([getattr(said, name) for _, said in found]) for name in ("numbers", "order")
    )  # fmt: skip
    return [Compared(tuple(one for one, _ in found), plan.arrivals.write_by_file("verdicts", number, order))]


def standing_together(plan: CyclePlan, numbers: Sequence[int], *, compared: bool) -> Iterator[list[Partition]]:
    """Yield partitions as they stand, as many at a time as are looked through together."""
    some: list[Partition] = []
    for number in numbers:
        some.append(plan.standing(number, compared=compared))
        if sum(len(one.ids) for one in some) >= COMPARED_AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _compared(plan: CyclePlan, partitions: Sequence[Partition]) -> list[tuple[Findings, Verdicts]]:
    updates = updates_of(partitions, plan.arrivals)
    return [
        findings(partition, update, plan.arrivals, plan.scale, plan.expired_before, plan.carried)
        for partition, update in zip(partitions, updates, strict=True)
    ]


@dataclass(frozen=True)
class Wanted:
    """A partition that may have to be built: its number, the file of who is replaced, whether some are old.

    ``always`` is for one that is built in any case, ``holds`` for one with objects that are erased.
    """

    number: int
    replaced: str | None
    ages: bool
    always: bool
    holds: bool = False


def renew(plan: CyclePlan, dropped: Sequence[str | None], wanted: Sequence[Wanted]) -> list[dict[str, Any]]:
    """Build the partitions in whose knowledge something has changed, link the others, and return their entries.

    The manifest's entry, with the file of the shares of the border in ``border``; of one that was linked ``number``,
    ``border`` and ``linked`` alone. ``dropped``: of each file of updates the name of the one that says of each whether
    it does not count, uint8; None where all count.
    """
    made = [_renew(plan, dropped, one) for one in wanted]
    numbers = [one.number for one in wanted]
    write_share(plan.build, numbers, [share for _, share in made])
    return [entry | {"border": share_of(numbers)} for entry, _ in made]


def _renew(plan: CyclePlan, dropped: Sequence[str | None], wanted: Wanted) -> tuple[dict[str, Any], Border]:
    number, build = wanted.number, plan.build
    partition = plan.standing(number)
    came = []
    for file, batch in plan.arrivals.of_partition(number):
        if (name := dropped[file]) is not None:
            batch = batch.filter(plan.arrivals.stay(name, batch))
        if batch.num_rows:
            came.append(batch)
    keep = _kept(plan, partition, wanted)
    if not came and keep is None and not wanted.always:
        build.store.link(build.snapshot, plan.entries[number]["file"], plan.last)
        return {"number": number, "linked": True}, border_of(partition)
    rows = np.arange(len(partition.positions)) if keep is None else np.flatnonzero(keep)
    grounds = Grounds(build.space, build.regions, build.reach, build.bounds)
    return write_built(build, renew_partition(grounds, partition, rows, came, plan.carried, plan.kind))


def stays(plan: CyclePlan, wanted: Wanted, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the objects of a partition that stay as they are, in columns of these names."""
    partition = plan.standing(wanted.number)
    keep = _kept(plan, partition, wanted)
    owned = np.arange(partition.owned_objects)
    rows = pa.array(owned if keep is None else owned[keep[: len(owned)]])
    ids = partition.ids.cast(pa.string()) if isinstance(partition.ids, pa.Array) else pa.array(partition.ids)
    columns = [ids, *(pa.array(partition.positions[:, axis]) for axis in (0, 1)), partition.times]
    for column, name in plan.carried:
        mine = partition.attributes.get(name)
        columns.append(pa.nulls(len(ids), plan.kind(column)) if mine is None else mine)
    table = pa.table([column.take(rows) for column in columns], names=list(names))
    yield from table.to_batches(max_chunksize=ROWS_AT_ONCE)


def _kept(plan: CyclePlan, partition: Partition, wanted: Wanted) -> NDArray[np.bool_] | None:
    """Return which objects stay as they are; None where all do.

    An object whose newer update is too old to count is too old itself.
    """
    gone = np.zeros(len(partition.positions), np.bool_)
    if wanted.replaced is not None:
        gone = np.frombuffer(plan.arrivals.place.read(wanted.replaced), np.bool_)
    if wanted.ages:
        gone = gone | (plan.scale.numbers(partition.times) < plan.expired_before)
    if wanted.holds:
        gone = gone | erased_of(plan, partition)
    return ~gone if gone.any() else None


def erased_of(plan: CyclePlan, partition: Partition) -> NDArray[np.bool_]:
    """Return which objects of a partition, owned or not, are erased."""
    if plan.erased is None:
        return np.zeros(len(partition.positions), np.bool_)
    ids = partition.ids if isinstance(partition.ids, pa.Array) else pa.array(partition.ids)
    return np.asarray(pc.is_in(ids, value_set=plan.erased))
