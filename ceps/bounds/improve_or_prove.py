"""Settling a plan: a cheaper one, or the proof that there is none, by all that is known here, within some time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic

import numpy as np

from ceps.bounds.fluid import Fluid
from ceps.bounds.lower_bounds import configuration_bound, fleet_bound
from ceps.bounds.placing import Verdict, assign, pack_nearly_full
from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Ints, Outcome, Problem, price
from ceps.planners.annealing import anneal
from ceps.planners.fleet_first import even_out, fleet_ladder
from ceps.planners.fleets import fleet_cost, fleet_types, list_fleets

_SAME = 1e-7  # relative difference of costs below which they are the same: the solver's own accuracy
_STEPS = (
    2_000_000,
    8_000_000,
    32_000_000,
    64_000_000,
    64_000_000,
    128_000_000,
    256_000_000,
)  # of annealing, fleet by fleet
_LONG = 10.0  # seconds below which only the first, short annealing is made, which the clock does not cut
_LISTED = 400  # fleets that are told apart at the most
_LOOKED = 100  # of them for which programs are solved
_CHEAPEST = 4  # fleets that are tried at the most besides the cheapest of each capacity
_ROOM = (0.0, 0.002, 0.005, 0.01, 0.03)  # to spare, of fleets of several types that are tried
_RUNGS = 10  # of the cheapest fleets of each capacity, where there are several types
_FLUID_SHARE = 1 / 15  # of the time, for each of them at the most
_LARGE = 8  # items a server up to which items are large, and the configuration bound is the better one
_SOON = 500  # items x servers up to which assigning items one by one comes before all annealing
_PLACES = 1_000  # items x servers up to which it comes before long annealing
_SHORT = 1.0  # seconds for a first try of assigning items one by one
_FEW = 100  # items up to which the configuration bound may be found


@dataclass(frozen=True, eq=False)
class Settled:
    """Result of `settle`."""

    outcome: Outcome  # The cheapest placement found; the one given where none is cheaper
    bound: float  # Dollars a day that no placement undercuts, at most the outcome's cost
    finished: bool  # Whether it ended before the time was over: the same arguments give the same result then

    @property
    def proven(self) -> bool:
        """Whether nothing is cheaper than the outcome."""
        return self.outcome.cost_per_day <= self.bound * (1 + TOLERANCE)


def settle(problem: Problem, outcome: Outcome, seed: int = 0, seconds: float = 60.0, *, better: bool = True) -> Settled:
    """Raise the lower bound of an outcome and look for a cheaper one, until they meet or the time is over.

    First the fluid bound with weightings, for any number of items. Then the fleets between bound and cost, cheapest
    first: a fleet is shown too small, or everything is placed on it by a list of nearly full servers, by annealing
    with ever more steps, or by assigning items one by one.

    ``seconds``: after which the best so far is taken. Below 10, fleets are annealed with few steps only, for a second
    or two: what is found does not hang on the clock then; ``better``: whether a cheaper placement is wanted; otherwise
    the outcome stays, and only the bound is raised.
    """
    if not len(problem) or not (problem.prices > 0).all() or not np.isfinite(outcome.cost_per_day):
        return Settled(outcome, Fluid(problem).bound(), True)
    began, least = monotonic(), fleet_bound(problem)
    if outcome.cost_per_day <= least * (1 + TOLERANCE):
        return Settled(outcome, min(least, outcome.cost_per_day), True)
    effort = Effort(deadline=began + seconds)
    fluid = Fluid(problem)
    search = _Search(problem, fluid, outcome, fluid.bound(min(seconds / 4, 15.0)), better, seconds)
    search.list_fleets()
    search.look(Effort(deadline=began + seconds / 3))
    if seconds >= _LONG and not search.closed and len(problem) * len(outcome.type_of) <= _SOON:
        search.prove(seconds * 0.75)
    for level, steps in enumerate(_STEPS):
        if search.closed or effort.over:
            break
        if better and (level == 0 or seconds >= _LONG):
            search.place(np.random.default_rng([seed, level]), effort, steps)
        left = seconds - (monotonic() - began)
        if level == 0 and not search.closed:
            search.prove(min(left, _SHORT))
        if level == 1 and not search.closed and len(problem) <= min(_FEW, _LARGE * len(search.best.type_of)):
            search.raise_bound(configuration_bound(problem, seed, max(left / 4, 0.0)).bound)
        elif level >= (1 if len(problem) * len(search.best.type_of) <= _PLACES else 3) and not search.closed:
            search.prove(left * 0.9)
    closed = search.best.cost_per_day <= search.bound * (1 + _SAME)
    return Settled(search.best, search.best.cost_per_day if closed else search.bound, closed or not effort.over)


@dataclass(eq=False)
class _Search:
    """What is known while a plan is settled; changed in place."""

    problem: Problem
    fluid: Fluid
    best: Outcome
    bound: float
    better: bool
    seconds: float
    fleets: list[Ints] = field(default_factory=list)  # all from the bound up to `end`, cheapest first
    end: float = 0.0  # dollars a day
    small: list[Ints] = field(default_factory=list)  # fleets that are proved too small
    peaks: dict[bytes, float] = field(default_factory=dict)
    rungs: list[Ints] | None = None

    @property
    def closed(self) -> bool:
        return self.best.cost_per_day <= self.bound * (1 + _SAME)

    @property
    def open(self) -> list[Ints]:
        return [counts for counts in self.fleets if self.cost(counts) < self.best.cost_per_day * (1 - TOLERANCE)]

    def cost(self, counts: Ints) -> float:
        return 24 * fleet_cost(self.problem, counts)

    def list_fleets(self) -> None:
        """List the fleets that a plan may have: in the widest range above the bound that is not too many."""
        holds = self.problem.types_that_hold(self.problem.columns)
        cost, width = self.best.cost_per_day, 0.001
        self.end = self.bound
        while not self.closed and self.end < cost:
            end = min(self.bound * (1 + width), cost)
            listed, complete = list_fleets(self.problem, self.bound / 24 * (1 - _SAME), end / 24)
            # A server more than there are items, or than hold any, would stand empty.
            listed = [c for c in listed if c.sum() <= len(self.problem) and holds[:, c > 0].any(axis=1).all()]
            if not complete or (len(listed) > _LISTED and self.fleets):
                break
            self.fleets, self.end, width = listed, end, 2 * width
        self.raise_bound(self.bound)

    def raise_bound(self, least: float) -> None:
        """Raise the bound to `least`, and on to the cheapest fleet that may do."""
        self.bound = max(self.bound, min(least, self.best.cost_per_day))
        self.fleets = [counts for counts in self.fleets if self.cost(counts) >= self.bound * (1 - _SAME)]
        if self.bound < self.end:
            first = self.cost(self.fleets[0]) if self.fleets else self.end
            self.bound = max(self.bound, min(first, self.best.cost_per_day))

    def too_small(self, counts: Ints) -> None:
        """Take note that a fleet is too small, and with it every fleet whose servers could be merged into it."""
        self.small.append(counts)
        alone = len(self.problem.group_of) == 0
        self.fleets = [
            other
            for other in self.fleets
            if not (np.array_equal(other, counts) or (alone and merges_into(self.problem, other, counts)))
        ]
        self.raise_bound(self.bound)

    def found(self, labels: Ints, types: Ints) -> None:
        """Take note of a placement that fits."""
        from ceps.model.packing import Packing

        packing = Packing(self.problem, types, labels)
        made = price(self.problem, even_out(packing, np.random.default_rng(0), Effort()).label)
        if made.cost_per_day < self.best.cost_per_day:
            self.best = replace(made, extras=self.best.extras)

    def peak(self, counts: Ints) -> float:
        key = counts.tobytes()
        if key not in self.peaks:
            self.peaks[key] = self.fluid.peak(counts)
        return self.peaks[key]

    def judge(self, counts: Ints, verdict: Verdict) -> None:
        if verdict.impossible:
            self.too_small(counts)
        elif verdict.labels is not None and self.better:
            self.found(verdict.labels, fleet_types(self.problem, counts))

    def look(self, effort: Effort) -> None:
        """Decide the cheapest fleets by programs that are quickly solved."""
        for counts in self.open[:_LOOKED]:
            if effort.over or self.closed:
                break
            if not any(counts is other for other in self.fleets):
                continue
            if self.peak(counts) > 1 + 1e-6:
                self.too_small(counts)
                continue
            verdict = pack_nearly_full(self.problem, fleet_types(self.problem, counts))
            self.judge(counts, verdict)
            if verdict.labels is not None:
                break

    def place(self, rng: np.random.Generator, effort: Effort, steps: int) -> None:
        """Anneal on fleets that cost less than the best plan: halve the range by whether everything fits."""
        problem = self.problem
        seen: dict[bytes, Ints] = {}
        for counts in [*self.open[:_CHEAPEST], *self._rungs(effort)]:
            cheaper = self.cost(counts) < self.best.cost_per_day * (1 - TOLERANCE)
            if cheaper and not any(np.array_equal(counts, other) for other in self.small):
                seen.setdefault(counts.astype(np.int64).tobytes(), counts.astype(np.int64))
        fleets: list[Ints] = []
        for counts in sorted(seen.values(), key=lambda counts: (fleet_cost(problem, counts), counts.sum())):
            # A dearer fleet is of use only where it is roomier.
            if self.peak(counts) <= min(1 + 1e-6, self.peak(fleets[-1]) - 1e-6 if fleets else np.inf):
                fleets.append(counts)
        low, high = 0, len(fleets)
        while low < high and not effort.over:
            middle = (low + high - 1) // 2
            types = fleet_types(problem, fleets[middle])
            packing = anneal(problem, types, rng, effort, steps)
            if packing.fits:
                self.found(packing.label, types)
                high = middle
            else:
                low = middle + 1

    def _rungs(self, effort: Effort) -> list[Ints]:
        """Find the cheapest fleet of each capacity, and some with so much to spare when items divide."""
        problem = self.problem
        if self.rungs is None:
            most = self.best.cost_per_day / 24 * (1 - 2 * TOLERANCE)
            ladder = fleet_ladder(problem, most, effort)
            found: list[Ints | None] = []
            if len(problem.servers) > 1:
                ladder = ladder[:: -(-len(ladder) // _RUNGS) or 1]
                found = [self.fluid.fleet(room, self.seconds * _FLUID_SHARE) for room in _ROOM]
            self.rungs = [np.bincount(types, minlength=len(problem.servers)) for types in ladder]
            self.rungs += [counts for counts in found if counts is not None and counts.sum() <= len(problem)]
        return self.rungs

    def prove(self, seconds: float) -> None:
        """Decide the cheapest fleets by assigning items one by one."""
        deadline = monotonic() + seconds
        while self.open and not self.closed and monotonic() < deadline:
            counts = self.open[0]
            verdict = assign(self.problem, fleet_types(self.problem, counts), deadline - monotonic())
            self.judge(counts, verdict)
            if not verdict.impossible:
                break


def merges_into(problem: Problem, counts: Ints, into: Ints) -> bool:
    """Whether servers of `into` can each take the place of some of `counts`: what fits these fits those.

    First fit, largest first, by requests/s and bytes at once; it may miss a way.
    """
    servers, targets = fleet_types(problem, counts), fleet_types(problem, into)
    rate, room = problem.rates[targets].copy(), problem.room[targets].copy()
    for kind in servers:
        able = (rate >= problem.rates[kind] * (1 - 1e-12)) & (room >= problem.room[kind] * (1 - 1e-12))
        if not able.any():
            return False
        first = int(able.argmax())
        rate[first] -= problem.rates[kind]
        if np.isfinite(problem.room[kind]):
            room[first] -= problem.room[kind]
    return True
