"""Rows merged in memory beside building all anew: processor seconds of one thread, in turns, the least of each.

    python -m bench.with_updates [TURNS]

A fleet of 100 cities; those that report have gone on for ten seconds: some of all cities, all of one city, or all.
Prints the table of ``docs/benchmarks.md``. Answers of both are compared.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dtoss
from bench.measuring.race import in_turns
from datasets.fleet import fleet_at, make_fleet

SIZES = ((200_000, 16), (1_000_000, 64))


def moved_rows(before: pa.Table, after: pa.Table, rows: NDArray[np.int64]) -> tuple[pa.Table, pa.Table]:
    """Return the rows that report, and all rows once they have."""
    stays = np.setdiff1d(np.arange(len(before)), rows)
    return after.take(pa.array(rows)), pa.concat_tables([before.take(pa.array(stays)), after.take(pa.array(rows))])


def main() -> None:
    """Print a row for each size and each share that reports."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rng = np.random.default_rng(0)
    print("| objects, partitions | rows | merged, s | built, s | ratio |\n|---|---|---|---|---|")
    for count, partitions in SIZES:
        fleet = make_fleet(count, seed=1)
        before, after = (
            pa.Table.from_batches(list(fleet_at(fleet, at))).select(["id", "lon", "lat"]) for at in (3600.0, 3610.0)
        )
        index = dtoss.build(before, partitions=partitions, progress=False)
        near = np.argsort(degrees_from_first(before))
        whom = {
            "100 anywhere": rng.choice(count, 100, replace=False),
            f"{count // 100:,} of one place": near[: count // 100],
            f"{count // 100:,} anywhere": rng.choice(count, count // 100, replace=False),
            f"{count // 10:,} anywhere": rng.choice(count, count // 10, replace=False),
            "all": np.arange(count),
        }
        for name, rows in whom.items():
            some, whole = moved_rows(before, after, np.sort(rows))
            works = {
                "merged": partial(index.with_updates, some),
                "built": partial(dtoss.build, whole, partitions=partitions, progress=False),
            }
            spent, made = in_turns(works, turns)
            merged, built = (min(spent[way]) for way in works)
            places = rng.uniform([-180, -90], [180, 90], (200, 2))
            if made["merged"].knn(places, 8).id.tolist() != made["built"].knn(places, 8).id.tolist():
                raise SystemExit(f"{name} of {count:,}: answers differ")
            print(
                f"| {count:,}, {partitions} | {name} | {merged:.2f} | {built:.2f} | {merged / built:.2f} |", flush=True
            )


def degrees_from_first(rows: pa.Table) -> NDArray[np.float64]:
    """Return how far each row is from the first one, in degrees."""
    lon, lat = (np.asarray(rows[name]) for name in ("lon", "lat"))
    return np.hypot(lon - lon[0], lat - lat[0])


if __name__ == "__main__":
    main()
