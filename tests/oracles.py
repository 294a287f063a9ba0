"""The slow, obvious version of everything. Nothing here is clever."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import asin, atan2, inf, pi
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS, distance
from dtoss.geometry.space import Space

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
