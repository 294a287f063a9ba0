"""Table 3.1 of the dissertation: how evenly pivots share out objects, for both ways of choosing them.

*spread* is 3.1.1, with S = 10 P and 250 P candidates, which are distinct sites here; *balanced* is what `dtoss rebuild`
does, with 6,000 sampled rows a partition. Sizes are shares of the mean one. All taxi rows of the folder named by
DTOSS_DATA; made hotspots without.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.experiments.results import Results, Row, markdown, point
from bench.measuring.points import missing, positions
from datasets.hotspots import hotspots
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import SAMPLE_PER_PARTITION, choose_pivots

SIZES = {
    "smoke": (20_000, (32,), 1),
    "here": (2_000_000, (32, 64, 96, 128), 5),
    "full": (8_339_836, (32, 64, 96, 128), 5),
}
WAYS = {"spread, S = 10 P": ("spread", 10), "spread, S = 250 P": ("spread", 250), "balanced": ("balanced", 0)}
UNITS = ("least, of the mean", "largest, of the mean", "deviation, of the mean")


def vectors_of(count: int) -> tuple[str, NDArray[np.float64]]:
    """Return what the set is called, and objects of it as unit vectors."""
    if missing("taxi"):
        made = np.concatenate([np.column_stack([b["lon"], b["lat"]]) for b in hotspots(count, seed=1, count=40)])
        return f"{count:,} objects of 40 hotspots", space_of().vectors(made)
    return f"Cabspotting, {count:,} rows", space_of().vectors(positions("taxi", count))


def run(size: str) -> Iterator[Row]:
    """Yield the least and the largest partition and the deviation, x is P."""
    count, partitions, seeds = SIZES[size]
    data, vectors = vectors_of(count)
    for many in partitions:
        for title, (method, sets) in WAYS.items():
            found = []
            for seed in range(seeds):
                most = min(SAMPLE_PER_PARTITION * many, len(vectors))
                sample = vectors[np.sort(np.random.default_rng(seed).choice(len(vectors), most, replace=False))]
                regions = choose_pivots(sample, many, method=method, seed=seed, candidates=sets)
                sizes = np.bincount(regions.nearest(vectors), minlength=len(regions))
                assert sizes.sum() == len(vectors)
                found.append(np.array([sizes.min(), sizes.max(), sizes.std()]) / sizes.mean())
            for unit, values in zip(UNITS, np.transpose(found), strict=True):
                yield point(title, many, values, unit, data=data)


def draw(results: Results) -> str:
    """Return all three of each way, a row for each number of partitions and way."""
    at = {(row.x, row.series, row.unit): row.y for row in results.rows}
    pairs = dict.fromkeys((row.x, row.series) for row in results.rows)
    return markdown(["P", "pivots", *UNITS], ([*one, *(f"{at[*one, unit]:.3f}" for unit in UNITS)] for one in pairs))
