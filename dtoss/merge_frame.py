"""A frame as rows that are merged with an index: what its columns mean, and that they fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.frames.arrow_tables import table_of
from dtoss.frames.objects_of import Objects, attributes_of, objects_of
from dtoss.geometry.space import as_positions
from dtoss.ids import as_ids, check_distinct
from dtoss.merge_rows import ATTRIBUTE, merge_rows, positions_of, record_of
from dtoss.names import not_carried
from dtoss.partition import Partition
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.regions import bounds_round
from dtoss.save_index import TIME, BuildRecord
from dtoss.snapshots.manifest_fields import Columns


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
