"""G1, G8 and G9 on real check-ins, where they are (DTOSS_DATA names the folder): bounds, held-out halves, hourly types.

python -m bench.ceps.real

Exits with 1 and the names of the goals that are missed.
"""

from __future__ import annotations

import numpy as np

import ceps
from bench.ceps.instances import catalogue
from bench.measuring.points import accesses_of
from bench.measuring.verdicts import Goals
from datasets.workloads import kd_leaves

PEAK = 12_400.0  # requests/s that the busiest slot is scaled to


def folded(leaf: np.ndarray, second: np.ndarray, rows: np.ndarray | slice = slice(None)) -> ceps.Patterns:
    """All days on one day, each slot the mean of half an hour, scaled to the peak."""
    loads = np.zeros((int(leaf.max()) + 1, 288))
    np.add.at(loads, (leaf[rows], second[rows] % 86_400 // 300), 1.0)
    made = ceps.Patterns(loads=loads).smoothed(1800)
    return made.scaled(PEAK / made.peak)


def main() -> None:
    types, goals = catalogue(), Goals()
    print(f"check-ins folded on one day, means of half an hour, peak {PEAK:g} requests/s, four m3 types")
    for name in ("gowalla_checkins", "gowalla_weekpattern", "brightkite_checkins"):
        lonlat, second = accesses_of(name)
        for partitions in (500, 1000):
            leaf = kd_leaves(lonlat, partitions)
            given = folded(leaf, second)
            made = ceps.plan(given, None, types, utilisation=1.0)
            hourly = ceps.schedule(given, None, types, utilisation=1.0)
            title = f"{name}, P = {len(given)}"
            ratio = hourly.cost_per_day / made.lower_bound
            exact = goals.ask(f"G1, {title}", made.gap, most=1)
            dynamic = goals.ask(f"G9, {title}", ratio, most=0.85) if name == "gowalla_weekpattern" else "(no goal)"
            print(
                f"  {name:19s} P={len(given):4d} u=1.0: cost over bound {made.gap:.3f} {exact}; hourly types "
                f"{ratio:.2f} of the bound {dynamic}, "
                f"{hourly.extras['resizes']:.0f} resizes a day",
                flush=True,
            )
    print("G8: planned on a random half of the check-ins, met by the other half, 200 partitions, ten halves")
    kept: list[float] = []
    for name in ("gowalla_checkins", "gowalla_weekpattern"):
        lonlat, second = accesses_of(name)
        leaf = kd_leaves(lonlat, 200)
        for target in (1.0, 0.9, 0.8):
            rows = [_halves(leaf, second, target, seed) for seed in range(10)]
            peak, over, cost = np.array(rows).T
            aim = ""
            if target == 0.9:
                kept += over.tolist()
                aim = goals.ask(f"G8, {name}, cost against u = 1.0, %", 100 * float(cost.mean() - 1), most=8)
            print(
                f"  {name:19s} u={target}: worst peak {peak.max():.3f} of capacity, overload mean "
                f"{100 * over.mean():.4f} most {100 * over.max():.4f} %, none in {(over == 0).sum()} of 10, "
                f"cost {100 * (cost.mean() - 1):+.1f} % against u=1.0 {aim}",
                flush=True,
            )
    clean, most = sum(over == 0 for over in kept), 100 * max(kept)
    print(
        f"  u=0.9: no overload in {clean} of 20 halves {goals.ask('G8, halves without overload', clean, least=19)}, "
        f"{most:.4f} % at most {goals.ask('G8, overload, %', most, most=0.003)}"
    )
    goals.end()


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
