"""ICEPS: keep a plan in force while patterns change, and move little (section 4.2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.packing import Effort, Packing
from ceps.model.problem import TOLERANCE, Floats, Ints, Outcome, Problem, price
from ceps.plan.plans import Plan
from ceps.planners.fleet_first import fleet_ladder

_RELUCTANCE = 8.0  # moving everything weighs as much as this many times the present overload
_FEWER = 12  # cheaper fleets that a repair tries


def repair(
    problem: Problem,
    homes: Ints,
    previous: Plan,
    budget: float,
    rng: np.random.Generator,
    effort: Effort | None = None,
) -> Outcome:
    """Mend `previous` for the problem's loads: move few bytes, then give servers back within a budget.

    New items are placed where they fit best. Overload is moved away by the moves and swaps that relieve most a byte,
    then whatever can go home goes home; a server is added when that fails. Where the result costs more than the
    lower bound, cheaper fleets are tried, cheapest first: the first that fits with at most `budget` bytes moved in
    all is taken.

    Extras: `bytes_moved` from homes, `servers_added`. ``homes``: int64 (M,), number of the server
    (`previous.server_ids`) that holds each item, or -1; ``budget``: bytes that may move for the sake of cost, 0 or
    more.
    """
    effort = effort or Effort()
    names = {server.name: kind for kind, server in enumerate(problem.servers)}
    count = len(previous) - previous.spare
    index = {int(number): k for k, number in enumerate(previous.server_ids[:count])}
    home = np.array([index.get(int(number), -1) for number in homes], dtype=np.int64)
    columns = np.zeros((count, problem.columns.shape[1]))
    np.add.at(columns, home[home >= 0], problem.columns[home >= 0])
    cheapest = problem.cheapest_types(columns)
    largest = int(problem.rates.argmax())
    types = np.array(
        [names.get(previous.types[k].name, cheapest[k] if cheapest[k] >= 0 else largest) for k in range(count)],
        dtype=np.int64,
    )
    labels, _, added = _mend(problem, home, types, rng, effort)
    best = price(problem, labels)
    moved = bytes_away(problem, labels, home)
    bound = fleet_bound(problem)
    if best.cost_per_day > bound * (1 + TOLERANCE):
        for fleet in fleet_ladder(problem, best.cost_per_day / 24, effort)[:_FEWER]:
            if 24 * problem.prices[fleet].sum() >= best.cost_per_day * (1 - TOLERANCE) or effort.over:
                break
            shrunk = _fit(problem, home, columns, fleet, rng, effort)
            if shrunk is None or bytes_away(problem, shrunk, home) > max(budget, moved):
                continue
            found = price(problem, shrunk)
            if found.cost_per_day < best.cost_per_day * (1 - TOLERANCE):
                best, moved, added = found, bytes_away(problem, shrunk, home), 0
                break
    return replace(best, extras={"bytes_moved": moved, "servers_added": float(added)})


def bytes_away(problem: Problem, labels: Ints, home: Ints) -> float:
    """Bytes of the items that are not on their home server; items without a home are not counted."""
    away = (home >= 0) & (labels != home)
    return float(problem.bytes[away].sum())


def _mend(
    problem: Problem, home: Ints, types: Ints, rng: np.random.Generator, effort: Effort
) -> tuple[Ints, Ints, int]:
    """Labels near `home` that overload nothing, on `types` and as many added servers as it takes."""
    # New servers are of the type with most requests/s for the money; pricing takes a smaller one if that will do.
    worth = problem.rates / np.maximum(problem.prices, 1e-12)
    holds_all = problem.types_that_hold(problem.columns).all(axis=0)
    kind = int(np.where(holds_all, worth, 0.0).argmax()) if holds_all.any() else int(problem.rates.argmax())
    need_rate, need_room, need_count = problem.need
    for added in range(len(problem) + 1):
        fleet = np.append(types, np.full(added, kind, dtype=np.int64))
        if (
            len(fleet) < need_count
            or problem.rates[fleet].sum() < need_rate * (1 - TOLERANCE)
            or problem.room[fleet].sum() < need_room * (1 - TOLERANCE)
        ):
            continue
        packing = Packing(problem, fleet, home)
        if packing.fill():
            continue
        _relieve_home(packing, home, rng, effort)
        if packing.fits:
            return packing.label, fleet, added
    return np.arange(len(problem)), np.full(len(problem), kind), len(problem)


def _relieve_home(packing: Packing, home: Ints, rng: np.random.Generator, effort: Effort) -> None:
    problem = packing.problem
    total = float(problem.bytes.sum())
    burden = _RELUCTANCE * problem.bytes / total if total else np.zeros(len(problem))
    if not packing.fits:
        packing.relieve(rng, effort, home, burden)
    if packing.fits:
        packing.send_home(home)


def _fit(
    problem: Problem, home: Ints, columns: Floats, fleet: Ints, rng: np.random.Generator, effort: Effort
) -> Ints | None:
    """Labels near `home` on a given, cheaper fleet: clusters keep the server where least must leave; or None.

    Labels count the old servers as before and new ones after them.
    """
    from scipy.optimize import linear_sum_assignment

    count = len(columns)
    peaks = columns[:, :-1].max(axis=1, initial=0.0)
    fill = np.maximum(peaks[:, None] / problem.rates[fleet], columns[:, -1:] / problem.room[fleet])
    leaves = columns[:, -1:] * (1 - 1 / np.maximum(fill, 1.0)) - columns[:, -1:]  # against dissolving it
    rows, places = linear_sum_assignment(leaves)
    old_of = np.full(len(fleet), -1)
    old_of[places] = rows
    place_of = np.full(count + 1, -1)
    place_of[rows] = places
    start = place_of[home]
    packing = Packing(problem, fleet, start)
    if packing.fill():
        return None
    target = np.where(home >= 0, start, -1)
    _relieve_home(packing, target, rng, effort)
    if not packing.fits:
        return None
    number = np.where(old_of >= 0, old_of, count + np.arange(len(fleet)))
    return number[packing.label]


def number_servers(problem: Problem, outcome: Outcome, known: tuple[Ints, Plan] | None) -> Ints:
    """int64 (N,), numbers for the servers of an outcome.

    Pinned servers have the number they are pinned to. With `known`, the (P, copies) numbers of the servers that hold
    the partitions now and the plan in force, a server takes the number of the one with which it shares most bytes,
    over all servers as much as possible (`linear_sum_assignment`); one that shares nothing takes an idle number of
    its own type. New servers get numbers never used in that plan; without a plan, the lowest free ones.
    """
    count = len(outcome.type_of)
    ids = np.full(count, -1)
    pinned = problem.pins >= 0
    ids[outcome.labels[pinned]] = problem.pins[pinned]
    taken = set(ids[ids >= 0].tolist())
    fresh = 0
    if known is not None:
        homes, previous = known
        fresh = int(previous.server_ids.max(initial=-1)) + 1
        _keep_numbers(problem, outcome, homes, previous, ids)
        taken = set(ids[ids >= 0].tolist())
    for k in range(count):
        if ids[k] < 0:
            while fresh in taken:
                fresh += 1
            ids[k] = fresh
            taken.add(fresh)
    return ids


def _keep_numbers(problem: Problem, outcome: Outcome, homes: Ints, previous: Plan, ids: Ints) -> None:
    from scipy.optimize import linear_sum_assignment

    old = previous.server_ids
    shared = np.zeros((len(ids), len(old)))
    place = np.searchsorted(old, homes)
    known = homes >= 0
    new = outcome.labels[problem.item_of]
    size = np.broadcast_to(problem.bytes[problem.item_of[:, -1]][:, None], homes.shape)
    np.add.at(shared, (new[known], place[known]), size[known])
    names = [server.name for server in previous.types]
    same = np.array([[problem.servers[kind].name == name for name in names] for kind in outcome.type_of])
    free_rows = np.flatnonzero(ids < 0)
    free_columns = np.flatnonzero(~np.isin(old, ids))
    if not len(free_rows) or not len(free_columns):
        return
    worth = shared[np.ix_(free_rows, free_columns)]
    alike = same.reshape(len(ids), len(old))[np.ix_(free_rows, free_columns)]
    unit = 1e-9 * max(1.0, float(worth.max(initial=0.0)))
    for row, column in zip(*linear_sum_assignment(-(worth + unit * alike)), strict=True):
        if worth[row, column] > 0 or alike[row, column]:
            ids[free_rows[row]] = old[free_columns[column]]
