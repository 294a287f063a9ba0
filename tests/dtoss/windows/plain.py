"""Windows of whole data sets, from all their rows at once: numpy by the definitions, for one key a place.

It knows nothing of panes, patches, visits or states: each window is made from the rows and moves in it.
"""

from __future__ import annotations

import numpy as np

FURTHEST_MM = 2**43
COUNTS = ("rows", "objects", "arrivals", "departures")
SPEEDS = {"p50_speed": 50, "p95_speed": 95, "p99_speed": 99}


class Plain:
    """All rows that were accepted, by object and time.

    Parameters
    ----------
    wanted
        The spec: its numbers only.
    who, t, places
        Objects as int64 from 0 on, times in microseconds, float64 (n, 2).
    key_of
        Gives the key of places (n, 2).
    far
        Gives the distances of places (n, 2) from others.
    """

    def __init__(self, wanted, who, t, places, key_of, far):
        self.spec = wanted
        order = np.lexsort((places[:, 1], places[:, 0], t, who))
        who, t, places = who[order], t[order], places[order]
        last = np.append((who[1:] != who[:-1]) | (t[1:] != t[:-1]), True)[: len(who)]
        self.duplicates = int((~last).sum())
        self.who, self.t, places = who[last], t[last], places[last]
        self.key = key_of(places)
        follows = self.who[1:] == self.who[:-1]
        self.until = np.where(np.append(follows, False), np.append(self.t[1:], 0), np.iinfo(np.int64).max)
        if wanted.expire is not None:
            self.until = np.minimum(self.until, self.t + wanted.expire)
        us = self.t[1:] - self.t[:-1]
        near = np.flatnonzero(follows & (us <= wanted.max_gap))
        mm = np.rint(far(places[near], places[near + 1]) * 1000.0)
        speed = (mm * 1_000_000 // us[near]).astype(np.int64)
        jumps = mm > FURTHEST_MM
        if wanted.max_speed is not None:
            jumps |= speed > wanted.max_speed
        self.jumps = int(jumps.sum())
        moved = near[~jumps]
        self.at = self.t[moved + 1]
        self.left, self.entered = self.key[moved], self.key[moved + 1]
        self.mm, self.us, self.speed = mm[~jumps].astype(np.int64), us[moved], speed[~jumps]
        self.edges = [0]
        while self.edges[-1] <= int(self.speed.max(initial=0)):
            self.edges.append(max(self.edges[-1] + 1, self.edges[-1] + self.edges[-1] // 10))
        self.by_time, self.moves_by_time = np.argsort(self.t, kind="stable"), np.argsort(self.at, kind="stable")
        self.sorted_t, self.sorted_at = self.t[self.by_time], self.at[self.moves_by_time]

    def window(self, end, length):
        """Return {key: {measure: value}} of a window; percentiles and the greatest speed in mm/s."""
        found = {}

        def put(measure, keys, values):
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                found.setdefault(key, {})[measure] = value

        rows = self.by_time[slice(*np.searchsorted(self.sorted_t, [end - length, end]))]
        put("rows", *np.unique(self.key[rows], return_counts=True))
        pairs = np.unique(np.stack([self.key[rows], self.who[rows]], axis=1), axis=0)
        put("objects", *np.unique(pairs[:, 0], return_counts=True))
        here = self.key[(self.t < end) & (self.until >= end)]
        put("here", *np.unique(here, return_counts=True))
        moves = self.moves_by_time[slice(*np.searchsorted(self.sorted_at, [end - length, end]))]
        left, entered = self.left[moves], self.entered[moves]
        other = left != entered
        put("arrivals", *np.unique(entered[other], return_counts=True))
        put("departures", *np.unique(left[other], return_counts=True))
        for key in np.unique(entered).tolist():
            mine = moves[entered == key]
            speeds = np.sort(self.speed[mine])
            values = found.setdefault(key, {})
            values["speed"] = int(self.mm[mine].sum()) / 1000.0 / (int(self.us[mine].sum()) / 1_000_000)
            values["max_speed"] = int(speeds[-1]) / 1000.0
            for name, percent in SPEEDS.items():
                rank = -(-percent * len(speeds) // 100)
                number = int(np.searchsorted(self.edges, speeds[rank - 1], side="right")) - 1
                low, high = self.edges[number], self.edges[number + 1] - 1
                values[name] = (low + (high - low) // 2) / 1000.0
        return {key: values for key, values in found.items() if key >= 0}

    def flow(self, end, length):
        """Return {(from, to): moves} of a window."""
        inside = (self.at >= end - length) & (self.at < end) & (self.left != self.entered)
        pairs, counts = np.unique(np.stack([self.left, self.entered], axis=1)[inside], axis=0, return_counts=True)
        return dict(zip(map(tuple, pairs.tolist()), counts.tolist(), strict=True))


def accepted(wanted, who, t, batches):
    """Return which rows of batches, slices of the rows in their order, are not late, and the watermark after each."""
    good, marks, mark = np.zeros(len(t), bool), [], None
    latest = np.full(int(who.max(initial=0)) + 1, np.iinfo(np.int64).min)
    for batch in batches:
        good[batch] = True if mark is None else t[batch] >= mark - wanted.late
        fresh = np.flatnonzero(good[batch]) + batch.start
        np.maximum.at(latest, who[fresh], t[fresh])
        mark = _watermark(wanted, latest[latest > np.iinfo(np.int64).min], mark)
        marks.append(mark)
    return good, marks


def _watermark(wanted, latest, before):
    pane = wanted.pane
    panes = latest // pane
    if before is not None:
        panes = panes[panes >= (before - max(wanted.lengths)) // pane]
    if len(panes) == 0:
        return before
    said = wanted.witnesses
    if said.endswith("%"):
        tenths = round(float(said[:-1]) * 1000)
        witnesses = max(3, -(-tenths * len(panes) // 100_000))
    else:
        witnesses = int(said)
    reached = np.sort(panes)[-min(witnesses, len(panes))] * pane - wanted.delay
    reached = int(reached // pane * pane)
    return reached if before is None else max(before, reached)
