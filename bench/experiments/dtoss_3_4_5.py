"""Section 3.4.5 of the dissertation: wrong cells and data moved, with random partitions and with spatial ones.

A cell is wrong where its partition alone gives it another area than all sites do. With one lambda for all partitions
5 % of the sites are copied; `dtoss rebuild` chooses lambdas by their cost, and fixes all that is left. What moves
between random partitions is counted twice: *neighbours only*, the least that any way has to send, a site once to each
partition where it has a Voronoi neighbour; and *asked for*, as 3.1.3 has it, all sites that lie in a triangle of
another partition's diagram, whose circles are influence regions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

import dtoss
from bench.experiments.results import Results, Row, markdown, point
from bench.measuring.points import FILES, lonlat_of, missing
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.geometry.space import space_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.pivots import choose_pivots
from dtoss.partitioning.regions import Regions

SIZES = {
    "smoke": (2_000, (4,), ("made",), 2_000),
    "here": (200_000, (16, 64, 128), tuple(FILES), 50_000),
    "full": (10_000_000, (16, 64, 128), tuple(FILES), 1_000_000),
}
"""Rows of a set at most, partitions, sets, and rows of which what moves is counted at most."""
COPIED = 0.05
CERTIFIED, COPIES, WRONG, MOVED = "cells certified at once", "copies", "wrong cells", "times all sites"
REACH = "lambda, median m"

Floats = NDArray[np.float64]


def some_of(name: str, most: int) -> Floats | None:
    """Return rows of a set in random order, at most so many; None where it is missing."""
    rng = np.random.default_rng(0)
    if name == "made":
        return rng.normal([-122.4, 37.8], 0.1, (most, 2))
    if missing(name):
        return None
    lonlat = lonlat_of(name)
    return lonlat[rng.permutation(len(lonlat))[:most]]


def run(size: str) -> Iterator[Row]:
    """Yield shares of cells and copies, x is the set and the number of partitions."""
    most, counts, names, few = SIZES[size]
    for name in names:
        lonlat = some_of(name, most)
        if lonlat is None:
            continue
        for partitions in counts:
            x, data = f"{name}, {partitions}", f"{name}, {len(lonlat):,} rows"
            index = dtoss.build(np.arange(len(lonlat)), lonlat, partitions=partitions)
            left = sum(len(part.uncertified) for part in index.parts.all())
            copies = sum(len(part.positions) - part.owned_objects for part in index.parts.all())
            known = index.reach[np.isfinite(index.reach)] * EARTH_RADIUS
            yield point("dtoss", x, 1 - left / index.sites, CERTIFIED, data=data)
            yield point("dtoss", x, copies / len(lonlat), COPIES)
            yield point("dtoss", x, float(np.median(known)), REACH)
            for title, (wrong, copied) in shares(lonlat, partitions).items():
                yield point(title, x, wrong, WRONG)
                yield point(title, x, copied, COPIES)
            for title, times in moved(lonlat[:few], partitions).items():
                yield point(title, x, times, MOVED)


def shares(lonlat: Floats, partitions: int) -> dict[str, tuple[float, float]]:
    """Return the shares of wrong cells and of copies with random partitions, spatial ones, and such with 5 % copied."""
    sites = np.unique(space_of().vectors(lonlat), axis=0)
    sites = np.ascontiguousarray(sites[radix_order(curve_keys(sites))])
    whole = voronoi(sites, threads=2).area
    regions = choose_pivots(sites, partitions)
    home = np.random.default_rng(1).integers(0, partitions, len(sites))
    drawn = [(home == number, home == number) for number in range(partitions)]
    found = {"random": (_wrong(sites, whole, drawn), 0.0)}
    for title, reach in (("spatial", 0.0), ("spatial, 5 % copied", _reach_that_copies(sites, regions))):
        sent = assign(sites, regions, np.full(len(regions), reach))
        parts = []
        for number in range(len(regions)):
            own = sent.home == number
            known = own.copy()
            known[sent.row[sent.partition == number]] = True
            parts.append((own, known))
        found[title] = (_wrong(sites, whole, parts), len(sent.row) / len(sites))
    return found


def _reach_that_copies(sites: Floats, regions: Regions) -> float:
    """Return the lambda that copies so large a share of all sites."""
    low, high = 0.0, 0.1
    for _ in range(40):
        middle = 0.5 * (low + high)
        many = len(assign(sites, regions, np.full(len(regions), middle)).row) > COPIED * len(sites)
        low, high = (low, middle) if many else (middle, high)
    return low


def _wrong(sites: Floats, whole: Floats, parts: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> float:
    """Return the share of cells that are wrong, of partitions as masks of what they own and of what they know."""
    wrong = 0
    for own, known in parts:
        if own.any():
            area = voronoi(np.ascontiguousarray(sites[known])).area[own[known]]
            wrong += int((np.abs(area / whole[own] - 1.0) > 1e-9).sum())
    return wrong / len(sites)


def moved(lonlat: Floats, partitions: int) -> dict[str, float]:
    """Return how many times all sites travel where partitions are drawn at random, in the plane of their degrees."""
    sites = np.unique(lonlat, axis=0)
    home = np.random.default_rng(1).integers(0, partitions, len(sites))
    triangles = Delaunay(sites).simplices
    pairs = np.concatenate([triangles[:, [a, b]] for a in range(3) for b in range(3) if a != b])
    away = pairs[home[pairs[:, 0]] != home[pairs[:, 1]]]
    least = len(np.unique(away[:, 0] * partitions + home[away[:, 1]]))
    asked = 0
    for number in range(partitions):
        mine = home == number
        if mine.sum() >= 3:
            asked += int((Delaunay(sites[mine]).find_simplex(sites[~mine]) >= 0).sum())
    return {"neighbours only": least / len(sites), "asked for": asked / len(sites)}


def draw(results: Results) -> str:
    """Return a row a set and number of partitions."""
    at = {(row.x, row.series, row.unit): row.y for row in results.rows}
    columns = {
        ("dtoss", REACH): "lambda, median m",
        ("dtoss", COPIES): "copies",
        ("dtoss", CERTIFIED): "certified at once",
        ("random", WRONG): "wrong: random partitions",
        ("spatial", WRONG): "spatial",
        ("spatial, 5 % copied", WRONG): "5 % copied",
        ("neighbours only", MOVED): "moved: neighbours only",
        ("asked for", MOVED): "asked for",
    }
    rows = [
        [
            x,
            *(
                f"{at[x, series, unit]:.1f}" if unit in (REACH, MOVED) else f"{at[x, series, unit]:.2%}"
                for series, unit in columns
            ),
        ]
        for x in dict.fromkeys(row.x for row in results.rows)
    ]
    return markdown(["set, partitions", *columns.values()], rows)
