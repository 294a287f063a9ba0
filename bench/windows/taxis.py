"""Taxis of San Francisco by region and time: what 128 groups of windows are told, day by day."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA, lonlat_in
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import SAMPLE_PER_PARTITION, choose_pivots

FILE = DATA / "cabspotting_sf.parquet"
SLOTS = 288
"""Of five minutes in a day."""
UNSEEN = 9
"""The day, from 1, that no placement has seen: 470,309 rows, a Sunday."""
GAP_US = 600_000_000
"""Longest time between two rows of an object that are a move."""
PAIR_BYTES, PANE_BYTES = 16, 64
"""State of a visit, and of a pane of a region."""

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Taxis:
    """What happened in each region.

    Parameters
    ----------
    rows
        int64 (days, slots, groups): rows in each five minutes; days by UTC.
    flow
        int64 (days, groups, groups): moves from one region to another, the same one too.
    bytes
        int64 (days, groups): state of each region's windows of a day, at the end of it.
    """

    rows: Counts
    flow: Counts
    bytes: Counts


def taxis(groups: int = 128, unseen: int = UNSEEN, last: int = 18) -> Taxis:
    """Return the days of Cabspotting up to `last` by region; pivots are chosen from the days before `unseen`."""
    first = dt.datetime(2008, 5, 17, tzinfo=dt.UTC)
    before = pc.field("t") < first + dt.timedelta(days=last)
    table = pq.read_table(FILE, columns=["uid", "t", "lon", "lat"], filters=before)
    time = table["t"].cast("int64").to_numpy()
    uid = table["uid"].to_numpy()
    order = np.lexsort((time, uid))
    time, uid = time[order], uid[order]
    space = space_of()
    vectors = space.vectors(lonlat_in(table)[order])
    day = time // 86_400_000_000
    day -= day.min()
    seen = np.flatnonzero(day < unseen - 1)
    few = np.random.default_rng(0).choice(seen, min(len(seen), groups * SAMPLE_PER_PARTITION), replace=False)
    region = choose_pivots(vectors[few], groups).nearest(vectors).astype(np.int64)
    days = int(day.max()) + 1
    slot = time // 300_000_000 % SLOTS
    rows = np.bincount((day * SLOTS + slot) * groups + region, minlength=days * SLOTS * groups)
    move = (uid[1:] == uid[:-1]) & (time[1:] - time[:-1] <= GAP_US)
    pair = (day[1:] * groups + region[:-1]) * groups + region[1:]
    flow = np.bincount(pair[move], minlength=days * groups * groups)
    visits = np.unique((day * groups + region) * (int(uid.max()) + 1) + uid) // (int(uid.max()) + 1)
    pairs = np.bincount(visits, minlength=days * groups)
    panes = np.unique((day * groups + region) * 1_440 + time // 60_000_000 % 1_440) // 1_440
    state = PAIR_BYTES * pairs + PANE_BYTES * np.bincount(panes, minlength=days * groups)
    return Taxis(rows.reshape(days, SLOTS, groups), flow.reshape(days, groups, groups), state.reshape(days, groups))
