"""G1, G8 and G9 on real check-ins, where they are (DTOSS_DATA names the folder): bounds, held-out halves, hourly types.

python -m bench.ceps.real
"""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq

import ceps
from bench.ceps.instances import catalogue
from bench.measuring.points import DATA
from datasets.workloads import kd_leaves

PEAK = 12_400.0  # requests/s that the busiest slot is scaled to


def events(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Places (n, 2) and the second of the UTC day (n,) of check-ins."""
    table = pq.read_table(DATA / f"{name}.parquet", columns=["t", "lon", "lat"])
    lonlat = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])
    return lonlat, table["t"].to_numpy().astype("datetime64[s]").astype(np.int64) % 86_400


def folded(leaf: np.ndarray, second: np.ndarray, rows: np.ndarray | slice = slice(None)) -> ceps.Patterns:
    """All days on one day, each slot the mean of half an hour, scaled to the peak."""
    loads = np.zeros((int(leaf.max()) + 1, 288))
    np.add.at(loads, (leaf[rows], second[rows] // 300), 1.0)
    made = ceps.Patterns(loads=loads).smoothed(1800)
    return made.scaled(PEAK / made.peak)


def main() -> None:
    types = catalogue()
    print(f"check-ins folded on one day, means of half an hour, peak {PEAK:g} requests/s, four m3 types")
    for name in ("gowalla_checkins", "gowalla_weekpattern", "brightkite_checkins"):
        lonlat, second = events(name)
        for partitions in (500, 1000):
            leaf = kd_leaves(lonlat, partitions)
            given = folded(leaf, second)
            made = ceps.plan(given, None, types, utilisation=1.0)
            hourly = ceps.schedule(given, None, types, utilisation=1.0)
            print(
                f"  {name:19s} P={len(given):4d} u=1.0: cost over bound {made.gap:.3f} (G1: 1); hourly types "
                f"{hourly.cost_per_day / made.lower_bound:.2f} of the bound (G9: 0.85), "
                f"{hourly.extras['resizes']:.0f} resizes a day",
                flush=True,
            )
    print("G8: planned on a random half of the check-ins, met by the other half, 200 partitions, five halves")
    for name in ("gowalla_checkins", "gowalla_weekpattern"):
        lonlat, second = events(name)
        leaf = kd_leaves(lonlat, 200)
        for target in (1.0, 0.9, 0.8):
            rows = [_halves(leaf, second, target, seed) for seed in range(5)]
            peak, over, cost = np.array(rows).T
            print(
                f"  {name:19s} u={target}: worst peak {peak.max():.3f} of capacity, overload mean "
                f"{100 * over.mean():.4f} most {100 * over.max():.4f} %, none in {(over == 0).sum()} of 5 "
                f"(G8: 0 at 0.9), cost {100 * (cost.mean() - 1):+.1f} % against u=1.0 (G8: +8 at 0.9)",
                flush=True,
            )


def _halves(leaf: np.ndarray, second: np.ndarray, target: float, seed: int) -> tuple[float, float, float]:
    half = np.random.default_rng(seed).random(len(leaf)) < 0.5
    first, other = folded(leaf, second, half), folded(leaf, second, ~half)
    made = ceps.plan(first, None, catalogue(), utilisation=target)
    full = ceps.plan(first, None, catalogue(), utilisation=1.0)
    loads = np.zeros_like(made.loads)
    # The other half is scaled to as many requests a day, not to the same peak.
    np.add.at(loads, made.server_of, other.loads * (first.loads.sum() / other.loads.sum()))
    over = np.maximum(loads - made.capacity[:, None], 0).sum() / loads.sum()
    return float((loads / made.capacity[:, None]).max()), float(over), made.cost_per_day / full.cost_per_day


if __name__ == "__main__":
    main()
