"""Patterns made of sums: requests by slot and partition, sets that are read together, what differs from day to day."""

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
from ceps.model.reads import bound_reads, reads_together
from dtoss.errors import InputError
from dtoss.geometry.space import to_lonlat
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from pipelines.load_patterns.reads_by_request import unpack_sets
from pipelines.rows import day_counts
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
    :func:`pipelines.rows.day_counts.spread` made, of which there may be several rows. Sets have ``together``;
    ``first``, ``last``: the days that count, both included.
    """
    requests = seen.weight / MILLIONTHS
    together = cells.column("together").is_valid()
    sets, cells = cells.filter(together), cells.filter(pc.invert(together))
    reads = reads_of_sets(sets, requests, (last - first).days + 1)
    of_days = day_counts.is_of_days(cells.column("cell").to_numpy())
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
        "variation": day_counts.variation(
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
