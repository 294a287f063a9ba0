"""Fewer servers a request: what requests read together is put together, at no cost, or where that pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ceps.model.calls_per_request import calls_a_day, item_reads
from ceps.model.packing import Effort, Packing
from ceps.model.patterns import hour_slices
from ceps.model.problem import TOLERANCE, Floats, Ints, Outcome, Problem, price
from ceps.model.reads import MOST_SETS, Reads, bound_reads
from ceps.planners.fleet_first import pack
from ceps.planners.fleets import fleet_types, fleets_between
from ceps.planners.grid import kd_cells

_TRIALS = 300  # moves and swaps tried for each item
_MORE_TRIALS = (800, 2_000)  # and where neighbours stand together already: more where items are in few sets
_VISITS = 24_000  # trials for each item times the sets that it is in
_MOST_TRIALS = 2_000_000  # and at most in all
_CHUNK = 20_000  # trials between two looks at the clock
_HOT, _COLD = 3.0, 0.03  # temperatures at the beginning and the end, in an item's mean share of the requests
_WARM = 1.0  # at the beginning where neighbours stand together already
_NEARLY = 1.05  # relative peak of packed cells up to which single items are moved until they fit
_RELIEVED = 1_000  # and items up to which: of more, finer cells are quicker
_RELIEF_IDLE, _RELIEF_PAIRS = 30, 4_000  # effort for it
_CELLS_EACH = (8, 16, 32)  # cells of neighbours for each server that are packed as they are, the coarsest that fit
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

    ``rng``, ``effort``: as every planner; of the effort, the deadline only; ``dollars``: what a call costs
    (`ceps.model.calls_per_request.dollars_a_call`). At 0 the fleet stays and calls fall. Above, dearer fleets are
    tried, and the cheapest sum of fleet and calls a day is taken; ``keep``: share of the headroom below u times its
    capacity that each server of the outcome keeps, one number or (N,). At 0 servers are filled up to u, as they are
    where calls cost something: then that is what room is for.

    Simulated annealing with moves and swaps of items, from `outcome` and from whole cells of the map packed on its
    servers, where such cells fit; a step that overloads a server is never made. Large problems
    are searched on a sample of the sets, and the result is compared on all of them.
    """
    if not len(reads):
        return outcome
    share = keep * float(dollars <= 0)
    best = _kept(problem, outcome, outcome.type_of, outcome.labels, reads, rng, effort, dollars, share)
    limit = 1 - share * (1 - Packing(problem, outcome.type_of, outcome.labels).peak)
    cells = _packed_cells(problem, outcome.type_of, rng, effort, np.minimum(limit, 1.0))
    if cells is not None:
        peak = Packing(problem, outcome.type_of, cells).peak
        same = np.clip((1 - limit) / np.maximum(1 - peak, 1e-12), 0.0, 1.0)  # the headroom that the outcome would keep
        best = _kept(problem, best, outcome.type_of, cells, reads, rng, effort, dollars, same, _WARM)
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
    dollars: float, keep: Floats | float, hot: float = _HOT,
) -> Outcome:  # fmt: skip
    """`best`, or what annealing makes of `labels` on `types`, whichever costs less with calls; then, has fewer."""
    found = price(problem, anneal_labels(problem, types, labels, reads, rng, effort, keep, hot=hot))
    calls, before = calls_a_day(found.labels, reads), calls_a_day(best.labels, reads)
    costs, did = found.cost_per_day + dollars * calls, best.cost_per_day + dollars * before
    if costs > did * (1 + TOLERANCE) or (costs >= did * (1 - TOLERANCE) and calls >= before):
        return best
    return replace(found, extras=best.extras)


def anneal_labels(
    problem: Problem,
    types: Ints,
    labels: Ints,
    reads: Reads,
    rng: np.random.Generator,
    effort: Effort,
    keep: Floats | float = 0.0,
    capacity: Floats | None = None,
    hot: float = _HOT,
) -> Ints:
    """Labels (M,) on servers of `types` that hold, with the fewest calls found; as `fewer_calls`.

    With `capacity`, (N, T + 1), servers may be loaded to so many requests/s in each slot, and hold so many bytes.
    """
    from ceps.kernels.anneal import anneal, tie

    servers = len(types)
    if servers < 2 or not len(reads):
        return labels
    some = bound_reads(reads, min(MOST_SETS, max(1, _CELLS // servers)), _MEMBERS * len(problem), salt=1)
    # Whole numbers, so that what is added and taken away again leaves nothing behind.
    weight = np.maximum(np.round(some.weight * (2.0**40 / some.weight.sum())), 1.0)
    order = np.lexsort((some.set_of, some.row))
    of_item = np.searchsorted(some.row[order], np.arange(len(problem) + 1))
    degree = np.bincount(some.row, weight[some.set_of], minlength=len(problem))
    packing = Packing(problem, types, labels)
    if capacity is not None:
        _lend(packing, capacity)
    top = np.maximum(1 - keep * (1 - packing.peak) + TOLERANCE / 2, packing.peak)
    count = np.zeros((len(some), servers), np.int32)
    bond, alone = np.zeros((len(problem), servers)), np.zeros(len(problem))
    sets = (some.start, some.row, of_item, some.set_of[order], weight, degree, count, bond, alone)
    best = calls = tie(some.start, some.row, weight, packing.label, count, bond, alone)
    best_label = packing.label.copy()
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    each = int(np.clip(_VISITS * len(problem) / len(some.row), *_MORE_TRIALS)) if hot <= _WARM else _TRIALS
    trials = min(each * len(problem), _MOST_TRIALS)
    heat = hot * float(weight.sum()) / len(problem)
    cooling = (_COLD / hot) ** (1 / trials)
    for begin in range(0, trials, _CHUNK):
        if effort.over:
            break
        best, calls, heat = anneal(
            packing.columns, packing.scale, packing.label, packing.load, packing.peak, packing.slot, packing.held,
            problem.group_start, problem.group_of, top, *sets, state, best_label, best, calls, heat, cooling,
            min(_CHUNK, trials - begin), problem.need[2],
        )  # fmt: skip
    if capacity is None:
        capacity = np.concatenate([problem.rates[types][:, None], problem.room[types][:, None]], axis=1)
        capacity = capacity[:, [0] * (problem.columns.shape[1] - 1) + [1]]
    columns = problem.cluster_columns(best_label)
    return best_label if (columns <= capacity[: len(columns)] * (1 + TOLERANCE)).all() else labels


def _lend(packing: Packing, capacity: Floats) -> None:
    """Change a packing so that it fits where no server is above its capacity (N, T + 1) in any slot.

    Each server is as large as in its largest slot. What it lacks in the others is a load that nobody takes away.
    """
    from ceps.kernels.pack import find_peak

    slots = capacity.shape[1] - 1
    busy = np.argsort(-packing.problem.total[:-1], kind="stable")  # as the packing has them
    most = capacity[:, :-1].max(axis=1)
    packing.scale[:, 0], packing.scale[:, 1] = 1 / most, 1 / capacity[:, -1]
    packing.load[:, :slots] += most[:, None] - capacity[:, busy]
    for k in range(len(capacity)):
        find_peak(packing.load, packing.scale, k, packing.peak, packing.slot)


def fewer_calls_by_hour(
    problem: Problem, labels: Ints, types: Ints, reads: Reads, rng: np.random.Generator, effort: Effort
) -> Ints:
    """Labels (M,) with no more calls, where each server stays within its types of the clock hours, int64 (N, hours).

    As `fewer_calls`. What servers hold changes, so what a change of type costs may, too: price them again.
    """
    rates = problem.rates[types]
    capacity = np.full((len(types), problem.columns.shape[1]), np.inf)
    for hour, part in enumerate(hour_slices(capacity.shape[1] - 1, problem.slot_seconds)):
        capacity[:, part] = np.minimum(capacity[:, part], rates[:, hour : hour + 1])
    capacity[:, -1] = problem.room[types].min(axis=1)
    together = item_reads(problem, reads)
    found = anneal_labels(problem, types[:, 0], labels, together, rng, effort, KEPT, capacity)
    return found if calls_a_day(found, together) < calls_a_day(labels, together) else labels


def _packed_cells(
    problem: Problem, types: Ints, rng: np.random.Generator, effort: Effort, limit: Floats
) -> Ints | None:
    """Labels (M,) that put whole cells of the map on servers of `types`, of the coarsest that hold; or None.

    Each server is loaded to `limit` (N,) times what it may be. None as well where items have no positions, or some may
    not share a server.
    """
    if problem.positions is None or len(problem.group_of) or len(types) < 2:
        return None
    lower = tuple(
        replace(problem.servers[kind], requests_per_second=problem.servers[kind].requests_per_second * float(share))
        for kind, share in zip(types, limit, strict=True)
    )
    for each in _CELLS_EACH:
        if each * len(types) > len(problem) // 2 or effort.over:
            break
        cells = kd_cells(problem, each * len(types))
        columns = problem.cluster_columns(cells)
        count = len(columns)
        coarse = replace(
            problem, columns=columns, positions=None, item_of=np.arange(count)[:, None], pins=np.full(count, -1),
            group_start=np.zeros(count + 1, np.int64), servers=lower,
        )  # fmt: skip
        servers = np.arange(len(types))
        packing = pack(coarse, servers, np.full(count, -1), rng, effort, search=False)
        if packing.fits:
            return packing.label[cells]
        if packing.worst < _NEARLY and len(problem) <= _RELIEVED:
            whole = Packing(replace(problem, servers=lower), servers, packing.label[cells])
            whole.relieve(rng, replace(effort, idle=_RELIEF_IDLE, pairs=_RELIEF_PAIRS))
            if whole.fits:
                return whole.label
    return None


def _dearer_fleets(problem: Problem, least: float, below: float) -> Iterator[Ints]:
    """Fleets that cost from `least` to less than `below` dollars a day; of many, some in steps of their cost."""
    found = fleets_between(problem, least / 24, below / 24)
    found = [counts for counts in found if counts.sum() <= len(problem)]
    for number in np.unique(np.linspace(0, len(found) - 1, min(len(found), _FLEETS)).astype(int)):
        yield fleet_types(problem, found[number])
