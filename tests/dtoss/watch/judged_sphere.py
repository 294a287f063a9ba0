"""Made places of the sphere, and rows at their borders, judged in long double: nothing of the library decides here."""

from __future__ import annotations

import itertools

import numpy as np

RADIUS = np.longdouble("6371008.8")
SURE_METRES = 2e-3
"""Rows nearer to a border than this are left out, unless they lie on a corner or at a centre."""
SPOTS = [
    (0.0, 0.0), (-0.0, -0.0), (180.0, 0.0), (-180.0, 10.0), (180.0, -89.9), (179.99999, -5.0), (-179.5, 60.0),
    (10.0, 90.0), (77.0, -90.0), (-180.0, 90.0), (0.0, 89.99999), (-120.0, -89.0), (30.0, 60.0), (-73.98, 40.75),
]  # fmt: skip
RADII = [0.0, 1e-3, 1.0, 120.0, 5e3, 1e6, 1.0007e7, 1.0008e7, 1.5e7, 2.00e7, 2.0015e7, 2.0016e7, 4e7, 1e300]


def vector(lon, lat):
    """Unit vectors (..., 3) of degrees, in long double."""
    a, b = np.deg2rad(np.longdouble(lon)), np.deg2rad(np.longdouble(lat))
    return np.stack([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)], axis=-1)


def angle(a, b):
    """Angles of small and large size alike, in long double."""
    cross = np.cross(a, b)
    return np.arctan2(np.sqrt((cross * cross).sum(axis=-1)), (a * b).sum(axis=-1))


def same_place(lon, lat, positions):
    """Which positions are one place with another, by its names."""
    x, y = positions[:, 0], positions[:, 1]
    turn = (np.abs(x) == 180.0) & (abs(lon) == 180.0)
    return (y == lat) & ((x == lon) | turn | (np.abs(y) == 90.0))


class Circle:
    """A disc of the sphere."""

    def __init__(self, lon, lat, radius):
        self.said = {"circle": [lon, lat, radius]}
        self.lon, self.lat, self.radius = lon, lat, radius

    def judge(self, positions):
        """Which rows are held, which are sure, and how far they are."""
        far = angle(vector(self.lon, self.lat), vector(positions[:, 0], positions[:, 1])) * RADIUS
        here = same_place(self.lon, self.lat, positions)
        far = np.where(here, 0, far)
        sure = (np.abs(far - np.longdouble(self.radius)) > SURE_METRES) | here
        if self.radius < 1.0:
            sure = (np.abs(far - np.longdouble(self.radius)) > 1e-6) | here
        return far <= self.radius, sure, far.astype(float)

    def borders(self, rng):
        """Places near its border."""
        turn = rng.uniform(0, 2 * np.pi, 6)
        far = np.minimum(np.array([1, 0.999, 1.001, 0.5, 1.5, 0]) * self.radius / float(RADIUS), np.pi)
        return np.append(away(self.lon, self.lat, far, turn), [[self.lon, self.lat]], axis=0)


class Box:
    """A box of the sphere."""

    def __init__(self, west, south, east, north):
        self.said = {"box": [west, south, east, north]}
        self.sides = west, south, east, north

    def judge(self, positions):
        """Which rows are held; all are sure."""
        west, south, east, north = self.sides
        held = []
        for x, y in positions.tolist():
            names = [x, -x] if abs(x) == 180.0 else [x]
            wide = any((name >= west or name <= east) if west > east else west <= name <= east for name in names)
            held.append(south <= y <= north and (wide or abs(y) == 90.0))
        return np.array(held, bool), np.ones(len(held), bool), np.full(len(held), np.nan)

    def borders(self, rng):
        """Its corners, and places beside them."""
        west, south, east, north = self.sides
        corners = [(x, y) for x in (west, east, (west + east) / 2) for y in (south, north, (south + north) / 2)]
        beside = [(np.nextafter(x, rng.choice([-400.0, 400.0])), y) for x, y in corners]
        return np.array([*corners, *beside])


class Polygon:
    """Polygons of the sphere with holes; rings are (lon, lat), each closed."""

    def __init__(self, parts, middles):
        shape = {"type": "MultiPolygon", "coordinates": parts}
        if len(parts) == 1:
            shape = {"type": "Polygon", "coordinates": parts[0]}
        self.said = {"polygon": {**shape, "edges": "spherical"}}
        self.parts, self.middles = parts, middles

    def judge(self, positions):
        """Which rows are held, and which are sure; corners are."""
        held, sure = np.zeros(len(positions), bool), np.ones(len(positions), bool)
        corner = np.zeros(len(positions), bool)
        points = vector(positions[:, 0], positions[:, 1])
        for rings, middle in zip(self.parts, self.middles, strict=True):
            inside = np.ones(len(positions), bool)
            for number, ring in enumerate(rings):
                within, far = in_ring(ring, points, vector(*middle))
                sure &= far > SURE_METRES / float(RADIUS)
                inside &= within != (number > 0)
                for lon, lat in ring:
                    corner |= same_place(lon, lat, positions)
            held |= inside
        return held | corner, sure | corner, np.full(len(positions), np.nan)

    def borders(self, rng):
        """Corners, and places on and beside edges."""
        found = []
        for ring in itertools.chain.from_iterable(self.parts):
            for (a, b), (c, d) in itertools.pairwise(ring):
                middle = (vector(a, b) + vector(c, d)).astype(float)
                lon, lat = (
                    np.degrees(np.arctan2(middle[1], middle[0])),
                    np.degrees(np.arctan2(middle[2], np.hypot(*middle[:2]))),
                )
                found += [(a, b), (lon + 1e-4, lat), (lon - 1e-4, lat), (lon, lat)]
        return np.array(found)


def in_ring(ring, points, middle):
    """Whether points are within a ring of the hemisphere round a place, and how far they are from it, in radians."""
    corners = vector(*np.array(ring[:-1], np.longdouble).T)
    total = np.zeros(len(points))
    far = np.full(len(points), np.inf)
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        u, v = np.cross(points, a), np.cross(points, b)
        total += np.arctan2((np.cross(u, v) * points).sum(axis=1).astype(float), (u * v).sum(axis=1).astype(float))
        far = np.minimum(far, arc_distance(points, a, b))
    return (np.abs(total) > np.pi) & ((points * middle).sum(axis=1) > 0), far


def arc_distance(points, a, b):
    """How far points are from an arc, in radians."""
    normal = np.cross(a, b)
    size = np.sqrt((normal * normal).sum())
    ends = np.minimum(angle(points, a), angle(points, b)).astype(float)
    if not size > 0:
        return ends
    normal = normal / size
    foot = points - (points @ normal)[:, None] * normal
    between = ((np.cross(a, foot) * normal).sum(axis=1) >= 0) & ((np.cross(foot, b) * normal).sum(axis=1) >= 0)
    return np.where(between, np.abs(np.arcsin(np.clip((points @ normal).astype(float), -1, 1))), ends)


def away(lon, lat, far, turn):
    """Places (n, 2) at angles from a place, in directions, in radians."""
    a, b = np.radians(lon), np.radians(lat)
    up = np.array([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])
    north = np.array([-np.sin(b) * np.cos(a), -np.sin(b) * np.sin(a), np.cos(b)])
    side = np.cos(turn)[:, None] * north + np.sin(turn)[:, None] * np.cross(north, up)
    v = np.cos(far)[:, None] * up + np.sin(far)[:, None] * side
    return np.stack(
        [np.degrees(np.arctan2(v[:, 1], v[:, 0])), np.degrees(np.arctan2(v[:, 2], np.hypot(v[:, 0], v[:, 1])))], axis=1
    )


def random_place(rng):
    """A place of the sphere of any kind and size; None for everywhere."""
    lon, lat = SPOTS[rng.integers(len(SPOTS))]
    kind = rng.integers(8)
    if kind <= 2:
        return Circle(lon, lat, float(RADII[rng.integers(len(RADII))]))
    if kind <= 4:
        size = float(rng.choice([1e-9, 1e-4, 0.5, 20.0, 80.0]))
        west, east = lon - size, lon + size
        choice = rng.integers(6)
        if choice == 0:
            west, east = -180.0, 180.0
        elif choice == 1:
            west = float(rng.choice([-180.0, 180.0]))
        elif choice == 2:
            east = float(rng.choice([-180.0, 180.0]))
        west, east = (west + 360 if west < -180 else west), (east - 360 if east > 180 else east)
        if west == east or (west, east) == (180.0, -180.0):
            return None
        south, north = max(lat - size / 2, -90.0), min(lat + size / 2, 90.0)
        if rng.integers(8) == 0:
            south, north = -90.0, 90.0
        if rng.integers(8) == 0:
            south = north = lat
        return Box(west, south, east, north)
    if kind <= 6:
        parts, middles = [], []
        for _ in range(rng.integers(1, 4)):
            size = float(rng.choice([1e-7, 1e-4, 1e-2, 0.5, 1.2]))
            count = int(rng.integers(4, 12))
            turn = np.sort(rng.uniform(0, 2 * np.pi, count))
            if np.diff(turn, append=turn[0] + 2 * np.pi).max() > 2.5:
                turn = np.arange(count) * 2 * np.pi / count
            far = size * rng.uniform(0.4, 1.0, count)
            rings = [away(lon, lat, far, turn).tolist()]
            if rng.integers(2):
                rings.append(away(lon, lat, far * 0.3, turn)[::-1].tolist())
            parts.append([[*ring, ring[0]] for ring in rings])
            middles.append((lon, lat))
            lon, lat = SPOTS[rng.integers(len(SPOTS))]
        return Polygon(parts, middles)
    return None


class Everywhere:
    """No place."""

    said: dict = {}  # noqa: RUF012

    def judge(self, positions):
        """All rows are held."""
        count = len(positions)
        return np.ones(count, bool), np.ones(count, bool), np.full(count, np.nan)


def random_sphere(seed, subscriptions=60, rows=150):
    """Subscriptions of hard places as they are asked, what judges them, and rows."""
    rng = np.random.default_rng(seed)
    places = [random_place(rng) or Everywhere() for _ in range(subscriptions)]
    near = [np.array(SPOTS), rng.uniform([-180, -90], [180, 90], (rows // 3, 2))]
    near += [place.borders(rng) for place in places if not isinstance(place, Everywhere)]
    every = np.concatenate(near)
    every = every[rng.permutation(len(every))[:rows]]
    every[:, 0] = np.where(np.abs(every[:, 0]) > 180, (every[:, 0] + 180) % 360 - 180, every[:, 0])
    every[:, 1] = np.clip(every[:, 1], -90, 90)
    return places, np.ascontiguousarray(every)
