"""Which updates count: those that are newer than what stands or was deleted, not too late, and not too old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.history.row_blocks import order_between
from dtoss.rows.input_columns import DELETED
from dtoss.rows.store_clock import Clock
from pipelines.cycles.arrivals import Arrivals
from pipelines.cycles.newer_updates import Findings, matched


@dataclass(frozen=True)
class Ruling:
    """What becomes of the updates of a cycle."""

    dropped: NDArray[np.uint8]  # uint8 (u,). Updates that change nothing
    tombstones: pa.Table | None  # The deletions to remember: id and t, sorted by id; None where the store knows none
    # ``updated`` objects that stand as an update says, ``added`` ones among them; updates that were ``late``,
    # ``too_late``, ``unchanged`` or ``outdated`` (older than the expiry); objects that were ``deleted`` or ``expired``;
    # and ``deletions`` that are newer than what stood, whether an object went or not
    counts: dict[str, int]


def rule(
    arrivals: Arrivals, found: Sequence[Findings], tombstones: pa.Table | None, clock: Clock, deletes: bool
) -> Ruling:
    """Return which updates count, from what all partitions and the deletions say.

    ``tombstones``: the deletions that are remembered: id and t, sorted by id; None where there were never any.

    An id of the updates stands in one partition, is deleted, or neither. Cost O(u log u).
    """
    many = len(arrivals)
    expired = sum(one.expired for one in found)
    known = deletes or tombstones is not None
    counts = {
        "updated": 0, "added": 0, "late": 0, "too_late": 0, "unchanged": 0, "outdated": 0,
        "deleted": sum(one.deleted for one in found), "expired": expired, "deletions": 0,
    }  # fmt: skip
    if many == 0:
        kept = None if tombstones is None else _remembered(tombstones, clock)
        return Ruling(np.zeros(0, np.uint8), kept, counts)
    index = arrivals.ids
    number = index.column("number").to_numpy()
    deleted = np.empty(many, np.bool_)
    deleted[number] = index.column(DELETED).combine_chunks().to_numpy(zero_copy_only=False)
    times = np.empty(many, np.float64)
    times[number] = clock.scale.numbers(index.column("t").combine_chunks())

    stood, late, same = (np.zeros(many, np.bool_) for _ in range(3))
    for one in found:
        late[one.late], same[one.same] = True, True
        for numbers in (one.late, one.same, one.newer):
            stood[numbers] = True
    buried = np.zeros(many, np.bool_)
    if tombstones is not None and len(tombstones):
        buried, behind, again = _against(tombstones, index, deleted)
        late |= behind
        same |= again
    too_late = np.zeros(many, np.bool_)
    if known and found:
        # of a store's first rows none can bring back what was deleted
        too_late = ~same & ~stood & (times < clock.forgotten_before)
    late &= ~too_late
    standing = ~(late | same | too_late)
    outdated = standing & ~deleted & (times < clock.expired_before)
    counted = standing & ~outdated
    updated = counted & ~deleted
    counts |= {
        "updated": int(updated.sum()),
        "added": int((updated & ~stood).sum()),
        "late": int(late.sum()),
        "too_late": int(too_late.sum()),
        "unchanged": int(same.sum()),
        "outdated": int(outdated.sum()),
        # where a newer row is too old itself, so is the object
        "expired": expired + int((outdated & stood).sum()),
        "deletions": int((counted & deleted).sum()),
    }
    kept = None
    if known:
        ids = index.select(["id", "t"])
        fresh = ids.filter(pa.array((counted & deleted)[number]))
        # what came after a deletion ends it, though it may be too old to stand
        gone = ids.filter(pa.array(((counted | outdated) & buried)[number]))
        kept = fresh if tombstones is None else _joined(tombstones, fresh, gone)
        kept = _remembered(kept, clock)
    return Ruling((~counted).astype(np.uint8), kept, counts)


def _against(
    tombstones: pa.Table, index: pa.Table, deleted: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return of each update whether its id was deleted, whether that was later, and whether it says just that."""
    many = len(deleted)
    ids = tombstones.column("id").combine_chunks()
    update = matched(ids if pa.types.is_large_string(ids.type) else ids.to_numpy(), index)
    rows = np.flatnonzero(update >= 0)
    numbers = update[rows]
    at = np.empty(many, np.int64)
    at[index.column("number").to_numpy()] = np.arange(many)
    arrived = index.column("t").combine_chunks().take(pa.array(at[numbers]))
    verdict = order_between(arrived, tombstones.column("t").combine_chunks().take(pa.array(rows)))
    buried, behind, again = (np.zeros(many, np.bool_) for _ in range(3))
    buried[numbers] = True
    again[numbers] = (verdict == 0) & deleted[numbers]
    behind[numbers] = (verdict <= 0) & ~again[numbers]
    return buried, behind, again


def _joined(tombstones: pa.Table, fresh: pa.Table, gone: pa.Table) -> pa.Table:
    stays = pc.invert(pc.is_in(tombstones.column("id"), value_set=gone.column("id").combine_chunks()))
    both = pa.concat_tables([tombstones.filter(stays), fresh.cast(tombstones.schema)])
    return both.take(pc.sort_indices(both, sort_keys=[("id", "ascending")]))


def _remembered(tombstones: pa.Table, clock: Clock) -> pa.Table:
    times = clock.scale.numbers(tombstones.column("t").combine_chunks())
    return tombstones.filter(pa.array(times >= clock.forgotten_before)).combine_chunks()
