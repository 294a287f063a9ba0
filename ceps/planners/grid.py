"""GP and GP-R, a cell of the map a server or many dealt out at random, and GP-AAS (4.4.1.2), which reacts.

Three rules, looked at after every slot. A server that used less than half of its capacity for 30 minutes is rented
one size smaller. One that reached its capacity has its data split in two, the other half on a new server, of the
smallest type that can store it (as the chapter has it) or that also answers what it is asked just now. Two servers
of which one can take both, by the loads of the last 30 minutes and by bytes, are merged. The policy sees a slot only
when it is over: what a server could not answer until then is overload.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import Floats, Ints, Outcome, Problem, Progress, price


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


_LOOK_BACK = 1800  # seconds
_SETTLING = 2 * 86_400  # seconds until the fleet has settled: the period after them is charged


@dataclass(eq=False)
class _Server:
    members: Ints
    kind: int
    since: int  # slot in which it was rented as this type
    charged: list[tuple[int, int, int]] = field(default_factory=list)  # (from slot, to slot, type)


@dataclass(eq=False)
class _Account:
    by_slot: float = 0.0  # dollars
    by_hour: float = 0.0
    overload: float = 0.0  # requests
    moved: float = 0.0  # bytes
    started: int = 0
    most_servers: int = 0
    running: list[Ints] = field(default_factory=list)  # servers of each type, slot by slot


def autoscale(
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    cells: int | None = None,
    new_server: str = "fits",
) -> Outcome:
    """Reactive scaling of a grid over three days; the third is charged. Migrations are free and instant.

    `labels` and `type_of` are what stands at the end; `cost_per_day` is billed by started hour, as EC2 did in 2015.
    Extras: `billed_by_slot` (dollars a day), `overload` (share of the requests above full capacity), `bytes_moved` (a
    day), `servers_started` (a day), `most_servers`. ``cells``: cells to start with; if not given, one and one and a
    half a unit of load are tried and the cheaper is kept; ``new_server``: type of a server that a split starts: "fits",
    the cheapest that stores the data and answers their present load; "stores", the cheapest that stores them, the
    chapter's words.
    """
    if new_server not in ("fits", "stores"):
        raise ValueError(f"new_server = {new_server!r}; known: fits, stores")
    if not len(problem):
        none = np.zeros(len(problem.servers))
        empty = np.empty(0, np.int64)
        return Outcome(empty, empty, 0.0, dict.fromkeys(_EXTRAS, 0.0), none, np.zeros((1, len(none)), np.int64))
    units = load_in_units(problem)
    starts = [cells] if cells is not None else sorted({units, -(-3 * units // 2)})
    outcomes = [_simulate(problem, start, new_server == "fits") for start in starts]
    return min(outcomes, key=lambda outcome: outcome.cost_per_day)


_EXTRAS = ("billed_by_slot", "overload", "bytes_moved", "servers_started", "most_servers")


def _simulate(problem: Problem, cells: int, fits: bool) -> Outcome:
    slots = len(problem.total) - 1
    window = max(1, _LOOK_BACK // problem.slot_seconds)
    account = _Account()
    labels = kd_cells(problem, cells)
    servers = [
        _Server(members, _smallest(problem, members, slice(None)), 0)
        for members in (np.flatnonzero(labels == cell) for cell in range(int(labels.max()) + 1))
    ]
    gone: list[_Server] = []
    end = slots + min(2 * slots, _SETTLING // problem.slot_seconds)
    for now in range(end):
        charged = now >= end - slots
        at = now % slots
        last = np.arange(now - window + 1, now + 1) % slots
        if charged:
            _charge(problem, servers, at, account)
        for server in list(servers):
            load = float(problem.columns[server.members, at].sum())
            if load >= problem.rates[server.kind]:
                _split(problem, server, at, now, fits, servers, account, charged)
        if now + 1 >= window:
            loads = _loads(problem, servers, last)
            _shrink(problem, servers, loads, now)
            _merge(problem, servers, gone, loads, now, account, charged)
    for server in servers:
        _retire(server, end)
    billed = _hours(problem, [*servers, *gone], end - slots, end)
    account.by_hour = float(billed @ problem.prices)
    days = slots * problem.slot_seconds / 86_400
    final = np.empty(len(problem), dtype=np.int64)
    for number, server in enumerate(servers):
        final[server.members] = number
    total = problem.total[:-1].sum()
    extras = {
        "billed_by_slot": account.by_slot / days,
        "overload": account.overload / total if total else 0.0,
        "bytes_moved": account.moved / days,
        "servers_started": account.started / days,
        "most_servers": float(account.most_servers),
    }
    kinds = np.array([s.kind for s in servers], dtype=np.int64)
    running = np.array(account.running).reshape(-1, len(problem.servers))
    return Outcome(final, kinds, account.by_hour / days, extras, billed / days, running)


def _charge(problem: Problem, servers: list[_Server], at: int, account: _Account) -> None:
    hours = problem.slot_seconds / 3600
    account.running.append(np.bincount([server.kind for server in servers], minlength=len(problem.servers)))
    for server in servers:
        account.by_slot += problem.prices[server.kind] * hours
        load = float(problem.columns[server.members, at].sum())
        account.overload += max(0.0, load - problem.servers[server.kind].requests_per_second)
    account.most_servers = max(account.most_servers, len(servers))


def _smallest(problem: Problem, members: Ints, slots: slice | Ints) -> int:
    """Cheapest type that holds `members` in `slots`; else the largest that stores them; else the largest."""
    peak = problem.loads[members].sum(axis=0)[slots].max(initial=0.0)
    size = problem.bytes[members].sum()
    stores = np.flatnonzero(problem.room >= size)
    fits = stores[problem.rates[stores] >= peak]
    if len(fits):
        return int(fits[problem.prices[fits].argmin()])
    among = stores if len(stores) else np.arange(len(problem.rates))
    return int(among[problem.rates[among].argmax()])


def _split(
    problem: Problem,
    server: _Server,
    at: int,
    now: int,
    fits: bool,
    servers: list[_Server],
    account: _Account,
    charged: bool,
) -> None:
    if len(server.members) == 1:  # cannot be split: a larger type
        kind = _smallest(problem, server.members, np.array([at]))
        if problem.rates[kind] > problem.rates[server.kind]:
            _rent(server, kind, now + 1)
        return
    part = kd_cells(_part(problem, server.members), 2)
    moving = server.members[part == 1]
    server.members = server.members[part == 0]
    asked = np.array([at] if fits else [], dtype=np.int64)
    servers.append(_Server(moving, _smallest(problem, moving, asked), now + 1))
    if charged:
        account.moved += float(problem.bytes[moving].sum())
        account.started += 1


def _part(problem: Problem, members: Ints) -> Problem:
    from dataclasses import replace

    assert problem.positions is not None
    return replace(problem, columns=problem.columns[members], positions=problem.positions[members])


def _loads(problem: Problem, servers: list[_Server], last: Ints) -> Floats:
    """Load of each server in each of the last slots, float64 (servers, slots)."""
    first = np.cumsum([0, *(len(server.members) for server in servers[:-1])])
    columns = problem.columns[np.concatenate([server.members for server in servers])]
    return np.asarray(np.add.reduceat(columns[:, last], first, axis=0))


def _shrink(problem: Problem, servers: list[_Server], loads: Floats, now: int) -> None:
    for server, used in zip(servers, loads.max(axis=1).tolist(), strict=True):
        if used >= 0.5 * problem.rates[server.kind]:
            continue
        size = problem.bytes[server.members].sum()
        smaller = np.flatnonzero((problem.rates < problem.rates[server.kind]) & (problem.room >= size))
        smaller = smaller[problem.prices[smaller] < problem.prices[server.kind]]
        if len(smaller):
            _rent(server, int(smaller[problem.rates[smaller].argmax()]), now + 1)


def _merge(
    problem: Problem,
    servers: list[_Server],
    gone: list[_Server],
    loads: Floats,
    now: int,
    account: _Account,
    charged: bool,
) -> None:
    sizes = np.array([problem.bytes[server.members].sum() for server in servers])
    rates = problem.rates[[server.kind for server in servers]]
    room = problem.room[[server.kind for server in servers]]
    peaks: list[float] = loads.max(axis=1).tolist()
    order = np.argsort(peaks, kind="stable").tolist()  # the least busy gives its data away first
    for giver in list(order):
        fits = ((loads[giver] + loads).max(axis=1) < rates) & (sizes[giver] + sizes <= room)
        takers = [k for k in order if k != giver and fits[k]]
        if takers:
            taker = min(takers, key=lambda k: (-peaks[k], k))  # best fit: the busiest server that still has room
            servers[taker].members = np.append(servers[taker].members, servers[giver].members)
            loads[taker], sizes[taker] = loads[giver] + loads[taker], sizes[giver] + sizes[taker]
            peaks[taker] = float(loads[taker].max())
            order.remove(giver)
            if charged:
                account.moved += float(sizes[giver])
    for number in range(len(servers)):
        if number not in order:
            _retire(servers[number], now + 1)
            gone.append(servers[number])
    servers[:] = [servers[number] for number in sorted(order)]


def _rent(server: _Server, kind: int, now: int) -> None:
    server.charged.append((server.since, now, server.kind))
    server.kind, server.since = kind, now


def _retire(server: _Server, now: int) -> None:
    server.charged.append((server.since, now, server.kind))


def _hours(problem: Problem, servers: list[_Server], begin: int, end: int) -> Floats:
    """float64 (J,), hours of each type that were started in [begin, end), each counted from when it was rented."""
    per_hour = 3600 / problem.slot_seconds
    hours = np.zeros(len(problem.servers))
    for server in servers:
        for since, until, kind in server.charged:
            first = max(0, int(np.ceil((begin - since) / per_hour - 1e-9)))
            after = int(np.ceil((min(until, end) - since) / per_hour - 1e-9))
            hours[kind] += max(0, after - first)
    return hours
