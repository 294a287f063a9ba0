"""Made subscriptions of hard places, and rows at their borders, for the loop and for the index."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from dtoss.geometry.space import Space, space_of
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, EVERYWHERE, POLYGON, SUBSCRIPTION_SCHEMA
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.oracle import asked_holds

SPHERE = space_of()
EARTH = 6_371_008.8
COLUMNS = {"occupied": pa.int64(), "name": pa.string()}
WHERES = [None, None, None, "occupied = 0", "name = 'a' or occupied > 1", "name is null", "cast(name as integer) > 3"]
NAMES = [None, "a", "b", "7", "2"]
SPOTS = [
    (0.0, 0.0), (180.0, 0.0), (-180.0, 10.0), (179.9999, -5.0), (-179.5, 60.0), (10.0, 90.0), (77.0, -90.0),
    (0.0, 89.99), (-120.0, -89.0), (30.0, 60.0), (-73.98, 40.75),
]  # fmt: skip
RADII = [0.0, 1e-3, 100.0, 5e3, 1e6, 1.0007e7, 1.2e7, 2.0015e7, 3e7]
SIZES = [1e-5, 1e-2, 0.5, 5.0, 40.0]


def asked(id, kind, **more):
    """A subscription as a row of the table."""
    return dict.fromkeys(SUBSCRIPTION_SCHEMA.names) | {"id": id, "kind": kind, "events": 7} | more


def table_of(subscriptions):
    """Subscriptions as a table."""
    return pa.Table.from_pylist(subscriptions, schema=SUBSCRIPTION_SCHEMA)


def lonlat(vectors):
    """Degrees of vectors (n, 3)."""
    x, y, z = np.asarray(vectors, float).T
    return np.stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))], axis=1)


def away(lon, lat, degrees, bearing):
    """The places (n, 2) at angles from a place of the sphere, in directions in radians."""
    a, b = np.radians(lon), np.radians(lat)
    up = np.array([np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)])
    north = np.array([-np.sin(b) * np.cos(a), -np.sin(b) * np.sin(a), np.cos(b)])
    angle = np.radians(np.asarray(degrees, float))[:, None]
    side = np.cos(bearing)[:, None] * north + np.sin(bearing)[:, None] * np.cross(north, up)
    return lonlat(np.cos(angle) * up + np.sin(angle) * side)


def around_spot(space, spot, far, bearing):
    """Places about a spot, at distances in degrees or in units of the plane."""
    far, bearing = np.broadcast_arrays(np.asarray(far, float), np.asarray(bearing, float))
    if space.metric == "sphere":
        return away(*spot, far, bearing)
    return np.asarray(spot) + far[:, None] * np.stack([np.sin(bearing), np.cos(bearing)], axis=1)


def star(rng, space, spot, size):
    """A ring around a spot, thin or not."""
    count = int(rng.integers(3, 8))
    bearing = np.sort(rng.uniform(0, 2 * np.pi, count)) if rng.random() < 0.5 else np.arange(count) * 2 * np.pi / count
    ring = around_spot(space, spot, size * rng.uniform(0.3, 1.0, count), bearing)
    return [*ring.tolist(), ring[0].tolist()]


def polygon(rng, space, spot, size):
    """A polygon with a hole or in parts that lie on each other, as GeoJSON."""
    ring = star(rng, space, spot, size)
    match rng.integers(3):
        case 0:
            return {"type": "Polygon", "coordinates": [ring]}
        case 1:
            return {"type": "Polygon", "coordinates": [ring, star(rng, space, spot, size / 4)]}
    return {"type": "MultiPolygon", "coordinates": [[ring], [star(rng, space, spot, size)]]}


def box(rng, spot, size, sphere):
    """The sides of a box around a spot."""
    west, south, east, north = (spot[0] - size, spot[1] - size / 2, spot[0] + size, spot[1] + size / 2)
    if not sphere:
        return {"west": west, "south": south, "east": east, "north": north}
    west = west + 360 if west < -180 else west
    east = east - 360 if east > 180 else east
    if rng.random() < 0.2:
        west = -180.0
    elif rng.random() < 0.2:
        east = 180.0
    return {"west": west, "south": max(south, -90.0), "east": east, "north": min(north, 90.0)}


def random_place(rng, space, spots=SPOTS, sizes=SIZES):
    """A subscription's place, and rows at its border, (m, 2)."""
    sphere = space.metric == "sphere"
    spot = spots[rng.integers(len(spots))]
    size = sizes[rng.integers(len(sizes))]
    kind = int(rng.choice([CIRCLE, CIRCLE, BOX, POLYGON, AROUND, EVERYWHERE], p=[0.35, 0.1, 0.2, 0.25, 0.07, 0.03]))
    if kind in (CIRCLE, AROUND):
        if kind == AROUND and rng.random() < 0.3:
            return kind, {"object": "5", "radius": 10.0}, np.zeros((0, 2))
        radius = float(RADII[rng.integers(len(RADII))]) if sphere else size
        angle = np.degrees(radius / EARTH) if sphere else radius
        near = angle * np.array([1.0, 1 - 1e-12, 1 + 1e-12, 0.5, 1.01, 0.0])
        if sphere:
            near = np.minimum(near, 180.0)
        named = {"object": "7"} if kind == AROUND else {}
        return (
            kind,
            {"x": spot[0], "y": spot[1], "radius": radius, **named},
            around_spot(space, spot, near, rng.uniform(0, 7, len(near))),
        )
    if kind == BOX:
        sides = box(rng, spot, size, sphere)
        xs, ys = (sides["west"], sides["east"]), (sides["south"], sides["north"])
        border = [(x, y) for x in (*xs, spot[0]) for y in (*ys, spot[1])]
        return kind, sides, np.array(border)
    if kind == POLYGON:
        shape = polygon(rng, space, spot, size or 1e-3)
        parts = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
        corners = np.array([corner for part in parts for ring in part for corner in ring])
        return kind, {"polygon": json.dumps(shape)}, np.concatenate([corners, (corners[1:] + corners[:-1]) / 2])
    return kind, {}, np.zeros((0, 2))


def legal(space, positions):
    """Places that the CRS has."""
    if space.geographic:
        positions = np.stack([np.clip(positions[:, 0], -180, 180), np.clip(positions[:, 1], -90, 90)], axis=1)
    return np.ascontiguousarray(positions + 0.0)


def random_world(seed, space=SPHERE, subscriptions=30, rows=50, spots=SPOTS, sizes=SIZES):
    """Subscriptions, and rows at their borders and elsewhere."""
    rng = np.random.default_rng(seed)
    found, near = [], [np.array(spots)]
    for number in range(subscriptions):
        kind, place, border = random_place(rng, space, spots, sizes)
        near.append(border)
        where = WHERES[rng.integers(len(WHERES))]
        found.append(asked(f"s{number:03}", kind, where=where, **place) | {"events": int(rng.integers(1, 8))})
    every = np.concatenate(near)
    far = np.array(spots)[rng.integers(len(spots), size=rows)] + rng.normal(0, 2, (rows, 2))
    every = np.concatenate([every[rng.integers(len(every), size=rows)], far[: rows // 3], np.array(spots)])
    return found, rows_of(rng, legal(space, every))


def rows_of(rng, positions):
    """Rows with attributes."""
    count = len(positions)
    return Rows(
        positions,
        pa.array(np.arange(count)),
        None,
        None,
        {
            "occupied": pa.array([None if v == 3 else v for v in rng.integers(0, 4, count).tolist()], pa.int64()),
            "name": pa.array([NAMES[v] for v in rng.integers(0, len(NAMES), count)], pa.string()),
        },
    )


def pairs_of(space: Space, subscriptions, rows, wants=7, alive=None):
    """What the loop says: (row, subscription, distance), each held pair of each row in turn."""
    found = []
    schema = COLUMNS | {"id": pa.int64()}
    wants = np.broadcast_to(wants, len(rows))
    for at, (x, y) in enumerate(rows.positions.tolist()):
        row = {"x": x, "y": y, "id": at, "attributes": {n: c[at].as_py() for n, c in rows.attributes.items()}}
        for number, one in enumerate(subscriptions):
            if not one["events"] & wants[at] or (alive is not None and not alive[number]):
                continue
            far = _held(space, schema, one, row)
            if far is not None:
                found.append((at, number, far))
    return found


def _held(space, schema, one, row):
    """Whether a subscription holds a row; a condition that cannot be computed does not hold."""
    try:
        return asked_holds(space, schema, one, row)
    except ValueError:
        return None


def pairs_in(matches):
    """The same of matches; a place without a centre has NaN for its distance."""
    return list(zip(matches.row.tolist(), matches.subscription.tolist(), matches.distance.tolist(), strict=True))


def same(found, wanted):
    """Whether both are equal, NaN as itself."""
    return repr(found) == repr(wanted)
