"""AHR that works, and tabu: merge by gain, then dissolve clusters until the cheapest fleet holds everything."""

from __future__ import annotations

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import Outcome, Problem, Progress, price
from ceps.planners.ahr import agglomerate
from ceps.planners.fleet_first import cheaper, search_fleets


def gain_and_dissolve(
    problem: Problem, rng: np.random.Generator, effort: Effort, progress: Progress | None = None
) -> Outcome:
    """Clusters of gain-AHR for the largest type, packed onto the cheapest fleet that takes them.

    The emptiest clusters are dissolved and their items placed anew, then tabu search makes them fit, as in
    `search_fleets`.
    """
    if not len(problem):
        return price(problem, np.empty(0, dtype=np.int64))
    largest = int(np.argmax(problem.rates))
    labels = agglomerate(problem, largest, "gain")
    clustered = price(problem, labels)
    return cheaper(search_fleets(problem, labels, rng, effort, progress), clustered)
