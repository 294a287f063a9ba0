"""Algorithm 4.3 of the paper, repaired: new items one by one, to compare with what repairs a whole plan."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ceps.model.problem import TOLERANCE, Ints, Problem


def insert(
    problem: Problem, labels: Ints, types: Ints, items: Iterable[int], groups: int = 10, kind: int | None = None
) -> tuple[Ints, Ints]:
    """Labels and server types after `items` are put on servers one by one: algorithm 4.3, repaired.

    Servers are grouped by what they have left at their peak, in `groups` steps of the largest capacity. An item
    goes to the server of the group that it needs, or of the next, that takes it in every slot and whose pattern is
    flattest with it; after the last group to any server that takes it; else to a new server. O(servers x T) an item.

    ``labels``: int64 (M,), server of each item; those of `items` are ignored; ``types``: int64 (N,), type of each
    server; ``items``: the items to insert, in order.
    """
    labels, rented = labels.copy(), types.tolist()
    waiting = np.array(list(items), dtype=np.int64)
    labels[waiting] = -1
    kind = int(problem.rates.argmax()) if kind is None else kind
    largest = float(problem.rates.max())
    placed = np.flatnonzero(labels >= 0)
    loads = np.zeros((len(rented), problem.columns.shape[1]))
    np.add.at(loads, labels[placed], problem.columns[placed])
    for item in waiting:
        row = problem.columns[item]
        limits = np.column_stack([problem.rates[rented], problem.room[rented]])
        left = limits[:, 0] - loads[:, :-1].max(axis=1, initial=0.0)
        group = np.clip((left / largest * groups).astype(int), 0, groups - 1)
        target = min(int(row[:-1].max() / largest * groups), groups - 1)
        after = loads + row
        takes = (after[:, :-1].max(axis=1, initial=0.0) <= limits[:, 0] * (1 + TOLERANCE / 2)) & (
            after[:, -1] <= limits[:, 1] * (1 + TOLERANCE / 2)
        )
        takes &= ~_excluded(problem, labels, item, len(rented))
        flatness = np.abs(np.roll(after[:, :-1], -1, axis=1) - after[:, :-1]).sum(axis=1)
        chosen = -1
        for g in [*range(target, groups), None]:
            fits = np.flatnonzero(takes if g is None else takes & (group == g))
            if len(fits):
                chosen = int(fits[flatness[fits].argmin()])
                break
        if chosen < 0:
            chosen = len(rented)
            rented.append(kind)
            loads = np.vstack([loads, np.zeros(loads.shape[1])])
        labels[item] = chosen
        loads[chosen] += row
    return labels, np.array(rented, dtype=np.int64)


def _excluded(problem: Problem, labels: Ints, item: int, servers: int) -> NDArray[np.bool_]:
    found = np.zeros(servers, dtype=bool)
    mine = problem.group_of[problem.group_start[item] : problem.group_start[item + 1]]
    if len(mine):
        other = np.repeat(np.arange(len(problem)), np.diff(problem.group_start))
        others = labels[other[np.isin(problem.group_of, mine)]]
        found[others[others >= 0]] = True
    return found
