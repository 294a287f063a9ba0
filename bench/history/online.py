"""Layouts that adapt while they are asked: the product's own decisions on arrays, and what all of it costs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.history.layouts import even_cells
from bench.history.worlds import World
from dtoss.history.adaptive.cost import Points, Prices, asking, cost_of, matched_rows, reads_of, run_of
from dtoss.history.adaptive.leaf_cuts_by_cost import Cell
from dtoss.history.adaptive.rewrite_decisions import Leaf, Look, Rewriting, decide
from dtoss.history.questions import REMEMBERED, Questions

EVERYWHERE: Cell = (-np.inf, -np.inf, np.inf, np.inf)


@dataclass
class Online:
    """A place order that adapts, beside whatever else can be asked.

    Parameters
    ----------
    world
        The rows.
    prices
        What is paid.
    leaves
        The rows of each leaf, by time, with its facts.
    """

    world: World
    prices: Prices
    leaves: list[tuple[NDArray[np.int64], Leaf]]
    looks: dict[tuple[int, ...], Look] = field(default_factory=dict)
    rewritten: int = 0
    looked: int = 0
    cuts: int = 0
    merges: int = 0

    @property
    def points(self) -> Points:
        """All rows."""
        return Points(self.world.t, self.world.xy, self.world.xy, self.world.row_bytes)

    def reads(self, questions: Questions) -> NDArray[np.int64]:
        """Return ranges and bytes of each question, int64 (m, 2)."""
        total = np.zeros((len(questions), 2), np.int64)
        for _, leaf in self.leaves:
            met = asking(leaf.run, questions, self.prices)
            if len(met):
                total[met] += reads_of(leaf.run, questions.take(met), self.prices)
        return total

    def needed(self, questions: Questions) -> NDArray[np.float64]:
        """Return the bytes of the blocks that the answers fill, leaf by leaf, float64 (m,)."""
        total = np.zeros(len(questions))
        for rows, leaf in self.leaves:
            met = asking(leaf.run, questions, self.prices)
            if len(met):
                matched = matched_rows(self._some(rows), leaf.run, questions.take(met))
                total[met] += -(-matched // self.prices.block_rows) * self.prices.block_rows * self.world.row_bytes
        return total

    def adapt(self, questions: Questions, elsewhere: NDArray[np.float64] | None) -> list[Rewriting]:
        """Cut and merge what has paid for it, and return that."""

        def load(numbers: tuple[int, ...]) -> Points:
            return self._some(np.sort(np.concatenate([self.leaves[number][0] for number in numbers])))

        facts = [leaf for _, leaf in self.leaves]
        made = decide(facts, elsewhere, questions, load, self.prices, self.looks)
        self.looked += made.looked
        self.looks |= made.looks
        if not made.rewritings:
            return []
        gone = {number for one in made.rewritings for number in one.leaves}
        stay = [number for number in range(len(self.leaves)) if number not in gone]
        place = {number: i for i, number in enumerate(stay)}
        fresh = [part for one in made.rewritings for part in self._made(one, int(questions.number[-1]) + 1)]
        self.looks = {
            tuple(place[number] for number in key): look
            for key, look in self.looks.items()
            if all(number in place for number in key)
        }
        self.leaves = [self.leaves[number] for number in stay] + fresh
        self.rewritten += sum(one.size for one in made.rewritings)
        self.cuts += sum(len(one.parts) > 1 for one in made.rewritings)
        self.merges += sum(len(one.parts) == 1 for one in made.rewritings)
        return made.rewritings

    def _made(self, one: Rewriting, since: int) -> list[tuple[NDArray[np.int64], Leaf]]:
        held = np.sort(np.concatenate([self.leaves[number][0] for number in one.leaves]))
        return [leaf_of(self.world, held[rows], cell, since, self.prices) for rows, cell in one.parts]

    def _some(self, rows: NDArray[np.int64]) -> Points:
        return Points(self.world.t[rows], self.world.xy[rows], self.world.xy[rows], self.world.row_bytes)


def leaf_of(
    world: World, rows: NDArray[np.int64], cell: Cell, since: int, prices: Prices
) -> tuple[NDArray[np.int64], Leaf]:
    """Return the leaf of some rows."""
    points = Points(world.t, world.xy, world.xy, world.row_bytes)
    return rows, Leaf(run_of(points, rows, prices), cell, since, len(rows))


def begun(world: World, leaves: int, prices: Prices) -> Online:
    """Return the leaves of an even k-d tree; their cells are the boxes of their rows."""
    cell = even_cells(world.xy, leaves)
    made = []
    for number in range(leaves):
        rows = np.flatnonzero(cell == number)
        low, high = world.xy[rows].min(axis=0), world.xy[rows].max(axis=0)
        box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        made.append(leaf_of(world, rows, box, 0, prices))
    return Online(world, prices, made)


@dataclass(frozen=True)
class Played:
    """What questions cost while the layout adapted.

    Parameters
    ----------
    reads
        int64 (m, 2).
    cost
        float64 (m,). The cheaper one of it and of what else there was.
    paid
        float64 (m,). What rewriting after each question cost, and looking in vain.
    wasted
        float64 (m,). Bytes that were read beyond the blocks of the answers.
    """

    reads: NDArray[np.int64]
    cost: NDArray[np.float64]
    paid: NDArray[np.float64]
    wasted: NDArray[np.float64]


def play(
    online: Online,
    questions: Questions,
    elsewhere: NDArray[np.float64] | None = None,
    *,
    adapting: bool = True,
    every: int = 20,
    wastes: bool = False,
) -> Played:
    """Ask questions in turn, a batch at a time as in the paper's section 7, and adapt after each batch.

    Parameters
    ----------
    online
        The layout; it is changed.
    questions
        Numbered from 1.
    elsewhere
        float64 (m,). What each costs in the other orders; None where there are none.
    adapting
        Whether it adapts.
    every
        Questions of a batch.
    wastes
        Whether waste is counted, which looks at rows.
    """
    m = len(questions)
    got, paid, wasted = np.zeros((m, 2), np.int64), np.zeros(m), np.zeros(m)
    for begin in range(0, m, every):
        rows = np.arange(begin, min(begin + every, m))
        some = questions.take(rows)
        got[rows] = online.reads(some)
        here = np.ones(len(rows), np.bool_)
        if elsewhere is not None:
            here = cost_of(got[rows], online.prices) < elsewhere[rows]
        if wastes:
            beyond = np.maximum(got[rows, 1] - online.needed(some), 0.0)
            wasted[rows] = np.where(here, beyond, 0.0)
        if adapting:
            known = np.arange(max(rows[-1] + 1 - REMEMBERED, 0), rows[-1] + 1)
            other = None if elsewhere is None else elsewhere[known]
            before = online.looked
            made = online.adapt(questions.take(known), other)
            paid[rows[-1]] = sum(online.prices.to_rewrite(one.size) for one in made)
            # what was read to decide, and then left as it was
            paid[rows[-1]] += online.looked - before - sum(one.size for one in made)
    cost = cost_of(got, online.prices)
    return Played(got, cost if elsewhere is None else np.minimum(cost, elsewhere), paid, wasted)
