"""Fleet first: choose what to rent, cheapest first, and pack it; stop at the first fleet that everything fits."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np

from ceps.model.packing import Effort, Packing
from ceps.model.problem import TOLERANCE, Floats, Ints, Outcome, Problem, Progress, price
from ceps.planners.fleets import (
    cheapest_fleet,
    count_servers,
    fleet_cost,
    fleet_types,
    fleets_between,
    free_types,
    largest_free_types,
    least_fleet_cost,
    part,
    to_pay_for,
)

_FINEST = 1.0005  # least growth from one fleet to the next
_COARSE = 1.02  # and where there are more servers than items
_ONE_BY_ONE = 100_000  # items x servers up to which no fleet is skipped
_TRIES = 400  # fleets of other shapes to try at most
_WORK = 10_000  # and at most this divided by items x servers: small problems are searched well
_EVEN_STEPS = 300  # steps to even out a placement that fits
_MARGIN = 1e-3  # relative peak by which a placement may miss what is safest for each server
_HOPELESS = 1.15  # relative peak from which no search will make a fleet fit


def fleet_first(
    problem: Problem, rng: np.random.Generator, effort: Effort, progress: Progress | None = None
) -> Outcome:
    """Cheapest fleet found on which every item fits, started from a greedy placement.

    Returns an outcome with extras `fleets` (fleets tried) and `worst` (largest relative peak).
    """
    return search_fleets(problem, np.full(len(problem), -1), rng, effort, progress)


def search_fleets(
    problem: Problem, start: Ints, rng: np.random.Generator, effort: Effort, progress: Progress | None = None
) -> Outcome:
    """As `fleet_first`, started from clusters `start` (M,): the fullest keep a server, the others are dissolved.

    First up the fleets by capacity until one takes everything; then, where that is not the cheapest fleet of all,
    through the fleets of every shape that cost less, as long as the size of the problem allows. Where some types cost
    nothing, only what fits none of them is paid for, and for the rest the fewest servers are sought.
    """
    if free_types(problem).any():
        return _on_own_machines(problem, start, rng, effort, progress)
    bound = least_fleet_cost(problem, effort.deadline)
    best = first_fit_plan(problem)
    tell = progress or (lambda name, cost, least: None)
    tell("fleet", best.cost_per_day, 24 * bound)
    best, tried = _up_by_capacity(problem, start, rng, effort, best)
    tell("fleet", best.cost_per_day, 24 * bound)
    if best.cost_per_day > 24 * bound * (1 + TOLERANCE):
        size = len(problem) * max(1, len(best.type_of))
        best, more = _other_shapes(problem, start, rng, effort, best, min(_TRIES, _WORK // size))
        tried += more
        tell("fleet", best.cost_per_day, 24 * bound)
    return replace(best, extras={"fleets": tried, "worst": relative_peak(problem, best)})


def _on_own_machines(
    problem: Problem, start: Ints, rng: np.random.Generator, effort: Effort, progress: Progress | None
) -> Outcome:
    """Cheapest servers found for what fits no free type, filled up with the rest; the fewest free ones for what stays.

    Any number of free servers may be used, so the cost is that of the items that fit none.
    """
    free, fleets, count = free_types(problem), 0.0, 0
    label = np.full(len(problem), -1)
    must = np.flatnonzero(to_pay_for(problem))
    if len(must):
        found = search_fleets(part(problem, must, np.flatnonzero(~free)), start[must], rng, effort, progress)
        label[must], count, fleets = found.labels, len(found.type_of), found.extras["fleets"]
        _fill_up(problem, label, np.flatnonzero(~free)[found.type_of], effort)
    rest = np.flatnonzero(label < 0)
    if len(rest):
        kinds, whole = largest_free_types(problem), len(rest) == len(problem)
        within = problem if whole else part(problem, rest, np.arange(len(problem.servers)))
        found = search_fleets(count_servers(within, kinds), start[rest], rng, effort)
        label[rest], fleets = count + found.labels, fleets + found.extras["fleets"]
        if whole:  # on the types that were chosen: of free ones none is cheaper
            found = replace(found, type_of=kinds[found.type_of], cost_per_day=0.0)
            if progress is not None:
                progress("fleet", 0.0, 0.0)
            return found
    outcome = price(problem, label)
    return replace(outcome, extras={"fleets": fleets, "worst": relative_peak(problem, outcome)})


def _fill_up(problem: Problem, label: Ints, types: Ints, effort: Effort) -> None:
    """Put items without a server on those that are rented, largest first, wherever they fit; O(K T) an item."""
    limits = np.column_stack([problem.rates[types], problem.room[types]]) * (1 + TOLERANCE / 2)
    load = np.zeros((len(types), problem.columns.shape[1]))
    np.add.at(load, label[label >= 0], problem.columns[label >= 0])
    groups = [set[int]() for _ in types]
    start, group_of = problem.group_start, problem.group_of
    for item in np.flatnonzero(label >= 0):
        groups[label[item]].update(group_of[start[item] : start[item + 1]].tolist())
    waiting = np.flatnonzero(label < 0)
    size = np.maximum(problem.peaks / problem.rates.max(), problem.bytes / problem.room.max())[waiting]
    for item in waiting[np.argsort(-size, kind="stable")]:
        if effort.over:
            return
        after = load + problem.columns[item]
        mine = set(group_of[start[item] : start[item + 1]].tolist())
        takes = (after[:, :-1].max(axis=1, initial=0.0) <= limits[:, 0]) & (after[:, -1] <= limits[:, 1])
        for server in np.flatnonzero(takes):
            if not mine & groups[server]:
                label[item], load[server] = server, after[server]
                groups[server] |= mine
                break


def _up_by_capacity(
    problem: Problem, start: Ints, rng: np.random.Generator, effort: Effort, best: Outcome
) -> tuple[Outcome, int]:
    """Cheapest fleet of each capacity, from the lower bound up, until one takes everything.

    A first pass without the long search says where to stop. Then small problems go up one by one; large ones halve
    the range, as if what fits a fleet always fit a larger one.
    """
    now = monotonic()  # of the time that is left, half at the most: fleets are to be packed as well
    halfway = None if effort.deadline is None else now + max(effort.deadline - now, 0.0) / 2
    ladder = fleet_ladder(problem, best.cost_per_day / 24, replace(effort, deadline=halfway))
    tried, fitting = 0, len(ladder)
    low, step = 0, 1
    while low < fitting and not effort.over:
        packing = pack(problem, ladder[low], start, rng, effort, search=False)
        tried += 1
        if packing.fits:
            best, fitting = price(problem, even_out(packing, rng, effort).label), low
        elif low + step < fitting:
            low, step = low + step, 2 * step
        else:
            break
    large = len(problem) * max(1, len(best.type_of)) > _ONE_BY_ONE
    low, high = 0, fitting
    while low < high and not effort.over:
        middle = (low + high) // 2 if large else low
        packing = pack(problem, ladder[middle], start, rng, effort)
        tried += 1
        if packing.fits:
            best, high = price(problem, even_out(packing, rng, effort).label), middle
        else:
            low = middle + 1
    return best, tried


def fleet_ladder(problem: Problem, most: float, effort: Effort) -> list[Ints]:
    """Server types of the cheapest fleet of each capacity, costing no more than `most` dollars an hour.

    Of types that hold some item, and of no more servers than items: the others would stand empty. Ends where the
    effort is over.
    """
    rate, room, _ = problem.need
    found: list[Ints] = []
    factor = 1.0
    usable = np.flatnonzero(problem.types_that_hold(problem.columns).any(axis=0))
    within = replace(problem, servers=tuple(problem.servers[kind] for kind in usable)) if len(problem) else problem
    # Servers that cost nothing set no end: as many of the largest as there are items do, by requests/s or by bytes.
    end = [len(problem) * float(within.rates.max()) / rate] if rate else []
    end += [len(problem) * float(within.room.max()) / room] if room else []
    while len(problem) and factor <= min(end, default=1.0) * _FINEST and not effort.over:
        counts = cheapest_fleet(within, rate * factor, room * factor, each=len(problem), deadline=effort.deadline)
        if counts is None or fleet_cost(within, counts) > most * (1 + TOLERANCE):
            break
        if counts.sum() > len(problem):
            factor *= _COARSE
            continue
        types = usable[fleet_types(within, counts)]
        if not len(types):
            break
        found.append(types)
        spare = [float(problem.rates[types].sum()) / rate] if rate else []
        spare += [float(problem.room[types].sum()) / room] if room else []
        if not spare or not np.isfinite(min(spare)):
            break
        factor = max(min(spare) * (1 + 1e-6), factor * _FINEST)
    return found


def _other_shapes(
    problem: Problem, start: Ints, rng: np.random.Generator, effort: Effort, best: Outcome, tries: int
) -> tuple[Outcome, int]:
    """Fleets of every shape that cost less than `best`, cheapest first, `tries` at most."""
    tried = 0
    holds = problem.types_that_hold(problem.columns)
    for counts in fleets_between(problem, 0.0, best.cost_per_day / 24, deadline=effort.deadline):
        if tried >= tries or effort.over:
            break
        if counts.sum() > len(problem) or not holds[:, counts > 0].any(axis=1).all():
            continue
        packing = pack(problem, fleet_types(problem, counts), start, rng, effort)
        tried += 1
        if packing.fits:
            return price(problem, even_out(packing, rng, effort).label), tried
    return best, tried


def pack(
    problem: Problem, types: Ints, start: Ints, rng: np.random.Generator, effort: Effort, search: bool = True
) -> Packing:
    """Items on servers of `types`: from clusters `start`, filled up greedily, then searched until they fit.

    Without `search`, only the quick search for the largest peak is made.
    """
    packing = Packing(problem, types, keep_fullest(problem, types, start))
    if packing.fill():
        return packing
    if not packing.fits:
        packing.balance(rng, effort, target=1 + TOLERANCE / 2)
    if search and not packing.fits and packing.worst < _HOPELESS:
        packing.relieve(rng, effort)
    return packing


def even_out(packing: Packing, rng: np.random.Generator, effort: Effort) -> Packing:
    """Spread the safety of a placement that fits: capacity less peak in standard deviations, as equal as it gets.

    A server of four times the load varies twice as much, so equal relative peaks would leave the small ones less safe.
    """
    problem, types = packing.problem, packing.types
    search = replace(effort, steps=min(effort.steps, _EVEN_STEPS))
    even = Packing(problem, types, packing.label)
    even.scale[:, 0] = 1 / safe_peaks(problem, types)
    even.refresh()
    even.balance(rng, search, target=1 + _MARGIN / 2)
    found = Packing(problem, types, even.label)
    if found.fits and safety(found) >= safety(packing):
        packing.label = found.label
        packing.refresh()
    return packing


def safety(packing: Packing) -> float:
    """Return how many standard deviations the least safe server has to its full capacity; only ratios mean something.

    Loads are in units of the largest server, so that no unit of requests plays a part.
    """
    problem, types = packing.problem, packing.types
    full, shared = _in_units(problem, types)
    peaks = packing.load[:, :-1].max(axis=1, initial=0.0) / _unit(problem)
    return float(((full - peaks) / np.sqrt(np.maximum(peaks + shared * peaks**2, 1e-300))).min(initial=np.inf))


def safe_peaks(problem: Problem, types: Ints) -> Floats:
    """float64 (N,), peaks that together are the total's and leave each server as many standard deviations.

    None above u times the capacity. O(N) for each of some 60 steps of a bisection.
    """
    full, shared = _in_units(problem, types)
    limit = full * (problem.utilisation * (1 - _MARGIN))
    need = min(problem.need[0] / _unit(problem), float(limit.sum()))
    low, high = 0.0, 1.0
    while _peaks_at(full, limit, shared, high).sum() > need and high < 1e30:
        low, high = high, 4 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _peaks_at(full, limit, shared, middle).sum() > need:
            low = middle
        else:
            high = middle
    return np.maximum(_peaks_at(full, limit, shared, low), 1e-9 * limit) * _unit(problem)


def _unit(problem: Problem) -> float:
    return float(problem.rates.max())


def _in_units(problem: Problem, types: Ints) -> tuple[Floats, float]:
    """Full capacities in units of the largest server's rate, and how much of a load's variance goes with its square.

    Variance of a load r is r + shared r^2, up to a factor that is the same for all servers.
    """
    counting, common = problem.noise
    unit = _unit(problem)
    return problem.rates[types] / problem.utilisation / unit, common * unit / counting if counting > 0 else 0.0


def _peaks_at(full: Floats, limit: Floats, shared: float, deviations: float) -> Floats:
    """Return loads that leave so many standard deviations to full capacity: a quadratic equation for each server."""
    # (full - r)^2 = d^2 (r + shared r^2)
    square = deviations * deviations
    a, b, c = 1 - square * shared, 2 * full + square, full * full
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
    return np.minimum(limit, 2 * c / (b + root))


def keep_fullest(problem: Problem, types: Ints, start: Ints) -> Ints:
    """Labels (M,) on servers of `types` (largest first): the fullest clusters keep theirs, the rest get -1."""
    columns = problem.cluster_columns(start)
    size = np.maximum(
        columns[:, :-1].max(axis=1, initial=0.0) / problem.rates.max(), columns[:, -1] / problem.room.max()
    )
    order = np.argsort(-size, kind="stable")
    server = np.full(len(columns) + 1, -1)  # one more, for label -1
    kept = min(len(types), len(columns))
    server[order[:kept]] = np.arange(kept)
    return server[start]


def first_fit_plan(problem: Problem) -> Outcome:
    """First fit, largest items first, on servers of each type that holds them all; the cheapest. Always fits."""
    from ceps.kernels.pack import first_fit

    found = []
    size = np.maximum(problem.peaks / problem.rates.max(), problem.bytes / problem.room.max())
    order = np.argsort(-size, kind="stable")
    holds = problem.types_that_hold(problem.columns)
    for kind in np.flatnonzero(holds.all(axis=0)):
        packing = Packing(problem, np.full(len(problem), kind), np.full(len(problem), -1))
        first_fit(
            packing.columns, packing.scale, order, 1 + TOLERANCE / 2, packing.label, packing.load, packing.peak,
            packing.slot, packing.held, problem.group_start, problem.group_of,
        )  # fmt: skip
        found.append(price(problem, packing.label))
    if not found:  # no one type holds all: each item on its own server
        return price(problem, np.arange(len(problem)))
    return min(found, key=lambda outcome: outcome.cost_per_day)


def relative_peak(problem: Problem, outcome: Outcome) -> float:
    """Largest load over capacity of any server, requests/s or bytes; 0 without servers."""
    columns = problem.cluster_columns(outcome.labels)
    peaks = columns[:, :-1].max(axis=1, initial=0.0) / problem.rates[outcome.type_of]
    return float(np.maximum(peaks, columns[:, -1] / problem.room[outcome.type_of]).max(initial=0.0))


def cheaper(first: Outcome, second: Outcome) -> Outcome:
    """Cheaper of two outcomes; the first when they cost the same."""
    return second if second.cost_per_day < first.cost_per_day else first
