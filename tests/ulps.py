"""Worlds of sites an ulp or a few apart on the sphere, areas and neighbours held against exact arithmetic.

All cells reach the far side of the Earth there, sites lie on one line by chance, and of borders between them only the
last digits are left: what the kernels do with numbers shows nowhere else as much.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows
from tests import oracles, worlds

STARTS = [[13.4, 52.5], [0.0, 0.0], [-170.0, -33.0], [100.0, 89.9], [1e-3, 1e-3], [45.0, 35.26], [180.0, -60.0]]
SHORTEST = 1e-9
"""Radians from which on an edge counts."""
CROWD = 8
"""Ulps between sites up to which all neighbours are those of exact arithmetic."""
MOST = 1e-11
"""Steradians by which an area may differ: some 300 roundings of a unit vector each for a hundred borders."""


def places(seed: int) -> tuple[NDArray[np.float64], int, float]:
    """Return positions (n, 2) on a lattice, now and then one far away, a number of partitions, and its ulps a step."""
    rng = np.random.default_rng([5, seed])
    n, width = int(rng.choice([2, 3, 4, 5, 6, 8, 13])), int(rng.choice([1, 3, 6]))
    start, step = np.array(STARTS[int(rng.integers(len(STARTS)))]), float(rng.choice([1, 1, 1, 2, 8, 64, 1000]))
    ulp = np.maximum(np.spacing(np.abs(start)), 1e-15)
    positions = start + rng.integers(-width, width + 1, (n, 2)) * ulp * step
    if rng.random() < 0.3:
        positions[0] = [rng.uniform(-180, 180), rng.uniform(-90, 90)]
    return worlds.legal(positions), int(rng.integers(1, 9)), step


def differences(seed: int) -> list[str]:
    """Return where areas or neighbours are not the exact ones of the sites as they stand: stored, and of indices."""
    positions, partitions, step = places(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lon and lat look swapped")  # by chance
        indices = [dtoss.build(np.arange(len(positions)), positions, partitions=count) for count in {1, partitions}]
    lowest: dict[tuple[float, ...], Any] = {}
    for i, vector in enumerate(indices[0].space.vectors(positions).tolist()):
        lowest.setdefault(tuple(vector), i)
    sites = np.array(list(lowest))
    exact, edges = oracles.exact_cells(sites)
    names = list(lowest.values())
    true = {(names[i], names[j]) for (i, j), length in edges.items() if length > SHORTEST}
    order = radix_order(curve_keys(sites))
    stored = np.empty(len(sites))
    stored[order] = voronoi(take_rows(sites, order), None).area
    found = {"stored": stored}
    for index in indices:
        found[f"{len(index.parts)} partitions"] = np.array([index.area(i) for i in lowest.values()]) / EARTH_RADIUS**2
    wrong = []
    listed = [{(i, j) for i in names for j in index.neighbours(i).tolist()} for index in indices]
    if any(pairs != listed[0] or pairs != {(j, i) for i, j in pairs} for pairs in listed):
        wrong.append(f"{seed}: neighbours depend on the number of partitions, or on the end that is asked")
    if step <= CROWD and listed[0] != true:
        wrong.append(f"{seed}: {sorted(true - listed[0])} are no neighbours, {sorted(listed[0] - true)} are")
    for who, area in found.items():
        worst = int(np.argmax(np.abs(area - exact)))
        if not abs(area[worst] - exact[worst]) <= MOST:
            wrong.append(f"{seed}, {who}: site {worst} has {area[worst]!r} sr, in truth {exact[worst]!r}")
        if not abs(area.sum() - 4 * np.pi) <= MOST:
            wrong.append(f"{seed}, {who}: {area.sum() / (4 * np.pi)!r} of the whole")
    return wrong
