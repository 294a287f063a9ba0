"""GP and GP-R: a cell of the map a server, whatever it is asked for; or many small cells, dealt out at random."""

from __future__ import annotations

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import Ints, Outcome, Problem, Progress, price


def grid(
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    cells: int | None = None,
) -> Outcome:
    """One server for each of `cells` cells with equally many bytes, each of the cheapest type that holds it.

    Extras: `cells`; and when `cells` is not given `typical` and `typical_servers`, the mean cost and number of servers
    for one to two cells a unit of load. ``problem``, ``rng``, ``effort``, ``progress``: as every planner; nothing here
    is random, and `effort` counts only by its deadline.
    """
    if cells is not None:
        return price(problem, kd_cells(problem, cells), cells=cells)
    units = load_in_units(problem)
    found: dict[int, Outcome] = {}
    for g in _counts(problem, 3 * units):
        if effort.over and any(np.isfinite(outcome.cost_per_day) for outcome in found.values()):
            break
        found[g] = price(problem, kd_cells(problem, g))
    best = min(found, key=lambda g: (found[g].cost_per_day, g))
    usual = [g for g in found if units <= g <= 2 * units] or [best]
    extras = {
        "cells": best,
        "typical": float(np.mean([found[g].cost_per_day for g in usual])),
        "typical_servers": float(np.mean([len(found[g].type_of) for g in usual])),
    }
    return Outcome(found[best].labels, found[best].type_of, found[best].cost_per_day, extras)


def load_in_units(problem: Problem) -> int:
    """Peak of the total load in servers of the smallest type, rounded up; at least 1."""
    return max(1, int(np.ceil(problem.need[0] / problem.rates.min() - 1e-9)))


def _counts(problem: Problem, most: int) -> range:
    return range(1, max(2, min(most, len(problem))) + 1)


def kd_cells(problem: Problem, cells: int) -> Ints:
    """int64 (M,), the cell of each item when the map is halved again and again into `cells` equal parts by bytes.

    Each cut goes across the longer side. Fewer cells come out where there are fewer items. O(M log M log cells).
    """
    if problem.positions is None:
        raise ValueError("grid partitioning needs positions of the partitions: give Patterns positions (lon, lat)")
    if cells < 1:
        raise ValueError(f"cells = {cells}; it must be 1 or more")
    weight = problem.bytes if problem.bytes.any() else np.ones(len(problem))
    labels = np.zeros(len(problem), dtype=np.int64)
    stack = [(np.arange(len(problem)), cells)]
    done = 0
    while stack:
        members, parts = stack.pop()
        parts = min(parts, len(members))
        if parts <= 1:
            labels[members] = done
            done += 1
            continue
        where = problem.positions[members]
        axis = int(np.ptp(where[:, 1]) > np.ptp(where[:, 0]))
        order = np.lexsort((members, where[:, axis]))
        share = np.cumsum(weight[members][order])
        low = parts // 2
        cut = int(np.searchsorted(share, share[-1] * low / parts, side="left")) + 1
        cut = min(max(cut, low), len(members) - (parts - low))
        stack.append((members[order[cut:]], parts - low))
        stack.append((members[order[:cut]], low))
    return labels


def random_grid(
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    cells: int | None = None,
) -> Outcome:
    """Items on `cells` servers at random, each server of the cheapest type that holds it.

    Extras: `cells`; and `typical`, the mean cost for one to two servers a unit of load, without `cells`.
    """
    if cells is not None:
        return price(problem, rng.integers(cells, size=len(problem)), cells=cells)
    units = load_in_units(problem)
    found: dict[int, Outcome] = {}
    for k in range(1, max(1, min(2 * units, len(problem))) + 1):  # more servers than items stand empty
        if effort.over and any(np.isfinite(outcome.cost_per_day) for outcome in found.values()):
            break
        found[k] = price(problem, rng.integers(k, size=len(problem)))
    best = min(found, key=lambda k: (found[k].cost_per_day, k))
    typical = [found[k].cost_per_day for k in found if k >= units] or [found[best].cost_per_day]
    extras = {"cells": best, "typical": float(np.mean(typical))}
    return Outcome(found[best].labels, found[best].type_of, found[best].cost_per_day, extras)
