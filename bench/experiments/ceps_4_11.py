"""Figures 4.11 and 4.12 of the dissertation: bytes that keeping a plan up to date moves (P = 500, mediums, u = 1.0).

Objects are inserted, into partitions that are drawn by Zipf's law with an exponent of 0 to 1 (*skew*), or move by up to
100 miles. *algorithm 4.3* is called for splits and overload, *each changed* for all changed partitions, as the chapter
has it; *repair* is what `dtoss plan --previous` does; *planned afresh* is compared by shared bytes. What moves by
itself counts with each of them. *drift* is a month of patterns that change day by day, up by 40 % and back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import ceps
from bench.ceps.changes import SIZE, first_plan, one_change, world
from bench.ceps.instances import mediums
from bench.experiments.results import Results, Row, grid, point

SIZES = {
    "smoke": (("gow",), (0.01,), (0.0,), 1, 2, 50),
    "here": (("gow",), (0.01, 0.05, 0.1), (0.0, 0.5, 1.0), 2, 30, 500),
    "full": (("gow", "cos-s hs100"), (0.01, 0.05, 0.1), (0.0, 0.5, 1.0), 3, 30, 500),
}
"""Workloads, shares of the objects that change, skews, seeds, days of drift, partitions."""
WAYS = {"written": "algorithm 4.3", "every": "each changed", "repair": "repair", "replan": "planned afresh"}
MOVED, SERVERS, A_DAY = "of all bytes moved", "servers over the bound", "of all bytes moved a day"


def run(size: str) -> Iterator[Row]:
    """Yield shares of the bytes, x is what changes, the workload, how much of it, and the skew."""
    names, shares, skews, seeds, days, partitions = SIZES[size]
    for kind in ("insert", "update"):
        for name in names:
            for share in shares:
                for skew in skews:
                    runs = [one_change(name, kind, share, skew, seed, partitions) for seed in range(seeds)]
                    x = f"{kind}, {name}, {share:.0%}, skew {skew:g}"
                    forced = [one.forced for one in runs]
                    yield point("by itself", x, forced, MOVED, data="Gowalla's places and cities, 200,000 objects")
                    for way, title in WAYS.items():
                        yield point(title, x, [one.moved[way] + one.forced for one in runs], MOVED)
                        yield point(title, x, [one.servers[way] for one in runs], SERVERS)
    yield from drift(seeds, days, partitions)


def drift(seeds: int, days: int, partitions: int) -> Iterator[Row]:
    """Yield what repairs cost and move while patterns change by 2 to 10 % a day."""
    moved, ratio = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(500 + seed)
        before = world("gow", partitions, 12.4, seed)
        made = first_plan(before, seed)
        factor = np.ones(partitions)
        step = rng.uniform(0.02, 0.10, partitions)
        for day in range(1, days + 1):
            factor *= np.exp(step * rng.standard_normal(partitions))
            level = 1 + 0.4 * (1 - abs(day - days / 2) / (days / 2))
            loads = before.loads * factor[:, None]
            loads *= 12_400 * level / loads.sum(axis=0).max()
            today = ceps.Patterns(loads=loads, sizes=before.counts * SIZE)
            budget = 0.1 * float(today.sizes.sum())
            following = ceps.plan(today, None, mediums(), 0, 1.0, previous=made, move_budget=budget)
            moved.append(ceps.diff(following, made).share_moved)
            ratio.append(following.gap)
            made = following
    assert min(ratio) >= 1 - 1e-9
    yield point("drift, repaired", f"{days} days", moved, A_DAY)
    yield point("drift, repaired", f"{days} days", ratio, SERVERS)


def draw(results: Results) -> str:
    """Return bytes by what changes; in words what would be one row each."""
    said = {unit: [row.y for row in results.rows if row.unit == unit] for unit in (SERVERS, A_DAY)}
    tail = f"Servers are {max(said[SERVERS]):.3f} of the bound at the most, and drift moves {said[A_DAY][0]:.2%} a day."
    return grid(results, MOVED, f"change: {MOVED}", "{:.1%}") + f"\n\n{tail}"
