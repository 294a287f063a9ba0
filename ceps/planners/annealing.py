"""Annealing: a fleet is given, and more time than the tabu search of `fleet_first` takes; noisy days pack far better.

Two ways in turn. The first lowers the sum of squares of all loads, which spreads every slot evenly; it knows items
only by their products, so it makes ten million steps a second. The second lowers the overload itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ceps.model.packing import Effort, Packing
from ceps.model.problem import TOLERANCE, Floats, Ints, Problem

_MOST_ITEMS = 4_000  # whose products are kept: 128 MB
_MOST_SERVERS = 16  # up to which annealing from hot by the overload itself pays
_CHUNK = 1_000_000  # steps between two looks at the clock
_NEAR = 0.02  # slack, as a share of the fleet, below which slots count about alike
_SQUARES = ((0.3, 1e-3), (0.1, 1e-4))  # heat from and to, in units of an item's square
_OVERLOADS = ((0.1, 1e-6), (1e-4, 1e-11))  # heat from and to, in squares of relative overload
_WAYS = (_SQUARES[0], _OVERLOADS[0], _SQUARES[1], _OVERLOADS[1])
_COLD = (1e-5, 1e-12)  # after squares are low


def anneal(problem: Problem, types: Ints, rng: np.random.Generator, effort: Effort, steps: int) -> Packing:
    """Packing of all items on servers of `types`, annealed with `steps` steps in each way until everything fits.

    The best by its largest relative peak; it may not fit. The same seed gives the same packing, unless the effort has
    a deadline.
    """
    best = Packing(problem, types, np.full(len(problem), -1))
    if best.fill() or best.fits or len(types) < 2:
        return best
    for heats in _WAYS:
        even = heats in _SQUARES
        many = len(problem) > _MOST_ITEMS
        if effort.over or (many if even else len(types) > _MOST_SERVERS and not many):
            continue
        packing = Packing(problem, types, best.label)
        if even:
            _squares(packing, heats, rng, effort, steps)
            packing.refresh()
            if not packing.fits:
                _overloads(packing, _COLD, rng, effort, max(steps // 16, 1))
        else:
            _overloads(packing, heats, rng, effort, max(steps // 8, 1))
        packing.refresh()
        if not packing.fits:
            packing.relieve(rng, replace(effort, steps=300))
        if packing.worst < best.worst:
            best = packing
        if best.fits:
            return best
    return best


def _squares(
    packing: Packing, heats: tuple[float, float], rng: np.random.Generator, effort: Effort, steps: int
) -> None:
    from ceps.kernels.cooling import anneal_squares

    problem, types = packing.problem, packing.types
    columns, weight, sizes, room_weight = _scaled(problem, types)
    gram = columns @ columns.T
    unit = float(np.mean(np.diag(gram)) * weight.mean() + np.mean(sizes**2) * room_weight.mean())
    holds = np.ascontiguousarray(problem.types_that_hold(problem.columns)[:, types].T)
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    cooling = (heats[1] / heats[0]) ** (len(problem) / max(steps, len(problem)))
    heat, left = heats[0] * unit, steps
    while left > 0 and not effort.over:
        table, stored = np.zeros((len(types), columns.shape[1])), np.zeros(len(types))
        np.add.at(table, packing.label, columns)
        np.add.at(stored, packing.label, sizes)
        chunk = min(left, max(_CHUNK // len(problem), 1) * len(problem))
        heat = anneal_squares(
            gram, table @ columns.T, weight, sizes, stored, room_weight, holds, packing.held, problem.group_start,
            problem.group_of, packing.label, state, heat, cooling, chunk,
        )  # fmt: skip
        left -= chunk


def _scaled(problem: Problem, types: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Columns (M, T) and bytes (M,) with full slots weighing most, and what each server's squares weigh, (K,) twice.

    Squares divided by capacity are least where all servers are equally full.
    """
    rates, room = problem.rates[types], problem.room[types]
    full = problem.total[:-1] / rates.sum()
    heavy = 1 / (1 + _NEAR - np.minimum(full, 1.0)) ** 2
    share = float(problem.total[-1] / room.sum()) if np.isfinite(room).all() and problem.total[-1] else 0.0
    spare = 1 / (1 + _NEAR - min(share, 1.0)) ** 2 if share else 0.0
    largest = problem.rates.max()
    columns = problem.loads / largest * np.sqrt(heavy / (heavy.sum() + spare))
    if not share:
        return columns, largest / rates, np.zeros(len(problem)), np.zeros(len(types))
    sizes = problem.bytes / room.max() * np.sqrt(spare / (heavy.sum() + spare))
    return columns, largest / rates, sizes, room.max() / room


def _overloads(
    packing: Packing, heats: tuple[float, float], rng: np.random.Generator, effort: Effort, steps: int
) -> None:
    from ceps.kernels.cooling import anneal_overload

    problem = packing.problem
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    cooling = (heats[1] / heats[0]) ** (len(problem) / max(steps, len(problem)))
    heat, left = heats[0], steps
    while left > 0 and not effort.over and packing.peak.max() > 1 + TOLERANCE:
        chunk = min(left, max(_CHUNK // 8 // len(problem), 1) * len(problem))
        heat = anneal_overload(
            packing.columns, packing.scale, packing.label, packing.load, packing.held, problem.group_start,
            problem.group_of, state, heat, cooling, chunk,
        )  # fmt: skip
        packing.refresh()
        left -= chunk
