"""What a task has heard of its objects: how far they have come, which is what moves the clock."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.arriving_rows import Rows
from dtoss.watch.processing.histogram import Histogram, histogram_of
from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.watch_clock import NOTHING_HEARD, Clock, Heard


def heard_of(clock: Clock, span: int, tracks: Tracks) -> Heard:
    """Return what a task has heard of objects that are followed. Cost O(n log n).

    ``span``: for how long an object counts, in microseconds.
    """
    t = tracks.rows.t
    assert t is not None
    firsts, lasts = tracks.begin[:-1], tracks.begin[1:] - 1
    came, known = ~tracks.before[lasts], tracks.before[firsts]
    gone_on = 0
    if clock.moment is not None and len(t):
        held = int(clock.moment.held)
        past = np.maximum(t, held)
        earlier = np.append(held, past[:-1])
        earlier[firsts[~known]] = held
        steps = past - earlier
        steps[tracks.before | (steps > span)] = 0
        gone_on = int(np.add.reduceat(steps, firsts).max())
    left = clock.histogram(t[firsts[known]])
    return _sum_up(clock, t[lasts[came]], left, tracks.behind, gone_on)


def heard_messages(clock: Clock, rows: Rows) -> Heard:
    """Return what a task has heard in rows that follow no others: each id is an object, and each row without one."""
    if rows.t is None:
        return Heard()
    last = np.ones(len(rows), np.bool_)
    if rows.ids is not None and len(rows) > 1:
        last[:-1] = np.asarray(pc.fill_null(pc.not_equal(rows.ids[1:], rows.ids[:-1]), True))
    return _sum_up(clock, rows.t[last], NOTHING_HEARD, np.zeros(0, np.int64), 0)


def _sum_up(clock: Clock, t: NDArray[np.int64], left: Histogram, over: NDArray[np.int64], gone_on: int) -> Heard:
    """Return what was heard, of last times of objects that have rows, and of those whose rows were all over."""
    behind = histogram_of(np.concatenate([over, t[t < clock.edge]]))
    return Heard(clock.histogram(t), left, behind, gone_on)
