"""Objects that satisfy a condition, ready for queries: as a mask over the partitions, or as an index of their own.

A mask costs nothing to make, but a search passes all objects on its way to the k that match. An index of the matches
has none in its way, and costs as much to make as any: it is made at once where few match, and else when the queries
asked so far would have paid for it. Either is made once for each text and kept, the latest used ones.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.geometry.space import Space
from dtoss.locks import Lock
from dtoss.partition import Ids, Partition, numbers
from dtoss.partitioning.regions import Regions
from dtoss.queries.batch_answer import answer
from dtoss.queries.kernels.address_table import MASK, OWNED_SITES
from dtoss.queries.open_partitions import OpenPartitions, facts_of
from dtoss.queries.open_snapshot import OpenSnapshot
from dtoss.queries.raw_hits import RawHits

if TYPE_CHECKING:
    from dtoss.conditions.parse import Condition

KEPT_CONDITIONS = 16
"""Conditions kept for one index."""
KEPT_BYTES = 512_000_000
"""What masks and indexes of kept conditions may take together; the latest one is kept in any case."""
BYTES_PER_OBJECT = 150
"""Of an index of matches, about."""


class Shares(NamedTuple):
    """Shares of matches: below ``few`` they get an index of their own at once, above ``many`` a mask does as well."""

    few: float = 0.05
    many: float = 0.5


@dataclass(frozen=True)
class Matches:
    """The matches of a condition in all partitions."""

    masks: tuple[NDArray[np.uint8], ...]  # uint8 of each partition: which of its objects match, owned ones and replicas
    count: int  # How many owned objects match


@dataclass(frozen=True)
class Own:
    """An index of the matches alone, and where each of its objects is from."""

    opened: OpenSnapshot
    part: NDArray[np.int32]
    item: NDArray[np.int32]


class Filter:
    """A condition on the objects of one snapshot; thread-safe."""

    shares = Shares()

    def __init__(self, condition: Condition, opened: OpenSnapshot, space: Space) -> None:
        self.condition = condition
        self._space = space
        self._building = Lock()
        self._whole = opened
        self._matches = _matches(condition, opened.parts)
        self._masked = _masked(opened, self._matches)
        self._own: Own | None = None
        self._asked = 0

    @property
    def masked(self) -> OpenSnapshot:
        """The snapshot, in which only the matches count."""
        return self._masked

    @property
    def count(self) -> int:
        """How many objects match."""
        return self._matches.count

    @property
    def bytes(self) -> int:
        """Memory that the filter holds, about."""
        own = 0 if self._own is None else self.count * BYTES_PER_OBJECT
        return own + sum(mask.nbytes for mask in self._matches.masks)

    def answer(
        self,
        queries: NDArray[np.float64],
        radius: NDArray[np.float64],
        k: int,
        threads: int,
        *,
        places: bool = True,
        ordered: bool = True,
        may_build: bool = True,
    ) -> RawHits:
        """Answer a batch from the matches alone: as :func:`dtoss.queries.batch_answer.answer`.

        Without ``may_build`` an index of the matches is not made here, though it may pay (:meth:`pays`): that is left
        to whoever has the time, by :meth:`build`.
        """
        if self._own is None:
            # threads that count at once may lose some, which only puts the index off
            self._asked += len(queries) if k > 0 else 0
            if may_build and self.pays():
                self.build()
        own = self._own
        if own is None:
            return answer(self._masked, queries, radius, k, threads, places=places, ordered=ordered)
        found = answer(own.opened, queries, radius, k, threads, places=places, ordered=ordered)
        return replace(found, part=own.part[found.item], item=own.item[found.item])

    def holds(self, part: NDArray[np.integer], item: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which objects match, bool (n,): those of rows ``item`` of the partitions ``part``. Cost O(n)."""
        found = np.empty(len(item), np.bool_)
        order = np.argsort(part, kind="stable")
        begin = np.searchsorted(part[order], np.arange(len(self._matches.masks) + 1))
        for number, mask in enumerate(self._matches.masks):
            rows = order[begin[number] : begin[number + 1]]
            if len(rows):
                found[rows] = mask[item[rows]] != 0
        return found

    def rows(self, partition: Partition) -> NDArray[np.int32]:
        """Return which objects that a partition owns match, int32, ascending. Cost O(its objects)."""
        return np.flatnonzero(self._matches.masks[partition.number][: partition.owned_objects]).astype(np.int32)

    @property
    def few(self) -> bool:
        """Whether so few objects match that an index of them pays at once."""
        return self.count / max(self._whole.objects, 1) < self.shares.few

    def pays(self) -> bool:
        """Return whether an index of the matches is missing that the queries asked so far would pay for."""
        if self._own is not None:
            return False
        share = self.count / max(self._whole.objects, 1)
        # a search through a mask passes 1 / share objects for each match
        return self.few or (share < self.shares.many and self._asked > 2 * share * self.count)

    def build(self) -> None:
        """Make an index of the matches, unless it is there or another thread makes it."""
        # meanwhile the others go through the mask
        if self._building.acquire(blocking=False):
            try:
                if self._own is None:
                    self._own = _own_index(self._whole, self._space, self._matches)
            finally:
                self._building.release()

    def follow(self, before: Filter) -> None:
        """Count what the same condition was asked of an earlier snapshot: what paid there will pay here."""
        self._asked += before._asked


class _Slot:
    """The place of a condition's filter, which is made under a lock of its own: it may take long."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.making = Lock()
        self.filter: Filter | None = None


class Filters:
    """The conditions that an index was asked with, the latest ones kept; thread-safe.

    A condition is evaluated by the thread that asks first. Others that ask the same wait for it, those that ask
    anything else do not.
    """

    def __init__(self, opened: OpenSnapshot, space: Space) -> None:
        self._opened = opened
        self._space = space
        self._lock = Lock()
        self._kept: OrderedDict[str, _Slot] = OrderedDict()

    def ready(self, text: str) -> Filter | None:
        """Return the filter of a condition's text if it is there; nothing is evaluated, and nobody waited for."""
        slot = self._kept.get(text)
        if slot is None or slot.filter is None:
            return None
        if self._lock.acquire(blocking=False):
            try:
                if text in self._kept:
                    self._kept.move_to_end(text)
            finally:
                self._lock.release()
        return slot.filter

    def texts(self) -> list[str]:
        """Return the conditions that were evaluated and are kept, the one asked last first."""
        with self._lock:
            return [text for text, slot in reversed(self._kept.items()) if slot.filter is not None]

    def get(self, text: str, turn: AbstractContextManager[object] | None = None) -> Filter:
        """Return the filter of a condition's text."""
        slot = self._kept.get(text)
        if slot is None:
            from dtoss.conditions.parse import parse_condition  # the parser takes a fifth of a second to load

            slot = _Slot(parse_condition(text, schema_of(self._opened.parts[0])))
        with self._lock:
            slot = self._kept.setdefault(text, slot)
            self._kept.move_to_end(text)
        with slot.making:
            if slot.filter is None:
                try:
                    with turn or nullcontext():
                        slot.filter = Filter(slot.condition, self._opened, self._space)
                except BaseException:
                    with self._lock:
                        if self._kept.get(text) is slot:
                            del self._kept[text]
                    raise
        with self._lock:
            while len(self._kept) > KEPT_CONDITIONS or (len(self._kept) > 1 and self._bytes() > KEPT_BYTES):
                self._kept.popitem(last=False)
        return slot.filter

    def _bytes(self) -> int:
        return sum(slot.filter.bytes for slot in self._kept.values() if slot.filter is not None)


def schema_of(partition: Partition) -> dict[str, pa.DataType]:
    """Return the types of the columns that a condition may name: the attributes, and the id."""
    id_type = partition.ids.type if isinstance(partition.ids, pa.Array) else pa.int64()
    return {name: column.type for name, column in partition.attributes.items()} | {"id": id_type}


def _matches(condition: Condition, parts: OpenPartitions) -> Matches:
    masks = []
    count = 0
    for partition in parts.all():

        def column(name: str, partition: Partition = partition) -> pa.Array:
            if name in partition.attributes:
                return partition.attributes[name]
            return partition.ids if isinstance(partition.ids, pa.Array) else numbers(partition.ids)

        mask = condition.matches(column, len(partition.ids)).view(np.uint8)
        count += int(np.count_nonzero(mask[: partition.owned_objects]))
        masks.append(mask)
    return Matches(tuple(masks), count)


def _masked(opened: OpenSnapshot, matches: Matches) -> OpenSnapshot:
    partitions = opened.parts.all()
    table = opened.parts.table
    rows = table.rows.copy()
    for number, (partition, mask) in enumerate(zip(partitions, matches.masks, strict=True)):
        if not mask[: partition.owned_objects].any():
            rows[number, OWNED_SITES] = 0
        elif not mask.all():
            rows[number, MASK] = address(mask, "mask")
    parts = OpenPartitions(partitions, opened.parts.facts, table=replace(table, rows=rows))
    return replace(opened, parts=parts, objects=matches.count, masks=matches.masks)


def _own_index(opened: OpenSnapshot, space: Space, matches: Matches) -> Own:
    """Return an index of the matches, in one partition."""
    partitions = opened.parts.all()
    rows = [np.flatnonzero(m[: p.owned_objects]) for p, m in zip(partitions, matches.masks, strict=True)]
    part = np.repeat(np.arange(len(rows), dtype=np.int32), [len(r) for r in rows])
    item = np.concatenate(rows).astype(np.int32)
    positions = np.concatenate([p.positions[r] for p, r in zip(partitions, rows, strict=True)])
    pieces = [_taken(p.ids, r) for p, r in zip(partitions, rows, strict=True)]
    ids: Ids = pa.concat_arrays(pieces) if opened.string_ids else np.concatenate(pieces)
    bounds = opened.box if opened.dimension == 2 else None
    regions = Regions(np.ascontiguousarray(opened.regions.pivots[:1]), np.zeros(1))
    origin = numbers(np.arange(len(item)))
    from dtoss.building.construct import construct

    built = construct(
        0, ids, positions, np.zeros(len(item), np.int32), space, regions, np.inf, bounds, attributes={"row": origin}
    ).partition
    row = built.attributes["row"].to_numpy()
    built = replace(built, attributes={})
    own = replace(
        opened,
        parts=OpenPartitions([built], [facts_of(built)]),
        regions=regions,
        reach=np.full(1, np.inf),
        objects=len(item),
    )
    return Own(own, part[row], item[row])


def _taken(ids: Ids, rows: NDArray[np.int64]) -> Ids:
    return ids.take(numbers(rows)) if isinstance(ids, pa.Array) else ids[rows]
