"""The dissertation's table 3.1: how evenly pivots share out objects, for both ways of choosing them.

``python -m bench.pivots`` prints, for P partitions, the smallest and the largest of them and the standard deviation,
as shares of the mean: ``spread`` with S = 10 P and 250 P candidates, ``balanced`` with 6,000 sampled rows a partition;
and the seconds that pivots and lambda took. All taxi rows of the folder named by DTOSS_DATA; made hotspots without.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA, FILES, missing
from dtoss.building.reach import choose_reach
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import SAMPLE_PER_PARTITION, choose_pivots
from dtoss.partitioning.regions import Regions

PARTITIONS = (32, 64, 96, 128)
SEEDS = 5


def objects(name: str) -> NDArray[np.float64]:
    """Return all objects of a set as unit vectors."""
    if name == "taxi":
        table = pq.read_table(DATA / FILES["taxi"], columns=["lon", "lat"])
    else:
        from datasets.hotspots import hotspots

        table = pa.Table.from_batches(list(hotspots(1_000_000, seed=1, count=40)))
    return space_of().vectors(np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()]))


def balance(vectors: NDArray[np.float64], regions: Regions) -> NDArray[np.float64]:
    """Return the least and the greatest partition and the standard deviation, as shares of the mean."""
    sizes = np.bincount(regions.nearest(vectors), minlength=len(regions))
    return np.array([sizes.min(), sizes.max(), sizes.std()]) / sizes.mean()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=["taxi", "hotspots"], default="hotspots" if missing("taxi") else "taxi")
    options = parser.parse_args()
    vectors = objects(options.set)
    print(f"{options.set}, {len(vectors):,} objects; means of {SEEDS} seeds")
    print("|   P | pivots               |   min |   max |    sd | pivots, s | lambda, s |")
    print("|-----|----------------------|-------|-------|-------|-----------|-----------|")
    for partitions in PARTITIONS:
        for title, method, sets in (
            ("spread, S = 10 P", "spread", 10),
            ("spread, S = 250 P", "spread", 250),
            ("balanced", "balanced", 0),
        ):
            rows, pivot_seconds, reach_seconds = [], [], []
            for seed in range(SEEDS):
                most = min(SAMPLE_PER_PARTITION * partitions, len(vectors))
                sample = vectors[np.sort(np.random.default_rng(seed).choice(len(vectors), most, replace=False))]
                begin = time.process_time()
                regions = choose_pivots(sample, partitions, method=method, seed=seed, candidates=sets)
                pivot_seconds.append(time.process_time() - begin)
                begin = time.process_time()
                choose_reach(sample, len(vectors), regions)
                reach_seconds.append(time.process_time() - begin)
                rows.append(balance(vectors, regions))
            least, greatest, deviation = np.mean(rows, axis=0)
            print(
                f"| {partitions:3} | {title:20} | {least:5.3f} | {greatest:5.3f} | {deviation:5.1%} "
                f"| {np.median(pivot_seconds):9.2f} | {np.median(reach_seconds):9.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
