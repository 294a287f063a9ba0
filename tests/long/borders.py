"""Which objects polygons hold, on their borders too, against shapely and exactly: `python -m tests.long.borders`.

Part of check-data. Polygons of rounded degrees in grids, as cells of towns, and at random, with objects on their edges
and corners; triangles of great-circle arcs in 40 digits. Ends with code 1 where an answer is wrong.
"""

from __future__ import annotations

import time
import warnings
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import shapely
import typer
from numpy.typing import NDArray

import dtoss
from datasets.cities.geonames import cities
from datasets.tables.command import run, say
from tests.dtoss.queries.test_borders import exactly_in

PLACES = 400
"""Objects of a world; as many lie on edges and corners."""
SHAPES = 50
BAND = 4e-16
"""Radians from a great circle within which vectors that are rounded decide: 3 nanometres."""


def main(
    count: Annotated[int, typer.Option("--polygons", help="How many, about.")] = 10_000,
    first: Annotated[int, typer.Option(help="The first seed; other seeds are other worlds.")] = 0,
) -> None:
    """Compare what polygons of straight edges and triangles of arcs hold with what they should."""
    warnings.filterwarnings("ignore", message="lon and lat look swapped")
    began, asked, wrong, made, unlike = time.perf_counter(), 0, 0, 0, 0
    towns = np.stack([cities().lon, cities().lat], axis=1)
    seed = first
    while made < count:
        rng = np.random.default_rng(seed)
        shapes, places = world(rng, towns)
        found = held(places, shapes)
        others = set(zip(*(side.tolist() for side in _by_shapely(shapes, places)), strict=True))
        for row, place in sorted(found ^ others):
            unlike += 1
            if exactly_in(shapes[row], places[place]) != ((row, place) in found):
                wrong += 1
                say(f"seed {seed}: {shapes[row].wkt} and {places[place].tolist()}")
        made, asked, seed = made + len(shapes), asked + len(shapes) * len(places), seed + 1
    say(f"{made:,} straight polygons, {asked:,} pairs: {wrong} wrong, {unlike} unlike shapely")
    sure, near, bad = arcs(np.random.default_rng(first), max(count // 10, 1))
    say(f"{sure:,} pairs of arcs' triangles and objects, {near:,} within {BAND:g} radians of an arc: {bad} wrong")
    say(f"{time.perf_counter() - began:.0f} s")
    if wrong or bad:
        raise typer.Exit(1)


def world(rng: np.random.Generator, towns: NDArray[np.float64]) -> tuple[list[Any], NDArray[np.float64]]:
    """Return polygons of some digits round a town, and objects, many of them on borders."""
    digits = int(rng.integers(0, 6))
    size = 10.0 ** (1 - digits) * rng.integers(2, 9)
    middle = np.clip(np.round(towns[rng.integers(len(towns))], digits), [-150, -70], [150, 70])
    around = lambda n: np.round(middle + rng.uniform(-size, size, (n, 2)), digits)  # noqa: E731
    xs, ys = (np.unique(np.round(m + np.linspace(-size, size, 5), digits)).tolist() for m in middle)
    shapes = [shapely.box(w, s, e, n) for w, e in pairwise(xs) for s, n in pairwise(ys)]
    near = shapely.voronoi_polygons(shapely.MultiPoint(around(12)))
    shapes += [shapely.Polygon(np.round(np.array(one.exterior.coords), digits)) for one in near.geoms]
    while len(shapes) < SHAPES:
        shapes.append(shapely.Polygon(around(int(rng.integers(3, 7)))))
    inside = [(one.bounds[0], one.bounds[1]) >= (-180, -90) and one.bounds[2] <= 180 for one in shapes]
    shapes = [one for one, good in zip(shapes, inside, strict=True) if good and one.is_valid and one.area > 0]
    corners = np.concatenate([np.array(one.exterior.coords) for one in shapes])
    halves = np.round((corners[1:] + corners[:-1]) / 2, digits + 1)
    on = np.concatenate([corners, halves])[rng.permutation(2 * len(corners) - 1)[:PLACES]]
    places = np.unique(np.concatenate([around(PLACES), on]), axis=0)
    legal = (np.abs(places) < [180, 90]).all(axis=1)  # a pole has every longitude, which shapely does not know
    return [one for one in shapes if max(np.abs(one.bounds[1::2])) <= 90], places[legal]


def held(places: NDArray[np.float64], shapes: Any, edges: str = "planar") -> set[tuple[int, int]]:
    """Return the pairs of a shape and an object in it."""
    hits = dtoss.build(np.arange(len(places)), places).within(shapes, edges=edges)
    return set(zip(hits.query.tolist(), hits.id.tolist(), strict=True))


def _by_shapely(shapes: list[Any], places: NDArray[np.float64]) -> Any:
    return shapely.STRtree(shapely.points(places)).query(shapes, predicate="intersects")


def arcs(rng: np.random.Generator, count: int) -> tuple[int, int, int]:
    """Return pairs of triangles and objects that are clear, those that are not, and wrong answers of the former."""
    sure = near = bad = 0
    for _ in range(count):
        corners = np.round(rng.uniform([-50, -60], [50, 60]) + rng.uniform(-20, 20, (3, 2)), 3)
        share = rng.dirichlet([1.0, 1.0, 1.0], 20)
        share[:10, 0] = 0.0
        places = np.round(np.concatenate([(share / share.sum(axis=1)[:, None]) @ corners, corners]), 9)
        found = held(places, [corners], "spherical")
        with localcontext(Context(prec=40)):
            a, b, c = (_vector(one) for one in corners.tolist())
            turn = _det(a, b, c)
            for number, place in enumerate(places.tolist()):
                p = _vector(place)
                sides = [_det(u, v, p) * (1 if turn > 0 else -1) for u, v in ((a, b), (b, c), (c, a))]
                if min(map(abs, sides)) < Decimal(BAND):
                    near += 1
                    continue
                sure += 1
                bad += (min(sides) > 0) != ((0, number) in found)
    return sure, near, bad


def _vector(place: list[float]) -> list[Decimal]:
    lon, lat = (Decimal(degrees) * _PI / 180 for degrees in place)
    return [_cos(lat) * _cos(lon), _cos(lat) * _cos(_PI / 2 - lon), _cos(_PI / 2 - lat)]


def _cos(angle: Decimal) -> Decimal:
    term = total = Decimal(1)
    step = 0
    while abs(term) > Decimal(10) ** -45:
        step += 2
        term *= -angle * angle / (step * (step - 1))
        total += term
    return total


def _det(a: list[Decimal], b: list[Decimal], c: list[Decimal]) -> Decimal:
    return a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])


_PI = Decimal("3.14159265358979323846264338327950288419716939937511")


if __name__ == "__main__":
    run(main)
