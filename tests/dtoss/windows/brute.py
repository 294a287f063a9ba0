"""The oracle of windows: every measure at every end, over all rows that were accepted, from the definitions alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

NOWHERE = -1
PERCENTS = (50, 95, 99)
SPEEDS = ("max_speed", *(f"p{percent}_speed" for percent in PERCENTS))
FURTHEST_MM = 2**43


def counted(rows):
    """Return the rows that count: of equal id and time the one with the greatest x and y; rows are (id, t, x, y)."""
    best = {}
    for who, t, x, y in rows:
        place = (x + 0.0, y + 0.0)
        best[who, t] = max(best.get((who, t), place), place)
    return best


def tracks(rows):
    """Return of each id its rows that count, (t, (x, y)), by time."""
    found = {}
    for (who, t), place in sorted(counted(rows).items(), key=lambda one: one[0][1]):
        found.setdefault(who, []).append((t, place))
    return found


def bins(speed):
    """Return the least and the greatest whole mm/s of the bin of a speed."""
    low = 0
    while True:
        after = max(low + 1, low + low // 10)
        if speed < after:
            return low, min(after, 2**63) - 1
        low = after


def percentile(speeds, percent):
    """Return the middle of the bin of the speed of nearest rank; None of none."""
    if not speeds:
        return None
    low, high = bins(sorted(speeds)[math.ceil(Fraction(percent, 100) * len(speeds)) - 1])
    return low + (high - low) // 2


class World:
    """All accepted rows of windows.

    ``keys_at(x, y)`` gives the keys of a place, ``far(a, b)`` the distance of two places in metres or CRS units.
    """

    def __init__(self, spec, rows, keys_at, far):
        self.spec = spec
        self.rows = []  # (id, t, keys)
        self.moves = []  # (t, keys before, keys, mm, us, mm/s)
        self.jumps = 0
        self.stays = []  # (keys, t, the time of the next row, None of the last)
        self.duplicates = len(rows) - len(counted(rows))
        for who, track in tracks(rows).items():
            known = [(t, place, set(keys_at(*place))) for t, place in track]
            self.rows += [(who, t, keys) for t, _, keys in known]
            for (t0, a, left), (t1, b, entered) in itertools.pairwise(known):
                self.stays.append((left, t0, t1))
                if t1 - t0 > spec.max_gap:
                    continue
                mm = round(far(a, b) * 1000.0)
                speed = mm * 1_000_000 // (t1 - t0)
                if mm > FURTHEST_MM or (spec.max_speed is not None and speed > spec.max_speed):
                    self.jumps += 1
                else:
                    self.moves.append((t1, left, entered, mm, t1 - t0, speed))
            self.stays.append((known[-1][2], known[-1][0], None))

    def here(self, end):
        """Return how many objects are in each key at an end."""
        found = {}
        for keys, t, after in self.stays:
            if t < end and (after is None or after >= end):
                if self.spec.expire is not None and end > t + self.spec.expire:
                    continue
                for key in keys:
                    found[key] = found.get(key, 0) + 1
        return found

    def window(self, end, length):
        """Return the measures of each key that has any row, arrival or departure in a window, as a dict of dicts."""
        found = {}

        def of(key):
            none = {"rows": 0, "ids": set(), "arrivals": 0, "departures": 0, "distance_mm": 0, "moving_us": 0}
            return found.setdefault(key, {**none, "speeds": []})

        for who, t, keys in self.rows:
            if end - length <= t < end:
                for key in keys:
                    of(key)["rows"] += 1
                    of(key)["ids"].add(who)
        for t, left, entered, mm, us, speed in self.moves:
            if end - length <= t < end:
                for key in entered - left:
                    of(key)["arrivals"] += 1
                for key in left - entered:
                    of(key)["departures"] += 1
                for key in entered:
                    of(key)["distance_mm"] += mm
                    of(key)["moving_us"] += us
                    of(key)["speeds"].append(speed)
        for values in found.values():
            values["objects"] = len(values.pop("ids"))
            speeds = values.pop("speeds")
            values["max_speed"] = max(speeds, default=None)
            for percent in PERCENTS:
                values[f"p{percent}_speed"] = percentile(speeds, percent)
        return found

    def flow(self, end, length):
        """Return how many moves there are in a window from each key to another, -1 where a row is in none."""
        found = {}
        for t, left, entered, *_ in self.moves:
            a, b = min(left, default=NOWHERE), min(entered, default=NOWHERE)
            if end - length <= t < end and a != b:
                found[a, b] = found.get((a, b), 0) + 1
        return found

    def at(self, end, lengths=None):
        """Return one wide row for each key that has any value but 0, by the names of columns that results have.

        ``lengths`` are microseconds by name; None for those of the spec.
        """
        if lengths is None:
            lengths = dict(zip(self.spec.names, self.spec.lengths, strict=True))
        found = {}
        here = self.here(end)
        windows = {name: self.window(end, length) for name, length in lengths.items()}
        for key in sorted(set(here).union(*windows.values())):
            row = {"here": here.get(key, 0)} if "here" in self.spec.measures else {}
            for name, window in windows.items():
                values = window.get(key)
                for measure in shown(self.spec):
                    nothing = None if measure in SPEEDS else 0
                    row[f"{measure}_{name}"] = nothing if values is None else values[measure]
            if any(row.values()) or any(row[name] == 0 for name in row if name.startswith(SPEEDS)):
                found[key] = row
        return found


def shown(spec):
    """Return the measures that have a column for each length."""
    found = []
    for measure in spec.measures:
        if measure == "speed":
            found += ["distance_mm", "moving_us"]
        elif measure not in ("here", "flow"):
            found.append(measure)
    return found


def pane_of(t, pane):
    """Return the number of a pane."""
    return t // pane


def watermark(spec, rows, before):
    """Return the watermark after rows were accepted, in microseconds; ``before`` is the one before them, or None."""
    latest = [pane_of(track[-1][0], spec.pane) for track in tracks(rows).values()]
    if before is not None:
        latest = [p for p in latest if p >= before // spec.pane - max(spec.lengths) // spec.pane]
    if not latest:
        return before
    if spec.witnesses.endswith("%"):
        k = max(3, math.ceil(Fraction(spec.witnesses[:-1]) * len(latest) / 100))
    else:
        k = int(spec.witnesses)
    reached = sorted(latest, reverse=True)[min(len(latest), k) - 1] * spec.pane - spec.delay
    reached = reached // spec.pane * spec.pane
    return reached if before is None else max(before, reached)


def replayed(spec, batches):
    """Yield after each batch the rows accepted so far, how many of it were late, and the watermark after it."""
    accepted, reached = [], None
    for batch in batches:
        good = [row for row in batch if reached is None or row[1] >= reached - spec.late]
        accepted = accepted + good
        reached = watermark(spec, accepted, reached)
        yield accepted, len(batch) - len(good), reached
