"""Cells from unsorted sites to neighbours, areas and radii, sorting included, on one core, against scipy and GEOS.

Processor time, best of the rounds, in turns in one process. On the sphere both are given the same places in metres:
they have no sphere, or one that is slower still.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import Voronoi

from bench.experiments.results import Results, Row, grid, point
from bench.measuring.points import metres, missing, positions
from bench.measuring.race import in_turns
from datasets.tables.command import say
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from dtoss.geometry.space import space_of

SIZES = {
    "smoke": (3_000, 1, ("uniform",)),
    "here": (500_000, 3, ("uniform", "taxi")),
    "full": (500_000, 9, ("uniform", "taxi")),
}
"""Sites, rounds, sets."""
EACH, TIMES = "us a cell", "times as fast"


def distinct(at: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return so many distinct positions, in random order."""
    every = np.unique(at, axis=0)
    return every[np.random.default_rng(2).permutation(len(every))[:count]]


def run(size: str) -> Iterator[Row]:
    """Yield microseconds a cell of ours, and how many times as fast it is; x is the set and the space."""
    count, rounds, kinds = SIZES[size]
    for kind in kinds:
        if why := missing(kind):
            say(f"{kind}: {why}")
        elif kind == "uniform":
            plane = np.random.default_rng(1).uniform(0, 100_000, (count, 2))
            yield from of_set(kind, plane, positions(kind, count), rounds)
        else:
            degrees = distinct(positions(kind, 2 * count), count)
            yield from of_set(kind, metres(degrees), degrees, rounds)


def of_set(kind: str, plane: NDArray[np.float64], degrees: NDArray[np.float64], rounds: int) -> Iterator[Row]:
    """Yield rows of the same places in metres and on the sphere; areas add up to all there is."""
    low, high = plane.min(axis=0), plane.max(axis=0)
    grown = 0.1 * (high - low).max()
    bounds = np.concatenate([low - grown, high + grown])
    centred = plane - plane.mean(axis=0)
    points = shapely.multipoints(centred)
    for space, sites, box, whole in (
        ("plane", np.ascontiguousarray(plane), bounds, float(np.prod(bounds[2:] - bounds[:2]))),
        ("sphere", space_of().vectors(degrees), None, 4 * np.pi),
    ):
        works = {
            "ours": lambda sites=sites, box=box: voronoi(take_rows(sites, radix_order(curve_keys(sites))), box),
            "scipy.spatial.Voronoi": lambda: Voronoi(centred),
            "shapely.voronoi_polygons": lambda: shapely.get_parts(shapely.voronoi_polygons(points)),
        }
        works["ours"]()  # kernels are loaded
        spent, last = in_turns(works, rounds)
        np.testing.assert_allclose(last["ours"].area.sum(), whole, rtol=1e-9)
        assert len(last["ours"].area) == len(last["scipy.spatial.Voronoi"].point_region)
        best = {name: min(times) for name, times in spent.items()}
        x, data = f"{kind}, {space}", f"{len(sites):,} sites of {kind}"
        yield point("ours", x, 1e6 * best["ours"] / len(sites), EACH, data=data)
        for name in ("scipy.spatial.Voronoi", "shapely.voronoi_polygons"):
            yield point(name, x, best[name] / best["ours"], TIMES, data=data)


def draw(results: Results) -> str:
    """Return a set and a space a row."""
    return grid(results, None, "sites", lambda y: f"{y:.2f}" if y < 2 else f"{y:.1f}")
