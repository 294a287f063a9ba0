"""Section 3.2 of the dissertation: local searches with and without the hierarchy of a partition.

Processor microseconds of one query by itself, at places beside objects and far from all of them, where objects are
uniform and where they are clustered. Without a hierarchy a search begins at whatever site comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import numpy as np

import dtoss
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.race import in_turns
from dtoss.index import Index

SIZES = {"smoke": (3_000, 50, 1), "here": (400_000, 2_000, 3), "full": (4_000_000, 10_000, 3)}
"""Objects, queries, turns of which the least counts."""
KS = (1, 8)
UNIT = "us a query"


def both(places: np.ndarray) -> dict[str, Index]:
    """Return an index with its hierarchies, and one without."""
    ids = np.arange(len(places))
    found = {"with": dtoss.build(ids, places, crs="none", partitions=4)}
    with patch("dtoss.building.construct._hierarchy", lambda sites, bounds, engine: ()):
        found["without"] = dtoss.build(ids, places, crs="none", partitions=4)
    return found


def one_by_one(index: Index, asked: np.ndarray, k: int) -> list[np.ndarray]:
    """Return the ids of the nearest of each place, a query at a time."""
    return [index.knn(place, k).id for place in asked]


def run(size: str) -> Iterator[Row]:
    """Yield microseconds a query; answers of both are compared."""
    count, queries, turns = SIZES[size]
    rng = np.random.default_rng(0)
    towns = rng.uniform(0, 1e5, (40, 2))
    for kind, places in {
        "uniform": rng.uniform(0, 1e5, (count, 2)),
        "clustered": towns[rng.integers(0, 40, count)] + rng.normal(0, 300, (count, 2)),
    }.items():
        indexes = both(places)
        for where, asked in {
            "near": places[rng.integers(0, count, queries)] + rng.normal(0, 1, (queries, 2)),
            "far": rng.uniform(0, 1e5, (queries, 2)),
        }.items():
            for k in KS:
                for index in indexes.values():
                    index.knn(asked[0], k)  # kernels are loaded
                works = {name: partial(one_by_one, index, asked, k) for name, index in indexes.items()}
                spent, answers = in_turns(works, turns)
                assert all(np.array_equal(*pair) for pair in zip(*answers.values(), strict=True))
                for name, seconds in spent.items():
                    us, x = 1e6 * min(seconds) / queries, f"{kind}, {where}, k = {k}"
                    yield point(name, x, us, UNIT, data=f"{count:,} made objects")


def draw(results: Results) -> str:
    """Return both beside each other."""
    return grid(results, UNIT, f"objects, places: {UNIT}", "{:.1f}")
