"""A frame or rows merged with an index in this process: partitions that they touch are built anew, others stay.

Rows are a table of ``id`` (int64 or large strings), ``t``, ``deleted``, ``x`` and ``y`` (null of deletions), and the
attributes, ``a:`` before the name of each, in the order of the partitions' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.building.border import border_of, fix
from dtoss.building.construct import BuiltPartition
from dtoss.building.in_memory import members_of
from dtoss.building.renew import Grounds, renew
from dtoss.building.stood import Cells
from dtoss.frames.arrow_tables import table_of
from dtoss.frames.objects_of import Objects, attributes_of, objects_of
from dtoss.geometry.space import as_positions
from dtoss.history.row_blocks import (
    latest,
    order_after_deletions,
    order_of_updates,
    places_among,
)
from dtoss.ids import as_ids, check_distinct
from dtoss.names import not_carried
from dtoss.partition import Partition, values_of
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import bounds_round, grow_bounds
from dtoss.queries.gather import take
from dtoss.save_index import TIME, BuildRecord, SnapshotRecord
from dtoss.snapshots.manifest_fields import Columns

ATTRIBUTE = "a:"
"""Stands before the name of an attribute among the columns of rows."""


@dataclass(frozen=True)
class Counts:
    """What became of rows, as a cycle's manifest counts it: of the rows of an id in the order of all the last one."""

    updated: int = 0  # Objects that stand as a row says, ``added`` ones among them
    added: int = 0
    late: int = 0  # Older than what stands, or than its deletion
    unchanged: int = 0  # Says what stands, or that it is deleted
    deleted: int = 0  # Objects that went
    unusable: int = 0  # Set aside: of no legal id, place or time, outside given bounds, or of who is forgotten


@dataclass(frozen=True)
class Merged:
    """What stands once rows were merged."""

    index: Any  # The same one where no object changed, nor the bounds
    tombstones: pa.Table | None  # The deletions to remember, id and t, sorted by id; None where there were never any
    counts: Counts


@dataclass(frozen=True)
class Verdicts:
    """What stands says of rows."""

    order: NDArray[np.int8]  # int8 (u,). 1 where the row is newer, 0 where it says what stands, -1 where it is late
    places: NDArray[np.int64]  # int64 (u, 2). The partition and the item of its object, -1 where there is none


def record_of(index: Any) -> BuildRecord:
    """Return how an index was built, or what a snapshot says of that."""
    record: BuildRecord | SnapshotRecord = index._record
    return record if isinstance(record, BuildRecord) else record.as_built


def times_of(partition: Partition) -> pa.Array | None:
    """Return the times of a partition's objects."""
    return partition.times


def verdicts_of(
    index: Any,
    rows: pa.Table,
    tombstones: pa.Table | None,
    times: Callable[[Partition], pa.Array | None] = times_of,
    forgotten: Callable[[pa.Array], NDArray[np.bool_]] | None = None,
) -> Verdicts:
    """Return which rows count against what stands and was deleted, each by itself, as a cycle rules it.

    ``times``: of the objects of a partition; None where rows are later than all that stands; ``forgotten``: says of
    times whether deletions of then are not remembered, so that rows of then are late where their object does not stand;
    None where all are. Cost O(u log n).
    """
    places = index.engine.whereabouts.lookup.find_all(rows.column("id").combine_chunks())
    order = np.ones(len(rows), np.int8)
    deleted = values_of(rows.column("deleted"))
    stood = np.flatnonzero(places[:, 0] >= 0)
    if len(stood) and times(index.parts[0]) is not None:
        order[stood] = _against_objects(index, rows, stood, places[stood], times)
    if tombstones is not None and len(tombstones):
        at = places_among(rows.column("id").combine_chunks(), tombstones.column("id").combine_chunks())
        buried = np.flatnonzero(at >= 0)
        mine = rows.column("t").take(arrow_of(buried))
        theirs = tombstones.column("t").combine_chunks().take(arrow_of(at[buried]))
        order[buried] = np.minimum(order[buried], order_after_deletions(mine, deleted[buried], theirs))
    if forgotten is not None:
        order[(order > 0) & (places[:, 0] < 0) & forgotten(rows.column("t").combine_chunks())] = -1
    return Verdicts(order, places)


def _against_objects(
    index: Any,
    rows: pa.Table,
    some: NDArray[np.int64],
    places: NDArray[np.int64],
    times: Callable[[Partition], pa.Array | None],
) -> NDArray[np.int8]:
    """Return the order of some rows against the objects of their ids."""
    part, item = places.T
    stands: dict[str, Callable[[Partition], pa.Array]] = {"x": partial(_axis, 0), "y": partial(_axis, 1)}
    stands |= {ATTRIBUTE + name: partial(_attribute, name) for name in index.parts[0].attributes}

    def column_pairs(tied: NDArray[np.int64]) -> Iterator[tuple[pa.Array, pa.Array]]:
        mine = rows.take(arrow_of(some[tied]))
        for name, column in stands.items():
            yield mine.column(name).combine_chunks(), take(index.parts, part[tied], item[tied], column)

    came = rows.select(["t", "deleted"]).take(arrow_of(some))
    return order_of_updates(
        came.column("t"), values_of(came.column("deleted")), take(index.parts, part, item, times), column_pairs
    )


def _axis(axis: int, partition: Partition) -> pa.Array:
    return arrow_of(np.ascontiguousarray(partition.positions[:, axis]))


def _attribute(name: str, partition: Partition) -> pa.Array:
    return partition.attributes[name]


def merge_rows(
    index: Any,
    rows: pa.Table,
    tombstones: pa.Table | None,
    threads: int,
    times: Callable[[Partition], pa.Array | None] = times_of,
    forgotten: Callable[[pa.Array], NDArray[np.bool_]] | None = None,
    levels: bool = True,
) -> Merged:
    """Return what stands once rows were merged: of the rows of an id the latest counts, if it is newer than what stood.

    ``levels``: whether partitions that are built get them, as :func:`dtoss.building.construct.construct` says.
    Cost O(u log n) for u rows, O(n) in the objects of the partitions that they touch, O(b) for all borders, and O(d)
    for the d deletions that are remembered, where one is new or ends.
    """
    bounds = _bounds(index, rows)
    rows = latest(rows, [name for name in rows.column_names if name not in ("id", "t")]).combine_chunks()
    found = verdicts_of(index, rows, tombstones, times, forgotten)
    counted = np.flatnonzero(found.order > 0)
    fresh, places = rows.take(arrow_of(counted)), found.places[counted]
    deletes, stood = values_of(fresh.column("deleted")), places[:, 0] >= 0
    counts = Counts(
        updated=int(np.count_nonzero(~deletes)),
        added=int(np.count_nonzero(~deletes & ~stood)),
        late=int(np.count_nonzero(found.order < 0)),
        unchanged=int(np.count_nonzero(found.order == 0)),
        deleted=int(np.count_nonzero(deletes & stood)),
    )
    tombstones = _bury(tombstones, fresh, deletes)
    gone = places[stood]
    arriving = fresh.filter(arrow_of(~deletes)).drop_columns(["deleted"]).combine_chunks()
    grown = bounds is not None and not np.array_equal(bounds, index.bounds)
    if grown or len(gone) or len(arriving):
        index = _rebuild(index, gone, arriving, bounds, grown, threads, levels)
    return Merged(index, tombstones, counts)


def _bury(tombstones: pa.Table | None, fresh: pa.Table, deletes: NDArray[np.bool_]) -> pa.Table | None:
    """Return the deletions to remember: of rows that count a deletion begins one, and all others end theirs."""
    begun = fresh.filter(arrow_of(deletes)).select(["id", "t"])
    if tombstones is None:
        stays = begun.slice(0, 0)
        if len(begun) == 0:
            return None
    else:
        ended = pc.is_in(tombstones.column("id"), value_set=fresh.column("id").combine_chunks())
        if len(begun) == 0 and not pc.any(ended).as_py():
            return tombstones
        stays = tombstones.filter(pc.invert(ended))
    both = pa.concat_tables([stays, begun.cast(stays.schema)])
    return both.take(pc.sort_indices(both, sort_keys=[("id", "ascending")])).combine_chunks()


def _rebuild(
    index: Any,
    gone: NDArray[np.int64],
    arriving: pa.Table,
    bounds: NDArray[np.float64] | None,
    grown: bool,
    threads: int,
    levels: bool,
) -> Any:
    """Return an index without the objects at some places, int64 (g, 2), and with rows that stand from now on."""
    record, partitions = record_of(index), index.parts.all()
    grounds = Grounds(index.space, index.partitioning, index.reach, bounds, levels)
    part, item = gone.T
    left = np.stack([values_of(take(index.parts, part, item, partial(_axis, axis))) for axis in (0, 1)], axis=1)
    ids = take(index.parts, part, item, ids_of)
    leaving, sent = (
        assign(index.space.vectors(places), grounds.regions, grounds.reach) for places in (left, positions_of(arriving))
    )
    touched = np.unique(np.concatenate([leaving.home, leaving.partition, sent.home, sent.partition])).tolist()
    if grown:
        touched = range(len(partitions))
    leaves, comes = (members_of(one, len(partitions)) for one in (leaving, sent))
    cells = list(record.cells or [None] * len(partitions))

    def build_one(number: int) -> BuiltPartition:
        (left, first), (came_to, begin) = leaves, comes
        without = ids.take(arrow_of(left[first[number] : first[number + 1]]))
        own = item[part == number]
        mine = came_to[begin[number] : begin[number + 1]]
        rows = arriving.take(arrow_of(mine)).append_column("home", arrow_of(sent.home[mine]))
        return _build_anew(grounds, partitions[number], own, without, rows, None if grown else cells[number])

    if threads > 1 and len(touched) > 1:
        with ThreadPoolExecutor(threads) as pool:
            built = list(pool.map(build_one, touched))
    else:
        built = list(map(build_one, touched))
    renewed, areas, borders = list(partitions), list(record.areas), list(record.borders or map(border_of, partitions))
    for one in built:
        number = one.partition.number
        renewed[number], areas[number] = one.partition, one.area
        borders[number], cells[number] = one.border, one.cells
    border = partial(fix, borders, bounds, threads=threads)  # when it is first asked for
    first = record.first_bounds or index.bounds
    record = replace(record, areas=tuple(areas), first_bounds=first, borders=tuple(borders), cells=tuple(cells))
    return index._with(renewed, bounds, border, record)


def ids_of(partition: Partition) -> pa.Array:
    """Return the ids of a partition's objects as an Arrow array."""
    return partition.ids if isinstance(partition.ids, pa.Array) else arrow_of(partition.ids)


def positions_of(rows: pa.Table) -> NDArray[np.float64]:
    """Return the positions of rows that have one, float64 (n, 2)."""
    return np.stack([values_of(rows.column(name)) for name in ("x", "y")], axis=1)


def _bounds(index: Any, rows: pa.Table) -> NDArray[np.float64] | None:
    """Return the bounds that hold all places of rows too, late ones also; those that somebody has given do not grow."""
    if index.bounds is None:
        return None
    bounds, record = np.array(index.bounds), record_of(index)
    places = positions_of(rows.filter(pc.is_valid(rows.column("x"))))
    if len(places) == 0 or record.wishes.bounds is not None:
        return bounds
    return grow_bounds(bounds, np.array(record.first_bounds or index.bounds), places.min(axis=0), places.max(axis=0))


def _build_anew(
    grounds: Grounds,
    partition: Partition,
    own: NDArray[np.int64],
    gone: pa.Array,
    came: pa.Table,
    cells: Cells | None,
) -> BuiltPartition:
    """Return a partition without the objects that are gone, and with the rows that came to it.

    ``own``: the items of its own that are gone; ``gone``: the ids of all.
    """
    stand = np.ones(len(partition.positions), np.bool_)
    stand[own] = False
    owned = partition.owned_objects
    stand[owned:] = ~values_of(pc.is_in(ids_of(partition).slice(owned), value_set=gone))
    stays = np.flatnonzero(stand)
    carried = [(ATTRIBUTE + name, name) for name in partition.attributes]
    batches = came.combine_chunks().to_batches()
    return renew(grounds, partition, stays, batches, carried, lambda name: came.schema.field(name).type, cells)


def merge_frame(index: Any, frame: Any, time: str | None, deleted: str | None, threads: int) -> Any:
    """Return the index in which the rows of a frame stand too, the same one where all say what stands or less.

    :meth:`dtoss.Index.with_updates`. Cost as :func:`dtoss.merge_rows.merge_rows`.
    """
    record = record_of(index)
    times = _times(index.parts[0], record, time)
    rows = _rows_of(index, record.source, times, frame, deleted)
    placed = positions_of(rows.filter(pc.is_valid(rows.column("x"))))
    if record.wishes.bounds is not None and len(placed):
        # those that somebody gave do not grow
        bounds_round(placed.min(axis=0), placed.max(axis=0), record.wishes.bounds)
    return merge_rows(index, rows, None, threads, times.of).index


@dataclass(frozen=True)
class _Times:
    """Where it is said when rows and objects are."""

    column: str | None  # Of rows; None where nothing says it
    attribute: str | None  # Of objects; None where they have times of their own, or none

    def of(self, partition: Partition) -> pa.Array | None:
        """Return the times of the objects of a partition; None where they have none."""
        return partition.times if self.attribute is None else partition.attributes[self.attribute]


def _times(partition: Partition, record: BuildRecord, time: str | None) -> _Times:
    carried = partition.attributes
    if partition.times is not None:
        own = record.source.time or TIME
        if time not in (None, own):
            raise ValueError(f"time is {time!r}: the objects have the times of column {own!r}")
        return _Times(own, None)
    column = time or (TIME if TIME in carried else None)
    if column is None:
        return _Times(None, None)
    attribute = record.renamed.get(column, column)
    if attribute not in carried:
        raise ValueError(f"time: {not_carried(column, carried)}")
    return _Times(column, attribute)


def _rows_of(index: Any, source: Columns, times: _Times, frame: Any, deleted: str | None) -> pa.Table:
    """Return the rows of a frame as :mod:`dtoss.merge_rows` wants them."""
    given = _objects_of(index, source, frame, deleted is not None)
    ids, count = as_ids(given.ids), len(given.positions)
    if isinstance(ids, pa.Array) != index.string_ids:
        kinds = ("text", "whole numbers") if index.string_ids else ("whole numbers", "text")
        raise ValueError(f"ids are {kinds[0]} in the index and {kinds[1]} in the rows")
    for name in (deleted, times.column):
        if name is not None and name not in given.columns:
            raise ValueError(f"the rows have no column {name!r}; beside ids and positions: {', '.join(given.columns)}")
    goes = np.zeros(count, np.bool_) if deleted is None else _truths(deleted, given.columns[deleted])
    # a row that deletes needs no position
    places = np.asarray(given.positions, np.float64).reshape(-1, 2)
    places = as_positions(np.where(goes[:, None], 0.0, places), index.space, "positions of rows")
    partition: Partition = index.parts[0]
    stand = times.of(partition)
    if times.column is None or stand is None:
        check_distinct(ids, ": a column of times says which row of each is the latest (time=)")
        # what comes is later than what stands
        t = arrow_of(np.ones(count, np.int64))
    else:
        t = _cast(times.column, given.columns[times.column], stand.type)
        if t.null_count:
            raise ValueError(f"column {times.column!r} holds no time in {t.null_count:,} of {count:,} rows")
    columns = {"id": ids if isinstance(ids, pa.Array) else arrow_of(ids), "t": t, "deleted": arrow_of(goes)}
    columns |= {name: arrow_of(places[:, axis].copy(), ~goes) for axis, name in enumerate("xy")}
    attributes = attributes_of(given.columns, count)
    for name, mine in partition.attributes.items():
        if name not in attributes:
            raise ValueError(f"the rows have no column {name!r}, which the objects carry")
        columns[ATTRIBUTE + name] = _cast(name, attributes[name], mine.type)
    return pa.table(columns)


def _objects_of(index: Any, source: Columns, frame: Any, missing: bool) -> Objects:
    """Return the objects of a frame, whose columns mean what those meant that the index was built of."""
    table = table_of(frame)
    if table is None:
        raise TypeError(f"{type(frame).__name__} is no frame: a GeoDataFrame, a DataFrame or an Arrow table is wanted")
    known = {name: getattr(source, name) for name in ("id", "x", "y", "geometry")}
    said = {name: column for name, column in known.items() if column in table.names}
    return objects_of(frame, crs=index.crs, missing=missing, **said)


def _truths(name: str, column: Any) -> NDArray[np.bool_]:
    if not pa.types.is_boolean(column.type) or column.null_count:
        raise ValueError(f"column {name!r} is {column.type} with {column.null_count:,} nulls: true or false is wanted")
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    # moments are cut to what the index holds, as a store cuts them
    moments = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind)
    try:
        return column.cast(kind, safe=not moments)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"column {name!r} is {column.type} in the rows and {kind} in the index") from None
