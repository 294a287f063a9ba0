"""What workers of a watch have done, as patterns: how many rows a second each routing cell has, by slot of the day.

A row counts as what it costs: one whose work is twice the mean is two. So a plan for servers that hold so many mean
rows a second says how many of them the watch needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from ceps.model.patterns import DAY, Patterns
from dtoss.errors import InputError
from dtoss.watch.events.folded_list import contents_of
from dtoss.watch.events.watch_document import documents, head_of
from dtoss.watch.sharding.routing_grid import RoutingGrid
from dtoss.watch.sharding.sharded_batch import RoundLoad, read_load
from dtoss.watch.watch_folder import Home, check_there

_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class WatchLoad:
    """Patterns of a watch, and what they are made of."""

    patterns: Patterns  # A partition is a routing cell; sizes are bytes of its subscriptions
    rounds: int  # rounds, left_out: rounds that were counted, and those of other cells than the newest round has
    left_out: int
    rows: int
    seconds_a_row: float  # Of a processor, in the mean


def patterns_of_watch(home: Home, slot_seconds: int = 300, time_zone: str = "UTC") -> WatchLoad:
    """Return how many mean rows a second each routing cell has, by slot of the day, in the mean of the days.

    ``slot_seconds``: length of a slot; divides a day.

    Rounds are kept as long as commits are. What a round has cost is in the slots that it has lasted, by their time. A
    slot that the watch has seen on fewer days than others is a mean of those. Cost O(commits + cells of all rounds).
    """
    if slot_seconds < 1 or DAY % slot_seconds:
        raise ValueError(f"a slot of {slot_seconds} s does not divide a day")
    zone = _zone(time_zone)
    loads = _loads(home)
    if not loads:
        raise InputError(
            f"watch {home.name} has no load: its rows were not spread over workers (dtoss watch --strategy NAME "
            "--workers N), or no round has ended"
        )
    grid = loads[-1].grid
    mine = [one for one in loads if one.grid == grid]
    rows = int(sum(one.rows.sum() for one in mine))
    seconds = float(sum(one.seconds.sum() for one in mine))
    mean = seconds / rows if rows and seconds > 0.0 else 1.0
    slots = DAY // slot_seconds
    cells = np.unique(np.concatenate([one.cell for one in mine]))
    work, days = np.zeros((len(cells), slots)), [set[object]() for _ in range(slots)]
    sizes = np.zeros(len(cells))
    for one in mine:
        at = np.searchsorted(cells, one.cell)
        sizes[at] = one.bytes
        counted = one.seconds / mean if seconds > 0.0 else one.rows.astype(np.float64)
        for slot, day, share in _slots(one, slot_seconds, zone):
            work[at, slot] += share * counted
            days[slot].add(day)
    seen = np.array([max(len(some), 1) for some in days], np.float64)
    observed = len(set[object]().union(*days))
    rates = work / (seen * slot_seconds)
    middles = _middles(grid, cells)
    patterns = Patterns(rates, sizes, cells, slot_seconds, middles, time_zone, days=float(observed))
    return WatchLoad(patterns, len(mine), len(loads) - len(mine), rows, mean)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"--time-zone is {name!r}: a name such as Europe/Berlin is wanted") from None


def _loads(home: Home) -> list[RoundLoad]:
    """Return what the rounds of all commits that are there have cost, oldest first."""
    check_there(home)
    head = head_of(home) if home.folder.there() else None
    if head is None:
        return []
    first = contents_of(home, head.folded).begin
    names = [file.name for document in documents(home, first, head.number) for file in document.load]
    return [read_load(home, name) for name in dict.fromkeys(names)]


def _slots(one: RoundLoad, slot_seconds: int, zone: ZoneInfo) -> Sequence[tuple[int, object, float]]:
    """Return the slots of the day in which a round has lasted, with the day and the share of its time."""
    begin, end = one.begin_us / _MICROSECONDS, max(one.end_us, one.begin_us + 1) / _MICROSECONDS
    found, at = [], begin
    while at < end:
        local = datetime.fromtimestamp(at, UTC).astimezone(zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        # by the clock on the wall: a day that is an hour shorter lacks slots
        since = (local.replace(tzinfo=None) - midnight.replace(tzinfo=None)) / timedelta(seconds=1)
        slot = min(int(since // slot_seconds), DAY // slot_seconds - 1)
        until = min(at + max((slot + 1) * slot_seconds - since, 1e-6), end)
        found.append((slot, local.date(), (until - at) / (end - begin)))
        at = until
    return found


def _middles(grid: RoutingGrid, cells: np.ndarray) -> np.ndarray:
    x = grid.cut + grid.x + (cells % grid.columns + 0.5) * grid.width / grid.columns
    y = grid.y + (cells // grid.columns + 0.5) * grid.height / grid.rows
    return np.stack([np.where((x > 180.0) & (grid.cut != 0.0), x - 360.0, x), y], axis=1)
