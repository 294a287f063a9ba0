"""Panes of requests: whole numbers by day, slot and partition, which add up whatever the order of files and servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ceps.model.patterns import DAY
from dtoss.errors import InputError
from pipelines.load_patterns.patterns_of_sums import (
    EPOCH,
    TOUCHED,
    CountedPatterns,
    Reader,
    RowCounts,
    check_seen,
    counted_of,
    sets_of,
    sum_cells,
)
from pipelines.rows import access_rows
from pipelines.rows.access_rows import Asks, local_seconds, seconds_of_moments

PANES = pa.schema(
    [
        ("cell", pa.int64()),
        ("day", pa.int32()),
        ("together", pa.binary()),
        ("weight", pa.int64()),
        ("rows", pa.int64()),
        ("reads", pa.int64()),
    ]
)
"""How panes lie in a file: cells with their weight; sets of a day; days with weight, rows and reads."""


@dataclass(frozen=True)
class Panes:
    """Requests by day, slot and partition; all weights are millionths."""

    # cell, weight: int64 (n,), ascending, and what requests count there: (day since 1970, slot, partition) as one
    # number
    cell: NDArray[np.int64]
    weight: NDArray[np.int64]
    sets: pa.Table  # Columns day, together and weight: what requests of a day read together
    day: NDArray[np.int64]  # int64 (d,), ascending: days since 1970
    # rows, requests, reads: int64 (d,): rows of each day, what they stand for, and in how many partitions these read,
    # each once in each
    rows: NDArray[np.int64]
    requests: NDArray[np.int64]
    reads: NDArray[np.int64]

    def to_arrow(self) -> pa.Table:
        """Return them as a table of :data:`PANES`."""
        cells = {"cell": self.cell, "weight": self.weight}
        days = {"day": self.day.astype(np.int32), "weight": self.requests, "rows": self.rows, "reads": self.reads}
        parts = [pa.table(cells), self.sets, pa.table(days)]
        return pa.concat_tables([_filled(part) for part in parts]).combine_chunks()

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Panes:
        """Return what a table of :data:`PANES` holds."""
        cells = table.filter(table.column("cell").is_valid())
        days = table.filter(table.column("rows").is_valid())
        sets = table.filter(table.column("together").is_valid()).select(["day", "together", "weight"])
        day, rows, requests, reads = (days.column(name).to_numpy() for name in ("day", "rows", "weight", "reads"))
        return cls(
            cells.column("cell").to_numpy(), cells.column("weight").to_numpy(), sets, day.astype(np.int64), rows,
            requests, reads,
        )  # fmt: skip


def _filled(part: pa.Table) -> pa.Table:
    there = part.column_names
    arrays = [
        part.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(part), field.type)
        for field in PANES
    ]
    return pa.table(arrays, schema=PANES)


def panes_of(rows: pa.Table, reader: Reader, slot_seconds: int, time_zone: str) -> Panes:
    """Return the panes of rows."""
    second = local_seconds(seconds_of_moments(rows.column("t")), time_zone)
    day, inside = np.divmod(second, DAY)
    places = np.stack([rows.column("x").to_numpy(), rows.column("y").to_numpy()], axis=1)
    weight = rows.column("weight").to_numpy()
    k = rows.column("k").fill_null(0).to_numpy().astype(np.int64)
    read = reader.read(places, k, rows.column("radius").fill_null(np.inf).to_numpy(), weight)
    slots = day * (DAY // slot_seconds) + inside // slot_seconds
    cells = sum_cells(slots[read.request] * len(reader.regions) + read.partition, read.counted[read.request])
    days, whose = np.unique(day, return_inverse=True)
    kinds, sets = sets_of(read, weight, whose)
    sums = [np.zeros(len(days), np.int64) for _ in range(3)]
    np.add.at(sums[0], whose, 1)
    np.add.at(sums[1], whose, weight)
    np.add.at(sums[2], whose[read.request], weight[read.request])
    of_day = sets.add_column(0, "day", pa.array(days[kinds].astype(np.int32)))
    return Panes(*cells, of_day, days, *sums)


def added(parts: Sequence[Panes]) -> Panes:
    """Return the sums of panes; O(n log n)."""
    cells = sum_cells(_joined([one.cell for one in parts]), _joined([one.weight for one in parts]))
    days, whose = np.unique(_joined([one.day for one in parts]), return_inverse=True)
    sums = [np.zeros(len(days), np.int64) for _ in range(3)]
    for total, name in zip(sums, ("rows", "requests", "reads"), strict=True):
        np.add.at(total, whose, _joined([getattr(one, name) for one in parts]))
    return Panes(*cells, _added_sets([one.sets for one in parts]), days, *sums)


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _added_sets(tables: Sequence[pa.Table]) -> pa.Table:
    kinds = pa.schema([PANES.field(name) for name in ("day", "together", "weight")])
    whole = pa.concat_tables([kinds.empty_table(), *(table.select(kinds.names).cast(kinds) for table in tables)])
    sums = whole.group_by(["day", "together"], use_threads=False).aggregate([("weight", "sum")])
    sums = sums.rename_columns({"weight_sum": "weight"}).select(kinds.names)
    return sums.sort_by([("day", "ascending"), ("together", "ascending")])


def patterns_of(
    panes: Panes,
    read: int,
    bad: dict[str, int],
    manifest: dict[str, Any],
    asks: Asks,
    ended: int,
    max_bad: float,
) -> CountedPatterns:
    """Return the patterns of panes.

    ``asks``: how they are counted, and which days count; ``ended``: the day since 1970 from which on days have not
    ended; they do not count unless ``asks.until`` is given; ``max_bad``: the share of bad rows from which on this
    fails.
    """
    least = -(1 << 31) if asks.since is None else _number(asks.since)
    most = ended if asks.until is None else _number(asks.until)
    inside = (panes.day >= least) & (panes.day < most)
    days = panes.day[inside]
    seen = RowCounts(
        read,
        bad,
        int(panes.rows[~inside].sum()),
        int(panes.requests[inside].sum()),
        int(days[0]) if len(days) else None,
        int(days[-1]) if len(days) else None,
    )
    if asks.until is None and seen.outside and panes.day.min() >= ended and read > sum(bad.values()):
        raise InputError(
            f"all {seen.outside:,} rows are of days that have not ended: wait for the first one to end, or count what "
            f"there is of it with --until {EPOCH + timedelta(days=int(panes.day.max()) + 1)}"
        )
    first, last = check_seen(seen, asks, max_bad)
    slots, partitions = DAY // asks.slot_seconds, len(manifest["partitions"])
    place, partition = np.divmod(panes.cell, partitions)
    day, slot = np.divmod(place, slots)
    counts = (day >= least) & (day < most)
    day, slot, partition, weight = (part[counts] for part in (day, slot, partition, panes.weight))
    weekday = (day + 3) % 7 if asks.by_weekday else np.zeros_like(day)
    found = sum_cells((weekday * slots + slot) * partitions + partition, weight)
    hours = sum_cells(access_rows.hour_cells(day, slot, partition, asks.slot_seconds, partitions), weight)
    parts = [_cells(*found), access_rows.spread(_cells(*hours), asks.slot_seconds, partitions, asks.by_weekday)]
    if asks.costs is not None:
        parts.append(_cells(np.array([TOUCHED]), np.array([panes.reads[inside].sum()])))
    of_day = panes.sets.column("day").to_numpy()
    sets = panes.sets.filter(pa.array((of_day >= least) & (of_day < most)))
    sets = sets.group_by("together", use_threads=False).aggregate([("weight", "sum")])
    for batch in sets.to_batches():
        nothing = pa.array(np.full(len(batch), -1))
        parts.append(pa.record_batch([nothing, batch.column("together"), batch.column("weight_sum")], parts[0].schema))
    return counted_of(pa.Table.from_batches(parts), seen, manifest, asks, first, last)


def _number(day: date) -> int:
    return (day - EPOCH).days


def _cells(cell: NDArray[np.int64], weight: NDArray[np.int64]) -> pa.RecordBatch:
    nothing = pa.nulls(len(cell), pa.binary())
    return pa.record_batch([pa.array(cell), nothing, pa.array(weight)], names=["cell", "together", "weight"])
