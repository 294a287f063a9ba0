"""The rows of a batch by object and time, which of them count, and what is known of each of its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.file_entry import merged_from
from dtoss.geometry.distance import distance
from dtoss.geometry.hilbert import radix_order
from dtoss.watch.processing.last_rows import STAY_TYPE, Before, concatenated, write_run
from dtoss.watch.processing.state_runs import Asked, Layer, ids_until, layers_of, merged, newest
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.watch_settings import SPEED_COLUMN, Rows

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


_SECOND = 1e6


@dataclass(frozen=True)
class KnownRows:
    """Rows before: of the objects of a batch, and of those whose time is over."""

    before: Before  # By object's id; no object twice, none that is gone
    expired: NDArray[np.bool_]  # bool (n,). Whose time is over by the clock
    due: NDArray[np.bool_]  # bool (n,). Of which something of a stay is full
    layers: tuple[Layer, ...]  # The runs that have some of the task's buckets, oldest first


def known_of(
    plan: Plan, buckets: NDArray[np.int64], ids: pa.Array, expiring: bool, due: int | None = None
) -> KnownRows:
    """Return the rows before that a task needs. Cost O(rows log objects), and O(objects) where any may expire.

    ``buckets``: int64. Those of the task; ``due``: with those of which something of a stay is full by this time.
    """
    layers = layers_of(plan.home, plan.state, buckets)
    kind = pa.int64() if plan.settings.id_type == "int64" else pa.string()
    ids = ids.cast(kind)
    limit = plan.by_rows.expired_until(plan.options.expire) if expiring else None
    if limit is not None:
        late = ids_until(layers, limit, kind)
        if len(late):
            ids = pc.unique(pa.concat_arrays([ids, late]))
    full = pa.array([], kind)
    if due is not None:
        full = ids_until(layers, due, kind, due=True)
        ids = pc.unique(pa.concat_arrays([ids, full])) if len(full) else ids
    kinds = plan.kept_types
    before = concatenated(newest(layers, Asked.of(ids)), kinds, kind)
    if before.gone.any():
        before = before.take(np.flatnonzero(~before.gone))
    if len(before) > 1 and not pc.all(pc.less(before.ids[:-1], before.ids[1:])).as_py():
        before = before.take(by_id_and_time(before.ids, before.t))
    expired = np.zeros(len(before), np.bool_) if limit is None else before.t <= limit
    of_stays = np.asarray(pc.is_in(before.ids, value_set=full)).astype(np.bool_)
    return KnownRows(before, expired, of_stays, layers)


def as_before(placed: OrderedRows, before: Before, columns: Sequence[str]) -> OrderedRows:
    """Return rows in which some columns are as their objects had them in the row before, null where there is none."""
    at = np.asarray(pc.fill_null(pc.index_in(placed.objects, value_set=before.ids), -1)).astype(np.int64)
    of = np.repeat(at, np.diff(placed.begin))
    taken = pa.array(of, mask=of < 0)
    attributes = dict(placed.rows.attributes)
    for name in columns:
        if name in before.attributes and name in attributes:
            attributes[name] = before.attributes[name].take(taken).cast(attributes[name].type)
    return replace(placed, rows=replace(placed.rows, attributes=attributes))


@dataclass(frozen=True)
class StayEvents:
    """What is told of stays, (m,) each."""

    row: NDArray[np.int64]  # int64. The last row of the object up to then
    subscription: NDArray[np.int32]
    kind: NDArray[np.uint8]
    distance: NDArray[np.float64]
    t: NDArray[np.int64]  # int64. When it was
    over: NDArray[np.bool_]  # bool. Whether the object left because it was silent


@dataclass(frozen=True)
class Tracks:
    """Objects with the rows that are judged: the row before where it counts, then those of the batch."""

    rows: Rows  # By object and time
    begin: NDArray[np.int64]  # int64 (objects + 1,). Object i has the rows ``begin[i]:begin[i + 1]``, at least one
    before: NDArray[np.bool_]  # bool (n,). Which rows are rows before: the first of an object, or none
    expired: NDArray[np.bool_]  # bool (n,). Rows before whose time is over
    changes: NDArray[np.int64]  # int64 (n,). The change that a row before was judged under; the batch's own of others
    counts: Mapping[str, int]  # Rows that were left out, by reason, and how many objects were over
    # uint8 (n,). The events of each row that are told here, as bits; None tells all
    tells: NDArray[np.uint8] | None = None
    # int64 (m,). The last times of objects of which nothing is known, and all rows were over when they came
    behind: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    # Of :data:`dtoss.watch.processing.last_rows.STAY_TYPE`: those of the rows before, in their order, and what is kept
    # of each object; None where nobody asks
    stays_before: pa.Array | None = None
    stays: pa.Array | None = None
    told: StayEvents | None = None  # What is told of them


def tracks_of(plan: Plan, placed: OrderedRows, known: KnownRows) -> Tracks:
    """Return what is judged: late rows are left out, and rows that are over already when they come."""
    rows, before = placed.rows, known.before
    assert rows.ids is not None
    assert rows.t is not None
    firsts = placed.objects
    at = np.asarray(pc.fill_null(pc.index_in(firsts, value_set=before.ids), -1)).astype(np.int64)
    row_before = np.repeat(at, np.diff(placed.begin))
    counts = {"late": 0, "repeated": 0, "outdated": 0, "expired": int(known.expired.sum())}
    kept = np.ones(len(rows), np.bool_)
    held = np.flatnonzero(row_before >= 0)
    if len(held):
        of = row_before[held]
        late = rows.t[held] <= before.t[of]
        same = (rows.t[held] == before.t[of]) & (rows.positions[held] == before.positions[of]).all(axis=1)
        counts["repeated"], counts["late"] = int(same.sum()), int((late & ~same).sum())
        kept[held[late]] = False
    behind = np.zeros(0, np.int64)
    limit = plan.by_rows.expired_until(plan.options.expire)
    if limit is not None:
        outdated = kept & (rows.t <= limit)
        counts["outdated"] = int(outdated.sum())
        kept &= ~outdated
        # the last row of an object is its latest
        ends = placed.begin[1:] - 1
        behind = rows.t[ends[(at < 0) & outdated[ends]]]
    rows = rows.take(np.flatnonzero(kept)) if not kept.all() else rows
    assert rows.ids is not None
    assert rows.t is not None
    # rows before of objects that have rows, or are over
    speaks = np.zeros(len(before), np.bool_)
    spoken = row_before[kept & (row_before >= 0)]
    speaks[spoken] = True
    taken = np.flatnonzero(speaks | known.expired | known.due)
    some = before.take(taken)
    ids = pa.concat_arrays([some.ids, rows.ids.cast(some.ids.type)])
    count = len(some)
    t = np.concatenate([some.t, rows.t])
    # the row before of an object is earlier than all of its rows
    order = by_id_and_time(ids, t)
    attributes = {}
    for name, column in rows.attributes.items():
        held_column = some.attributes.get(name)
        old = pa.nulls(count, column.type) if held_column is None else held_column.cast(column.type)
        attributes[name] = pa.concat_arrays([old, column])
    text = None if rows.text is None else pa.concat_arrays([pa.nulls(count, rows.text.type), rows.text])
    whole = Rows(np.concatenate([some.positions, rows.positions]), ids, t, text, attributes).take(order)
    assert whole.ids is not None
    fresh = np.ones(len(whole), np.bool_)
    if len(whole) > 1:
        fresh[1:] = np.asarray(pc.not_equal(whole.ids[1:], whole.ids[:-1]))
    expired = np.append(known.expired[taken], np.zeros(len(rows), np.bool_))[order]
    begin = np.append(np.flatnonzero(fresh), len(whole)).astype(np.int64)
    before_rows = order < count
    whole = _with_speeds(plan, whole, begin[:-1], before_rows, expired, some.attributes.get(SPEED_COLUMN))
    changes = np.append(some.changes, np.full(len(rows), plan.changes))[order]
    counts["accepted"] = len(rows)
    return Tracks(whole, begin, before_rows, expired, changes, counts, behind=behind, stays_before=some.stays)


def ways(plan: Plan, t: NDArray[np.int64], firsts: NDArray[np.int64], expired: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the rows to which there is a way from the row before, int64 (m,).

    ``firsts``: int64. The first row of each object; ``expired``: bool (n,). Rows with which an object was over.
    """
    there = np.ones(len(t), np.bool_)
    there[firsts] = False
    there[1:] &= ~expired[:-1] & (np.diff(t.view(np.uint64)) <= plan.options.max_gap)
    return np.flatnonzero(there)


def is_speed_wanted(plan: Plan) -> bool:
    """Return whether somebody asks for speeds, which rows do not bring along."""
    wanted = {*plan.options.carry, *plan.standing.columns_named} - set(plan.settings.attributes)
    return SPEED_COLUMN in wanted and SPEED_COLUMN in plan.settings.columns


def _with_speeds(
    plan: Plan,
    rows: Rows,
    firsts: NDArray[np.int64],
    before: NDArray[np.bool_],
    expired: NDArray[np.bool_],
    kept: pa.Array | None,
) -> Rows:
    """Return rows of objects with the speed on the way to each, null where there is none, if it is asked for.

    ``before``: bool (n,). Rows before, whose speeds are ``kept``, in their order; None where they are not known.
    """
    if rows.t is None or not is_speed_wanted(plan):
        return rows
    moved = ways(plan, rows.t, firsts, expired)
    vectors = plan.settings.space.vectors(rows.positions)
    found = np.full(len(rows), np.nan)
    seconds = (rows.t[moved] - rows.t[moved - 1]) / _SECOND
    found[moved] = distance(vectors[moved - 1], vectors[moved]) / seconds
    if kept is not None:
        found[before] = kept.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return replace(rows, attributes={**rows.attributes, SPEED_COLUMN: pa.array(found, from_pandas=True)})


@dataclass(frozen=True)
class Kept:
    """What a task has kept."""

    entry: dict[str, Any] | None  # What a commit says of the run; None where there is none
    written: NDArray[np.int64]  # int64. Buckets that it has rows of
    # Runs of the commit before, the oldest, of which it has no rows; it has all rows of the others in the task's
    # buckets
    stay: int


def kept_state(plan: Plan, tracks: Tracks, known: KnownRows, *, merges: bool = True) -> Kept:
    """Write the last row of each object, and if it ``merges``, the newer runs where they are worth it."""
    rows = tracks.rows
    assert rows.ids is not None
    assert rows.t is not None
    last = tracks.begin[1:] - 1
    if len(last) == 0:
        return Kept(None, np.zeros(0, np.int64), len(plan.state))
    gone = tracks.expired[last]
    kinds = plan.kept_types
    asked = Asked.of(rows.ids.take(pa.array(last)))
    fresh = Before(
        asked.key,
        asked.ids,
        rows.t[last],
        rows.positions[last],
        tracks.changes[last],
        gone,
        {name: rows.attributes[name].take(pa.array(last)).cast(kind) for name, kind in kinds.items()},
        pa.nulls(len(last), STAY_TYPE) if tracks.stays is None else tracks.stays,
    )
    layers = known.layers
    stay = merged_from([layer.size for layer in layers], len(fresh)) if merges else len(layers)
    bucket, whole = merged(layers[stay:], asked, fresh, kinds, stay == 0)
    entry = write_run(plan.home.folder, bucket, whole)
    number = layers[stay].number if stay < len(layers) else len(plan.state)
    return Kept(entry, np.unique(bucket), number)
