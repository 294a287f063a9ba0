"""Does the risk that a plan states come true? Planned on the first 60 % of the days, counted on the rest.

python -m bench.ceps.risk [--partitions 200] [--units 10 20 40]

Real accesses, where they are (DTOSS_DATA names the folder): check-ins of Gowalla and Brightkite in the weeks that have
at least half of the usual number, taxis' positions in San Francisco, and Uber's pick-ups in New York. Every access is a
request, slots have half an hour. Exits with 1 and the names of the goals that are missed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import ceps
from bench.ceps.instances import catalogue
from bench.measuring.points import accesses_of
from bench.measuring.verdicts import Goals
from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.patterns import DAY
from ceps.model.problem import build_problem
from ceps.model.variation import variation_of
from ceps.plan.overload import PRECISE, over_levels, shape_and_scale
from ceps.plan.plans import Plan
from datasets.workloads import kd_leaves

SETS = {"gowalla_checkins": 0, "brightkite_checkins": 0, "cabspotting_sf": -7, "uber_nyc_apr_may_2014": -4}
"""Hours from UTC to the local day."""
SLOT, SLOTS, HOURS = 1800, 48, 24
TRAINED = 0.6
FACTOR, TINY, FEW = 3.0, 1e-4, 5
LATE = 1e-3
"""Share of the requests above capacity on the worst weekday that a default plan is to keep."""
DEARER = 1.15


def counts(name: str, partitions: int) -> tuple[np.ndarray, np.ndarray]:
    """Requests by day, partition and slot, and the weekday of each day."""
    lonlat, second = accesses_of(name)
    second = second + 3600 * SETS[name]
    day = second // 86_400
    if name.endswith("checkins"):
        week = (day - day.min()) // 7
        busy = np.bincount(week) >= 0.5 * np.quantile(np.bincount(week), 0.75)
        edges = np.flatnonzero(np.diff(np.r_[False, busy, False]))
        begin, end = max(edges.reshape(-1, 2).tolist(), key=lambda run: run[1] - run[0])
        kept = (week >= begin) & (week < end)
        lonlat, second, day = lonlat[kept], second[kept], day[kept]
    leaf = kd_leaves(lonlat, partitions)
    first = day.min()
    found = np.zeros((int(day.max() - first) + 1, int(leaf.max()) + 1, SLOTS))
    np.add.at(found, (day - first, leaf, second % 86_400 // SLOT), 1.0)
    return found, (np.arange(len(found)) + first + 3) % 7


def learned(seen: np.ndarray, weekday: np.ndarray) -> tuple[ceps.Patterns, ceps.Patterns]:
    """The week and the mean day, with how days differ from the week."""
    observed = np.bincount(weekday, minlength=7)
    by_day = np.stack([seen[weekday == d].mean(axis=0) if observed[d] else seen.mean(axis=0) for d in range(7)])
    hourly = seen.reshape(*seen.shape[:2], HOURS, -1).sum(axis=3)
    mean = by_day.reshape(7, seen.shape[1], HOURS, -1).sum(axis=3)[weekday]
    freedom = (observed / np.maximum(observed - 1, 1))[weekday]
    away = ((hourly - mean) ** 2 * freedom[:, None, None])[freedom > 1].sum(axis=(0, 2))
    known = mean[freedom > 1]
    variation = variation_of(
        hourly.sum(axis=1), mean.sum(axis=1), freedom, away, known.sum(axis=(0, 2)), (known**2).sum(axis=(0, 2))
    )
    loads = by_day.transpose(1, 0, 2).reshape(seen.shape[1], -1) / SLOT
    week = ceps.Patterns(loads, slot_seconds=SLOT, days=float(observed.min()), variation=variation)
    whole = ceps.Patterns(seen.mean(axis=0) / SLOT, slot_seconds=SLOT, days=float(len(seen)), variation=variation)
    return week, whole


def asked(plan: Plan, rest: np.ndarray) -> np.ndarray:
    """Requests to each server by day and slot, (days, N, slots)."""
    found = np.zeros((len(rest), len(plan), SLOTS))
    for server in range(len(plan)):
        found[:, server] = rest[:, plan.server_of == server].sum(axis=1)
    return found


def chance_above(mean: np.ndarray, variance: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Chance that a gamma variable of this mean and variance is above `limit`; a normal one where it is precise."""
    from scipy.special import gammaincc, ndtr

    shape, scale = shape_and_scale(mean, variance)
    gamma = gammaincc(np.minimum(np.maximum(shape, 1e-12), PRECISE), limit / scale)
    normal = ndtr(-(limit - mean) / np.sqrt(np.where(variance > 0, variance, 1.0)))
    found = np.where(shape > PRECISE, normal, gamma)
    return np.where((variance > 0) & (mean > 0), found, mean > limit)


def agreement(plan: Plan, rest: np.ndarray, weekday: np.ndarray) -> tuple[int, int, int]:
    """Server-weekdays, those whose stated risk is within the factor, and those where both are next to nothing."""
    limit = plan.capacity * SLOT
    loads = asked(plan, rest)
    assert plan.risk is not None
    stated = np.array(plan.risk.by_server)
    total = good = equal = 0
    days = max(1, plan.loads.shape[1] * plan.slot_seconds // DAY)
    slots = over_levels(plan, chance_above).reshape(len(plan), days, -1).sum(axis=2)
    for day in np.unique(weekday):
        here = loads[weekday == day]
        for server in range(len(plan)):
            over = np.maximum(here[:, server] - limit[server], 0)
            seen = over.sum() / max(here[:, server].sum(), 1.0)
            said = stated[server, day]
            small = max(seen, said) < TINY or max((over > 0).sum(), slots[server, day] * len(here)) < FEW
            total += 1
            equal += small
            good += small or (said <= FACTOR * seen and seen <= FACTOR * said)
    return total, good, equal


def late(plan: Plan, rest: np.ndarray, weekday: np.ndarray) -> tuple[float, float]:
    """Largest share above capacity of any weekday: when its days are as their mean, and day by day."""
    loads, limit = asked(plan, rest), (plan.capacity * SLOT)[:, None]
    means, single = [], []
    for day in np.unique(weekday):
        here = loads[weekday == day]
        means.append(np.maximum(here.mean(axis=0) - limit, 0).sum() / here.mean(axis=0).sum())
        single.append(np.maximum(here - limit, 0).sum() / here.sum())
    return max(means), max(single)


def hindsight(whole: ceps.Patterns, types: tuple[ceps.ServerType, ...], rest: np.ndarray, weekday: np.ndarray) -> float:
    """Dollars a day that no fixed fleet undercuts which leaves `LATE` of the worst weekday to come, as its mean."""
    need = 0.0
    for day in np.unique(weekday):
        total = rest[weekday == day].sum(axis=1).mean(axis=0)
        low, high = 0.0, float(total.max())
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(total - middle, 0).sum() > LATE * total.sum() else (low, middle)
        need = max(need, high / SLOT)
    flat = ceps.Patterns(np.full((1, SLOTS), min(need, 1e17)), slot_seconds=SLOT)
    largest = replace(types[-1], name="any", requests_per_second=1e18, bytes=np.inf, dollars_per_hour=1e9)
    return fleet_bound(replace(build_problem(flat, (*types, largest), 1.0), servers=types))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--units", type=float, nargs="+", default=[10.0, 20.0, 40.0])
    options = parser.parse_args()
    goals = Goals()
    total = good = 0
    print(f"default plans (weeks, u = 0.9) of {options.partitions} partitions; kd-tree cells, nothing is random")
    for name in SETS:
        found, weekday = counts(name, options.partitions)
        cut = int(TRAINED * len(found))
        week, whole = learned(found[:cut], weekday[:cut])
        rest, days = found[cut:], weekday[cut:]
        print(f"{name}: {cut} days learned, {len(rest)} counted, {rest.sum():,.0f} requests")
        here = fine = 0
        for units in options.units:
            unit = whole.peak / units
            types = tuple(replace(t, requests_per_second=unit * t.requests_per_second / 1000) for t in catalogue())
            try:
                plan, mean = ceps.plan(week, None, types), ceps.plan(whole, None, types)
            except ceps.InfeasibleError as error:
                print(f"  {units:g} units: {str(error)[:70]}")
                continue
            pairs, within, equal = agreement(plan, rest, days)
            here, fine = here + pairs, fine + within
            shown, single = late(plan, rest, days)
            least = hindsight(whole, types, rest, days)
            dearer, floor = plan.cost_per_day / mean.cost_per_day, least / mean.cost_per_day
            cheap = min(t.dollars_per_hour for t in types) * 24
            assert plan.risk is not None
            many = len(mean) >= 10
            if many:
                dear = goals.ask(f"cost, {name}, {units:g} units", dearer, most=max(DEARER, floor))
            else:
                dear = goals.ask(
                    f"cost, {name}, {units:g} units", plan.cost_per_day, most=max(mean.cost_per_day + cheap, least)
                )
            allowed = DEARER * mean.cost_per_day if many else mean.cost_per_day + cheap
            if least > allowed:
                kept = f"(goal: at most {LATE:g}, which no fixed fleet keeps for that money)"
            else:
                kept = goals.ask(f"late on the worst weekday, {name}, {units:g} units", shown, most=LATE)
            print(
                f"  {units:g} units, {len(plan)} servers: {within} of {pairs} server-weekdays within {FACTOR:g} "
                f"({equal} with next to nothing); worst weekday stated {plan.risk.worst:.3%}, seen {single:.3%} day by "
                f"day, {shown:.4%} as the mean of its days {kept}; {dearer:.3f} times the mean-day plan's "
                f"{len(mean)} servers {dear}; no fixed fleet that keeps {LATE:.1%} costs less than {floor:.3f} times",
                flush=True,
            )
        total, good = total + here, good + fine
        print(f"  {fine} of {here} within the factor: {fine / max(here, 1):.1%}")
    print(f"all: {good} of {total} server-weekdays {goals.ask('risk comes true', good / max(total, 1), least=0.9)}")
    goals.end()


if __name__ == "__main__":
    main()
