"""Which cells to move from a busy worker to an idle one: enough load, for the fewest bytes (PS2Stream, def. 4).

The problem is NP-hard (Partition). GR is the paper's greedy way, DP its dynamic programme over sizes in units, SI and
RA what it compares them with. No set reaches the difference of the two workers: they would only change places.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ceps.balance.cell_layout import Flags, Floats, Ints

Way = Literal["GR", "DP", "SI", "RA"]
UNIT_BYTES = 2_000.0
"""Of sizes in the dynamic programme: rounded up to whole ones, so that it is an approximation."""
_MOST_UNITS = 1 << 16


def chosen(way: Way, load: Floats, size: Floats, least: float, below: float, rng: np.random.Generator) -> Ints:
    """Return which cells to move, int64, rising; none where no set has enough and not too much.

    ``way``: "GR", "DP", "SI" or "RA"; ``load``, ``size``: float64 (n,). Of the cells of the busy worker; those without
    load are never chosen; ``rng``: draws the order of RA.
    """
    if way == "GR":
        return greedy(load, size, least, below)
    if way == "DP":
        return exact(load, size, least, below)
    if way == "SI":
        return in_order(np.argsort(-size, kind="stable"), load, least, below)
    if way == "RA":
        return in_order(rng.permutation(len(load)), load, least, below)
    raise ValueError(f"choose = {way!r}; it must be 'GR', 'DP', 'SI' or 'RA'")


def greedy(load: Floats, size: Floats, least: float, below: float) -> Ints:
    """Return the cells that GR chooses: by bytes for load, each that would reach ``least`` being a way to end.

    One that would be too much with what was taken ends by itself, which the paper does not say: so a set is found where
    there is one. Cost O(n log n).

    Examples
    --------
    >>> greedy(np.array([5.0, 4.0, 9.0]), np.array([1.0, 1.0, 9.0]), 6.0, 20.0).tolist()
    [0, 1]
    """
    usable = np.flatnonzero((load > 0.0) & (load < below))
    order = usable[np.argsort(size[usable] / load[usable], kind="stable")]
    taken: list[int] = []
    best: tuple[float, list[int]] | None = None
    total = cost = 0.0
    for cell in order.tolist():
        if total + load[cell] < least:
            taken.append(cell)
            total, cost = total + float(load[cell]), cost + float(size[cell])
            continue
        # where it would be too much with the others, the cell is enough by itself
        others, paid = (list(taken), cost) if total + load[cell] < below else ([], 0.0)
        enough = total + load[cell] < below or load[cell] >= least
        if enough and (best is None or paid + size[cell] < best[0]):
            best = (paid + float(size[cell]), [*others, cell])
    return np.array(sorted(best[1]) if best is not None else [], np.int64)


def exact(load: Floats, size: Floats, least: float, below: float, unit: float = UNIT_BYTES) -> Ints:
    """Return the cells of the least size in whole units that have ``least`` load, by dynamic programming.

    Sizes are looked at up to GR's answer, which is returned where the best set would have too much. Cost O(n s) in time
    and memory, for s units of GR's answer.
    """
    bound = greedy(load, size, least, below)
    usable = np.flatnonzero((load > 0.0) & (load < below))
    if len(bound) == 0:
        return bound
    units = np.ceil(size[usable] / unit).astype(np.int64)
    most = int(np.ceil(size[bound] / unit).sum())
    if most > _MOST_UNITS:
        return exact(load, size, least, below, unit * 2)
    best = np.zeros(most + 1)
    taken: Flags = np.zeros((len(usable), most + 1), np.bool_)
    for number, (cell, width) in enumerate(zip(usable.tolist(), units.tolist(), strict=True)):
        if width > most:
            continue
        more = best[: most + 1 - width] + load[cell]
        better = more > best[width:]
        taken[number, width:] = better
        best[width:] = np.where(better, more, best[width:])
    enough = np.flatnonzero(best >= least)
    if len(enough) == 0:
        return bound
    left, found = int(enough[0]), []
    for number in range(len(usable) - 1, -1, -1):
        if taken[number, left]:
            found.append(int(usable[number]))
            left -= int(units[number])
    cells = np.array(sorted(found), np.int64)
    return cells if load[cells].sum() < below else bound


def in_order(order: Ints, load: Floats, least: float, below: float) -> Ints:
    """Return cells taken in an order until they have ``least`` load; one that would make it too much is passed over."""
    taken, total = [], 0.0
    for cell in order.tolist():
        if load[cell] > 0.0 and total + load[cell] < below:
            taken.append(cell)
            total += float(load[cell])
            if total >= least:
                return np.array(sorted(taken), np.int64)
    return np.zeros(0, np.int64)
