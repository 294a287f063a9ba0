"""What every method costs on the same patterns, and what the target utilisation costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike

from ceps.bounds.lower_bounds import fleet_bound, hourly_bound
from ceps.model.number_text import bytes_text
from ceps.model.packing import Effort
from ceps.model.patterns import Patterns, as_patterns
from ceps.model.problem import InfeasibleError, Outcome, Problem, build_problem
from ceps.model.servers import ServerType, checked_servers
from ceps.offers.hourly import best_schedule
from ceps.plan.overload import overload_risk
from ceps.plan.planning import plan, run

LABELS = {
    "gp": "Grid, best cell count (GP)",
    "gp-typical": "Grid, typical cell count",
    "gp-r": "Random placement, best count (GP-R)",
    "gp-aas": "Grid + autoscaling, by started hour (GP-AAS)",
    "gp-aas-slot": "Grid + autoscaling, by slot",
    "tv": "AHR as written (CEPS-)",
    "tabu": "AHR + tabu as written (CEPS+)",
    "gain": "Merge, then dissolve servers",
    "fleet": "Fleet first",
    "hourly": "Servers resized hourly",
    "mixed": "A reserved base, the rest resized hourly",
}
"""What reports call the methods: those of the paper by its words, ours by what they do."""

PAPERS = tuple(name for name in LABELS if name != "mixed")
"""Methods that `compare` prices."""


@dataclass(frozen=True)
class MethodCost:
    """One row of a comparison."""

    method: str
    cost_per_day: float  # Dollars; infinite when the method puts more on a server than any type holds
    servers: int  # Servers rented; the most at one time for autoscaling
    overload: float = 0.0  # Share of the requests above u times capacity, on the planned day
    bytes_moved: float = 0.0  # Bytes moved a day while it runs

    @property
    def label(self) -> str:
        """Name for people."""
        return LABELS.get(self.method, self.method)


@dataclass(frozen=True)
class Comparison:
    """Costs of methods, cheapest last, and the bounds, dollars a day.

    Parameters
    ----------
    rows
        One for each method, in the order of `LABELS`.
    lower_bound
        No plan with a fixed fleet costs less.
    hourly_bound
        Nothing whose fleet changes at most hourly costs less.
    """

    rows: tuple[MethodCost, ...]
    lower_bound: float
    hourly_bound: float

    def cost(self, method: str) -> float:
        """Dollars a day of a method; NaN if it was not compared."""
        return next((row.cost_per_day for row in self.rows if row.method == method), float("nan"))


def compare(
    patterns: Patterns | ArrayLike,
    sizes: ArrayLike | None = None,
    servers: Sequence[ServerType] = (),
    seed: int = 0,
    utilisation: float = 0.9,
    *,
    methods: Iterable[str] | None = None,
    copies: int = 1,
    growth: float = 1.0,
    time_limit: float | None = None,
) -> Comparison:
    """Price every method on the same patterns by the same cost model.

    Grid methods are left out where the patterns have no positions, AHR where there are too many partitions to
    compare all pairs.

    Parameters
    ----------
    patterns, sizes, servers, seed, utilisation
        As `ceps.plan`.
    methods
        Some of `LABELS`; all if not given.
    copies, growth
        As `ceps.plan`.
    time_limit
        Seconds for each method.

    Raises
    ------
    ValueError
        An argument is out of range, or a method is unknown.
    InfeasibleError
        Some partitions fit no server.
    """
    given = as_patterns(patterns, sizes)
    wanted = list(PAPERS) if methods is None else list(methods)
    unknown = sorted(set(wanted) - set(PAPERS))
    if unknown:
        raise ValueError(f"method = {unknown[0]!r}; known: {', '.join(PAPERS)}")
    problem = build_problem(given, checked_servers(servers), utilisation, copies=copies, growth=growth)
    if given.positions is None:
        wanted = [name for name in wanted if name not in ("gp", "gp-typical", "gp-aas", "gp-aas-slot")]
    if len(problem) > 5_000:
        wanted = [name for name in wanted if name not in ("tv", "tabu")]
    if len(problem) > 20_000:
        wanted = [name for name in wanted if name != "gain"]
    done: dict[str, Outcome] = {}
    rows = [_row(name, problem, seed, time_limit, done) for name in PAPERS if name in wanted]
    return Comparison(tuple(rows), fleet_bound(problem), hourly_bound(problem))


def _row(name: str, problem: Problem, seed: int, time_limit: float | None, done: dict[str, Outcome]) -> MethodCost:
    rng = np.random.default_rng(seed)
    effort = Effort(deadline=None if time_limit is None else monotonic() + time_limit)
    if name == "hourly":
        found = best_schedule(problem, rng, effort)
        return MethodCost(name, found.cost_per_day, len(found.types))
    method = {"gp-typical": "gp", "gp-aas-slot": "gp-aas"}.get(name, name)
    if method not in done:
        done[method] = run(method, problem, rng, effort)
    outcome = done[method]
    servers, cost = len(outcome.type_of), outcome.cost_per_day
    if name == "gp-typical":
        servers = round(outcome.extras["typical_servers"] * (problem.copies if problem.copies > 1 else 1))
        cost = outcome.extras["typical"] * (problem.copies if problem.copies > 1 else 1)
    if method != "gp-aas":
        return MethodCost(name, cost, servers)
    if name == "gp-aas-slot":
        cost = float(outcome.extras["billed_by_slot"]) * problem.copies
    return MethodCost(
        name,
        cost,
        int(outcome.extras["most_servers"]) * problem.copies,
        float(outcome.extras["overload"]),
        outcome.extras["bytes_moved"] * problem.copies,
    )


@dataclass(frozen=True)
class WhatIf:
    """One point of `what_if`: target utilisation, the plan's cost and bound (dollars a day), servers, overload."""

    utilisation: float
    cost_per_day: float
    lower_bound: float
    servers: int
    overload: float


def what_if(
    patterns: Patterns | ArrayLike,
    sizes: ArrayLike | None = None,
    servers: Sequence[ServerType] = (),
    seed: int = 0,
    *,
    utilisations: Sequence[float] = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
    copies: int = 1,
    growth: float = 1.0,
    time_limit: float | None = None,
) -> tuple[WhatIf, ...]:
    """Cost and expected overload (`ceps.model.variation`) of the fleet-first plan at each target utilisation.

    A utilisation at which some partition fits no server is left out.

    Parameters
    ----------
    patterns, sizes, servers, seed
        As `ceps.plan`.
    utilisations
        Values in (0, 1].
    copies, growth
        As `ceps.plan`.
    time_limit
        Seconds for each.
    """
    given = as_patterns(patterns, sizes)
    found = []
    for target in utilisations:
        try:
            made = plan(given, None, servers, seed, target, copies=copies, growth=growth, time_limit=time_limit)
        except InfeasibleError:
            continue
        risk = overload_risk(made)
        found.append(WhatIf(target, made.cost_per_day, made.lower_bound, len(made), risk.overload))
    return tuple(found)


def bounds_by_utilisation(
    patterns: Patterns,
    servers: Sequence[ServerType],
    utilisations: Sequence[float],
    *,
    hourly: bool = False,
    copies: int,
    growth: float,
) -> dict[float, float]:
    """Lower bound of fixed fleets, or of `hourly` schedules, dollars a day, at each target at which everything fits."""
    found = {}
    for target in utilisations:
        try:
            problem = build_problem(patterns, checked_servers(servers), target, copies=copies, growth=growth)
        except InfeasibleError:
            continue
        found[target] = hourly_bound(problem) if hourly else fleet_bound(problem)
    return found


def autoscaling_note(comparison: Comparison, cost_per_day: float) -> str:
    """Say plainly when autoscaling would be cheaper than a plan, and at what price; empty otherwise."""
    row = next((row for row in comparison.rows if row.method == "gp-aas"), None)
    if row is None or not row.cost_per_day < cost_per_day * (1 - 1e-9):
        return ""
    less = 100 * (1 - row.cost_per_day / cost_per_day)
    return (
        f"Autoscaling would be cheaper here: {row.cost_per_day:.2f} dollars a day, {less:.0f} % less, because the "
        f"total load falls far below its peak. It would move {bytes_text(row.bytes_moved)} a day, free and at once "
        "in this model. How many requests it leaves late on busier days is not modelled."
    )
