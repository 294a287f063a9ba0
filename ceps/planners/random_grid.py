"""GP-R: many small partitions, dealt out to servers at random."""

from __future__ import annotations

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import Outcome, Problem, Progress, price
from ceps.planners.grid import load_in_units


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
