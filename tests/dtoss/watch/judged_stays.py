"""Stays, ways and pairs of made objects and of taxis, judged by loops and distances in long double.

Nothing of the library decides here: what is inside, met or near is asked of angles between vectors of 80 bits, and a
subscription of which anything lies within a micrometre of a limit is left out.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import dtoss
from tests.dtoss.watch.judged_sphere import RADIUS, SPOTS, angle, vector

SURE = 1e-6
"""Metres to a limit from which on it is known on which side one is."""
MAX_GAP = 600
"""Seconds."""
AREA = 500.0
"""Metres in which made objects move."""


class Rows(NamedTuple):
    """Rows by time, then object, each pair once; vectors in long double."""

    id: np.ndarray
    t: np.ndarray
    lon: np.ndarray
    lat: np.ndarray
    occupied: np.ndarray
    at: np.ndarray
    told: np.ndarray  # Whether events of a row are wanted, or it is one before


class Unsure(Exception):
    """Something lies too near to a limit."""


def rows_of(id, t, lon, lat, occupied, cut):
    """The rows that count: of an object and a time the greatest, and none that is not later than those before."""
    first = np.arange(len(id)) < cut
    order = np.lexsort((occupied, lat, lon, id, t))
    last = np.append((id[order][1:] != id[order][:-1]) | (t[order][1:] != t[order][:-1]), True)
    kept, ends = [], {}
    for part in (True, False):
        mine = first[order] == part
        at = order[mine]
        again = np.append((id[at][1:] != id[at][:-1]) | (t[at][1:] != t[at][:-1]), True) if len(at) else last[:0]
        for row in at[again].tolist():
            if part or t[row] > ends.get(id[row], -np.inf):
                kept.append(row)
        if part:
            for row in kept:
                ends[id[row]] = max(t[row], ends.get(id[row], -np.inf))
    some = np.array(kept)
    return Rows(id[some], t[some], lon[some], lat[some], occupied[some], vector(lon[some], lat[some]), ~first[some])


def _metres(a, b):
    return angle(a, b) * RADIUS


def _within(far, limit):
    if (np.abs(far - limit) < SURE).any():
        raise Unsure
    return far <= limit


def _fits(where, rows):
    return np.ones(len(rows.id), bool) if where is None else rows.occupied == int(where[-1])


def stays_told(said, rows):
    """What is told of objects that enter a circle, stay, and leave."""
    x, y, radius = said["circle"]
    far = _metres(rows.at, vector(x, y))
    fits = _fits(said.get("where"), rows)
    holds = _within(far, radius) & fits
    margin, dwell = said.get("margin", {}), said.get("dwell", {}).get("seconds", np.inf)
    beside = np.full(len(fits), "seconds" in margin)
    if "metres" in margin:
        beside = _within(far, radius + margin["metres"]) & fits
    patience = margin.get("seconds", np.inf)
    inside, out = {}, []
    for row in range(len(rows.id)):
        id, t, told = rows.id[row], rows.t[row], rows.told[row]
        stay = inside.get(id)
        if stay is not None:
            leaves, dwells = stay["out"] + patience, stay["due"]
            if dwells <= min(leaves, t):
                stay["due"] = np.inf
                out.append(("dwell", id, dwells, told))
            if leaves <= t:
                del inside[id]
                out.append(("leave", id, leaves, told))
                stay = None
        if holds[row]:
            if stay is None:
                inside[id] = stay = {"due": t + dwell}
                out.append(("enter", id, t, told))
            stay["out"] = np.inf
        elif stay is not None:
            stay["out"] = min(stay["out"], t)
            if not beside[row]:
                del inside[id]
                out.append(("leave", id, t, told))
    return [(kind, id, None, t) for kind, id, t, told in out if told]


def ways_told(said, rows):
    """What is told of objects that go through a circle between two rows outside of it."""
    x, y, radius = said["circle"]
    centre = vector(x, y)
    far, fits = _metres(rows.at, centre), _fits(said.get("where"), rows)
    outside = ~_within(far, radius)
    order = np.lexsort((rows.t, rows.id))
    a, b = order[:-1], order[1:]
    same = (rows.id[a] == rows.id[b]) & (rows.t[b] - rows.t[a] <= MAX_GAP) & outside[a] & outside[b] & fits[a] & fits[b]
    a, b = a[same], b[same]
    p, q = rows.at[a], rows.at[b]
    normal = np.cross(p, q)
    size = np.sqrt((normal * normal).sum(axis=1))
    normal = normal / np.where(size > 0, size, 1)[:, None]
    height = (normal * centre).sum(axis=1)
    foot = centre - height[:, None] * normal
    between = (np.cross(p, foot) * normal).sum(axis=1) > 0
    between &= (np.cross(foot, q) * normal).sum(axis=1) > 0
    near = np.abs(np.arcsin(np.clip(height, -1, 1))) * RADIUS
    met = _within(np.where(between & (size > 0), near, np.inf), radius)
    return [("cross", rows.id[row], None, rows.t[row]) for row in b[met].tolist() if rows.told[row]]


def pairs_told(said, rows):
    """What is told of two objects that come near one another and part: each row against where all others are."""
    near, names = said["near"], np.unique(rows.id)
    which = np.searchsorted(names, rows.id)
    sides = np.stack([_fits(said.get("where"), rows), _fits(near.get("where"), rows)], axis=1)
    places, here = np.zeros((len(names), 3), np.longdouble), np.zeros((len(names), 2), bool)
    rough, pairs, told = places.astype(float), {}, {}
    for row in range(len(rows.id)):
        mine, t = which[row], rows.t[row]
        places[mine], rough[mine], here[mine] = rows.at[row], rows.at[row], sides[row]
        forth, back = here[mine, 0] & here[:, 1], here[:, 0] & here[mine, 1]
        close = np.zeros(len(names), bool)
        # whatever may be near; by a metre no rounding of double precision is as large
        about = ((rough - rough[mine]) ** 2).sum(axis=1) * float(RADIUS) ** 2 <= (near["metres"] + 1) ** 2
        some = np.flatnonzero((forth | back) & about)
        close[some] = _within(_metres(places[some], places[mine]), near["metres"])
        close[mine] = False
        for other in [other for one in pairs if mine in one for other in one if other != mine]:
            both = (min(mine, other), max(mine, other))
            if not close[other]:
                told.setdefault((both, t), []).append(("leave", pairs.pop(both), rows.told[row]))
        for other in np.flatnonzero(close).tolist():
            both = (min(mine, other), max(mine, other))
            if both not in pairs:
                first = both if forth[other] and back[other] else (mine, other) if forth[other] else (other, mine)
                pairs[both] = first
                told.setdefault((both, t), []).append(("enter", first, rows.told[row]))
    last = [[one for one in events if one[2]] for events in told.values()]
    return [
        (some[-1][0], names[some[-1][1][0]], names[some[-1][1][1]], t)
        for some, (_, t) in zip(last, told, strict=True)
        if len(some) % 2
    ]


def asked_at(rng, lon, lat, number):
    """Subscriptions of each kind at places."""
    found = []
    for at in range(number):
        place = int(rng.integers(len(lon)))
        said = {"id": f"s{at:02}", "circle": [float(lon[place]), float(lat[place]), float(rng.uniform(20, 600))]}
        kind = at % 4
        if rng.random() < 0.4:
            said["where"] = f"occupied = {rng.integers(2)}"
        if kind == 0:
            found.append({**said, "events": ["cross"]})
            continue
        if kind == 3:
            del said["circle"]
            said["near"] = {"metres": float(rng.uniform(5, 200))}
            if rng.random() < 0.5:
                said["near"]["where"] = f"occupied = {rng.integers(2)}"
            found.append({**said, "events": ["enter", "leave"]})
            continue
        said["dwell"] = {"seconds": int(rng.integers(1, 900))}
        margin = rng.integers(1, 4) if kind == 2 else 0
        if margin:
            said["margin"] = {"metres": float(rng.uniform(5, 400))} if margin & 1 else {}
            said["margin"] |= {"seconds": int(rng.integers(30, 600))} if margin & 2 else {}
        found.append({**said, "events": ["enter", "leave", "dwell"]})
    return found


def made_rows(rng, count, objects):
    """Objects that wander about a spot, with gaps, doubles and rows at one time, in any order within a half."""
    lon, lat = SPOTS[rng.integers(len(SPOTS))]
    up = np.float64(vector(lon, lat))
    side = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    side /= np.linalg.norm(side)
    id = rng.integers(0, objects, count)
    offsets = np.zeros((count, 2))
    for one in range(objects):
        mine = np.flatnonzero(id == one)
        walk = rng.uniform(-AREA, AREA, 2) + np.cumsum(rng.normal(0, 60, (len(mine), 2)), axis=0)
        offsets[mine] = np.where(rng.random((len(mine), 1)) < 0.3, walk.round(-2), walk)
    at = up + (offsets[:, :1] * side + offsets[:, 1:] * np.cross(up, side)) / float(RADIUS)
    t = (np.arange(count) * 40 // objects) * int(rng.choice([1, 20, 60])) + rng.integers(0, 30, count)
    return id, t, np.degrees(np.arctan2(at[:, 1], at[:, 0])), np.degrees(np.arctan2(at[:, 2], np.hypot(*at[:, :2].T)))


def judge(asked, id, t, lon, lat, occupied, cut):
    """Lines about what differs, how many events were compared, and of how many subscriptions."""
    table = pa.table({"id": id, "t": t.astype(float), "lon": lon, "lat": lat, "occupied": occupied})
    watch = dtoss.subscriptions(asked)
    found = watch.events(table.slice(0, cut), table.slice(cut))
    crowded = int((found.schema.metadata or {}).get(b"crowded", 0))
    rows = rows_of(id, t, lon, lat, occupied, cut)
    order = np.lexsort((rows.id, rows.t, rows.told))
    rows = Rows(*(column[order] for column in rows))
    near = found.column("near").to_pylist() if "near" in found.column_names else [None] * len(found)
    said = {}
    columns = (found.column(name).to_pylist() for name in ("subscription", "kind", "object", "t"))
    for name, kind, object, at, other in zip(*columns, near, strict=True):
        said.setdefault(name, Counter())[kind, object, other, at] += 1
    lines, events, sure = [], 0, 0
    for one in asked:
        try:
            judged = pairs_told if "near" in one else ways_told if one["events"] == ["cross"] else stays_told
            if "near" in one and crowded:
                raise Unsure
            wanted = Counter(judged(one, rows))
        except Unsure:
            continue
        got = said.get(one["id"], Counter())
        events, sure = events + sum(wanted.values()), sure + 1
        if got != wanted:
            lines.append(f"{json.dumps(one)}: too many {list(got - wanted)[:3]}, missing {list(wanted - got)[:3]}")
    return lines, events, sure


def play(seed, count=4_000, objects=30):
    """Lines about what differs in a made world, and how many events were compared."""
    rng = np.random.default_rng(seed)
    id, t, lon, lat = made_rows(rng, count, objects)
    occupied = rng.integers(0, 2, count)
    lines, events, _ = judge(asked_at(rng, lon, lat, 32), id, t, lon, lat, occupied, int(rng.integers(count)))
    return [f"seed {seed}: {line}" for line in lines], events


def of_taxis(table, asked, seed=0):
    """Lines about what differs of rows of taxis, how many events were compared, and of how many subscriptions."""
    rng = np.random.default_rng(seed)
    id, lon, lat, occupied = (table.column(name).to_numpy() for name in ("uid", "lon", "lat", "occupied"))
    t = table.column("t").cast(pa.int64()).to_numpy() // 1_000_000
    return judge(asked_at(rng, lon, lat, asked), id.astype(np.int64), t, lon, lat, occupied, len(t) // 2)
