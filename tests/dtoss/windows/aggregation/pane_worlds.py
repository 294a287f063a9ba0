"""Patches of made rows from the definitions alone: what panes hold after a batch less what they held before."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dtoss.windows.aggregation.pane_cells import Cells, Incoming, sorted_cells
from tests.dtoss.windows import brute

BUCKETS = 3


def bin_number(speed):
    """Return how many bins begin below the one of a speed."""
    number, low = 0, 0
    while brute.bins(low)[1] < speed:
        low = brute.bins(low)[1] + 1
        number += 1
    return number


def held(spec, rows, keys_at, far):
    """Return what panes hold: sums, flow, bins and maxima as dicts by pane and labels."""
    sums, flow, bins, maxima = {}, {}, {}, {}
    d = spec.pane

    def add(pane, key, name, more):
        if name in spec.sums:
            cell = sums.setdefault((pane, key), dict.fromkeys(spec.sums, 0))
            cell[name] += more

    for track in brute.tracks(rows).values():
        known = [(t, place, set(keys_at(*place))) for t, place in track]
        for t, _, keys in known:
            for key in keys:
                add(t // d, key, "rows", 1)
        for i, (t, _, keys) in enumerate(known):
            last = math.inf if i + 1 == len(known) else known[i + 1][0] // d
            if spec.expire is not None:
                last = min(last, (t + spec.expire) // d)
            for key in keys:
                add(t // d, key, "here", 1)
                if last < math.inf:
                    add(last, key, "here", -1)
        for key in {key for *_, keys in known for key in keys}:
            visits = sorted({t // d for t, _, keys in known if key in keys})
            for i, length in enumerate(spec.lengths):
                for pane, after in itertools.zip_longest(visits, visits[1:], fillvalue=math.inf):
                    add(pane, key, f"objects_{i}", 1)
                    add(min(after, pane + length // d), key, f"objects_{i}", -1)
    for who in {row[0] for row in rows}:
        for t, left, entered, mm, us, speed in brute.World(spec, [r for r in rows if r[0] == who], keys_at, far).moves:
            pane = t // d
            for key in entered - left:
                add(pane, key, "arrivals", 1)
            for key in left - entered:
                add(pane, key, "departures", 1)
            for key in entered:
                add(pane, key, "distance_mm", mm)
                add(pane, key, "moving_us", us)
                if spec.bins:
                    bins[pane, key, bin_number(speed)] = bins.get((pane, key, bin_number(speed)), 0) + 1
                if "max_speed" in spec.measures:
                    at = pane, key, hash(who) % BUCKETS
                    maxima[at] = max(maxima.get(at, 0), speed)
            a, b = min(left, default=-1), min(entered, default=-1)
            if a != b and "flow" in spec.measures:
                flow[pane, a, b] = flow.get((pane, a, b), 0) + 1
    return {at: tuple(cell.values()) for at, cell in sums.items()}, flow, bins, maxima


def difference(spec, before, after):
    """Return the patches from what panes held before to what they hold after."""
    sums = {}
    for at in {*before[0], *after[0]}:
        none = (0,) * len(spec.sums)
        sums[at] = tuple(np.subtract(after[0].get(at, none), before[0].get(at, none)).tolist())
    flow, bins = ({at: (after[i].get(at, 0) - before[i].get(at, 0),) for at in {*before[i], *after[i]}} for i in (1, 2))
    maxima = {at: (after[3].get(at, -1),) for at in {*before[3], *after[3]} if before[3].get(at) != after[3].get(at)}
    return Incoming(
        cells_of(sums, 1, len(spec.sums)),
        cells_of(flow, 2, 1),
        cells_of(bins, 2, 1),
        cells_of(maxima, 2, 1, zeros=True),
    )


def cells_of(values, labels, columns, *, zeros=False):
    """Return values by pane and labels as cells, without rows of zeros."""
    kept = {at: value for at, value in values.items() if zeros or any(value)}
    if not kept:
        return Cells.none(labels, columns)
    at, value = np.array(list(kept), np.int64), np.array(list(kept.values()), np.int64).reshape(len(kept), columns)
    return sorted_cells(at[:, 0].copy(), at[:, 1:].copy(), value)


def final_rows(tables):
    """Return the rows of results by end and key, the last revision of each without the columns that say which it is.

    Zero rows, which take back what was said, are left out.
    """
    last, revisions = {}, {}
    for row in (row for table in tables for row in table.to_pylist()):
        end, key, revision = row.pop("end"), row.pop("key"), row.pop("revision")
        final = row.pop("final")
        # each change is one new revision; an end that was due without a row begins with 1
        assert revision == revisions.get((end, key), 0) + 1 or (revision == 0 and (end, key) not in revisions)
        revisions[end, key] = revision
        assert last.get((end, key)) != row, "a revision that changes nothing"
        last[end, key] = row
        assert isinstance(final, bool)
    return {
        at: row
        for at, row in last.items()
        if any(row.values()) or any(v == 0 for name, v in row.items() if name.startswith(("max", "p50", "p95")))
    }
