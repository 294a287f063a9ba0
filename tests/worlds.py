"""Small random worlds of 32 awkward kinds, and all questions about one held against an oracle that shares no code.

A world is drawn from its kind and seed alone, so that one which once differed can be named in a test for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss

Floats = NDArray[np.float64]
RADIUS = np.longdouble(6_371_008.8)
SIZES = (0, 1, 2, 3, 4, 5, 8, 13, 30, 60, 120, 300, 700, 2000, 5000)
SIZE_ODDS = np.array([1, 2, 2, 2, 2, 3, 4, 5, 8, 8, 6, 4, 2, 1, 0.4])
FEW = 130
"""Objects up to which each is asked about by itself."""
PARTITIONS = (1, 2, 3, 5, 7, 16, 33, 64)


@dataclass(frozen=True)
class World:
    """Objects, and how many partitions are asked for.

    Parameters
    ----------
    positions : float64 (n, 2); ids : (n,) distinct, whole numbers or strings; value : int64 (n,), an attribute.
    spacing : about how far apart near objects are, in degrees or plane units.
    """

    name: str
    metric: str
    positions: Floats
    ids: NDArray[Any]
    value: NDArray[np.int64]
    partitions: int
    pivots: str
    spacing: float
    seed: int


def on_globe(vectors: Floats) -> Floats:
    """Return lon, lat in degrees of vectors (n, 3) of any length."""
    x, y, z = vectors.T
    return np.stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))], axis=1)


def legal(positions: Floats) -> Floats:
    """Return positions with longitudes brought back to [-180, 180] and latitudes clipped."""
    lon = np.where(np.abs(positions[:, 0]) > 180.0, (positions[:, 0] + 180.0) % 360.0 - 180.0, positions[:, 0])
    return np.stack([lon, np.clip(positions[:, 1], -90.0, 90.0)], axis=1)


def _uniform(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return on_globe(rng.normal(size=(n, 3))), 1.0


def _town(spacing: float) -> Callable[[np.random.Generator, int], tuple[Floats, float]]:
    """A crowd somewhere, and now and then one object far from it."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
        centre = on_globe(rng.normal(size=(1, 3)))[0] * 0.99
        found = centre + rng.uniform(-1, 1, (n, 2)) * spacing * np.sqrt(max(n, 1))
        for far in range(min(n, int(rng.integers(0, 3)))):
            place = (centre[0] - 180.0 * np.sign(centre[0] or 1.0), -centre[1])
            found[far] = place if far == 0 else on_globe(rng.normal(size=(1, 3)))[0]
        return legal(found), spacing

    return draw


def _antipodal(spacing: float) -> Callable[[np.random.Generator, int], tuple[Floats, float]]:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
        side = rng.integers(0, 2, n)[:, None]
        towns = np.where(side == 1, [[2.35, 48.86]], [[-177.65, -48.86]])
        return legal(towns + rng.integers(-6, 7, (n, 2)) * spacing), spacing

    return draw


def _lattice(step: float, shape: str = "square") -> Callable[[np.random.Generator, int], tuple[Floats, float]]:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
        side = max(int(np.sqrt(n)), 1)
        row, column = np.divmod(rng.integers(0, side * side + 1, n), side)
        lon = column + (0.5 * (row % 2) if shape == "hexagon" else 0.0)
        corner = np.array([rng.integers(-170, 150), rng.integers(-60, 40)], dtype=float)
        return legal(corner + np.stack([lon, row], axis=1) * step), step

    return draw


def _great_circle(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    a, b = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    angle = rng.uniform(0, rng.choice([1e-4, 0.02, 1.0, 2 * np.pi]), n)[:, None]
    return on_globe(np.cos(angle) * a + np.sin(angle) * b), 0.01


def _meridian(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    lon = float(rng.choice([0.0, 30.0, 180.0, -73.5]))
    reach = float(rng.choice([1e-6, 1e-3, 1.0, 89.0]))
    return np.stack([np.full(n, lon), rng.uniform(-reach, reach, n)], axis=1), reach / max(n, 1)


def _parallel(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    lat = float(rng.choice([0.0, 40.0, 60.0, -89.999]))
    reach = float(rng.choice([1e-4, 1.0, 180.0]))
    return np.stack([rng.uniform(-reach, reach, n), np.full(n, lat)], axis=1), reach / max(n, 1)


def _ring(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    """Cocircular within rounding: a small circle of the sphere, with its centre as an object now and then."""
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    size = float(rng.choice([1e-6, 1e-3, 0.5, 1.5]))
    angle = (2 * np.pi / max(n, 1) * rng.integers(0, max(n, 1), n))[:, None]
    vectors = np.cos(size) * frame[0] + np.sin(size) * (np.cos(angle) * frame[1] + np.sin(angle) * frame[2])
    if n and rng.integers(0, 2):
        vectors[0] = frame[0]
    return on_globe(vectors), float(np.degrees(size)) / max(n, 1)


def _poles(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    away = rng.choice([0.0, 1e-12, 1e-7, 1e-3, 1.0], n)
    return np.stack([rng.uniform(-180, 180, n), rng.choice([-1.0, 1.0], n) * (90.0 - away)], axis=1), 1e-3


def _one_pole(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return np.stack([rng.choice([-180.0, -90.0, 0.0, 45.0, 180.0], n), 90.0 - rng.uniform(0, 1e-5, n)], axis=1), 1e-5


def _antimeridian(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    away = rng.choice([0.0, 1e-13, 1e-9, 1e-4, 0.5], n) * rng.uniform(0, 1, n)
    return np.stack([rng.choice([-1.0, 1.0], n) * (180.0 - away), rng.uniform(-1, 1, n)], axis=1), 1e-4


def _rounded(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return np.round(rng.normal([-122.4, 37.75], 0.002, (n, 2)), 4), 1e-4


def _few_places(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    places = on_globe(rng.normal(size=(7, 3)))
    return places[rng.integers(0, 7, n)], 1.0


def _one_place(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return np.repeat(on_globe(rng.normal(size=(1, 3))), n, axis=0), 1e-3


def _ulps(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    """Neighbouring floating-point numbers: many become one place, others differ in the last bit."""
    start = np.array([13.4, 52.5])
    return start + rng.integers(-3, 4, (n, 2)) * np.spacing(start), 1e-14


def _crowds_of_crowds(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    level = 10.0 ** -rng.integers(0, 13, (n, 1))
    return legal(np.array([10.0, 50.0]) + rng.uniform(-1, 1, (n, 2)) * level), 1e-6


def _octahedron(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    corners = np.array([[0, 0], [90, 0], [180, 0], [-90, 0], [0, 90], [0, -90], [45, 35.264389682754654]], dtype=float)
    return corners[rng.integers(0, 7, n)], 30.0


def _hemisphere(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    vectors = rng.normal(size=(n, 3))
    vectors[:, 0] = np.abs(vectors[:, 0])
    return on_globe(vectors), 1.0


def _two_lines(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    lat = rng.choice([10.0, 10.0 + 1e-6], n)
    return np.stack([rng.integers(0, max(n, 1), n) * 1e-3, lat], axis=1), 1e-3


SPHERE: dict[str, Callable[[np.random.Generator, int], tuple[Floats, float]]] = {
    "uniform": _uniform,
    "hemisphere": _hemisphere,
    "town 1e-3": _town(1e-3),
    "town 1e-5": _town(1e-5),
    "town 1e-7": _town(1e-7),
    "town 1e-12": _town(1e-12),
    "antipodal crowds": _antipodal(1e-4),
    "antipodal crowds 1e-9": _antipodal(1e-9),
    "lattice": _lattice(1.0),
    "lattice 1e-5": _lattice(1e-5),
    "hexagons": _lattice(1e-3, "hexagon"),
    "great circle": _great_circle,
    "meridian": _meridian,
    "parallel": _parallel,
    "two parallels": _two_lines,
    "ring": _ring,
    "poles": _poles,
    "one pole": _one_pole,
    "antimeridian": _antimeridian,
    "rounded": _rounded,
    "few places": _few_places,
    "one place": _one_place,
    "ulps": _ulps,
    "crowds of crowds": _crowds_of_crowds,
    "octahedron": _octahedron,
}


def _flat(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return rng.uniform(-1000, 1000, (n, 2)), 30.0


def _flat_lattice(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    side = max(int(np.sqrt(n)), 1)
    return rng.integers(0, side + 1, (n, 2)) * float(rng.choice([1e-9, 1.0, 0.1])), 0.1


def _flat_line(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    way = rng.choice([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [3.0, 7.0], [0.1, 0.30000000000000004]])
    return rng.integers(-n, n + 1, n)[:, None] * way + 5.0, 1.0


def _flat_circle(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    ring = [(x, y) for x in range(-65, 66) for y in range(-65, 66) if x * x + y * y == 65 * 65]
    return np.array(ring, dtype=float)[rng.integers(0, len(ring), n)] * float(rng.choice([1.0, 1e-6, 1e6])), 10.0


def _flat_offset(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    offset = float(rng.choice([1e6, 1e9, 1e12, 1e15]))
    return offset + rng.integers(-20, 21, (n, 2)) * np.spacing(offset) * 4, float(np.spacing(offset)) * 4


def _flat_towns(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    away = float(rng.choice([3.0, 3e6, 1e9]))
    return rng.integers(0, 2, (n, 1)) * away + rng.integers(-9, 10, (n, 2)) * 1e-6, 1e-6


def _flat_crowds(rng: np.random.Generator, n: int) -> tuple[Floats, float]:
    return rng.uniform(-1, 1, (n, 2)) * 10.0 ** -rng.integers(-6, 13, (n, 1)), 1e-6


PLANE: dict[str, Callable[[np.random.Generator, int], tuple[Floats, float]]] = {
    "flat": _flat,
    "flat lattice": _flat_lattice,
    "flat line": _flat_line,
    "flat circle": _flat_circle,
    "flat huge offset": _flat_offset,
    "flat two towns": _flat_towns,
    "flat crowds": _flat_crowds,
}
KINDS = [*SPHERE, *PLANE]


def world(kind: str, seed: int) -> World:
    """Return the world of a kind and a seed: the same objects in every run."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n = int(rng.choice(SIZES, p=SIZE_ODDS / SIZE_ODDS.sum()))
    positions, spacing = (SPHERE | PLANE)[kind](rng, n)
    ids: NDArray[Any] = rng.permutation(np.arange(n, dtype=np.int64) * 3 - n)
    if rng.integers(0, 4) == 0:
        ids = np.array([f"v{i}" for i in ids.tolist()], dtype=object)
    return World(
        f"{kind} {seed}",
        "sphere" if kind in SPHERE else "plane",
        positions,
        ids,
        rng.integers(0, 10, n),
        int(rng.choice(PARTITIONS)),
        str(rng.choice(["balanced", "spread"])),
        spacing,
        seed,
    )


def build(w: World, partitions: int | None = None) -> dtoss.Index:
    """Return the index of a world, in its own number of partitions unless another is given."""
    return dtoss.build(
        w.ids.tolist() if w.ids.dtype == object else w.ids,
        w.positions,
        crs=None if w.metric == "sphere" else "none",
        partitions=w.partitions if partitions is None else partitions,
        pivots=w.pivots,
        columns={"v": w.value},
        seed=w.seed,
    )


def queries_of(w: World) -> Floats:
    """Return places on objects, near them by the scale of their crowd, between them, opposite, and anywhere."""
    rng = np.random.default_rng([w.seed, len(w.positions)])
    if len(w.positions) == 0:
        return np.array([[0.0, 0.0], [7.0, 90.0]])
    some = w.positions[rng.integers(0, len(w.positions), 4)]
    other = w.positions[rng.integers(0, len(w.positions), 4)]
    scale = w.spacing * 10.0 ** rng.uniform(-3, 2, (6, 1))
    near = w.positions[rng.integers(0, len(w.positions), 6)] + rng.normal(size=(6, 2)) * scale
    if w.metric == "plane":
        span = max(float(np.ptp(w.positions, axis=0).max()), w.spacing)
        outside = w.positions.mean(axis=0) + rng.uniform(-5, 5, (4, 2)) * span
        return np.concatenate([some, near, 0.5 * (some + other), outside])
    opposite = np.stack([some[:, 0] - 180.0 * np.sign(some[:, 0] + 0.5), -some[:, 1]], axis=1)
    globe = on_globe(rng.normal(size=(3, 3)))
    fixed = np.array([[0.0, 90.0], [-33.0, -90.0], [180.0, 1.0]])
    moved = opposite + rng.normal(size=(4, 2)) * w.spacing
    return legal(np.concatenate([some, near, 0.5 * (some + other), opposite, moved, globe, fixed]))


# -- the oracle: textbook formulas in long double, and what rounding may do to a double --------------------------------


def far_from(w: World, place: Floats) -> NDArray[Any]:
    """Return the distances of all objects from a place, long double (n,)."""
    a, b = w.positions.astype(np.longdouble), place.astype(np.longdouble)
    if w.metric == "plane":
        return np.hypot(a[:, 0] - b[0], a[:, 1] - b[1])
    u, v = _unit(a), _unit(b[None])[0]
    less, more = np.sqrt(((u - v) ** 2).sum(axis=-1)), np.sqrt(((u + v) ** 2).sum(axis=-1))
    return 2 * RADIUS * np.arctan2(less, more)


def _unit(p: NDArray[Any]) -> NDArray[Any]:
    lon, lat = p[..., 0] * (np.longdouble(np.pi) / 180), p[..., 1] * (np.longdouble(np.pi) / 180)
    # pi as a double is 1.2e-16 short: 0.8 nm on the globe
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def tolerance(w: World, far: NDArray[Any]) -> NDArray[Any]:
    """Return how much a reported distance may differ from the true one: unit vectors are rounded to a nanometre."""
    return 1e-8 + 0 * far if w.metric == "sphere" else 4e-15 * far + np.longdouble(1e-300)


def compare(w: World, index: dtoss.Index | None = None) -> list[str]:
    """Return what is wrong with the answers about a world, a line each; nothing where all are right."""
    wrong: list[str] = []
    index = build(w) if index is None else index
    n = len(w.ids)
    if len(index) != n:
        return [f"{len(index)} objects of {n}"]
    at = {id_: i for i, id_ in enumerate(w.ids.tolist())}
    queries = queries_of(w)
    rng = np.random.default_rng(w.seed)
    nearest = [np.delete(far_from(w, w.positions[i]), i).min(initial=np.inf) for i in range(n if n <= FEW else 0)]
    for q, place in enumerate(queries):
        far = far_from(w, place)
        order = np.sort(far)
        eps = tolerance(w, far)
        for k in (1, 3, 8, n + 1):
            for where in (None, "v < 3"):
                chosen = np.ones(n, bool) if where is None else w.value < 3
                if k > 300 and where:
                    continue
                hits = index.knn(place, k, where=where)
                bad = _judge(w, hits, far, eps, chosen, at, k=k)
                if bad:
                    wrong.append(f"knn k={k} where={where} query {q} {place.tolist()}: {bad}")
        if n:
            reported = index.knn(place, min(n, int(rng.integers(1, 20)))).distance
            some = float(reported[-1] if len(reported) else order[0])
            for radius in (0.0, some, float(np.nextafter(some, 0)), float(order[int(rng.integers(0, n))]) * 1.5):
                hits = index.range(place, radius)
                bad = _judge(w, hits, far, eps, np.ones(n, bool), at, radius=radius)
                if bad:
                    wrong.append(f"range {radius!r} query {q} {place.tolist()}: {bad}")
                if index.count(place, radius).tolist() != [len(hits.id)]:
                    wrong.append(f"count {radius!r} query {q}: {index.count(place, radius)} for {len(hits.id)} hits")
                picked = index.range(place, radius, where="v < 3")
                if picked.id.tolist() != [i for i in hits.id.tolist() if w.value[at[i]] < 3]:
                    wrong.append(f"range where {radius!r} query {q}")
            limited = index.knn(place, 5, max_distance=some)
            if limited.id.tolist() != index.range(place, some).id.tolist()[:5]:
                wrong.append(f"knn within {some!r} query {q}: {limited.id} is not the head of the range")
            if index.locate(place).tolist() != index.knn(place, 1).id.tolist():
                wrong.append(f"locate query {q}: {index.locate(place)}")
        if n <= FEW:
            wrong += _reverse(w, index, place, far, at, nearest)
    # a batch answers as each of its places by itself
    batch = index.knn(queries, 4)
    single = [index.knn(place, 4) for place in queries]
    if batch.id.tolist() != [i for hits in single for i in hits.id.tolist()]:
        wrong.append("a batch differs from its places one by one")
    return wrong


def _judge(
    w: World,
    hits: dtoss.Hits,
    far: NDArray[Any],
    eps: NDArray[Any],
    chosen: NDArray[np.bool_],
    at: dict[Any, int],
    *,
    k: int | None = None,
    radius: float | None = None,
) -> str:
    found = [at[i] for i in hits.id.tolist()]
    if len(set(found)) != len(found):
        return "an object twice"
    if not chosen[found].all():
        return "an object that the condition leaves out"
    keys = list(zip(hits.distance.tolist(), hits.id.tolist(), strict=True))
    if keys != sorted(keys):
        return "not in the order of (distance, id)"
    if len(found) and (np.abs(hits.distance - far[found]) > eps[found]).any():
        row = int(np.argmax(np.abs(hits.distance - far[found])))
        return f"{hits.id[row]} at {hits.distance[row]!r}, in truth {far[found[row]]}"
    left = np.flatnonzero(chosen & ~np.isin(np.arange(len(far)), found))
    if radius is not None:
        if (hits.distance > radius).any():
            return "a hit beyond the radius"
        missed = left[far[left] < radius - eps[left]]
        return f"{w.ids[missed[0]]} at {far[missed[0]]} is missing" if len(missed) else ""
    assert k is not None
    want = min(k, int(chosen.sum()))
    if len(found) != want:
        return f"{len(found)} hits, {want} are wanted"
    if want and len(left):
        nearer = left[far[left] < hits.distance[-1] - eps[left]]
        if len(nearer):
            return f"{w.ids[nearer[0]]} at {far[nearer[0]]} is missing, the last hit is at {hits.distance[-1]!r}"
        # objects on one place are equally far: the lowest ids are wanted
        same = left[(w.positions[left] == w.positions[found[-1]]).all(axis=1)]
        if len(same) and min(w.ids[same]) < hits.id[-1]:
            return f"{min(w.ids[same])} stands where {hits.id[-1]} does and has the lower id"
    return ""


def _reverse(
    w: World, index: dtoss.Index, place: Floats, far: NDArray[Any], at: dict[Any, int], nearest: list[Any]
) -> list[str]:
    got = {at[i] for i in index.reverse_nearest(place).id.tolist()}
    wrong = []
    for i in range(len(w.ids)):
        eps = 2 * tolerance(w, far[i : i + 1])[0]
        if (far[i] < nearest[i] - eps and i not in got) or (far[i] > nearest[i] + eps and i in got):
            says = "is" if i in got else "is not"
            wrong.append(f"{w.ids[i]} {says} nearest to {place.tolist()} at {far[i]}, its nearest is at {nearest[i]}")
    return wrong


def compare_cells(w: World, index: dtoss.Index | None = None) -> list[str]:
    """Return what is wrong with cells: areas that do not fill the world, an edge that one side only has."""
    index = build(w) if index is None else index
    if len(w.ids) == 0:
        return []
    wrong: list[str] = []
    # places an ulp of a degree apart may be one site
    lowest: dict[tuple[float, ...], Any] = {}
    for id_, vector in sorted(zip(w.ids.tolist(), index.space.vectors(w.positions).tolist(), strict=True)):
        lowest.setdefault(tuple(vector), id_)
    if len(lowest) > FEW:
        return []
    around = {id_: index.neighbours(id_).tolist() for id_ in lowest.values()}
    for id_, names in around.items():
        if len(set(names)) != len(names) or id_ in names:
            wrong.append(f"neighbours of {id_}: {names}")
        wrong += [f"{id_} lists {other}, which does not" for other in names if id_ not in around.get(other, [id_])]
    total = sum(index.area(id_) for id_ in around)
    whole = 4 * np.pi * float(RADIUS) ** 2
    if w.metric == "plane":
        assert index.bounds is not None
        x0, y0, x1, y1 = index.bounds
        whole = (x1 - x0) * (y1 - y0)
    if abs(total / whole - 1) > 1e-6:
        wrong.append(f"areas add up to {total / whole:.9f} of the whole")
    return wrong
