"""What overload a plan must expect, as far as the days observed tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ceps.model.patterns import DAY
from ceps.model.variation import GRADES, Floats, Risk
from ceps.plan.plans import Plan

PRECISE = 1e7  # shape of a gamma variable from which on it is taken as normal: nothing tells them apart


def overload_risk(plan: Plan) -> Risk:
    """Grade a plan by the overload that the days to come make likely.

    A server's requests in a slot are its pattern times a level that all servers share (`Variation.levels`, of the
    slot's hour), and vary round it: by counting (Poisson, each event `requests_per_event` requests, in tomorrow and in
    the `days` that made the pattern), and by what is its own (`Variation.own`). The sum is taken as gamma. Where the
    plan holds no variation, counting is all. Growth, and days unlike any that were seen, are not in it. O(Q N T).
    """
    slots = plan.loads.shape[1]
    days = max(1, slots * plan.slot_seconds // DAY)
    requests = plan.loads * plan.slot_seconds
    total = float(requests.sum())
    if not len(plan) or total <= 0:
        return Risk(0.0, 0, -1, (0.0,) * days, ((0.0,) * days,) * len(plan))
    excess = over_levels(plan, _mean_excess)
    by_server = excess.reshape(len(plan), days, -1).sum(axis=2)
    asked = requests.reshape(len(plan), days, -1).sum(axis=2)
    by_day = by_server.sum(axis=0) / np.maximum(asked.sum(axis=0), 1e-300)
    shares = by_server / np.maximum(asked, 1e-300)
    grade = next(number for number, (_, below) in enumerate(GRADES) if by_day.max() < below)
    worst = int(plan.server_ids[by_server.sum(axis=1).argmax()])
    return Risk(float(excess.sum()) / total, grade, worst, tuple(by_day.tolist()), tuple(map(tuple, shares.tolist())))


def over_levels(plan: Plan, measure: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """Mean over the levels of what `measure` says of means, variances and limits of requests a slot, (N, T)."""
    requests = plan.loads * plan.slot_seconds
    limit = plan.capacity_by_slot * plan.slot_seconds
    levels, own = np.ones((1, 1)), np.zeros(len(plan))
    if plan.variation is not None:
        own = plan.variation.own
        levels = plan.variation.levels if len(plan.variation.levels) else levels
    hour = np.arange(requests.shape[1]) * plan.slot_seconds % DAY * levels.shape[1] // DAY
    # Tomorrow's events, each so many requests, and those that the pattern was made of.
    found = np.zeros_like(requests)
    for level in levels:
        mean = requests * level[hour]
        counting = mean + requests * (plan.requests_per_event / plan.days)
        found += measure(mean, counting + own[:, None] * mean**2, limit)
    return found / len(levels)


def shape_and_scale(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return those of gamma variables of these means and variances, arrays of any shape."""
    safe = np.where(variance > 0, variance, 1.0)
    return mean * mean / safe, safe / np.where(mean > 0, mean, 1.0)


def _mean_excess(mean: Floats, variance: Floats, limit: Floats) -> Floats:
    """Mean of what a gamma variable of this mean and variance exceeds `limit` by; a normal one where it is precise."""
    from scipy.special import gammaincc, gammaln, ndtr

    shape, scale = shape_and_scale(mean, variance)
    rough = np.minimum(np.maximum(shape, 1e-12), PRECISE)
    x = limit / scale
    above = gammaincc(rough, x)
    density = np.exp(rough * np.log(np.maximum(x, 1e-300)) - x - gammaln(rough + 1))
    gamma = mean * (above + density) - limit * above
    spread = np.sqrt(np.where(variance > 0, variance, 1.0))
    z = (limit - mean) / spread
    normal = spread * (np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi) - z * ndtr(-z))
    found = np.where(shape > PRECISE, normal, gamma)
    found = np.where((variance > 0) & (mean > 0), found, mean - limit)
    return np.maximum(found, 0.0)
