"""Which worker has which groups in the next batch: all stay, some move where loads are uneven, or workers change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.errors import InputError
from dtoss.windows.durations import duration_of
from dtoss.windows.storage.group_placement import Placement, bytes_of, even, placement_of, rows_of
from dtoss.windows.storage.window_document import Document, Home
from pipelines.options.said_amounts import budget_of

REBALANCE = "30min"
"""Time of rows after which loads are looked at, unless a user says another."""
MOVE_BUDGET = "1%"
"""Of all state, at most, that moves at once, unless a user says another."""
ACCEPTED = 1.15
"""The largest load of a worker over its fair share that stands, whether noise explains it or not."""
STAYS = "off"
DAY_US, SLOT_US = 86_400_000_000, 3_600_000_000
"""How far back a pattern goes, and how long its slots are, in microseconds of the watermark."""
MOST_COMMITS = 2_000
"""That a pattern is made of."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Moving:
    """How groups are placed on workers; made by :func:`moving_of`."""

    workers: int | None = None  # How many, 1 to 256; None takes as many as there are cores
    # Microseconds of the watermark after which loads are looked at; None never moves a group of a worker that stays
    every: int | None = 1_800_000_000
    budget: str = MOVE_BUDGET  # Bytes, or a share of all of them, that move at once


def moving_of(workers: int | None = None, rebalance: str = REBALANCE, move_budget: str = MOVE_BUDGET) -> Moving:
    """Return how groups are placed, of what a user says.

    ``rebalance``: A duration, or "off"; ``move_budget``: bytes, or a share such as "5%".

    Examples
    --------
    >>> moving_of(8, "off")
    Moving(workers=8, every=None, budget='1%')
    """
    if workers is not None and not 1 <= workers <= BUCKETS:
        raise InputError(f"--workers is {workers}: 1 to {BUCKETS} are wanted, no more than there are groups of objects")
    try:
        every = None if rebalance.strip() == STAYS else duration_of(rebalance, "--rebalance")
        budget_of(move_budget, 0.0)
    except ValueError as error:
        raise InputError(f"{error}{'' if 'budget' in str(error) else ', or off'}") from None
    return Moving(workers, every, move_budget)


def placed(moving: Moving, cores: int, home: Home, head: Document | None) -> Placement:
    """Return the placement of the batch that goes on from a commit.

    ``head``: that commit; None where there is none.

    The same commits give the same placement. Groups of a worker that is gone, and as many as a new one needs, move at
    once, by the rows of each hour of the last day; a search of a second at most. Else a look at 256 counts.
    """
    workers = moving.workers or max(1, min(cores, BUCKETS))
    stood = None if head is None else placement_of(head.commit.document)
    if head is None or stood is None:
        return even(workers)
    if workers != stood.workers:
        return _others(moving, workers, stood, home, head)
    if moving.every is None or workers == 1 or head.watermark is None:
        return stood
    if stood.looked is not None and head.watermark - stood.looked < moving.every:
        return stood
    return _relieved(moving, stood, head)


def _relieved(moving: Moving, stood: Placement, head: Document) -> Placement:
    """Move as little as makes loads since the last look even, where they are less so than noise explains."""
    loads, at = np.array(stood.since or [0] * BUCKETS), np.array(stood.worker_of)
    looked = replace(stood, looked=head.watermark, since=())
    imbalance = float(np.bincount(at, loads, stood.workers).max() * stood.workers / max(loads.sum(), 1))
    if imbalance <= ACCEPTED:  # mostly, and without loading what searches
        return replace(looked, why=f"looked at, stays: imbalance {imbalance:.2f}")
    from ceps.streams.rebalance import rebalance

    held = bytes_of(head.commit.document)
    budget = budget_of(moving.budget, float(held.sum()))
    found = rebalance(loads, held, at, stood.workers, budget=budget, accepted=ACCEPTED)
    if found.explained or (found.worker_of == at).all():
        return replace(looked, why=f"looked at, stays: imbalance {found.before:.2f}")
    why = f"moved: imbalance {found.before:.2f} to {found.after:.2f}, at least {found.bound:.2f}"
    return replace(looked, worker_of=tuple(found.worker_of.tolist()), why=why)


def _others(moving: Moving, workers: int, stood: Placement, home: Home, head: Document) -> Placement:
    """Place the groups of workers that are gone, and give new ones their part: by the pattern of the last day."""
    from ceps.streams.rebalance import rebalance

    held, loads = bytes_of(head.commit.document), day_pattern(home, head)
    at = np.array(stood.worker_of)
    gone = at >= workers
    come = max(workers - stood.workers, 0) / workers
    budget = max(budget_of(moving.budget, float(held.sum())), 1.25 * come * float(held.sum()))
    found = rebalance(loads, held, np.where(gone, -1, at), workers, budget=budget, significance=1.0)
    why = f"{workers} workers instead of {stood.workers}: imbalance {found.after:.2f}, at least {found.bound:.2f}"
    return Placement(tuple(found.worker_of.tolist()), workers, why, head.watermark)


def day_pattern(home: Home, head: Document) -> Numbers:
    """Return rows of each group by hour, int64 (256, slots), of the day before a commit.

    Ones where none was counted.
    """
    slots: dict[int, Numbers] = {}
    last = head.watermark or 0
    for count, commit in enumerate(home.batches.newest_first()):
        mark = commit.document.get("watermark")
        if count == MOST_COMMITS or mark is None or mark <= last - DAY_US:
            break
        slot = mark // SLOT_US
        slots[slot] = slots.get(slot, 0) + rows_of(commit.document)
    loads = np.array([slots[slot] for slot in sorted(slots)], np.int64).reshape(-1, BUCKETS).T
    return loads if loads.any() else np.ones((BUCKETS, 1), np.int64)
