"""Rows merged with an index in this process: partitions that they touch are built anew, the others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.building.border import BorderTable, border_of, fix
from dtoss.building.construct import BuiltPartition
from dtoss.building.in_memory import members_of
from dtoss.building.renew import Grounds, renew
from dtoss.frames.arrow_tables import table_of
from dtoss.frames.objects_of import Objects, attributes_of, objects_of
from dtoss.geometry.space import as_positions
from dtoss.history.row_blocks import latest
from dtoss.ids import as_ids, check_distinct
from dtoss.names import not_carried
from dtoss.partition import Partition, values_of
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.regions import bounds_round, grow_bounds
from dtoss.queries.find_by_id import Lookup
from dtoss.save_index import TIME, BuildRecord, SnapshotRecord
from dtoss.snapshots.source_columns import Columns

_ATTRIBUTE = "a:"
"""Stands before the name of an attribute among the columns of rows."""


@dataclass(frozen=True)
class Merged:
    """What an index is made of once rows were merged with it."""

    partitions: list[Partition]
    bounds: NDArray[np.float64] | None
    border: BorderTable
    record: BuildRecord


def merge_frame(
    index: Any, record: BuildRecord | SnapshotRecord, frame: Any, time: str | None, deleted: str | None, threads: int
) -> Merged | None:
    """Return the partitions of an index with the rows of a frame, None where all say what stands or less.

    :meth:`dtoss.Index.with_updates`. Of the rows of an id the one counts that :func:`dtoss.history.row_blocks.latest`
    says. Cost O(u log n) for u rows, O(n) in the objects of the partitions that they touch, and O(b) for all borders.
    """
    record = record if isinstance(record, BuildRecord) else BuildRecord.of(record.manifest)
    partitions = index.parts.all()
    times = _times(partitions[0], record, time)
    came = _rows_of(index, record.source, times, frame, deleted)
    stood = _standing_rows(index, partitions, came, times)
    compared = [name for name in came.column_names if name not in ("id", "t", "number")]
    # of equal rows the first one stays, which is what stands
    winners = latest(pa.concat_tables([stood, came]), compared)
    fresh = winners.filter(pc.is_null(winners.column("number")))
    # what a deletion finds nobody for changes nothing
    fresh = fresh.filter(pc.or_(pc.invert(fresh.column("deleted")), pc.is_in(fresh.column("id"), stood.column("id"))))
    bounds = _bounds(index, record, came)
    grown = bounds is not None and not np.array_equal(bounds, index.bounds)
    if len(fresh) == 0 and not grown:
        return None
    gone = stood.filter(pc.is_in(stood.column("id"), fresh.column("id")))
    arriving = fresh.filter(pc.invert(fresh.column("deleted"))).drop_columns(["deleted", "number"]).combine_chunks()
    grounds = Grounds(index.space, index.partitioning, index.reach, bounds)
    leaving, sent = (
        assign(index.space.vectors(_places(rows)), grounds.regions, grounds.reach) for rows in (gone, arriving)
    )
    numbers = np.unique(np.concatenate([leaving.home, leaving.partition, sent.home, sent.partition])).tolist()
    if grown:
        numbers = range(len(partitions))
    leaves, comes = (members_of(one, len(partitions)) for one in (leaving, sent))

    def build_one(number: int) -> BuiltPartition:
        (left, first), (came_to, begin) = leaves, comes
        without = gone.column("id").take(arrow_of(left[first[number] : first[number + 1]]))
        mine = came_to[begin[number] : begin[number + 1]]
        rows = arriving.take(arrow_of(mine)).append_column("home", arrow_of(sent.home[mine]))
        return _build_anew(grounds, partitions[number], without, rows)

    if threads > 1 and len(numbers) > 1:
        with ThreadPoolExecutor(threads) as pool:
            built = list(pool.map(build_one, numbers))
    else:
        built = list(map(build_one, numbers))
    renewed, areas = list(partitions), list(record.areas)
    for one in built:
        renewed[one.partition.number], areas[one.partition.number] = one.partition, one.area
    shares = {one.partition.number: one.border for one in built}
    border = fix([shares.get(one.number) or border_of(one) for one in renewed], bounds, threads=threads)
    first = record.first_bounds or index.bounds
    return Merged(renewed, bounds, border, replace(record, areas=tuple(areas), first_bounds=first))


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
    """Return the rows of a frame: id, t, deleted, x, y, number, which is null, and attributes."""
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
    nowhere = goes & np.isnan(places).any(axis=1)
    places = as_positions(np.where(nowhere[:, None], 0.0, places), index.space, "positions of rows")
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
    columns |= {name: arrow_of(places[:, axis].copy(), ~nowhere) for axis, name in enumerate("xy")}
    columns["number"] = pa.nulls(count, pa.int64())
    attributes = attributes_of(given.columns, count)
    for name, mine in partition.attributes.items():
        if name not in attributes:
            raise ValueError(f"the rows have no column {name!r}, which the objects carry")
        columns[_ATTRIBUTE + name] = _cast(name, attributes[name], mine.type)
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


def _standing_rows(index: Any, partitions: Sequence[Partition], came: pa.Table, times: _Times) -> pa.Table:
    """Return what stands of the ids that came, in the columns of these; ``number``: of the partition."""
    sought = np.array(pc.unique(came.column("id")).to_numpy(zero_copy_only=False))
    found = Lookup(index.parts, index.string_ids).find_all(sought)
    tables = [came.slice(0, 0)]
    found = found[np.argsort(found[:, 0], kind="stable")]
    begins = np.searchsorted(found[:, 0], np.arange(len(partitions) + 1))
    for number in np.flatnonzero(np.diff(begins)).tolist():
        partition, items = partitions[number], found[begins[number] : begins[number + 1], 1]
        rows, stand = arrow_of(items), times.of(partition)
        columns = {
            "id": partition.ids.take(rows) if index.string_ids else arrow_of(partition.ids[items]),
            "t": arrow_of(np.zeros(len(items), np.int64)) if stand is None else stand.take(rows),
            "deleted": arrow_of(np.zeros(len(items), np.bool_)),
            "x": arrow_of(partition.positions[items, 0].copy()),
            "y": arrow_of(partition.positions[items, 1].copy()),
            "number": arrow_of(np.full(len(items), number)),
        }
        columns |= {_ATTRIBUTE + name: column.take(rows) for name, column in partition.attributes.items()}
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def _bounds(index: Any, record: BuildRecord, came: pa.Table) -> NDArray[np.float64] | None:
    """Return the bounds that hold all places that came too; those that somebody has given do not grow."""
    if index.bounds is None:
        return None
    bounds = np.array(index.bounds)
    places = _places(came.filter(pc.is_valid(came.column("x"))))
    if len(places) == 0:
        return bounds
    low, high = places.min(axis=0), places.max(axis=0)
    if record.wishes.bounds is not None:
        return bounds_round(low, high, record.wishes.bounds)
    return grow_bounds(bounds, np.array(record.first_bounds or index.bounds), low, high)


def _places(rows: pa.Table) -> NDArray[np.float64]:
    return np.stack([values_of(rows.column(name)) for name in ("x", "y")], axis=1)


def _build_anew(grounds: Grounds, partition: Partition, gone: pa.ChunkedArray, came: pa.Table) -> BuiltPartition:
    """Return a partition without the objects that are gone, and with the rows that came to it."""
    ids = partition.ids if isinstance(partition.ids, pa.Array) else arrow_of(partition.ids)
    stays = np.flatnonzero(~np.asarray(pc.is_in(ids, value_set=gone.combine_chunks())))
    carried = [(_ATTRIBUTE + name, name) for name in partition.attributes]
    batches = came.combine_chunks().to_batches()
    return renew(grounds, partition, stays, batches, carried, lambda name: came.schema.field(name).type)
