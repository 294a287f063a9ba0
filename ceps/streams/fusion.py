"""Which operators of a job run together: as few rows as possible go from one component to another.

An operator has partition attributes: rows that agree on one of them may be kept on one worker. Operators that share
an attribute may be one component, and what one tells another within it is never sent (Enorm, section 4.4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ceps.model.argument_checks import number

MOST_ROWS = 1e18
"""Rows a second between two operators at the most."""

Attributes = Mapping[str, Iterable[str] | None]
Rates = Mapping[tuple[str, str], float]
_ONE_PLACE = "\0one place"  # the witness of operators that can not be split
_ANYWHERE = "\0anywhere"  # the witness of operators that any split suits, where a job names no attribute


@dataclass(frozen=True)
class Job:
    """Operators, what each may be split by, and the rows between them; made by `job_of`."""

    names: tuple[str, ...]  # The operators, in order of their names
    # For each operator what it may be split by. One that can not be split has the one choice to stand in one place; one
    # that any split suits has every attribute of the job
    choices: tuple[frozenset[str], ...]
    # Rows a second between pairs of operators by their places in `names`, the lesser first, both ways summed
    rates: Mapping[tuple[int, int], float]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def total(self) -> float:
        """Rows a second between all operators."""
        return float(sum(self.rates.values()))


@dataclass(frozen=True)
class Fusion:
    """Operators as components."""

    components: tuple[tuple[str, ...], ...]  # The names of the operators of each component; both by name
    # For each component what all its operators may be split by; empty where it can not be split
    attributes: tuple[frozenset[str], ...]
    sent: float  # Rows a second that go from one component to another
    total: float  # Rows a second between all operators
    bound: float  # Rows a second that any components send

    @property
    def proven(self) -> bool:
        """Whether no other components send less."""
        return self.sent <= self.bound + 1e-6 * max(self.total, self.bound)

    def together(self, *names: str) -> bool:
        """Return whether these operators are all of one component."""
        return any(set(names) <= set(members) for members in self.components)


def fuse(attributes: Attributes, rates: Rates, *, seconds: float = 10.0) -> Fusion:
    """Return the components between which fewest rows are sent: the exact model, or the best found in time.

    Every operator takes one of its attributes as a witness. Rows between equal witnesses cost nothing, and whatever
    is connected through them is a component: all its operators share the witness.

    Parameters
    ----------
    attributes
        For each operator the attributes that it may be split by. An empty one says that it can not be split; such
        operators stand in one place, so they may be one component, and they keep no others apart. None says that
        any split suits it: it keeps no state, or what it keeps is merged later.
    rates
        Rows a second from one operator to another, for each pair that is connected.
    seconds
        Of the solver at the most, 0.1 or more; then `Fusion.bound` says how far the best found may be from the least.

    Raises
    ------
    ValueError
        A rate is below 0, not finite, or between operators that are not there; an attribute has no name.

    Notes
    -----
    Among components that send equally little the choice depends on names only, not on the order of the arguments.
    Components may send rows to each other in a circle. An integer program of one whole number for each operator and
    attribute; a hundred operators take seconds.

    Examples
    --------
    >>> found = fuse(
    ...     {"read": None, "moves": ["object"], "panes": None, "windows": ["place"]},
    ...     {("read", "moves"): 1000.0, ("moves", "panes"): 1000.0, ("panes", "windows"): 50.0},
    ... )
    >>> found.components, found.sent
    ((('moves', 'panes', 'read'), ('windows',)), 50.0)
    """
    seconds = number("seconds", seconds, "0.1 or more", least=0.1)
    job = job_of(attributes, rates)
    start = merge_by_rates(job)
    witnesses, bound = _least(job, seconds)
    found = fusion_of(job, components_of(job, witnesses) if witnesses else start)
    best = min(found, fusion_of(job, start), key=lambda fusion: fusion.sent)
    # The solver's bound is good to its own accuracy: nothing is below what was found, or below nothing.
    return Fusion(best.components, best.attributes, best.sent, best.total, min(max(bound, 0.0), best.sent))


def job_of(attributes: Attributes, rates: Rates) -> Job:
    """Return operators and rates, checked, in an order that does not depend on the order of the arguments."""
    names = tuple(sorted(attributes))
    given = [None if (one := attributes[name]) is None else frozenset(_named(name, one)) for name in names]
    every = frozenset().union(*(one for one in given if one is not None)) or frozenset([_ANYWHERE])
    choices = tuple(every if one is None else one or frozenset([_ONE_PLACE]) for one in given)
    place = {name: at for at, name in enumerate(names)}
    summed: dict[tuple[int, int], float] = {}
    for pair, rate in sorted(rates.items()):
        for name in pair:
            if name not in place:
                known = ", ".join(names) or "none"
                raise ValueError(f"rates name the operator {name!r}; there is no such one, only {known}")
        source, target = pair
        said = f"rates[{source!r}, {target!r}]"
        rate = number(said, rate, f"rows a second, from 0 to {MOST_ROWS:g}", least=0.0, most=MOST_ROWS)
        i, j = sorted((place[source], place[target]))
        if i != j and rate > 0:
            summed[i, j] = summed.get((i, j), 0.0) + rate
    return Job(names, choices, summed)


def _named(operator: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise ValueError(f"attributes[{operator!r}] = {given!r}; it must be a list of names: [{given!r}]")
    found = list(given)
    for name in found:
        if not isinstance(name, str) or not name or name[0] == "\0":
            raise ValueError(f"attributes[{operator!r}] holds {name!r}; an attribute must be a name")
    return found


def fusion_of(job: Job, component: list[int]) -> Fusion:
    """Return components as they are told, and what they send; its bound is 0.

    ``component``: for each operator the number of its component; numbers need not be dense.
    """
    members: dict[int, list[int]] = {}
    for operator, number_of in enumerate(component):
        members.setdefault(number_of, []).append(operator)
    parts = sorted(members.values(), key=lambda part: job.names[part[0]])
    names = tuple(tuple(job.names[operator] for operator in part) for part in parts)
    shared = [frozenset.intersection(*(job.choices[operator] for operator in part)) for part in parts]
    for part, common in zip(names, shared, strict=True):
        if not common:
            raise ValueError(f"operators {', '.join(part)} share no attribute; they can not be one component")
    sent = sum(rate for (i, j), rate in job.rates.items() if component[i] != component[j])
    told = tuple(common - {_ONE_PLACE, _ANYWHERE} for common in shared)
    return Fusion(names, told, float(sent), job.total, 0.0)


def components_of(job: Job, witnesses: list[str]) -> list[int]:
    """Return for each operator the least one that it reaches over rows between equal witnesses."""
    root = list(range(len(job)))

    def top(operator: int) -> int:
        while root[operator] != operator:
            operator = root[operator]
        return operator

    for i, j in job.rates:
        if witnesses[i] == witnesses[j]:
            first, second = sorted((top(i), top(j)))
            root[second] = first
    return [top(operator) for operator in range(len(job))]


def merge_by_rates(job: Job) -> list[int]:
    """Return for each operator its component, where those two that send each other most become one, again and again.

    The paper's algorithm 1, with the rates of all pairs between two components added up. Ties go to the first names.
    """
    component = list(range(len(job)))
    shared = dict(enumerate(job.choices))
    rates = dict(job.rates)
    while True:
        fits = [(-rate, pair) for pair, rate in rates.items() if shared[pair[0]] & shared[pair[1]]]
        if not fits:
            return component
        _, (keep, gone) = min(fits)
        component = [keep if one == gone else one for one in component]
        shared[keep] &= shared.pop(gone)
        merged: dict[tuple[int, int], float] = {}
        for (i, j), rate in rates.items():
            i, j = sorted((keep if i == gone else i, keep if j == gone else j))
            if i != j:
                merged[i, j] = merged.get((i, j), 0.0) + rate
        rates = merged


def _least(job: Job, seconds: float) -> tuple[list[str] | None, float]:
    """Return the best witnesses that the solver found, or None, and the rows a second that any components send."""
    from scipy.sparse import coo_array

    from ceps.bounds.solver import minimise

    apart = sum(rate for (i, j), rate in job.rates.items() if not job.choices[i] & job.choices[j])
    pairs = [(pair, rate) for pair, rate in sorted(job.rates.items()) if job.choices[pair[0]] & job.choices[pair[1]]]
    if not pairs:
        return [min(choices) for choices in job.choices], apart
    # Attributes that an operator shares with no neighbour save nothing.
    column: dict[tuple[int, str], int] = {}
    for (i, j), _ in pairs:
        for attribute in sorted(job.choices[i] & job.choices[j]):
            column.setdefault((i, attribute), len(column))
            column.setdefault((j, attribute), len(column))
    # Rows, each at most its limit: no more than one witness of an operator; a pair is together under an attribute
    # no more than either of the two has it.
    most = max(rate for _, rate in pairs)
    entries = [(operator, at, 1.0) for (operator, _), at in column.items()]
    saved: list[float] = []
    height = len(job)
    for (i, j), rate in pairs:
        for attribute in sorted(job.choices[i] & job.choices[j]):
            for operator in (i, j):
                entries += [(height, len(column) + len(saved), 1.0), (height, column[operator, attribute], -1.0)]
                height += 1
            saved.append(rate / most)
    row, place, value = zip(*entries, strict=True)
    matrix = coo_array((value, (row, place)), shape=(height, len(column) + len(saved)))
    limit = np.zeros(height)
    limit[: len(job)] = 1.0
    whole = np.zeros(matrix.shape[1])
    whole[: len(column)] = 1.0
    cost = np.concatenate([np.zeros(len(column)), -np.array(saved)])
    answer = minimise(cost, matrix, np.full(height, -np.inf), limit, seconds=seconds, integral=whole)
    bound = job.total + answer.bound * most
    if answer.x is None:
        return None, bound
    witnesses = [min(choices) for choices in job.choices]
    for (operator, attribute), at in column.items():
        if answer.x[at] > 0.5:
            witnesses[operator] = attribute
    return witnesses, bound
