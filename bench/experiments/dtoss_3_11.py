"""Figure 3.11 of the dissertation: the time to build by the number of objects, uniform in the plane, in one part."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import numpy as np

import dtoss
from bench.experiments.results import Results, Row, grid, point

COUNTS = (100_000, 200_000, 300_000, 400_000, 500_000)
SIZES = {"smoke": ((1_000, 2_000), 1), "here": (COUNTS, 3), "full": (COUNTS, 9)}
"""Objects, and turns of which the least counts."""
UNIT = "processor us an object"


def run(size: str) -> Iterator[Row]:
    """Yield processor microseconds an object, x is how many there are."""
    counts, turns = SIZES[size]
    places = np.random.default_rng(0).uniform(0, 1e9, (counts[-1], 2))
    dtoss.build(np.arange(100), places[:100], crs="none")  # kernels are loaded
    for count in counts:
        spent = []
        for _ in range(turns):
            began = process_time()
            index = dtoss.build(np.arange(count), places[:count], crs="none")
            spent.append(process_time() - began)
        assert index.sites == count
        yield point("build", count, 1e6 * min(spent) / count, UNIT, data="uniform objects in the plane")


def draw(results: Results) -> str:
    """Return them by the number of objects."""
    return grid(results, UNIT, "objects", "{:.2f}")
