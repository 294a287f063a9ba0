"""A batch of rows, by object and time, against what is known of objects: patches, and what is known then.

The rows of a batch walked object by object, into patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.compiled.kernel import operand
from dtoss.geometry.hilbert import radix_order
from dtoss.row_runs import offsets, runs
from dtoss.windows.bins import BINS_OF_SLOW, BOUNDS
from dtoss.windows.keys import Keys, Labels, Numbers
from dtoss.windows.patches import Patches
from dtoss.windows.spec import Spec
from dtoss.windows.trajectories.cell_table import Groups, groups_of, highest, patch_of, table_of
from dtoss.windows.trajectories.fold_horizon import fold_state, in_order, merge
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.move_codes import codes_of
from dtoss.windows.trajectories.silent_objects import Others, raise_others, raised_to
from dtoss.windows.trajectories.walk_kernel import (
    BINNED,
    FLOWS,
    JUMPS,
    NO_VISIT,
    TOUCHED_COUNT,
    WAITING_CODES,
    WAITS,
    walk,
)
from dtoss.windows.watermark import PaneCounts, reached_of


@dataclass(frozen=True)
class ObjectsStep:
    """What a batch has done."""

    patches: Patches  # What changes in panes
    after: ObjectState  # What is known of objects then; the next step folds it to its horizon
    duplicates: int  # Rows that do not count: another of the same object and time does
    jumps: int  # How many more pairs of rows are too fast for a move than before
    reached: PaneCounts  # The last panes of all objects
    changed: Numbers  # int64. Those whose rows are others than before, by their number in the state after
    left: PaneCounts  # The last panes of all objects before


def objects_step(
    spec: Spec, keys: Keys, before: ObjectState, rows: WindowRows, horizon: int | None, labels: Labels | None = None,
    others: Others | None = None,
) -> ObjectsStep:  # fmt: skip
    """Return what rows change. Cost O(n) for n rows, those of the state, and panes and keys that they may touch.

    ``rows``: good ones, in any order: none is before the horizon, none is null; ``horizon``: microseconds: that of the
    commit before, :func:`dtoss.windows.watermark.horizon_of`; None in the first batch; ``others``: moves of all other
    objects of the rows' buckets, where the greatest speed is asked for; None where they are in the state.
    """
    state = fold_state(spec, before, horizon)
    batch = placed(rows)
    positions = batch.rows.positions
    wanted = spec.moves or labels is None
    vectors = keys.space.vectors(positions) if wanted else np.zeros((len(positions), 1))  # nobody looks at those
    if labels is None:
        labels = keys.find(positions, vectors)
    elif batch.order is not None:
        labels = labels.take(batch.order)
    found = met(state, batch)
    pool = pool_of(spec, keys, state, batch, labels, vectors, found)
    bucket = _buckets(state, batch, found)
    result = walk_changes(spec, keys, state, pool, found, bucket, horizon, others)
    ends = found.begin[1:][np.diff(found.begin) > 0]
    reached = reached_of(spec, pool.t[found.order[ends - 1]])
    left = reached_of(spec, state.t[state.first[1:][np.diff(state.first) > 0] - 1])
    changed = np.flatnonzero(found.start < found.begin[1:])
    after = _after(spec, state, batch, pool, found, bucket)
    return ObjectsStep(result.patches, after, found.duplicates, result.jumps, reached, changed, left)


def _buckets(state: ObjectState, batch: Placed, found: Met) -> Numbers:
    """Return the bucket of each object."""
    bucket = np.zeros(len(found.known), np.int64)
    known, came = found.known >= 0, found.came >= 0
    bucket[came] = batch.rows.bucket[batch.first[:-1]]
    bucket[known] = state.bucket
    return bucket


def _after(spec: Spec, state: ObjectState, batch: Placed, pool: Pool, found: Met, bucket: Numbers) -> ObjectState:
    """Return what is known of objects: all their rows that count, and the visits before."""
    speeds = "max_speed" in spec.measures
    visits = np.zeros(len(bucket), np.int64)
    visits[found.known >= 0] = np.diff(state.visit_first)
    positions, t, labels, speed = batch.rows.positions, pool.t, pool.labels, pool.speed
    if len(state.t) or len(found.order) < len(t):
        positions = np.concatenate([state.positions, positions])[found.order]
        t, labels = t[found.order], labels.take(found.order)
        speed = speed[found.order] if speeds else speed
    return ObjectState(
        found.ids, bucket, found.begin, t, positions, labels, speed if speeds else speed[:0],
        offsets(visits), state.visit_key, state.visit_pane,
    )  # fmt: skip


_LAST = (1 << 62) - 1
_SUMS = ("rows", "arrivals", "departures", "distance_mm", "moving_us", "here", "objects_0")


@dataclass(frozen=True)
class Pool:
    """Rows of a state, and after them those of a batch."""

    t: Numbers  # int64 (n,)
    pane: Numbers  # int64 (n,)
    labels: Labels
    vectors: NDArray[np.float64]  # float64 (n, dimension). Of rows of the state only where they are needed
    # int64 (n,). As the state's; of the batch -1 before they are walked. None at all where no greatest is asked for
    speed: Numbers


@dataclass(frozen=True)
class Walked:
    """What a walk has found."""

    patches: Patches  # What changes in panes
    jumps: int  # How many more pairs of rows are jumps than before


def pool_of(
    spec: Spec, keys: Keys, state: ObjectState, batch: Placed, labels: Labels, vectors: NDArray[np.float64], found: Met
) -> Pool:
    """Return the rows of a state and a batch. Cost O(n)."""
    held, count = len(state.t), len(batch.rows)
    speeds = "max_speed" in spec.measures
    speed = np.full(held + count if speeds else 1, -1, np.int64)
    if held == 0:
        return Pool(batch.rows.t, batch.rows.t // spec.pane, labels, operand(vectors), speed)
    if speeds and len(state.speed):
        speed[:held] = state.speed
    t = np.concatenate([state.t, batch.rows.t])
    whole = np.zeros((held + count, vectors.shape[1]))
    whole[held:] = vectors
    if spec.moves:
        needed = _changed_rows(state, found)
        whole[needed] = keys.space.vectors(state.positions[needed])
    return Pool(t, t // spec.pane, join_rows([state.labels, labels]), whole, speed)


def _changed_rows(state: ObjectState, found: Met) -> Numbers:
    """Return the rows of a state from the one before the first that changes on, of each object that has any."""
    changed = np.flatnonzero((found.start < found.begin[1:]) & (found.known >= 0))
    known = found.known[changed]
    same = np.maximum(found.start[changed] - found.begin[changed] - 1, 0)
    begin = np.minimum(state.first[known] + same, state.first[known + 1])
    return runs(begin, state.first[known + 1] - begin)


def walk_changes(
    spec: Spec, keys: Keys, state: ObjectState, pool: Pool, found: Met, bucket: Numbers, horizon: int | None,
    others: Others | None = None,
) -> Walked:  # fmt: skip
    """Return what the rows that came change. Cost O(rows of objects that have any, and cells that may change).

    ``pool``: its rows and those that came; the speeds of moves are written there; ``bucket``: int64 (k,). Of each
    object; ``horizon``: microseconds, or None; ``others``: moves of objects that are not in the state; None where all
    are.
    """
    changed = np.flatnonzero(found.start < found.begin[1:])
    if len(changed) == 0:
        return Walked(Patches.none(spec), 0)
    first, last = _panes(spec, pool, horizon)
    groups, key, visit_key = _compact(keys, pool, state)
    single = pool.labels.first is None
    key_first = np.zeros(1, np.int64) if pool.labels.first is None else pool.labels.first
    chains = _chains(state, found, changed)
    rows = int((chains.end - chains.start).sum())
    maxima = "max_speed" in spec.measures
    buckets, column = np.unique(bucket, return_inverse=True)
    table = table_of(groups, len(spec.sums), first, last - first, rows)
    high = table_of(groups, len(buckets) if maxima else 0, first, last - first, rows)
    codes = codes_of(pool.pane, groups)
    entries = rows + int((chains.old_end - chains.old_begin).sum())
    most = max(pool.labels.most, 1)
    flow = np.empty(entries if "flow" in spec.measures else 0, np.int64)
    bins = np.empty(entries * most if spec.bins else 0, np.int64)
    counts = np.zeros(4, np.int64)
    asked = np.array([
        single, pool.vectors.shape[1], spec.pane, first,
        spec.max_gap, _LAST if spec.max_speed is None else spec.max_speed, -1 if spec.expire is None else spec.expire,
        spec.moves, "flow" in spec.measures, spec.bins, codes.place_bits, codes.rank_bits, maxima,
    ], np.int64)  # fmt: skip
    columns = np.array([spec.sums.index(name) if name in spec.sums else -1 for name in _SUMS], np.int64)
    work = np.full((WAITS + 1, max(2 * len(groups), WAITING_CODES)), NO_VISIT, np.int64)
    work[[TOUCHED_COUNT, WAITS]] = 0
    lengths = np.array([length // spec.pane for length in spec.lengths], np.int64)
    chain = 0
    while True:
        chain = walk(
            chain, most, asked, BINS_OF_SLOW, BOUNDS, lengths, groups.group, columns,
            operand(pool.t), pool.pane, codes.place, key_first, key, pool.vectors, pool.speed,
            found.order, np.arange(len(state.t) + 1), *chains, column[changed], visit_key, operand(state.visit_pane),
            *table.arrays, *high.arrays, flow, bins, counts, work,
        )  # fmt: skip
        if chain == len(changed):
            break
        for one in (table, high):
            if not one.facts[1]:
                one.grow()
    if maxima:
        raise_others(
            first, single, found.order, found.begin, found.start, column, pool.pane, key_first, key, pool.speed,
            *high.arrays,
        )  # fmt: skip
        if others is not None:
            raised_to(others, high, groups, buckets, (first, last), spec.pane)
    patches = Patches(
        patch_of(table, groups), codes.flow(flow[: counts[FLOWS]], groups),
        codes.bins(bins[: counts[BINNED]], groups),
        highest(patch_of(high, groups), buckets) if maxima else Patches.none(spec).maxima,
    )  # fmt: skip
    return Walked(patches, int(counts[JUMPS]))


def _panes(spec: Spec, pool: Pool, horizon: int | None) -> tuple[int, int]:
    """Return the first pane that rows may touch, and the one after the last."""
    first = int(pool.pane.min()) if horizon is None else horizon // spec.pane
    last = max(int(pool.pane.max()), first) + spec.longest
    if "here" in spec.measures and spec.expire is not None:
        last = max(last, (int(pool.t.max()) + spec.expire) // spec.pane)
    return first, last + 1


def _compact(keys: Keys, pool: Pool, state: ObjectState) -> tuple[Groups, Numbers, Numbers]:
    """Return labels from 0 on by group, and those of the rows and of the visits."""
    key, visit_key = pool.labels.key, state.visit_key
    if keys.count is not None:
        return groups_of(keys.count, None), operand(key), operand(visit_key)
    names = np.unique(np.concatenate([key[key >= 0], visit_key]))
    found = np.where(key >= 0, np.searchsorted(names, key), -1)
    return groups_of(len(names), names), found, np.searchsorted(names, visit_key).astype(np.int64)


class _Chains(NamedTuple):
    """Objects whose rows change, as the kernel takes them: their rows, those before, and their visits before."""

    begin: Numbers
    start: Numbers
    end: Numbers
    old_begin: Numbers
    old_end: Numbers
    visit_begin: Numbers
    visit_end: Numbers


def _chains(state: ObjectState, found: Met, changed: Numbers) -> _Chains:
    known = found.known[changed]
    there, held = known >= 0, np.maximum(known, 0)

    def between(first: Numbers) -> tuple[Numbers, Numbers]:
        if len(state) == 0:
            return np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
        return np.where(there, first[held], 0), np.where(there, first[held + 1], 0)

    return _Chains(
        found.begin[changed], found.start[changed], found.begin[changed + 1], *between(state.first),
        *between(state.visit_first),
    )  # fmt: skip


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
