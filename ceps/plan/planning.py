"""`ceps.plan`: from patterns to a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ceps.bounds.lower_bounds import fleet_bound, least_servers
from ceps.model.argument_checks import number, whole
from ceps.model.calls_per_request import dollars_a_call, item_reads, servers_a_request
from ceps.model.number_text import how_many
from ceps.model.packing import Effort
from ceps.model.patterns import Patterns, as_patterns
from ceps.model.problem import (
    MOST_COPIES,
    TOLERANCE,
    Floats,
    InfeasibleError,
    Ints,
    Outcome,
    Problem,
    Progress,
    build_problem,
    price,
)
from ceps.model.reads import Reads
from ceps.model.servers import ServerType, checked_servers
from ceps.model.variation import Variation
from ceps.plan.overload import overload_risk
from ceps.plan.plans import Plan, require_same_pivots
from ceps.planners.fleets import count_servers, free_types, largest_free_types

Planner = Callable[..., Outcome]

METHODS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "fleet": ("fleet_first", "fleet_first", {}),
    "gain": ("ahr", "gain_and_dissolve", {}),
    "tv": ("ahr", "ahr", {"metric": "tv"}),
    "tabu": ("ahr", "literal_tabu", {}),
    "gp": ("grid", "grid", {}),
    "gp-r": ("grid", "random_grid", {}),
    "gp-aas": ("grid", "autoscale", {}),
}
"""Methods by name: ours ("fleet", "gain"), CEPS- ("tv") and CEPS+ ("tabu") as written, and the competitors."""

_PROVABLE = 100  # items up to which the fewest free servers may be proved in seconds

KEEPS_APART = ("fleet", "gain")
"""Methods that know that some items may not share a server (copies, pins)."""


def planner(method: str) -> tuple[Planner, Mapping[str, Any]]:
    """Planner of a method and its fixed options."""
    if method not in METHODS:
        raise ValueError(f"method = {method!r}; known: {', '.join(METHODS)}")
    module, name, options = METHODS[method]
    return getattr(import_module(f"ceps.planners.{module}"), name), options


def plan(
    patterns: Patterns | ArrayLike,
    sizes: ArrayLike | None = None,
    servers: Sequence[ServerType] = (),
    seed: int | np.random.Generator = 0,
    utilisation: float = 0.9,
    method: str = "fleet",
    copies: int = 1,
    previous: Plan | None = None,
    move_budget: float | None = None,
    time_limit: float | None = None,
    *,
    growth: float = 1.0,
    spare: bool = False,
    pinned: ArrayLike | None = None,
    progress: Progress | None = None,
    prove: float = 0.0,
    call_cost: float = 0.0,
    at_least: int = 0,
    **options: Any,
) -> Plan:
    """Plan which server holds which partition, at the least cost found.

    A server of type j may be loaded to `utilisation` times its requests/s in every slot, and hold its bytes; each
    server is rented all day as the cheapest type that does. Where everything fits servers that cost nothing, the
    fewest of them are sought; extras: `least_servers`, the number that no plan undercuts. Where the patterns say what
    requests read together (`reads`), "fleet" and "gain" look for the placement at this cost that touches the fewest
    servers a request. Same arguments, same plan, unless there is a time limit; how the partitions are numbered plays
    no part.

    Parameters
    ----------
    patterns
        Patterns, or float (P, T), requests/s by partition and slot; the T slots make a day or a week.
    sizes
        Bytes (P,), 0 or more; needed unless `patterns` has them.
    servers
        Types that may be rented, at least one (`ceps.load_servers`).
    seed
        Seed or Generator.
    utilisation
        Target utilisation u in (0, 1]; 0.9 leaves headroom for what the patterns have not seen.
    method
        One of `METHODS` but "gp-aas", which has no fixed plan (see `ceps.compare`).
    copies
        Copies of each partition, each on another server, each answering an equal share.
    previous
        The plan that is in force: servers keep their numbers so that the fewest bytes move, and pins name them.
    move_budget
        With `previous`: repair that plan, moving at most about this many bytes for the sake of cost; what is
        overloaded is moved whatever that takes. None: plan afresh.
    time_limit
        Seconds after which the best plan so far is taken and no proof is looked for, or None.
    growth
        Factor on all loads, above 0.
    spare
        Rent one more, empty server that could take over any one of the others.
    pinned
        int (P,), number of the server that must hold the partition (its first copy), or -1.
    progress
        Called with method, best cost so far and lower bound (dollars a day) now and then.
    prove
        Seconds, about, for a plan that costs more than its lower bound: to raise the bound, and to look for a cheaper
        plan with "fleet" and "gain" unless it is a repair (`ceps.bounds.improve_or_prove`). Same arguments, same plan,
        where both end before the time is over: where they meet.
    call_cost
        In requests: each further server that a request touches costs the servers as much as so many requests. Above 0,
        a dearer fleet is rented where that saves more than it costs; needs `reads` in the patterns. At 0, fewer calls
        only decide between plans of equal cost.
    at_least
        Servers to rent at the least.
    options
        Of the method, such as `cap` of "tv" or `cells` of "gp".

    Returns
    -------
    Plan
        With `cost_per_day` and `lower_bound` in dollars and `server_of` int64 (P,); `servers_a_request` where the
        patterns have `reads`.

    Raises
    ------
    ValueError
        An argument is out of range.
    InfeasibleError
        Some partitions fit no server; `partitions` names them.

    Examples
    --------
    >>> import numpy as np, ceps
    >>> day, night = np.repeat([[900.0, 100.0]], 12, axis=1), np.repeat([[100.0, 900.0]], 12, axis=1)
    >>> patterns = np.concatenate([day, night, day / 2, night / 2])
    >>> found = ceps.plan(patterns, [8e8] * 4, ceps.load_servers("m3-2015"), utilisation=1.0)
    >>> found.cost_per_day, found.lower_bound, len(found)
    (3.192, 3.192, 1)
    """
    given = as_patterns(patterns, sizes)
    types = checked_servers(servers)
    if method == "gp-aas":
        raise ValueError("method 'gp-aas' changes servers all day and has no fixed plan; ceps.compare prices it")
    planner(method)
    copies = whole("copies", copies, 1, MOST_COPIES, ": each stands on another server")
    if not isinstance(seed, np.random.Generator):
        seed = whole("seed", seed, 0, 2**63 - 1, ", or a numpy Generator")
    prove = number("prove", prove, "a number of seconds, 0 or more", least=0, below=math.nextafter(math.inf, 0))
    call_cost = number("call_cost", call_cost, "a number of requests, 0 or more", least=0, below=math.inf)
    if call_cost > 0:
        _check_trade(given, method, move_budget)
    if time_limit is not None:
        number("time_limit", time_limit, "a number of seconds above 0, or None", above=0)
    if move_budget is not None:
        move_budget = number("move_budget", move_budget, "0 or more bytes and needs a previous plan", least=0)
        if previous is None:
            raise ValueError(f"move_budget = {move_budget:g}; it must be 0 or more bytes and needs a previous plan")
    require_like(previous, given, copies)
    homes = None if previous is None else homes_of(given, previous)
    problem = build_problem(
        given,
        types,
        utilisation,
        growth=growth,
        copies=copies,
        pinned=pinned,
        previous=None if homes is None else homes[:, 0],
        at_least=at_least,
    )
    rng = np.random.default_rng(seed)
    effort = Effort(deadline=None if time_limit is None else monotonic() + time_limit)
    if move_budget is not None and homes is not None and previous is not None:
        from ceps.plan.incremental import repair

        free = bool(free_types(problem).all())  # then the fewest servers are sought
        priced = count_servers(problem, np.arange(len(types))) if free else problem
        outcome = repair(priced, item_homes(problem, homes), previous, move_budget, rng, effort)
        outcome = replace(outcome, cost_per_day=0.0) if free and np.isfinite(outcome.cost_per_day) else outcome
    else:
        outcome = run(method, problem, rng, effort, progress, spare=spare, **options)
    if effort.deadline is not None:
        prove = min(prove, effort.deadline - monotonic())
    bound = None
    if prove > 0 and not spare and bool((problem.prices > 0).all()) and np.isfinite(outcome.cost_per_day):
        from ceps.bounds.improve_or_prove import settle

        if progress is not None:
            progress("proof", outcome.cost_per_day, 0.0)
        # Methods as written keep their placement, and a repair what it moves.
        better = method in KEEPS_APART and move_budget is None and problem.at_least <= 1
        settled = settle(problem, outcome, 0, prove, better=better)
        outcome, bound = settled.outcome, settled.bound
    if move_budget is None and given.reads is not None and method in KEEPS_APART:
        outcome = _with_fewer_calls(problem, outcome, given.reads.scaled(growth), call_cost, rng, effort, spare)
    if not np.isfinite(outcome.cost_per_day):
        raise _infeasible(given, problem, outcome, method)
    outcome = with_enough_servers(problem, outcome)
    made = assemble(given, problem, outcome, method, previous, spare=spare, deadline=effort.deadline)
    if bound is not None:
        least = max(made.lower_bound, min(bound, made.cost_per_day))
        looked = {"proof_seconds": round(prove, 1)} if made.cost_per_day > least * (1 + TOLERANCE) else {}
        made = replace(made, lower_bound=least, extras={**made.extras, **looked})
    elif prove > 0 and not spare and len(problem) <= _PROVABLE:
        made = _fewest_proved(made, problem, prove)
    told = {"move_budget": move_budget} if move_budget is not None else {}
    told |= {"call_cost": call_cost} if call_cost else {}
    told |= {"at_least": at_least} if at_least else {}
    settings: dict[str, Any] = {"growth": growth, "seed": seed if isinstance(seed, int) else None}
    return with_risk(replace(made, options={**options, **told}, **settings))


def _fewest_proved(made: Plan, problem: Problem, seconds: float) -> Plan:
    """Plan on free servers with a better bound on their number, if one is found in time."""
    from ceps.bounds.lower_bounds import configuration_bound

    least = made.extras.get("least_servers")
    if least is None or len(made) <= least or made.cost_per_day:
        return made
    proven = configuration_bound(count_servers(problem, largest_free_types(problem)), 0, seconds).bound / 24
    fewest = min(math.ceil(proven * (1 - TOLERANCE)), len(made))
    return replace(made, extras={**made.extras, "least_servers": fewest})


def with_enough_servers(problem: Problem, outcome: Outcome) -> Outcome:
    """Outcome with as many servers as are asked for: the smallest items of shared servers go by themselves."""
    labels = outcome.labels.copy()
    count = len(outcome.type_of)
    if count >= problem.at_least:
        return outcome
    for item in np.lexsort((problem.bytes, problem.peaks)):
        if count == problem.at_least:
            break
        if (labels == labels[item]).sum() > 1:
            labels[item], count = count, count + 1
    return replace(price(problem, labels), extras=outcome.extras)


def with_risk(made: Plan) -> Plan:
    """Plan with the overload that its own patterns make likely."""
    return replace(made, risk=overload_risk(made))


def run(
    method: str,
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    spare: bool = False,
    **options: Any,
) -> Outcome:
    """Run a planner on a problem, with what it does not know about itself: copies, pins and the spare."""
    call, fixed = planner(method)
    if len(problem.group_of) == 0 and not (problem.pins >= 0).any() and not spare:
        return call(problem, rng, effort, progress, **fixed, **options)
    if method not in KEEPS_APART:
        if (problem.pins >= 0).any():
            raise ValueError(f"method {method!r} cannot keep pinned partitions; use {' or '.join(KEEPS_APART)}")
        return _copied(problem, call(_first_copies(problem), rng, effort, progress, **fixed, **options))
    if not spare:
        return call(problem, rng, effort, progress, **fixed, **options)
    # A spare must be able to replace the largest server, so smaller servers may be cheaper in all.
    found = []
    for kind in np.unique(problem.rates):
        allowed = np.flatnonzero(problem.rates <= kind)
        smaller = replace(problem, servers=tuple(problem.servers[j] for j in allowed))
        if not smaller.types_that_hold(smaller.columns).any(axis=1).all():
            continue
        outcome = call(smaller, rng, effort, progress, **fixed, **options)
        found.append(replace(outcome, type_of=allowed[outcome.type_of]))
    if not found:
        return call(problem, rng, effort, progress, **fixed, **options)

    def worth(outcome: Outcome) -> tuple[float, int]:
        return outcome.cost_per_day + 24 * problem.prices[spare_type(problem, outcome)], len(outcome.type_of)

    return min(found, key=worth)


def spare_type(problem: Problem, outcome: Outcome) -> int:
    """Cheapest type that can take over any one server of an outcome; -1 if none can."""
    columns = problem.cluster_columns(outcome.labels)
    if not len(columns):
        return int(problem.prices.argmin())
    worst = np.append(columns[:, :-1].max(axis=0), columns[:, -1].max())
    return int(problem.cheapest_types(worst[None, :])[0])


def require_like(previous: Plan | None, patterns: Patterns, copies: int) -> None:
    """Do nothing when there is no plan in force, or it is for the same pivots and as many copies."""
    if previous is None:
        return
    require_same_pivots(patterns.pivots_hash, previous.pivots_hash)
    if previous.copies != copies:
        raise ValueError(f"copies = {copies} but the previous plan has {previous.copies}; plan afresh without it")


def homes_of(patterns: Patterns, previous: Plan) -> Ints:
    """int64 (P, copies), number of the server that holds each copy in `previous`, or -1 for new partitions."""
    order = np.argsort(previous.partitions, kind="stable")
    place = np.searchsorted(previous.partitions[order], patterns.partitions)
    row = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(patterns), np.int64)
    known = previous.partitions[row] == patterns.partitions if len(order) else np.zeros(len(patterns), bool)
    homes = np.full((len(patterns), previous.copies), -1)
    homes[known] = previous.server_ids[previous.replicas[row[known]]]
    return homes


def item_homes(problem: Problem, homes: Ints) -> Ints:
    """int64 (M,), number of the server that holds each item now, or -1; for pinned groups, their pin."""
    found = np.full(len(problem), -1)
    found[problem.item_of.ravel()] = homes.ravel()
    return np.where(problem.pins >= 0, problem.pins, found)


def assemble(
    patterns: Patterns,
    problem: Problem,
    outcome: Outcome,
    method: str,
    previous: Plan | None = None,
    *,
    spare: bool = False,
    deadline: float | None = None,
    types_by_hour: Ints | None = None,
    rented: Sequence[str] = (),
    paid: Floats | None = None,
) -> Plan:
    """Plan of an outcome: servers numbered (as in `previous` where they share most bytes), loads summed afresh.

    `types_by_hour`, `rented` and `paid` are by the outcome's clusters.

    Bounds are looser where the search for them goes on past `deadline` (`time.monotonic`).
    """
    from ceps.plan.incremental import number_servers

    ids = number_servers(problem, outcome, None if previous is None else (homes_of(patterns, previous), previous))
    order = np.argsort(ids, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    columns = problem.cluster_columns(outcome.labels)[order]
    kinds = outcome.type_of[order]
    replicas = rank[outcome.labels[problem.item_of]]
    extras = dict(outcome.extras)
    if patterns.reads is not None:
        extras["servers_a_request"] = servers_a_request(replicas, patterns.reads)
    ids, loads = ids[order], columns[:, :-1]
    cost, bound = outcome.cost_per_day, fleet_bound(problem, deadline)
    least = least_servers(problem, deadline)
    if least is not None:
        extras["least_servers"] = least + spare
    if spare:
        kind = spare_type(problem, outcome)
        ids = np.append(ids, ids.max(initial=-1) + 1)
        kinds = np.append(kinds, kind)
        loads = np.vstack([loads, np.zeros((1, loads.shape[1]))])
        cost += 24 * float(problem.prices[kind])
        # The spare takes over the server of the largest item, so it is at least a type that holds that one.
        single = problem.cheapest_types(problem.columns) if len(problem) else np.array([kind])
        bound += 24 * float(problem.prices[single].max())
    return Plan(
        method=method,
        utilisation=problem.utilisation,
        partitions=patterns.partitions,
        sizes=patterns.sizes,
        replicas=replicas,
        server_ids=ids,
        type_of=kinds,
        servers=problem.servers,
        loads=loads,
        cost_per_day=cost,
        lower_bound=bound,
        slot_seconds=patterns.slot_seconds,
        time_zone=patterns.time_zone,
        weekday=patterns.weekday,
        days=patterns.days,
        requests_per_event=patterns.requests_per_event,
        pivots_hash=patterns.pivots_hash,
        variation=_of_servers(patterns, problem, outcome, order, len(ids)),
        spare=int(spare),
        types_by_hour=None if types_by_hour is None else types_by_hour[order],
        rented=tuple(rented[k] for k in order) if rented else (),
        paid=None if paid is None else paid[order],
        extras=extras,
    )


def _check_trade(patterns: Patterns, method: str, move_budget: float | None) -> None:
    if patterns.reads is None:
        raise ValueError(
            "call_cost needs patterns that say what requests read together: dtoss patterns -k or --radius writes them"
        )
    if method not in KEEPS_APART:
        raise ValueError(
            f"method {method!r} cannot trade calls; use {' or '.join(KEEPS_APART)}, or leave call_cost out"
        )
    if move_budget is not None:
        raise ValueError("a repair within a move budget cannot trade calls; leave call_cost out, or plan afresh")


def _with_fewer_calls(
    problem: Problem, outcome: Outcome, reads: Reads, call_cost: float, rng: np.random.Generator, effort: Effort,
    spare: bool,
) -> Outcome:  # fmt: skip
    from ceps.planners.fewer_calls import fewer_calls

    if not np.isfinite(outcome.cost_per_day):
        return outcome
    together = item_reads(problem, reads)
    dollars = dollars_a_call(problem, call_cost)
    found = fewer_calls(problem, outcome, together, rng, effort, dollars)
    if spare and problem.prices[spare_type(problem, found)] > problem.prices[spare_type(problem, outcome)]:
        return outcome
    return found


def _of_servers(patterns: Patterns, problem: Problem, outcome: Outcome, order: Ints, count: int) -> Variation | None:
    """Variation of the servers: what is their partitions' own adds up in squares, weighted by squared loads."""
    if patterns.variation is None:
        return None
    squares = np.zeros(len(problem))
    power = (patterns.loads**2).sum(axis=1) * patterns.variation.own
    # Pinned partitions share an item; a copy has its share of the load.
    scale = problem.growth / problem.copies
    np.add.at(squares, problem.item_of, (power * scale**2)[:, None])
    sums = np.zeros(len(outcome.type_of))
    np.add.at(sums, outcome.labels, squares)
    loads = problem.cluster_columns(outcome.labels)[:, :-1]
    own = np.zeros(count)
    own[: len(order)] = (sums / np.maximum((loads**2).sum(axis=1), 1e-300))[order]
    return Variation(patterns.variation.levels, own)


def _first_copies(problem: Problem) -> Problem:
    items = problem.item_of[:, 0]
    order = np.sort(items)
    return replace(
        problem,
        columns=problem.columns[order],
        item_of=np.searchsorted(order, problem.item_of[:, :1]),
        group_start=np.zeros(len(order) + 1, dtype=np.int64),
        group_of=np.empty(0, dtype=np.int64),
        pins=problem.pins[order],
        positions=None if problem.positions is None else problem.positions[order],
        copies=1,
    )


def _copied(problem: Problem, outcome: Outcome) -> Outcome:
    """One set of servers for each copy: what a planner that knows no copies would do."""
    count = len(outcome.type_of)
    order = np.sort(problem.item_of[:, 0])
    labels = np.empty(len(problem), dtype=np.int64)
    first = np.empty(len(problem), dtype=np.int64)
    first[order] = outcome.labels
    for copy in range(problem.copies):
        labels[problem.item_of[:, copy]] = first[problem.item_of[:, 0]] + copy * count
    kinds = np.tile(outcome.type_of, problem.copies)
    return Outcome(labels, kinds, outcome.cost_per_day * problem.copies, outcome.extras)


def _infeasible(patterns: Patterns, problem: Problem, outcome: Outcome, method: str) -> InfeasibleError:
    over = np.flatnonzero(outcome.type_of < 0)
    rows = np.isin(outcome.labels[problem.item_of], over).any(axis=1)
    numbers = np.sort(patterns.partitions[rows]).tolist()
    shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
    return InfeasibleError(
        f"method {method!r} puts more on {how_many(len(over), 'server')} than any type holds; partitions there: "
        f"{shown}. Use method 'fleet', larger types or more partitions",
        numbers,
    )
