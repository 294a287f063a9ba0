"""The slow, obvious version of everything. Nothing here is clever."""

from __future__ import annotations

import itertools
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import asin, atan2, ceil, inf, pi
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import parse_condition
from dtoss.geometry.distance import EARTH_RADIUS, distance
from dtoss.geometry.space import Space
from dtoss.watch.subscription import Near, Stay, said_of_stay
from dtoss.watch.words.formula import parse_words
from dtoss.watch.words.tokenizer import tokens

Rows = list[tuple[int, Any, float]]


def knn(space: Space, ids: Iterable[Any], positions: Any, queries: Any, k: int, max_distance: float = np.inf) -> Rows:
    """(query, id, distance) of the k nearest objects: all distances, sorted by (distance, id)."""
    ids = list(ids)
    vectors = space.vectors(np.asarray(positions, dtype=float).reshape(-1, 2))
    rows: Rows = []
    for q, vector in enumerate(space.vectors(np.asarray(queries, dtype=float).reshape(-1, 2))):
        found = sorted(zip(distance(vectors, vector).tolist(), ids, strict=True))
        rows += [(q, i, d) for d, i in found[:k] if d <= max_distance]
    return rows


def within(space: Space, ids: Iterable[Any], positions: Any, queries: Any, radius: Any) -> Rows:
    """(query, id, distance) of all objects with distance <= radius, sorted by (distance, id)."""
    ids = list(ids)
    vectors = space.vectors(np.asarray(positions, dtype=float).reshape(-1, 2))
    places = space.vectors(np.asarray(queries, dtype=float).reshape(-1, 2))
    radii = np.broadcast_to(np.asarray(radius, dtype=float), len(places))
    rows: Rows = []
    for q, (vector, r) in enumerate(zip(places, radii.tolist(), strict=True)):
        found = sorted(zip(distance(vectors, vector).tolist(), ids, strict=True))
        rows += [(q, i, d) for d, i in found if d <= r]
    return rows


def nearest_pairs(
    space: Space, positions: Any, queries: Any, k: int, max_distance: float, exclusive: bool, every: bool
) -> Rows:
    """(query, row, distance) of the k nearest rows, and of all as far as the last of them where ``every`` tie counts.

    Those at distance 0 are left out where it is ``exclusive``.
    """
    rows: Rows = []
    everything = within(space, range(len(positions)), positions, queries, np.inf)
    for q in range(len(queries)):
        found = [row for row in everything if row[0] == q and row[2] <= max_distance and (row[2] > 0 or not exclusive)]
        last = found[:k][-1][2] if found else 0.0
        rows += [row for i, row in enumerate(found) if i < k or (every and row[2] == last)]
    return rows


def true_distance(space: Space, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[Any]:
    """The distance by the textbook formula in long double, from positions in degrees or in the plane."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    if space.metric == "plane":
        return np.sqrt(((a - b) ** 2).sum(axis=-1))
    half = np.longdouble(np.pi) / 180

    def unit(p: NDArray[Any]) -> NDArray[Any]:
        lon, lat = p[..., 0] * half, p[..., 1] * half
        return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)

    u, v = unit(a), unit(b)
    less, more = np.sqrt(((u - v) ** 2).sum(axis=-1)), np.sqrt(((u + v) ** 2).sum(axis=-1))
    return 2 * np.longdouble(EARTH_RADIUS) * np.arctan2(less, more)


def in_polygon(space: Space, rings: list[Any], positions: Any) -> list[bool]:
    """Whether each place is in an odd number of rings, or on an edge: in rational numbers, edge by edge.

    Longitudes and latitudes tell of arcs on meridians and on the equator; all else is of vectors.
    """
    written = [_over_poles(np.asarray(ring, dtype=float).tolist(), space) for ring in rings]
    circles = [[_rational(v) for v in space.vectors(np.asarray(ring, dtype=float))] for ring in written]
    middle = [sum(v[i] for ring in circles for v in ring) for i in range(3)]
    # a place outside: beyond all corners in the plane, on the other side of the globe on the sphere
    away = [Fraction(1), Fraction(10**9 + 7, 10**9), Fraction(0)]
    if space.metric == "sphere":
        away = [
            -m + f * sum(abs(c) for c in middle)
            for m, f in zip(middle, (0, Fraction(1, 9), Fraction(1, 7)), strict=True)
        ]
    found = []
    places = np.asarray(positions, dtype=float).reshape(-1, 2)
    for place, said in zip(space.vectors(places), places.tolist(), strict=True):
        p = _rational(place)
        if space.metric == "sphere" and _dot(p, middle) <= 0:
            found.append(False)
            continue
        on = odd = False
        for ring, degrees in zip(circles, written, strict=True):
            told = []
            for a, b, from_, to in zip(ring, ring[1:] + ring[:1], degrees, degrees[1:] + degrees[:1], strict=True):
                if a == b:
                    continue
                turn = _det(a, b, p)
                n = _cross(a, b)
                known = _by_numbers(said, from_, to) if space.geographic else None
                told.append((a, known is not None, b))
                if known is not None:
                    turn, lies = known
                    on |= turn == 0 and lies
                elif turn == 0 and _dot(_cross(a, p), n) >= 0 and _dot(_cross(p, b), n) >= 0:
                    on = True
                first, second = _det(p, away, a) >= 0, _det(p, away, b) >= 0
                odd ^= first != second and (turn > 0) == second
            # between an arc of which numbers tell and one of which they do not a corner is three nanometres wide
            for (_, before, a), (_, after, _) in zip(told[-1:] + told[:-1], told, strict=True):
                on |= before != after and max(abs(x - y) for x, y in zip(a, p, strict=True)) <= Fraction(1, 2**51)
        found.append(on or odd)
    return found


def _over_poles(ring: list[list[float]], space: Space) -> list[list[float]]:
    """A ring with a pole as a corner where an edge leads over it."""
    found = []
    for (x, y), (lon, lat) in zip(ring, ring[1:] + ring[:1], strict=True):
        found.append([x, y])
        if space.geographic and abs(x - lon) == 180 and y + lat != 0 and abs(y) < 90 and abs(lat) < 90:
            found.append([x, 90.0 if y + lat > 0 else -90.0])
    return found


def _by_numbers(place: list[float], a: list[float], b: list[float]) -> tuple[Fraction, bool] | None:
    """On which side of an arc on a meridian or the equator a place is (> 0 is left, 0 on its line), and if it is on it.

    None of an arc that is on neither.
    """
    (lon, lat), (lon_a, lat_a), (lon_b, lat_b) = ([Fraction(c) for c in one] for one in (place, a, b))
    east = lambda one, of: (one - of + 180) % 360 - 180  # noqa: E731
    if abs(lat_a) == 90 or abs(lat_b) == 90 or east(lon_a, lon_b) == 0:
        away = Fraction(0) if abs(lat) == 90 else east(lon, lon_b if abs(lat_a) == 90 else lon_a)
        lies = away == 0 and min(lat_a, lat_b) <= lat <= max(lat_a, lat_b)
        return (Fraction(0) if away == -180 else away * (lat_a - lat_b)), lies
    if lat_a == lat_b == 0:
        whole, along = east(lon_b, lon_a), east(lon, lon_a)
        return lat * whole, lat == 0 and min(Fraction(0), whole) <= along <= max(Fraction(0), whole)
    return None


def in_straight(rings: list[Any], positions: Any) -> list[bool]:
    """Whether each place is in a polygon whose edges are straight in longitude and latitude, by any of its names."""
    plane = Space("none", "plane")
    found = []
    for lon, lat in np.asarray(positions, dtype=float).reshape(-1, 2).tolist():
        names = [[lon, lat], [-lon, lat]] if abs(lon) == 180 else [[lon, lat]]
        pole = abs(lat) == 90 and any(y == lat for ring in rings for _, y in np.asarray(ring, dtype=float).tolist())
        found.append(pole or any(in_polygon(plane, rings, names)))
    return found


def in_zone(space: Space, polygons: list[list[Any]], positions: Any, edges: str = "spherical") -> list[bool]:
    """Whether each place is in one of the polygons, each a list of rings."""
    straight = edges == "planar" and space.geographic
    found = [in_straight(rings, positions) if straight else in_polygon(space, rings, positions) for rings in polygons]
    return [any(held) for held in zip(*found, strict=True)] if found else [False] * len(positions)


def _rational(vector: NDArray[np.float64]) -> list[Fraction]:
    numbers = [Fraction(c) for c in vector.tolist()]
    return numbers if len(numbers) == 3 else [*numbers, Fraction(1)]


def _cross(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _det(a: list[Fraction], b: list[Fraction], c: list[Fraction]) -> Fraction:
    return _dot(_cross(a, b), c)


def reverse_nearest(space: Space, ids: list[Any], positions: Any, queries: Any) -> Rows:
    """(query, id, distance) of the objects nearer to a query than to any other object."""
    vectors = space.vectors(np.asarray(positions, dtype=float).reshape(-1, 2))
    rows: Rows = []
    for q, vector in enumerate(space.vectors(np.asarray(queries, dtype=float).reshape(-1, 2))):
        found = []
        for i in range(len(ids)):
            others = np.delete(vectors, i, axis=0)
            nearest = distance(others, vectors[i]).min() if len(others) else np.inf
            d = float(distance(vectors[i], vector))
            if d < nearest:
                found.append((d, ids[i]))
        rows += [(q, i, d) for d, i in sorted(found)]
    return rows


def planar_cell(sites: NDArray[np.float64], at: int, bounds: Any) -> tuple[dict[int, float], float]:
    """Lengths of the edges by neighbour, and the area, of a planar cell: cut by every other site, in long double."""
    x0, y0, x1, y1 = (np.longdouble(b) for b in bounds)
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    polygon = [(np.array(c) - sites[at], -1) for c in corners]
    d = sites.astype(np.longdouble) - sites[at].astype(np.longdouble)
    for j in np.argsort((d**2).sum(axis=1), kind="stable").tolist():
        if j != at:
            polygon = _cut(polygon, d[j], (d[j] ** 2).sum() / 2, j)
    edges: dict[int, float] = {}
    area = np.longdouble(0)
    for (p, owner), (q, _) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        area += (p[0] * q[1] - p[1] * q[0]) / 2
        if owner >= 0:
            edges[owner] = edges.get(owner, 0.0) + float(np.hypot(*(q - p)))
    return edges, float(area)


def tangent_cell(sites: NDArray[np.float64], at: int) -> tuple[dict[int, float], float, bool]:
    """The same for a small cell of the sphere: edges (radians), solid angle, and whether it is that small."""
    s = sites[at].astype(np.longdouble)
    s = s / np.sqrt((s**2).sum())
    helper = np.zeros(3, np.longdouble)
    helper[int(np.argmin(np.abs(s)))] = 1
    e1 = np.cross(helper, s)
    e1 /= np.sqrt((e1**2).sum())
    e2 = np.cross(s, e1)
    d = sites.astype(np.longdouble) - sites[at].astype(np.longdouble)
    plane = np.stack([d @ e1, d @ e2], axis=1)
    h = (d**2).sum(axis=1) / 2
    side = np.longdouble(20)
    corners = [(-side, -side), (side, -side), (side, side), (-side, side)]
    polygon = [(np.array(c), -1) for c in corners]
    for j in np.argsort(h, kind="stable").tolist():
        if j != at:
            polygon = _cut(polygon, plane[j], h[j], j)
    small = all(owner >= 0 for _, owner in polygon)
    edges: dict[int, float] = {}
    half = np.longdouble(0)
    for (p, owner), (q, _) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        a, b = np.array([*p, 1]), np.array([*q, 1])
        la, lb = np.sqrt((a**2).sum()), np.sqrt((b**2).sum())
        half += np.arctan2(p[0] * q[1] - p[1] * q[0], la * lb + (a * b).sum() + la + lb)
        if owner >= 0:
            angle = np.arctan2(np.sqrt((np.cross(a, b) ** 2).sum()), (a * b).sum())
            edges[owner] = edges.get(owner, 0.0) + float(angle)
    return edges, float(2 * half), small


def _cut(polygon: list[Any], d: NDArray[Any], h: Any, number: int) -> list[Any]:
    depth = [(p * d).sum() - h for p, _ in polygon]
    if max(depth) <= 0:
        return polygon
    out: list[Any] = []
    for i, (p, owner) in enumerate(polygon):
        j = (i + 1) % len(polygon)
        q = polygon[j][0]
        if depth[i] <= 0:
            out.append((p, owner))
            if depth[j] > 0:
                out.append((p + depth[i] / (depth[i] - depth[j]) * (q - p), number))
        elif depth[j] <= 0:
            out.append((p + depth[i] / (depth[i] - depth[j]) * (q - p), owner))
    return out


def exact_cells(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], dict[tuple[int, int], float]]:
    """Areas (n,) in steradians and lengths of edges (radians, from either end) of distinct directions, in 90 digits.

    Each quarter of the great circle between two sites is clipped by every other site; a cell is triangles from its own.
    """
    with localcontext(Context(prec=90)):
        sites = [_scaled([Decimal(value) for value in row]) for row in vectors.tolist()]
        area = np.zeros(len(sites)) if len(sites) > 1 else np.full(len(sites), 4 * pi)
        edges: dict[tuple[int, int], float] = {}
        for i, site in enumerate(sites):
            to = [[a - b for a, b in zip(other, site, strict=True)] for other in sites]
            for j in range(len(sites)):
                if j == i:
                    continue
                normal = _scaled(to[j])
                along = _product(site, normal)
                nearest = [a - along * b for a, b in zip(site, normal, strict=True)]
                if _product(nearest, nearest) <= _NOTHING:  # opposite sites: all of the circle is as near
                    axis = min(range(3), key=lambda t: abs(normal[t]))
                    nearest = _vector(normal, [Decimal(t == axis) for t in range(3)])
                nearest = _scaled(nearest)
                # a quarter turn from it, counter-clockwise round the site
                aside = _vector(nearest, normal)
                rest = [
                    (_product(nearest, to[k]), _product(aside, to[k])) for k in range(len(sites)) if k not in (i, j)
                ]
                for quarter in range(4):
                    ends = _clipped(quarter, rest)
                    if ends is None:
                        continue
                    p, q = ([a * x + b * y for x, y in zip(nearest, aside, strict=True)] for a, b in ends)
                    chord = sum((a - b) ** 2 for a, b in zip(p, q, strict=True)).sqrt()
                    edges[i, j] = edges.get((i, j), 0.0) + 2 * asin(float(chord / 2))
                    below = 1 + _product(site, p) + _product(p, q) + _product(q, site)
                    area[i] += 2 * atan2(float(_product(site, _vector(p, q))), float(below))
    return area, edges


_QUARTERS = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0)]
_NOTHING = Decimal(10) ** -60


def _clipped(quarter: int, limits: list[tuple[Decimal, Decimal]]) -> list[tuple[Decimal, Decimal]] | None:
    """The ends of what ``a c + b d <= 0`` for all limits (c, d) leaves of a quarter circle of (a, b)."""
    one, two = ((Decimal(a), Decimal(b)) for a, b in _QUARTERS[quarter : quarter + 2])
    for c, d in limits:
        size = (c * c + d * d).sqrt()
        depth, deep = (
            Decimal(0) if abs(t) <= _NOTHING * size else t for t in (one[0] * c + one[1] * d, two[0] * c + two[1] * d)
        )
        if depth >= 0 and deep >= 0 and (depth > 0 or deep > 0):
            return None
        if depth <= 0 and deep <= 0:
            continue
        share = depth / (depth - deep)
        a, b = (x + share * (y - x) for x, y in zip(one, two, strict=True))
        size = (a * a + b * b).sqrt()
        if depth > 0:
            one = (a / size, b / size)
        else:
            two = (a / size, b / size)
    return [one, two] if max(abs(one[0] - two[0]), abs(one[1] - two[1])) > _NOTHING else None


def _scaled(a: list[Decimal]) -> list[Decimal]:
    size = _product(a, a).sqrt()
    return [value / size for value in a]


def _product(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _vector(a: list[Decimal], b: list[Decimal]) -> list[Decimal]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


class Update(NamedTuple):
    """One row of updates; in a state it is what stands of its id, or the tombstone of one that was deleted.

    t is of one unit throughout a world, that of ``now`` and of all durations. x, y and the attributes of a deletion
    say nothing.
    """

    id: Any
    t: Any
    x: Any = None
    y: Any = None
    attributes: tuple[Any, ...] = ()
    deleted: bool = False


def apply(
    state: Mapping[Any, Update] | None,
    updates: Iterable[Update],
    *,
    now: Any = inf,
    expire: Any = inf,
    deleted_for: Any = inf,
    max_ahead: Any = inf,
    deletes: bool = True,
) -> tuple[dict[Any, Update], Counter[str]]:
    """The state after one cycle, and what became of the updates: one dictionary, one row at a time.

    Of the rows of an id the greatest (t, deleted, x, y, attributes) stands, so deletion wins at equal times. A state of
    None is a store without a snapshot: nothing is too late for it; nor is where ``deletes`` says that nobody ever could
    delete. Quarantined are rows ahead of ``now`` by more than ``max_ahead``. Of the others the greatest of each id is
    counted: unchanged, late (something newer stands, or a newer tombstone), too late (older than ``now - deleted_for``,
    of an id that does not stand), outdated (it counts, but would expire), or applied: updated (added, if nothing stood)
    or one of the deletions. Objects that stood and do not any more were deleted or have expired.
    """
    first, state = state is None, dict(state or {})
    counts: Counter[str] = Counter()
    greatest: dict[Any, Update] = {}
    stood = standing(state)
    for update in updates:
        if max_ahead != inf and update.t > now + max_ahead:
            counts["quarantined"] += 1
        elif update.id not in greatest or _order(update) > _order(greatest[update.id]):
            greatest[update.id] = update
    for id, update in greatest.items():
        last = state.get(id)
        if last is not None and _order(update) == _order(last):
            counts["unchanged"] += 1
        elif deletes and not first and id not in stood and _older(update.t, now, deleted_for):
            counts["too_late"] += 1
        elif last is not None and _order(update) < _order(last):
            counts["late"] += 1
        else:
            state[id] = update
            if update.deleted:
                counts["deletions"] += 1
            elif _older(update.t, now, expire):
                counts["outdated"] += 1
            else:
                counts["updated"] += 1
                counts["added"] += id not in stood
    for id, stands in list(state.items()):
        if _older(stands.t, now, deleted_for if stands.deleted else expire):
            del state[id]
    for id in stood.keys() - standing(state).keys():
        gone = id in greatest and greatest[id].deleted and _order(greatest[id]) > _order(stood[id])
        counts["deleted" if gone else "expired"] += 1
    return state, counts


def standing(state: Mapping[Any, Update]) -> dict[Any, Update]:
    """The objects of a state, without its tombstones."""
    return {id: update for id, update in state.items() if not update.deleted}


def _older(t: Any, now: Any, by: Any) -> bool:
    return by != inf and t < now - by


def _order(update: Update) -> tuple[Any, ...]:
    """What decides between rows of one id; a deletion has nothing that could."""
    values = () if update.deleted else (update.x, update.y, *update.attributes)
    return (in_order(update.t), update.deleted, *(in_order(value) for value in values))


def in_order(value: Any) -> tuple[Any, ...]:
    """A value as something that Python orders: null first, -0.0 below 0.0, NaN last, text by bytes, nests by text."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return (1, bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF)
    if isinstance(value, (list, dict)):
        value = repr(value)
    return (1, value.encode() if isinstance(value, str) else value)


def asked_holds(space: Space, schema: Mapping[str, Any], asked: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """Whether a subscription holds a row: None, or the distance, NaN of a place without a centre.

    A subscription is a row of dtoss.watch.subscription.SUBSCRIPTION_SCHEMA, a row has x, y, attributes and
    perhaps a text.
    """
    far = float("nan")
    place = np.array([[row["x"], row["y"]]])
    if asked["kind"] in (1, 4):
        if asked["x"] is None:
            return None
        centre = np.array([[asked["x"], asked["y"]]])
        far = float(distance(space.vectors(place), space.vectors(centre))[0])
        if not far <= asked["radius"]:
            return None
    elif asked["kind"] == 2:
        names = [row["x"]]
        if space.metric == "sphere":
            # the antimeridian has two longitudes, and a pole has all
            names = [row["x"], -row["x"]] if abs(row["x"]) == 180.0 else names
            names = [asked["west"]] if abs(row["y"]) == 90.0 else names
        west, east = asked["west"], asked["east"]
        across = space.metric == "sphere" and west > east
        wide = any((x >= west or x <= east) if across else west <= x <= east for x in names)
        if not (wide and asked["south"] <= row["y"] <= asked["north"]):
            return None
    elif asked["kind"] == 3:
        shape = json.loads(asked["polygon"])
        polygons = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
        if not in_zone(space, [[ring[:-1] for ring in rings] for rings in polygons], place)[0]:
            return None
    if asked["where"] is not None:
        values = {"id": row.get("id"), **row["attributes"]}
        columns = {name: pa.array([values.get(name)], kind) for name, kind in schema.items()}
        if not parse_condition(asked["where"], schema).matches(columns.__getitem__, 1)[0]:
            return None
    if asked["words"] is not None:
        if row.get("text") is None and "text" not in row:
            return None
        if not parse_words(asked["words"]).holds(tokens(row["text"] or "")):
            return None
    return far


@dataclass
class Witnessed:
    """What time it is by the rows of objects, batch after batch: a loop over their last times.

    ``tick`` rounds times down, ``edge`` is the time before which an object counts no more, None before the first batch;
    ``border`` is 1 where one counts no more at the end of its span, 0 where it does still.
    """

    witnesses: str
    span: Any
    tick: Callable[[Any], Any] = lambda t: t
    border: int = 1
    now: Any = None
    sure: Any = None
    held: Any = None
    waits: Any = 0
    edge: Any = None

    def wanted(self, count: int) -> int:
        """How many of so many objects have to reach a time."""
        if self.witnesses.endswith("%"):
            return min(count, max(3, ceil(Fraction(self.witnesses[:-1]) * count / 100)))
        return min(count, int(self.witnesses))

    def counts(self, t: Any) -> bool:
        """Whether an object counts by its last time."""
        return self.edge is None or t >= self.edge

    def set_back(self, before: Mapping[Any, Any], came: Mapping[Any, list[Any]], over: Any) -> bool:
        """Go back where those whose rows are all over say so, and too few others do not; return whether it did."""
        if self.now is None or (self.sure is not None and self.sure >= self.now):
            return False
        lasts = {id: max([t, *came.get(id, ())]) for id, t in before.items()}
        lasts |= {id: max(times) for id, times in came.items() if id not in before and not over(max(times))}
        counted = [self.tick(t) for t in lasts.values() if self.counts(t)]
        behind = []
        for id, times in came.items():
            if (id not in lasts or not self.counts(lasts[id])) and (id not in before or max(times) > before[id]):
                behind.append(max(times))
        every = sorted([*counted, *(self.tick(t) for t in behind)])
        wanted = self.wanted(len(every))
        enough = 3 if self.witnesses.endswith("%") else int(self.witnesses)
        if not behind or wanted < enough or len(counted) >= wanted:
            return False
        self.now = every[-wanted] if self.sure is None else max(every[-wanted], self.sure)
        self.sure, self.held, self.waits, self.edge = (
            self.now,
            self.now,
            0,
            self.tick(self.now - self.span + self.border),
        )
        return True

    def after(self, before: Mapping[Any, Any], rows: Mapping[Any, list[Any]], wall: Any = None) -> None:
        """Go on, from the last times of objects before a batch and the times of their rows in it that count, rising."""
        lasts = dict(before) | {id: times[-1] for id, times in rows.items() if times}
        every = sorted(self.tick(t) for t in lasts.values() if self.counts(t))
        if not every:
            return
        wanted = self.wanted(len(every))
        held, enough = every[-wanted], 3 if self.witnesses.endswith("%") else int(self.witnesses)
        ways = [0]
        for id, times in rows.items() if self.held is not None else ():
            path = [max(t, self.held) for t in [before.get(id, self.held), *times]]
            ways.append(sum(b - a for a, b in itertools.pairwise(path) if b - a <= self.span))
        self.waits = self.waits + max(ways) if held == self.held else 0
        found, others = held, [t for t in every if t > held]
        if self.waits >= 2 * self.span and 2 * len(others) >= len(every):
            found = others[-self.wanted(len(others))]
        self.now = found if self.now is None else max(self.now, found)
        if wanted >= enough:
            self.sure = held if self.sure is None else max(self.sure, held)
        self.held = held
        if wall is not None and wall > self.now:
            self.now = self.sure = wall
        edge = self.tick(self.now - self.span + self.border)
        self.edge = edge if self.edge is None else max(edge, self.edge)


@dataclass
class Watched:
    """What a watch tells, batch after batch: a loop over rows and subscriptions."""

    space: Space
    schema: Mapping[str, Any]
    expire: int | None = None
    messages: bool = False
    witnesses: str = "1%"
    max_gap: int = 600_000_000
    changes: int = 0
    asked: dict[str, Any] = field(default_factory=dict)
    before: dict[Any, Any] = field(default_factory=dict)
    stays: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    pairs: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    moves: list[Any] = field(default_factory=list)
    told_of_pairs: list[Any] = field(default_factory=list)
    heard: dict[Any, int] = field(default_factory=dict)
    batches: int = 0
    begun: bool = False

    def __post_init__(self) -> None:
        self.schema = {"speed": pa.float64(), **self.schema}
        span = 3_600_000_000 if self.expire is None else self.expire
        self.time = Witnessed(self.witnesses, span, lambda t: t >> 20 << 20)

    @property
    def clock(self) -> int | None:
        """What time it is."""
        return self.time.now

    def batch(
        self, rows: list[dict[str, Any]], changes: int, asked: Iterable[dict[str, Any]], wall: int | None = None
    ) -> list[Any]:
        """The events of a batch, under what stands at a change, as (kind, subscription, version, object, t, reason)."""
        now = {one["id"]: one for one in asked}
        came: dict[Any, list[int]] = {}
        for row in rows:
            came.setdefault(row["id"], []).append(row["t"])
        before = {id: row["t"] for id, row in self.before.items()}
        if self.messages:
            came = self._messages_of(rows)
            if self.time.set_back(self.heard, came, self._over):
                self.heard = {}
        else:
            self.time.set_back(before, came, self._over)
        before = {id: t for id, t in before.items() if not self._over(t)}
        stood, self.moves = dict(self.before), []
        clock = self.clock
        out = self._resets(now)
        every = [one for _, one in sorted(now.items()) if self._lives(one, clock)]
        alive = [one for one in every if Near.of(one["stay"]) is None]
        if self.messages:
            for row in rows:
                out += [
                    ("inside", one["id"], one["version"], row["id"], row["t"], None)
                    for one in alive
                    if one["events"] & 1 and self._holds(one, row) is not None
                ]
            self.heard |= {one: max(times) for one, times in came.items()}
            self.time.after(self.heard, {})
        else:
            counted: dict[Any, list[int]] = {}
            out += self._followed(rows, alive, changes, counted)
            self.time.after(before, counted, wall)
        self.asked, self.changes, self.begun = now, changes, True
        for one in every:
            if not self._lives(one, self.clock):
                out.append(("reset", one["id"], one["version"], None, None, "expired"))
        alive = [one for one in alive if self._lives(one, self.clock)]
        for id, last in sorted(self.before.items()):
            ended = self._full(id, alive, self.clock) if not self._over(last["t"]) else self._leaves(id, last, alive)
            out += sorted(ended, key=_told_order)
            if self._over(last["t"]):
                self._moved(2, last["t"] + (self.expire or 0), id, None)
                del self.before[id]
        self.told_of_pairs = self._pairs(stood, every, [one for one in every if self._lives(one, self.clock)])
        return out

    def _full(self, id: Any, alive: list[Any], until: int | None) -> list[Any]:
        """What is told of an object's stays up to a time."""
        out = []
        for one in alive if until is not None else ():
            stay = self.stays.get(id, {}).get((one["id"], one["version"]))
            if stay is None:
                continue
            rule = Stay.of(one["stay"])
            leaves = inf if stay["out"] is None or rule.seconds is None else stay["out"] + rule.seconds
            dwells = inf if stay["told"] or rule.dwell is None else stay["since"] + rule.dwell
            if dwells <= min(leaves, until):
                stay["told"] = True
                out += self._stay_told(32, "dwell", one, id, dwells)
            if leaves <= until:
                del self.stays[id][one["id"], one["version"]]
                out += self._stay_told(4, "leave", one, id, leaves)
        return out

    def _stay_told(self, bit: int, kind: str, one: Any, id: Any, t: Any, reason: str | None = None) -> list[Any]:
        return [(kind, one["id"], one["version"], id, t, reason)] if one["events"] & bit else []

    def _stayed(self, id: Any, row: Mapping[str, Any], alive: list[Any]) -> list[Any]:
        """What is told of an object's stays up to a row, and of the row."""
        out = self._full(id, alive, row["t"])
        for one in alive:
            if one["stay"] is None:
                continue
            rule, key, stays = Stay.of(one["stay"]), (one["id"], one["version"]), self.stays.setdefault(id, {})
            if self._holds(one, row) is not None:
                if key not in stays:
                    stays[key] = {"since": row["t"], "told": False}
                    out += self._stay_told(2, "enter", one, id, row["t"])
                stays[key]["out"] = None
            elif key in stays:
                if stays[key]["out"] is None:
                    stays[key]["out"] = row["t"]
                near = rule.seconds is not None if rule.metres is None else self._near(one, row, rule.metres)
                if not near:
                    del stays[key]
                    out += self._stay_told(4, "leave", one, id, row["t"])
        kept = {(one["id"], one["version"]) for one in alive}
        self.stays[id] = {key: stay for key, stay in self.stays.get(id, {}).items() if key in kept}
        return out

    def _near(self, one: Mapping[str, Any], row: Mapping[str, Any], metres: float) -> bool:
        """Whether a row that satisfies the condition lies so near to a place that does not hold it."""
        if self._holds({**one, "kind": 0}, row) is None:
            return False
        place = np.array([[row["x"], row["y"]]])
        return bool(far_from_place(self.space, one, place) <= metres)

    def _moved(self, turn: int, t: int, id: Any, row: Mapping[str, Any] | None) -> None:
        self.moves.append((turn, t, id, row))

    def _pairs(self, before: dict[Any, Any], alive: list[Any], still: list[Any]) -> list[Any]:
        """What is told of pairs of objects: every one that moves is held against all others, one after another."""
        out = []
        for one in alive:
            if "near" not in said_of_stay(one["stay"]):
                continue
            near, key = said_of_stay(one["stay"])["near"], (one["id"], one["version"])
            other = {**one, "where": near.get("where")}
            places = {id: row for id, row in before.items() if row["changes"] >= one["version"]}
            pairs, told = self.pairs.setdefault(key, {}), []

            def pair(a: Any, b: Any, places: Any = places, one: Any = one, other: Any = other, m: Any = near) -> Any:
                if a not in places or b not in places:
                    return None
                ends = [self.space.vectors(np.array([[places[id]["x"], places[id]["y"]]])) for id in (a, b)]
                if not distance(*ends)[0] <= m["metres"]:
                    return None
                for first, second in ((min(a, b), max(a, b)), (max(a, b), min(a, b))):
                    if self._holds(one, places[first]) is not None and self._holds(other, places[second]) is not None:
                        return first, second
                return None

            for turn, t, id, row in sorted(self.moves, key=lambda move: move[:3]):
                if turn == 2 and one not in still:
                    continue
                if row is None:
                    places.pop(id, None)
                else:
                    places[id] = row
                reason = None if row is not None else "expired"
                for both in [both for both in pairs if id in both]:
                    if pair(*both) is None:
                        told.append(("leave", both, t, pairs.pop(both), reason))
                for there in sorted(places):
                    both = (min(id, there), max(id, there))
                    if id != there and both not in pairs and pair(*both) is not None:
                        pairs[both] = pair(*both)
                        told.append(("enter", both, t, pairs[both], None))
            moments: dict[Any, list[Any]] = {}
            for event in told:
                moments.setdefault((event[1], event[2]), []).append(event)
            for events in moments.values():
                kind, _, t, both, reason = events[-1]
                if len(events) % 2 and one["events"] & {"enter": 2, "leave": 4}[kind]:
                    out.append((kind, one["id"], one["version"], both[0], t, reason, both[1]))
        return out

    def _messages_of(self, rows: list[dict[str, Any]]) -> dict[Any, list[int]]:
        """The times of messages: each id of a batch is another object, and each row without one."""
        self.heard = {one: t for one, t in self.heard.items() if self.time.counts(t)}
        found: dict[Any, list[int]] = {}
        self.batches += 1
        for number, row in enumerate(rows):
            found.setdefault((self.batches, number if row["id"] is None else str(row["id"])), []).append(row["t"])
        return found

    def _over(self, t: int) -> bool:
        """Whether an object is over by its last time."""
        return self.expire is not None and self.clock is not None and t <= self.clock - self.expire

    def _speed(self, last: Mapping[str, Any] | None, row: Mapping[str, Any]) -> float | None:
        """Metres a second on the way from the row before; None where there is no way."""
        if last is None or row["t"] - last["t"] > self.max_gap:
            return None
        begin, end = (self.space.vectors(np.array([[one["x"], one["y"]]])) for one in (last, row))
        return float(distance(begin, end)[0]) / ((row["t"] - last["t"]) / 1e6)

    def _leaves(self, id: Any, last: Mapping[str, Any], alive: list[Any]) -> list[Any]:
        assert self.expire is not None
        t = last["t"] + self.expire
        out = self._full(id, alive, t)
        stays = self.stays.pop(id, {})
        for one in alive:
            there = self._counted(one, last) if one["stay"] is None else (one["id"], one["version"]) in stays
            out += self._stay_told(4, "leave", one, id, t, "expired") if there else []
        return out

    def _lives(self, one: Mapping[str, Any], clock: int | None) -> bool:
        return clock is None or one["expires"] is None or one["expires"] > clock

    def _holds(self, one: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
        return asked_holds(self.space, self.schema, one, row)

    def _counted(self, one: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        """Whether a row before counts for a subscription, and is held by it."""
        return one["version"] <= last["changes"] and self._holds(one, last) is not None

    def _resets(self, now: Mapping[str, Any]) -> list[Any]:
        out = []
        for id, old in sorted(self.asked.items() if self.begun else ()):
            new = now.get(id)
            if self._lives(old, self.clock) and (new is None or new["version"] != old["version"]):
                out.append(("reset", id, old["version"], None, None, "removed" if new is None else "changed"))
        return out

    def _followed(
        self, rows: list[dict[str, Any]], alive: list[Any], changes: int, counted: dict[Any, list[int]]
    ) -> list[Any]:
        out = []
        by_id: dict[Any, list[Any]] = {}
        for row in rows:
            by_id.setdefault(row["id"], []).append(row)
        for id in sorted({*by_id, *self.before}):
            last = self.before.get(id)
            if last is not None and self._over(last["t"]):
                out += sorted(self._leaves(id, last, alive), key=_told_order)
                del self.before[id]
                self._moved(0, last["t"] + (self.expire or 0), id, None)
                last = None
            told: list[Any] = []
            for t in sorted({row["t"] for row in by_id.get(id, ())}):
                if self._over(t) or (last is not None and t <= last["t"]):
                    continue
                row = max((row for row in by_id[id] if row["t"] == t), key=_row_order) | {"changes": changes}
                row["attributes"] = {"speed": self._speed(last, row)} | row["attributes"]
                counted.setdefault(id, []).append(t)
                was = [last is not None and self._counted(one, last) for one in alive]
                held = [self._holds(one, row) is not None for one in alive]
                for bit, kind in ((4, "leave"), (2, "enter"), (1, "inside")):
                    for one, old, new in zip(alive, was, held, strict=True):
                        happens = {"leave": old and not new, "enter": new and not old, "inside": new}[kind]
                        if happens and one["events"] & bit and (one["stay"] is None or kind == "inside"):
                            told.append((kind, one["id"], one["version"], id, t, None))
                told += self._stayed(id, row, alive)
                if self.moves and self.moves[-1][0] == 0 and self.moves[-1][2] == id:
                    self._moved(0, min(self.moves.pop()[1], t), id, None)
                self._moved(1, t, id, row)
                last = self.before[id] = row
            out += sorted(told, key=_told_order)
        return out


def _told_order(event: Any) -> Any:
    kind, subscription, _, _, t, _ = event
    return t, ("dwell", "cross", "leave", "enter", "inside").index(kind), subscription


def far_from_place(space: Space, asked: Mapping[str, Any], place: NDArray[np.float64]) -> float:
    """How far a place outside of a subscription's is from it: by places on its edges, nearer and nearer ones."""
    at = space.vectors(place)
    if asked["kind"] == 1:
        return float(distance(at, space.vectors(np.array([[asked["x"], asked["y"]]])))[0]) - asked["radius"]
    if asked["kind"] == 2:
        west, south, east, north = (asked[side] for side in ("west", "south", "east", "north"))
        east += 360.0 if space.metric == "sphere" and east < west else 0.0
        rings = [[[west, south], [east, south], [east, north], [west, north], [west, south]]]
    else:
        shape = json.loads(asked["polygon"])
        rings = [ring for rings in ([shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"])
                 for ring in rings]  # fmt: skip
    arcs = asked["kind"] == 3 and space.metric == "sphere" and json.loads(asked["polygon"]).get("edges") != "planar"
    least = inf
    for ring in rings:
        for begin, end in itertools.pairwise(np.array(ring, float)):
            low, high = 0.0, 1.0
            for _ in range(8):
                share = np.linspace(low, high, 1001)[:, None]
                if arcs:
                    ends = space.vectors(np.array([begin, end]))
                    on = ends[0] + share * (ends[1] - ends[0])
                    on /= np.sqrt((on * on).sum(axis=1))[:, None]
                else:
                    flat = begin + share * (end - begin)
                    flat[:, 0] = (flat[:, 0] + 180.0) % 360.0 - 180.0 if space.metric == "sphere" else flat[:, 0]
                    on = space.vectors(flat)
                far = distance(on, at)
                best, step = float(share[far.argmin(), 0]), (high - low) / 1000
                low, high, least = max(best - 2 * step, 0.0), min(best + 2 * step, 1.0), min(least, float(far.min()))
    return least


def _row_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = sorted(row["attributes"])
    return (row["x"], row["y"], *(in_order(row["attributes"][name]) for name in names))
