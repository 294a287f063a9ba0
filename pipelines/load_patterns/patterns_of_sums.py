"""Patterns made of sums: requests by slot and partition, which partitions each reads, what differs from day to day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps import Patterns, Reads
from ceps.model.number_text import bytes_text, figure
from ceps.model.patterns import DAY
from ceps.model.reads import bound_reads, distinct_sets, reads_together
from ceps.model.servers import RequestCosts
from dtoss.errors import InputError
from dtoss.geometry.space import Space, to_lonlat
from dtoss.index import Index
from dtoss.opening import open_index
from dtoss.partitioning.partition_bounds import reads_of
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import offsets
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from pipelines.rows import access_rows
from pipelines.rows.access_rows import MILLIONTHS, Asks

EPOCH = date(1970, 1, 1)
"""A Thursday."""
TOUCHED = -2
"""The cell that stands for all partitions that requests read, whatever they cost; -1 is that of sets."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class CountedPatterns:
    """Patterns of all days and perhaps of each weekday, and what became of the rows."""

    # Of all days first; then Monday to Sunday, as far as they were observed, where that was asked for
    patterns: tuple[Patterns, ...]
    read: int
    bad: dict[str, int]  # How many were set aside, by reason
    outside: int  # Good rows of days that do not count
    requests: float  # Requests counted, of all rows' weights
    reads: float  # Partitions that they read, each request once in each
    first: date  # first, last: the days that count, both included
    last: date
    weighed: float = 1.0  # Base requests that a read of a partition counts as on average; 1 where no costs are given


@dataclass(frozen=True)
class RowCounts:
    """What became of the rows."""

    read: int
    bad: Mapping[str, int]  # How many of them were set aside, by reason
    outside: int  # Good rows of days that do not count
    weight: int  # Millionths of requests that count
    # first, last: days since 1970 of the first and the last row that counts; None where there is none
    first: int | None
    last: int | None


def check_seen(seen: RowCounts, asks: Asks, max_bad: float) -> tuple[date, date]:
    """Return the first and the last day that count."""
    total = sum(seen.bad.values())
    if total > max_bad * seen.read:
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in seen.bad.items())
        raise InputError(
            f"{total:,} of {seen.read:,} accesses are bad ({reasons}), more than --max-bad {100 * max_bad:g}% allows; "
            "no patterns are written"
        )
    if (seen.first is None or seen.last is None) and (asks.since is None or asks.until is None):
        raise InputError(
            f"none of {seen.read:,} accesses can be used ({seen.outside:,} outside the days asked for): "
            "patterns need at least one, or --since and --until"
        )
    first = asks.since or EPOCH + timedelta(days=seen.first or 0)
    last = asks.until - timedelta(days=1) if asks.until else EPOCH + timedelta(days=seen.last or 0)
    return first, last


def counted_of(
    cells: pa.Table, seen: RowCounts, manifest: dict[str, Any], asks: Asks, first: date, last: date
) -> CountedPatterns:
    """Return the patterns of what was counted.

    ``cells``: columns ``cell``, ``together`` and ``weight``. A cell is weekday (0 unless days are told apart), slot and
    partition, counted as row by row of a table (7, slots, partitions); :data:`TOUCHED`; or one that
    :func:`pipelines.rows.access_rows.spread` made, of which there may be several rows. Sets have ``together``;
    ``first``, ``last``: the days that count, both included.
    """
    requests = seen.weight / MILLIONTHS
    together = cells.column("together").is_valid()
    sets, cells = cells.filter(together), cells.filter(pc.invert(together))
    reads = reads_of_sets(sets, requests, (last - first).days + 1)
    of_days = access_rows.is_of_days(cells.column("cell").to_numpy())
    days, cells = cells.filter(pa.array(of_days)), cells.filter(pa.array(~of_days))
    touched = pc.equal(cells.column("cell"), TOUCHED)
    counted = cells if asks.costs is None else cells.filter(touched)  # which partition is read does not depend on costs
    read_in_all = int(counted.column("weight").to_numpy().sum()) / MILLIONTHS
    cells = cells.filter(pc.invert(touched))
    base = int(cells.column("weight").to_numpy().sum()) / MILLIONTHS
    return CountedPatterns(
        patterns=_patterns(cells, days, reads, manifest, asks, first, last),
        read=seen.read,
        bad=dict(seen.bad),
        outside=seen.outside,
        requests=requests,
        reads=read_in_all,
        first=first,
        last=last,
        weighed=base / read_in_all if read_in_all else 1.0,
    )


def reads_of_sets(sets: pa.Table, requests: float, days: int) -> Reads:
    """Return what requests of a mean day read together. ``requests``: in all days."""
    start, members = unpack_sets(sets.column("together"))
    request = np.repeat(np.arange(len(sets)), np.diff(start))
    found = reads_together(request, members, sets.column("weight").to_numpy() / MILLIONTHS, days)
    return bound_reads(replace(found, total=requests / days))


def _patterns(
    cells: pa.Table, of_days: pa.Table, reads: Reads, manifest: dict[str, Any], asks: Asks, first: date, last: date
) -> tuple[Patterns, ...]:
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    slots, count = DAY // asks.slot_seconds, len(regions)
    sums = np.zeros(7 * slots * count)
    sums[cells.column("cell").to_numpy()] = cells.column("weight").to_numpy() / MILLIONTHS
    by_day = sums.reshape(7, slots, count).transpose(0, 2, 1)
    days = (last - first).days + 1
    weekdays = np.bincount((np.arange(days) + first.weekday()) % 7, minlength=7)
    entries = manifest["partitions"]
    shared: dict[str, Any] = {
        "sizes": np.array([entry["bytes"] for entry in entries], np.float64),
        "partitions": np.array([entry["number"] for entry in entries], np.int64),
        "slot_seconds": asks.slot_seconds,
        "positions": to_lonlat(space, regions.pivots),
        "time_zone": asks.time_zone,
        "pivots_hash": manifest["pivots_hash"],
        "reads": reads,
        "variation": access_rows.variation(
            of_days.column("cell").to_numpy(), of_days.column("weight").to_numpy(), by_day, first, last,
            asks.slot_seconds,
        ),
    }  # fmt: skip

    def pattern(requests: NDArray[np.float64], observed: int, weekday: int | None) -> Patterns:
        loads = requests / (asks.slot_seconds * observed)
        made = Patterns(loads=loads, days=observed, weekday=weekday, **shared).smoothed(asks.smooth_seconds)
        return made if asks.requests_per_access == 1.0 else made.scaled(asks.requests_per_access)

    found = [pattern(by_day.sum(axis=0), days, None)]
    if asks.by_weekday:
        found += [pattern(by_day[d], int(weekdays[d]), d) for d in range(7) if weekdays[d]]
    return tuple(found)


def summary(counted: CountedPatterns) -> list[tuple[str, str]]:
    """Return what a user wants to know of patterns, as rows of two texts."""
    whole = counted.patterns[0]
    good = counted.read - sum(counted.bad.values())
    rows = [("accesses", f"{counted.read:,} read, {good - counted.outside:,} counted")]
    if counted.outside:
        rows.append(("outside", f"{counted.outside:,} on other days"))
    rows += [("bad", f"{n:,} {reason}") for reason, n in counted.bad.items()]
    rows.append(("days", f"{whole.days:,.0f}, {counted.first} to {counted.last}, {whole.time_zone}"))
    asked = counted.requests or 1.0
    idle = int((whole.loads.max(axis=1, initial=0.0) == 0).sum())
    rows.append(("partitions", f"{len(whole):,} of {bytes_text(float(whole.sizes.sum()))}, {idle:,} never queried"))
    sets = f"; {len(whole.reads):,} sets of partitions are read together" if whole.reads is not None else ""
    if whole.reads is not None and whole.reads.sampled:
        sets += f", a sample that stands for {whole.reads.sampled:.0%} of their requests"
    rows.append(("reads", f"{counted.reads / asked:.3f} partitions a request{sets}"))
    if counted.weighed != 1.0:
        rows.append(("weighed", f"{figure(counted.weighed, 3)} base requests for each partition that a request reads"))
    mean = float(whole.total.mean())
    scale = f", {figure(whole.requests_per_event)} for each access" if whole.requests_per_event != 1.0 else ""
    peak = int(whole.total.argmax()) * whole.slot_seconds
    rows.append(
        (
            "requests/s",
            f"mean {figure(mean)}, peak of the mean day {figure(whole.peak)} at {peak // 3600:02d}:"
            f"{peak % 3600 // 60:02d}{scale}",
        )
    )
    if len(counted.patterns) > 1:
        peaks = ", ".join(f"{_DAYS[p.weekday or 0]} {figure(p.peak)}" for p in counted.patterns[1:])
        rows.append(("weekdays", f"peaks of their own mean days: {peaks}"))
    return rows


HITS = 2_000_000
"""Hits that are held at a time."""


@dataclass(frozen=True)
class Read:
    """What some requests read."""

    request: NDArray[np.int64]  # request, partition: int64 (m,) each, pairs: this request reads this partition
    partition: NDArray[np.int64]
    # int64 (n,), as how many millionths each request counts in each of the partitions that it reads
    counted: NDArray[np.int64]


@dataclass(frozen=True)
class Reader:
    """What is needed to say what requests read."""

    manifest: dict[str, Any]
    space: Space
    regions: Regions
    index: Index | None  # The snapshot; None where no request asks for its k nearest
    costs: RequestCosts | None  # How many base requests each counts as; one, whatever it asks for, when None

    @classmethod
    def of(cls, store: str, manifest: dict[str, Any], nearest: bool, costs: RequestCosts | None) -> Reader:
        """Return the reader of a snapshot."""
        index = open_index(store, manifest["snapshot"], verify="touch", lazy=True) if nearest else None
        return cls(manifest, space_of_manifest(manifest), regions_of_manifest(manifest), index, costs)

    def read(
        self,
        places: NDArray[np.float64],
        k: NDArray[np.int64],
        limit: NDArray[np.float64],
        weight: NDArray[np.int64],
    ) -> Read:
        """Return what requests read.

        ``places``: float64 (n, 2); ``k``: int64 (n,), how many nearest each asks for; 0 asks for none; ``limit``:
        float64 (n,), metres or CRS units; infinity is none; ``weight``: int64 (n,), the millionths that each row stands
        for.
        """
        vectors = self.space.vectors(places)
        home = self.regions.nearest(vectors)
        request, partition = np.arange(len(places)), home
        looks = np.flatnonzero((k > 0) | (limit < np.inf))
        if len(looks):
            far = limit[looks]
            if self.index is not None:
                far = furthest_hits(self.index, places[looks], limit[looks], k[looks])
            pairs = reads_of(self.manifest, self.regions, vectors[looks], home[looks], far)
            alone = np.ones(len(places), np.bool_)
            alone[looks] = False
            stays = np.flatnonzero(alone)
            request = np.concatenate([looks[pairs[0]], stays])
            partition = np.concatenate([pairs[1], home[stays]])
        counted = weight
        if self.costs is not None:
            counted = _base_requests(self.costs, weight, k, limit, np.bincount(request, minlength=len(places)))
        return Read(request, partition.astype(np.int64), counted)


def furthest_hits(
    index: Index, places: NDArray[np.float64], limit: NDArray[np.float64], k: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far each request must look, float64 (n,): its k-th hit, or its limit if there are fewer.

    ``places``: float64 (n, 2), positions; ``limit``: float64 (n,), metres or CRS units; infinity is none; ``k``: int64
    (n,); 0 asks for all within the limit.
    """
    far = limit.copy()
    asking = np.flatnonzero(k > 0)
    step = max(HITS // int(k.max(initial=1)), 1)
    for begin in range(0, len(asking), step):
        some = asking[begin : begin + step]
        found = index.search(places[some], limit[some], int(k[some].max()))
        enough = found.count >= k[some]
        last = np.cumsum(found.count) - found.count + k[some] - 1
        far[some[enough]] = found.distance[last[enough]]
    return far


def _base_requests(
    costs: RequestCosts,
    weight: NDArray[np.int64],
    k: NDArray[np.int64],
    limit: NDArray[np.float64],
    partitions: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the millionths of base requests that each request counts as in each of the partitions that it reads.

    Its cost was measured over all that it reads, so they share it, but none counts less than one request for it, or
    than all of a cheaper one.
    """
    whole = costs.weights(k.astype(np.float64), limit)
    return np.rint(weight * np.maximum(whole / partitions, np.minimum(whole, 1.0))).astype(np.int64)


def sum_cells(cell: NDArray[np.int64], weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells that occur, ascending, and the sum of the weights of each."""
    found, place = np.unique(cell, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, place, weight)
    return found, sums


def sets_of(read: Read, weight: NDArray[np.int64], kind: NDArray[np.int64]) -> tuple[NDArray[np.int64], pa.Table]:
    """Return the sets of partitions that requests of a kind read together, and how often.

    The kind of each set, int64 (S,), and a table of the sets, ``together`` as :func:`packed`, and ``weight``.
    ``weight``: int64 (n,), the millionths that each stands for, whatever it costs; ``kind``: int64 (n,), 0 or more:
    sets of two kinds are two sets.
    """
    start, members, whose = distinct_sets(read.request, read.partition)
    several = np.flatnonzero(whose >= 0)
    kinds = int(kind.max(initial=0)) + 1
    found, sums = sum_cells(whose[several] * kinds + kind[several], weight[several])
    together = packed(start, members).take(pa.array(found // kinds))
    return found % kinds, pa.table({"together": together, "weight": sums})


def packed(start: NDArray[np.int64], members: NDArray[np.int64]) -> pa.BinaryArray:
    """Return sets of partitions as bytes that are equal where the sets are."""
    offsets, values = (4 * start).astype(np.int32), members.astype("<i4")
    return pa.BinaryArray.from_buffers(pa.binary(), len(start) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def unpack_sets(together: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the partitions of sets, and where each set begins."""
    length = pc.binary_length(together).to_numpy(zero_copy_only=False).astype(np.int64) // 4
    members = np.frombuffer(b"".join(together.to_pylist()), "<i4").astype(np.int64)
    return offsets(length), members
