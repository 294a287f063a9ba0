"""What subscriptions are told of rows, from the document alone: nothing of the product decides here what matches.

Places are judged in usual floating point; a row that lies so near to a border that rounding may decide is unsure, and
then all events of its object and that subscription are left out on both sides, and counted. Conditions are
functions of numpy beside their texts, words are nested tuples.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.dtoss.watch.oracle import Witnessed

EARTH_RADIUS = 6_371_008.8
NEAR = 1e-6
"""Metres from the border of a circle within which a row is unsure."""
NOISE = 1e-14
"""Below that a product of three unit vectors may have any sign."""
KINDS = {"leave": 0, "enter": 1, "inside": 2}
TICK_BITS, MOST_TICKS = 20, 1 << 9
"""Clocks go in ticks of 2^20 microseconds, or of twice, four times and so on where a batch has too many of these."""


@dataclass(frozen=True)
class Fence:
    """A subscription: its place is a circle, a box, polygons of rings of (lon, lat), or None."""

    id: str
    circle: tuple[float, float, float] | None = None
    box: tuple[float, float, float, float] | None = None
    polygons: Any = None
    where: tuple[str, Callable[[dict[str, Any]], Any]] | None = None
    words: Any = None
    events: tuple[str, ...] = ("inside",)
    expires: int | None = None
    begins: int = 0
    """The batch before which it is subscribed to."""
    ends: int | None = None
    """The batch before which it is removed, if it is."""

    def record(self) -> dict[str, Any]:
        """What is given to the product."""
        found: dict[str, Any] = {"id": self.id, "events": list(self.events)}
        if self.circle is not None:
            found["circle"] = list(self.circle)
        if self.box is not None:
            found["box"] = list(self.box)
        if self.polygons is not None:
            rings = [[[*ring, ring[0]] for ring in polygon] for polygon in self.polygons]
            many = len(rings) > 1
            found["polygon"] = {
                "type": "MultiPolygon" if many else "Polygon",
                "coordinates": json.loads(json.dumps(rings if many else rings[0])),
                "edges": "spherical",
            }
        if self.where is not None:
            found["where"] = self.where[0]
        if self.words is not None:
            found["words"] = spelled(self.words)
        if self.expires is not None:
            found["expires"] = self.expires / 1e6
        return found


@dataclass
class Rows:
    """Rows in the order in which they arrive: all columns are arrays of numpy, a null number is a masked one."""

    id: Any
    t: Any
    lon: Any
    lat: Any
    columns: dict[str, Any] = field(default_factory=dict)
    text: list[str | None] | None = None

    def __post_init__(self) -> None:
        self.by_lat = np.argsort(self.lat, kind="stable")
        self.sorted_lat = self.lat[self.by_lat]
        self.unit = units(self.lon, self.lat)
        self.held: dict[Any, Any] = {}
        self._spoken: dict[str, Any] = {}
        self._texts = None if self.text is None else [words_of(one) for one in self.text]
        for row, words in enumerate(self._texts or ()):
            for word in set(words):
                self._spoken.setdefault(word, []).append(row)

    def __len__(self) -> int:
        return len(self.lon)

    def between(self, south: float, north: float) -> Any:
        """The rows of some latitudes."""
        return self.by_lat[np.searchsorted(self.sorted_lat, south) : np.searchsorted(self.sorted_lat, north, "right")]

    def says(self, formula: Any) -> Any:
        """Which rows' texts hold words."""
        kind, *parts = formula
        if kind == "not":
            return ~self.says(parts[0])
        if kind in ("and", "or"):
            held = [self.says(part) for part in parts]
            return np.logical_and.reduce(held) if kind == "and" else np.logical_or.reduce(held)
        found = np.zeros(len(self), bool)
        words = parts[0].split(" ")
        for row in self._spoken.get(words[0], ()):
            text = self._texts[row]
            found[row] = any(text[at : at + len(words)] == words for at in range(len(text)))
        return found


def words_of(text: str | None) -> list[str]:
    """The words of a text: the longest runs of letters and digits, whatever their case and form."""
    found, run = [], ""
    for one in unicodedata.normalize("NFKC", text or "").casefold() + " ":
        if one.isalnum():
            run += one
        elif run:
            found.append(run)
            run = ""
    return found


def spelled(formula: Any) -> str:
    """Words as a subscription has them."""
    kind, *parts = formula
    if kind == "not":
        return f"not ({spelled(parts[0])})"
    if kind in ("and", "or"):
        return f" {kind} ".join(f"({spelled(part)})" for part in parts)
    return f'"{parts[0]}"' if kind == "phrase" else parts[0]


def units(lon: Any, lat: Any) -> Any:
    """Directions, (n, 3)."""
    x, y = np.radians(lon), np.radians(lat)
    return np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], axis=-1)


def metres(lon: Any, lat: Any, here: Any) -> Any:
    """Distances on the sphere, exact to some nanometres anywhere (Vincenty's formula)."""
    a, b, c = np.radians(lat), np.radians(here[1]), np.radians(np.asarray(lon) - here[0])
    y = np.hypot(np.cos(a) * np.sin(c), np.cos(b) * np.sin(a) - np.sin(b) * np.cos(a) * np.cos(c))
    return EARTH_RADIUS * np.arctan2(y, np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(c))


def held_by(fence: Fence, rows: Rows) -> tuple[Any, Any, Any]:
    """The rows that a fence holds, rising; those of them, and others, that are unsure; distances of circles."""
    key = (fence.id, fence.begins)
    if key not in rows.held:
        rows.held[key] = _held_by(fence, rows)
    return rows.held[key]


def _held_by(fence: Fence, rows: Rows) -> tuple[Any, Any, Any]:
    if fence.circle is not None:
        at, unsure, far = _in_circle(fence.circle, rows)
    elif fence.box is not None:
        at, unsure, far = _in_box(fence.box, rows), np.zeros(0, int), None
    elif fence.polygons is not None:
        at, unsure = _in_polygons(fence.polygons, rows)
        far = None
    else:
        at, unsure, far = np.arange(len(rows)), np.zeros(0, int), None
    order = np.argsort(at, kind="stable")
    at = at[order]
    far = None if far is None else far[order]
    true = np.ones(len(rows), bool)
    if fence.where is not None:
        true &= np.ma.filled(np.ma.asarray(fence.where[1](rows.columns)), False)
    if fence.words is not None:
        true &= rows.says(fence.words)
    kept = true[at]
    return at[kept], unsure[true[unsure]], None if far is None else far[kept]


def _in_circle(circle: tuple[float, float, float], rows: Rows) -> tuple[Any, Any, Any]:
    lon, lat, radius = circle
    reach = np.degrees(radius / EARTH_RADIUS) + 1e-6
    some = rows.between(lat - reach, lat + reach)
    far = metres(rows.lon[some], rows.lat[some], (lon, lat))
    same = (rows.lon[some] == lon) & (rows.lat[some] == lat)
    far = np.where(same, 0.0, far)
    unsure = (np.abs(far - radius) <= NEAR) & ~same
    inside = (far <= radius) | same
    return some[inside], some[unsure], far[inside]


def _in_box(box: tuple[float, float, float, float], rows: Rows) -> Any:
    west, south, east, north = box
    some = rows.between(south, north)
    lon = rows.lon[some]
    held = np.zeros(len(some), bool)
    for name in (lon, np.where(np.abs(lon) == 180.0, -lon, lon)):
        held |= (name >= west) & (name <= east) if west < east else (name >= west) | (name <= east)
    return some[held]


def _in_polygons(polygons: Any, rows: Rows) -> tuple[Any, Any]:
    found, unsure = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for outer, *holes in polygons:
        held, odd = _in_ring(outer, rows)
        for hole in holes:
            inner, strange = _in_ring(hole, rows)
            held &= ~inner
            odd |= strange
        found |= held
        unsure |= odd
    return np.flatnonzero(found), np.flatnonzero(unsure)


def _in_ring(ring: Any, rows: Rows) -> tuple[Any, Any]:
    """Which rows a ring goes round, by the angles under which they see its edges."""
    corners = units(*np.array(ring, float).T)
    middle = corners.sum(axis=0)
    middle /= np.linalg.norm(middle)
    reach = (corners @ middle).min() - 1e-9
    # a ring lies in the cap of its farthest corner, if that is less than a hemisphere
    assert reach > 0.0, ring
    some = np.flatnonzero(rows.unit @ middle >= reach)
    here = rows.unit[some]
    turned, odd = np.zeros(len(some)), np.zeros(len(some), bool)
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        across, along = here @ np.cross(a, b), a @ b - (here @ a) * (here @ b)
        turned += np.arctan2(across, along)
        # on an edge, or at a corner, as far as rounding lets it be known
        odd |= (np.abs(across) < NOISE) & (along < NOISE)
    found, unsure = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    found[some] = np.abs(turned) > np.pi
    unsure[some] = odd
    return found, unsure


@dataclass(frozen=True)
class Track:
    """Rows by object and time that count, and where an object is over: a mark without a row.

    Arrays of one length: the row or -1, the object's place in the order of ids, its time, the batch, whether another
    object begins. ``clocks`` has the clock before each batch, None before the first, and after the last one; ``counts``
    what was left out.
    """

    row: Any
    object: Any
    t: Any
    batch: Any
    first: Any
    ids: Any
    clocks: list[int | None]
    counts: list[dict[str, int]]


def track_of(rows: Rows, ends: list[int], expire: int | None = None) -> Track:
    """Follow objects through batches, of which each is the rows from the end of the one before to its own."""
    ids = sorted(set(rows.id.tolist()))
    number = {id: at for at, id in enumerate(ids)}
    last: dict[int, tuple[int, int]] = {}
    found: list[tuple[int, int, int, int]] = []  # object, batch, t, row
    time = Witnessed("1%", 3_600_000_000 if expire is None else expire)
    bits = TICK_BITS
    clocks: list[int | None] = []
    counts = []
    begin = 0
    names = sorted(rows.columns)
    masks = {name: np.ma.getmaskarray(rows.columns[name]) for name in names}
    plain = {name: np.asarray(np.ma.getdata(rows.columns[name])) for name in names}
    t, x, y = rows.t.tolist(), rows.lon.tolist(), rows.lat.tolist()

    def greatness(row: int) -> tuple[Any, ...]:
        more = [(not masks[name][row], 0 if masks[name][row] else plain[name][row].item()) for name in names]
        return (x[row], y[row], *more)

    for batch, end in enumerate(ends):
        clocks.append(time.now)
        count = dict.fromkeys(("late", "repeated", "tied", "outdated", "expired"), 0)
        limit = None if expire is None or time.now is None else time.now - expire
        before_all = {id: when for id, (when, _) in last.items()}
        counted: dict[int, list[int]] = {}
        best: dict[tuple[int, int], int] = {}
        places: dict[tuple[int, int], set[tuple[float, float]]] = {}
        for row in range(begin, end):
            key = (number[rows.id[row].item() if hasattr(rows.id[row], "item") else rows.id[row]], t[row])
            held = best.get(key)
            if held is None:
                best[key], places[key] = row, {(x[row], y[row])}
                continue
            # of n rows at d places d - 1 are tied and n - d repeated, in whatever order they come
            count["repeated" if (x[row], y[row]) in places[key] else "tied"] += 1
            places[key].add((x[row], y[row]))
            if greatness(row) > greatness(held):
                best[key] = row
        for (id, when), row in sorted(best.items()):
            before = last.get(id)
            if before is not None and when <= before[0]:
                same = when == before[0] and (x[row], y[row]) == (x[before[1]], y[before[1]])
                count["repeated" if same else "late"] += 1
            elif limit is not None and when <= limit:
                count["outdated"] += 1
            else:
                found.append((id, batch, when, row))
                counted.setdefault(id, []).append(when)
                last[id] = (when, row)
        while len({when >> bits for when, _ in last.values() if time.counts(when)}) > MOST_TICKS:
            bits += 1
        time.tick = lambda t, bits=bits: t >> bits << bits
        time.after(before_all, counted)
        for id, (when, _) in sorted(last.items()):
            if expire is not None and time.now is not None and when <= time.now - expire:
                found.append((id, batch, when + expire, -1))
                count["expired"] += 1
                del last[id]
        counts.append(count)
        begin = end
    clocks.append(time.now)
    # a mark comes after all rows of its batch
    found.sort(key=lambda one: (one[0], one[1], one[3] < 0, one[2]))
    table = np.array(found, np.int64).reshape(-1, 4)
    first = np.append(True, table[1:, 0] != table[:-1, 0])[: len(table)]
    return Track(table[:, 3], table[:, 0], table[:, 2], table[:, 1], first, ids, clocks, counts)


@dataclass(frozen=True)
class Told:
    """Events, sorted by (batch, object, t, kind, subscription), one array each; and pairs that are unsure."""

    batch: Any
    object: Any
    t: Any
    kind: Any
    fence: Any
    far: Any
    unsure: set[tuple[int, int]]


def life(fence: Fence, clocks: list[int | None]) -> tuple[int, int, str | None]:
    """The batches from and to which a fence counts, and why it ends, if there is a batch that says so."""
    begin, end, why = fence.begins, len(clocks), None
    if fence.ends is not None and fence.ends < end:
        end, why = fence.ends, "removed"
    for batch in range(begin, min(end + 1, len(clocks))):
        if fence.expires is not None and clocks[batch] is not None and clocks[batch] >= fence.expires:
            return begin, batch, None if batch == begin else "expired"
    return begin, end, why


def told(fences: list[Fence], rows: Rows, track: Track) -> Told:
    """What fences are told, each by itself: along the track it holds a row or not."""
    place = np.full(len(rows), -1)
    place[track.row[track.row >= 0]] = np.flatnonzero(track.row >= 0)
    batch_of = np.searchsorted(track.batch, track.batch) if len(track.batch) == 0 else track.batch
    parts, unsure = [], set()
    for number, fence in enumerate(fences):
        begin, end, why = life(fence, track.clocks)
        at, odd, far = held_by(fence, rows)
        if len(odd):
            unsure |= {(number, int(track.object[place[row]])) for row in odd.tolist() if place[row] >= 0}
        spots = place[at]
        order = np.argsort(spots, kind="stable")
        spots = spots[order]
        some = (spots >= 0) & (batch_of[spots] >= begin) & (batch_of[spots] < end)
        distance = np.full(len(at), np.nan) if far is None else far
        distance = distance[order][some]
        spots = spots[some]
        if len(spots) == 0:
            continue
        # the place before counts if it is the same object's, and was judged while the fence was there
        before = (spots > 0) & ~track.first[spots]
        before[before] = np.isin(spots[before] - 1, spots, assume_unique=True)
        after = spots + 1
        goes_on = after < len(track.row)
        # what ends by the clock ends before an object that it ends, too
        until = np.where((track.row[after[goes_on]] < 0) & (why != "removed"), end - 1, end)
        goes_on[goes_on] = ~track.first[after[goes_on]] & (batch_of[after[goes_on]] < until)
        leaves = goes_on.copy()
        leaves[goes_on] = ~np.isin(after[goes_on], spots, assume_unique=True)
        for kind, there, where, how_far in (
            ("leave", leaves, after, np.full(len(spots), np.nan)),
            ("enter", ~before, spots, distance),
            ("inside", np.ones(len(spots), bool), spots, distance),
        ):
            if kind in fence.events:
                at_ = where[there]
                parts.append((at_, np.full(len(at_), KINDS[kind]), np.full(len(at_), number), how_far[there]))
    if not parts:
        nothing = np.zeros(0, int)
        return Told(nothing, nothing, nothing, nothing, nothing, np.zeros(0), unsure)
    spot, kind, fence_of, far = (np.concatenate([part[column] for part in parts]) for column in range(4))
    rank = np.argsort(np.argsort(np.array([fence.id for fence in fences])))
    order = np.lexsort((rank[fence_of], kind, spot, track.object[spot], track.batch[spot]))
    spot = spot[order]
    return Told(track.batch[spot], track.object[spot], track.t[spot], kind[order], fence_of[order], far[order], unsure)
