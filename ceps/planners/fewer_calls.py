"""Fewer servers a request: what requests read together is put together, at no cost, or where that pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ceps.calls import calls_a_day
from ceps.fleet import fleet_types, fleets_between
from ceps.packing import Effort, Packing
from ceps.planners.fleet_first import pack
from ceps.problem import TOLERANCE, Floats, Ints, Outcome, Problem, price
from ceps.reads import MOST_SETS, Reads, bounded

_TRIALS = 400  # moves and swaps tried for each item
_MOST_TRIALS = 2_000_000  # and at most in all
_CHUNK = 20_000  # trials between two looks at the clock
_HOT, _COLD = 3.0, 0.03  # temperatures at the beginning and the end, in an item's mean share of the requests
_CELLS = 20_000_000  # sets x servers that are counted
_MEMBERS = 100  # members of the sets that are searched, for each item; of more a sample
KEPT = 0.5
"""Share of its headroom that each server keeps where calls cost nothing: half of it gives nearly all that all gives."""
_FLEETS = 24  # dearer fleets that are tried where calls cost something


def fewer_calls(
    problem: Problem,
    outcome: Outcome,
    reads: Reads,
    rng: np.random.Generator,
    effort: Effort,
    dollars: float = 0.0,
    keep: Floats | float = KEPT,
) -> Outcome:
    """Return an outcome that costs no more than `outcome` and has no more calls, calls included in what it costs.

    Parameters
    ----------
    problem
        Items and types.
    outcome
        A placement that holds.
    reads
        Of the items: `ceps.calls.item_reads`.
    rng, effort
        As every planner; of the effort, the deadline only.
    dollars
        What a call costs (`ceps.calls.dollars_a_call`). At 0 the fleet stays and calls fall. Above, dearer fleets are
        tried, and the cheapest sum of fleet and calls a day is taken.
    keep
        Share of the headroom below u times its capacity that each server of the outcome keeps, one number or (N,). At
        0 servers are filled up to u, as they are where calls cost something: then that is what room is for.

    Notes
    -----
    Simulated annealing with moves and swaps of items; a step that overloads a server is never made. Large problems
    are searched on a sample of the sets, and the result is compared on all of them.
    """
    if not len(reads):
        return outcome
    best = _kept(problem, outcome, outcome.type_of, outcome.labels, reads, rng, effort, dollars, keep * (dollars <= 0))
    if dollars <= 0:
        return best
    for types in _dearer_fleets(
        problem, best.cost_per_day, best.cost_per_day + dollars * calls_a_day(best.labels, reads)
    ):
        if effort.over:
            break
        packing = pack(problem, types, best.labels, rng, effort, search=False)
        if packing.fits:
            best = _kept(problem, best, types, packing.label, reads, rng, effort, dollars, 0.0)
    return best


def _kept(
    problem: Problem, best: Outcome, types: Ints, labels: Ints, reads: Reads, rng: np.random.Generator, effort: Effort,
    dollars: float, keep: Floats | float,
) -> Outcome:  # fmt: skip
    """`best`, or what annealing makes of `labels` on `types`, whichever costs less with calls; then, has fewer."""
    found = price(problem, annealed(problem, types, labels, reads, rng, effort, keep))
    calls, before = calls_a_day(found.labels, reads), calls_a_day(best.labels, reads)
    costs, did = found.cost_per_day + dollars * calls, best.cost_per_day + dollars * before
    if costs > did * (1 + TOLERANCE) or (costs >= did * (1 - TOLERANCE) and calls >= before):
        return best
    return replace(found, extras=best.extras)


def annealed(
    problem: Problem,
    types: Ints,
    labels: Ints,
    reads: Reads,
    rng: np.random.Generator,
    effort: Effort,
    keep: Floats | float = 0.0,
) -> Ints:
    """Labels (M,) on servers of `types` that hold, with the fewest calls found; as `fewer_calls`."""
    from ceps.kernels.anneal import anneal, tie

    servers = len(types)
    if servers < 2 or not len(reads):
        return labels
    some = bounded(reads, min(MOST_SETS, max(1, _CELLS // servers)), _MEMBERS * len(problem), salt=1)
    # Whole numbers, so that what is added and taken away again leaves nothing behind.
    weight = np.maximum(np.round(some.weight * (2.0**40 / some.weight.sum())), 1.0)
    order = np.lexsort((some.set_of, some.row))
    of_item = np.searchsorted(some.row[order], np.arange(len(problem) + 1))
    degree = np.bincount(some.row, weight[some.set_of], minlength=len(problem))
    packing = Packing(problem, types, labels)
    top = np.maximum(1 - keep * (1 - packing.peak) + TOLERANCE / 2, packing.peak)
    count = np.zeros((len(some), servers), np.int32)
    bond, alone = np.zeros((len(problem), servers)), np.zeros(len(problem))
    sets = (some.start, some.row, of_item, some.set_of[order], weight, degree, count, bond, alone)
    best = calls = tie(some.start, some.row, weight, packing.label, count, bond, alone)
    best_label = packing.label.copy()
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    trials = min(_TRIALS * len(problem), _MOST_TRIALS)
    heat = _HOT * float(weight.sum()) / len(problem)
    cooling = (_COLD / _HOT) ** (1 / trials)
    for begin in range(0, trials, _CHUNK):
        if effort.over:
            break
        best, calls, heat = anneal(
            packing.columns, packing.scale, packing.label, packing.load, packing.peak, packing.slot, packing.held,
            problem.group_start, problem.group_of, top, *sets, state, best_label, best, calls, heat, cooling,
            min(_CHUNK, trials - begin),
        )  # fmt: skip
    packing.label = best_label
    packing.refresh()
    return best_label if packing.fits else labels


def _dearer_fleets(problem: Problem, least: float, below: float) -> Iterator[Ints]:
    """Fleets that cost from `least` to less than `below` dollars a day; of many, some in steps of their cost."""
    found = fleets_between(problem, least / 24, below / 24)
    found = [counts for counts in found if counts.sum() <= len(problem)]
    for number in np.unique(np.linspace(0, len(found) - 1, min(len(found), _FLEETS)).astype(int)):
        yield fleet_types(problem, found[number])
