"""Overload risk: how much of tomorrow's requests a plan may fail to answer, by sampling noise alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ceps.plans import Plan

GRADES = (("very low", 1e-6), ("low", 1e-4), ("medium", 1e-3), ("high", 1e-2), ("very high", np.inf))
"""Names of the grades 0..4, and the share of requests above capacity below which each holds."""


@dataclass(frozen=True)
class Risk:
    """Expected overload of a plan.

    Parameters
    ----------
    overload
        Expected share of the requests above the servers' full capacity.
    grade
        0 (very low) to 4 (very high).
    worst_server
        Number of the server that contributes most; -1 without servers.
    """

    overload: float
    grade: int
    worst_server: int

    @property
    def name(self) -> str:
        """Name of the grade."""
        return GRADES[self.grade][0]


def overload_risk(plan: Plan) -> Risk:
    """Grade a plan by the overload that noise alone makes likely.

    Requests are taken as Poisson: tomorrow's number in a slot differs from the pattern's by its own noise and by that
    of the `days` from which the pattern was made, whose every event stands for `requests_per_event` requests. What
    changes people's habits is not in it: growth, weather, a holiday. Smoothing makes patterns surer than is assumed
    here. O(N T).
    """
    from scipy.special import ndtr

    requests = plan.loads * plan.slot_seconds
    limit = plan.capacity[:, None] * plan.slot_seconds
    spread = np.sqrt(requests * (1 + plan.requests_per_event / plan.days))
    safe = np.where(spread > 0, spread, 1.0)
    z = (limit - requests) / safe
    # Mean of what a normal variable exceeds its limit by.
    excess = spread * (np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) - z * ndtr(-z))
    excess = np.maximum(excess, 0.0)
    total = float(requests.sum())
    if not len(plan) or total <= 0:
        return Risk(0.0, 0, -1)
    share = float(excess.sum()) / total
    grade = next(number for number, (_, below) in enumerate(GRADES) if share < below)
    return Risk(share, grade, int(plan.server_ids[excess.sum(axis=1).argmax()]))
