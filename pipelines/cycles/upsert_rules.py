"""Which updates count: those that are newer than what stands or was deleted, not too late, and not too old."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.history.row_blocks import order_after_deletions, places_among
from dtoss.partition import values_of
from dtoss.rows.input_columns import DELETED
from dtoss.rows.store_clock import Clock
from dtoss.snapshots.manifest import write_tombstones
from pipelines.cycles.arrivals import Arrivals, Batches
from pipelines.cycles.current_state import Deletions
from pipelines.cycles.newer_updates import Findings


@dataclass(frozen=True)
class UpsertRules:
    """By what updates count."""

    arrivals: Arrivals
    deletions: Deletions | None  # Those that are remembered; None where there were never any
    clock: Clock
    deletes: bool  # Whether updates may delete
    stood: bool  # Whether there was a snapshot: of a store's first rows none can bring back what was deleted

    @property
    def known(self) -> bool:
        """Whether deletions are remembered from now on."""
        return self.deletes or self.deletions is not None


@dataclass(frozen=True)
class Ruled:
    """What becomes of the updates of one file."""

    number: int  # Of the file
    dropped: str | None  # The file that says of each whether it changes nothing, uint8; None where all change something
    deletions: str | None  # The file of deletions that begin or end: id, t, ends and begins; None where none does
    counts: Counter[str]


@dataclass(frozen=True)
class Ruling:
    """What becomes of the updates of a cycle."""

    dropped: tuple[str | None, ...]  # dropped, deletions: the files of :class:`Ruled`
    deletions: tuple[str, ...]
    # ``updated`` objects that stand as an update says, ``added`` ones among them; updates that were ``late``,
    # ``too_late``, ``unchanged`` or ``outdated`` (older than the expiry); objects that were ``deleted`` or ``expired``;
    # and ``deletions`` that are newer than what stood, whether an object went or not
    counts: Mapping[str, int]

    @classmethod
    def of(cls, found: Sequence[Findings], ruled: Sequence[Ruled]) -> Ruling:
        """Return what becomes of all, from what partitions and tasks say."""
        counts = Counter(dict.fromkeys(COUNTED, 0))
        for one in ruled:
            counts.update(one.counts)
        counts.update(deleted=sum(one.deleted for one in found), expired=sum(one.expired for one in found))
        inorder = sorted(ruled, key=lambda one: one.number)
        names = (one.deletions for one in inorder)
        return cls(tuple(one.dropped for one in inorder), tuple(name for name in names if name is not None), counts)


COUNTED = ("updated", "added", "late", "too_late", "unchanged", "outdated", "deleted", "expired", "deletions")


def rule(rules: UpsertRules, said: Sequence[Batches | None], files: Sequence[int]) -> list[Ruled]:
    """Return which updates of some files count, from what all partitions and the deletions say.

    An id of the updates stands in one partition, is deleted, or neither. Cost O(u + d) for d deletions.
    """
    buried = None if rules.deletions is None else rules.deletions.read()
    return [_rule(rules, said, file, buried) for file in files]


def _rule(rules: UpsertRules, said: Sequence[Batches | None], file: int, tombstones: pa.Table | None) -> Ruled:
    arrivals, clock = rules.arrivals, rules.clock
    rows = arrivals.ids(file)
    many, deleted = len(rows), values_of(rows.column(DELETED))
    times = clock.scale.numbers(rows.column("t").combine_chunks())
    order, stood, buried = np.ones(many, np.int8), np.zeros(many, np.bool_), np.zeros(many, np.bool_)
    for batch in arrivals.said_of(file, said):
        row = values_of(batch.column("row"))
        order[row], stood[row] = values_of(batch.column("order")), True
    if tombstones is not None and len(tombstones):
        at = places_among(rows.column("id"), tombstones.column("id").combine_chunks())
        buried = at >= 0
        theirs = tombstones.column("t").combine_chunks().take(pa.array(at[buried]))
        came = rows.column("t").filter(pa.array(buried))
        order[buried] = np.minimum(order[buried], order_after_deletions(came, deleted[buried], theirs))
    too_late = np.zeros(many, np.bool_)
    if rules.known and rules.stood:
        too_late = (order != 0) & ~stood & (times < clock.forgotten_before)
    standing = (order > 0) & ~too_late
    outdated = standing & ~deleted & (times < clock.expired_before)
    counted = standing & ~outdated
    fates = {
        "updated": counted & ~deleted,
        "added": counted & ~deleted & ~stood,
        "late": (order < 0) & ~too_late,
        "too_late": too_late,
        "unchanged": order == 0,
        "outdated": outdated,
        # where a newer row is too old itself, so is the object
        "expired": outdated & stood,
        "deletions": counted & deleted,
    }
    begins = counted & deleted
    # what came after a deletion ends it, though it may be too old to stand
    ends = standing & buried
    place, dropped, deletions = arrivals.place, None, None
    if not counted.all():
        dropped = place.write(f"dropped-{file:05d}", pa.py_buffer((~counted).view(np.uint8)))
    if rules.known and (begins | ends).any():
        some = rows.select(["id", "t"]).append_column("ends", pa.array(ends)).append_column("begins", pa.array(begins))
        deletions = place.write_table(f"deletions-{file:05d}", some.filter(pa.array(begins | ends)))
    return Ruled(file, dropped, deletions, Counter({name: int(them.sum()) for name, them in fates.items()}))


def remember(rules: UpsertRules, files: Sequence[str]) -> dict[str, Any]:
    """Write the deletions to remember, those of before and those that files say begin or end; return their entry."""
    place, clock, before = rules.arrivals.place, rules.clock, rules.deletions
    kept = rules.arrivals.ids(0).slice(0, 0).select(["id", "t"]) if before is None else before.read()
    if files:
        came = pa.concat_tables([place.open(name).read_all() for name in files])
        gone = came.column("id").filter(came.column("ends")).combine_chunks()
        begun = came.filter(came.column("begins")).select(["id", "t"]).cast(kept.schema)
        kept = pa.concat_tables([kept.filter(pc.invert(pc.is_in(kept.column("id"), value_set=gone))), begun])
    times = clock.scale.numbers(kept.column("t").combine_chunks())
    kept = kept.filter(pa.array(times >= clock.forgotten_before))
    ids, t = (kept.column(name).combine_chunks() for name in ("id", "t"))
    since = clock.forgotten_before if math.isfinite(clock.forgotten_before) else None
    held = ids if pa.types.is_large_string(ids.type) else values_of(ids)
    return write_tombstones(place.store, place.snapshot, held, t, since)
