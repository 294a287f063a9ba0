"""Which leaves are rewritten: those whose regret has paid for it. Arrays in, decisions out; nothing is read here.

Renting until the rent has reached the price costs at most twice what a tree would that knew the questions: the rule (4)
of the paper's section 4.2.2. Two counts have to agree. The *regret*, what questions cost beyond what they would in the
leaves that come, with their weights, has to reach the price. And the *waste*, bytes that they read beyond the blocks
which their answers fill, without any weight, has to reach the bytes of the leaf: so no more is written than was read in
vain. Both count questions asked since the leaf was made, so each pays once; older ones only help to choose the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.history.adaptive.cost import (
    Points,
    Prices,
    Run,
    asking,
    cost_of,
    matched_rows,
    reads_of,
    run_of,
    wasted_bytes,
)
from dtoss.history.adaptive.leaf_cuts_by_cost import Cell, best_cut, imagined
from dtoss.history.layouts.kd_tree import tree_of_cells
from dtoss.history.questions import Questions


@dataclass(frozen=True)
class Leaf:
    """A leaf of the place order of one period."""

    run: Run
    cell: Cell
    since: int  # The version of the history that it was made in: questions of that and later versions read it
    rows: int  # How many it has

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in the mean."""
        return self.run.size / max(self.rows, 1)


@dataclass(frozen=True)
class Look:
    """What was found when the rows of leaves were looked at in vain."""

    number: int  # The last question by then
    share: float  # How much of what could have been saved at the most could be saved indeed


NEVER_LOOKED = 0
"""Of a look that there was not: before the first question."""


@dataclass(frozen=True)
class Rewriting:
    """Leaves that are replaced by others."""

    leaves: tuple[int, ...]  # Their numbers: one that is cut, or two that are merged
    points: Points  # points, parts: the rows of all of them, and which of those each new leaf has, with its cell
    parts: list[tuple[NDArray[np.int64], Cell]]
    size: int  # Bytes that are read, and about as many that are written
    regret: float  # regret, waste: of the questions since they were made, in bytes
    waste: float


@dataclass(frozen=True)
class Decision:
    """What is to be done with the leaves of one period."""

    rewritings: list[Rewriting]  # No leaf is in two of them
    # Of leaves, or pairs, that were looked at in vain
    looks: Mapping[tuple[int, ...], Look] = field(default_factory=dict)
    looked: int = 0  # Bytes of leaves that were read to decide, those of the rewritings among them


Load = Callable[[tuple[int, ...]], Points]
"""Returns the rows of leaves, by ascending times."""


def decide(
    leaves: Sequence[Leaf],
    elsewhere: NDArray[np.float64] | None,
    questions: Questions,
    load: Load,
    prices: Prices,
    looks: Mapping[tuple[int, ...], Look] | None = None,
    most: float = np.inf,
) -> Decision:
    """Return which leaves of a period are cut and which are merged.

    ``leaves``: all leaves of its place order; ``elsewhere``: float64 (m,). What each question would cost in the best of
    the other orders: one that is cheaper there is asked there, and pays for nothing here. None where there is no other
    order; ``load``: reads leaves. It is called for those whose questions could pay; ``most``: bytes to be rewritten,
    beyond which nothing more is looked at: the next decision goes on.

    The same questions lead to the same decision, and those of rewritten leaves to none: deciding twice rewrites once.
    """
    served = _served(leaves, elsewhere, questions, prices)
    weights = questions.weights()
    held = looks or {}
    shares = [look.share for key, look in held.items() if len(key) == 1]
    unknown = Look(NEVER_LOOKED, (1.0 + sum(shares)) / (1.0 + len(shares)))
    found: list[tuple[tuple[int, ...], Rewriting | Look]] = []
    for number, leaf in enumerate(leaves):
        look = held.get((number,), unknown)
        made = _cut(number, leaf, served[number], questions, weights, load, prices, look)
        if made is not None:
            found.append(((number,), made))
        if _rewritten(found) >= most:
            break
    taken = {key[0] for key, made in found if isinstance(made, Rewriting)}
    if _rewritten(found) < most:
        found += _merges(leaves, served, questions, weights, load, prices, taken, held)
    looked = sum(leaves[number].run.size for key, _ in found for number in key)
    return Decision(
        [made for _, made in found if isinstance(made, Rewriting)],
        {key: made for key, made in found if isinstance(made, Look)},
        looked,
    )


def _rewritten(found: list[tuple[tuple[int, ...], Rewriting | Look]]) -> int:
    return sum(made.size for _, made in found if isinstance(made, Rewriting))


@dataclass(frozen=True)
class _Served:
    """The questions that read a leaf, by ascending rows of all questions, and what they read."""

    rows: NDArray[np.int64]
    reads: NDArray[np.int64]


def _served(
    leaves: Sequence[Leaf], elsewhere: NDArray[np.float64] | None, questions: Questions, prices: Prices
) -> list[_Served]:
    met = []
    total = np.zeros(len(questions))
    for leaf in leaves:
        rows = asking(leaf.run, questions, prices)
        reads = reads_of(leaf.run, questions.take(rows), prices)
        some = reads[:, 0] > 0
        met.append(_Served(rows[some], reads[some]))
        total[rows] += cost_of(reads, prices)
    if elsewhere is None:
        return met
    here = total <= elsewhere  # a place order of one leaf costs what the order by time does, and may be cut
    return [take_rows(one, here[one.rows]) for one in met]


def _cut(
    number: int,
    leaf: Leaf,
    served: _Served,
    questions: Questions,
    weights: NDArray[np.float64],
    load: Load,
    prices: Prices,
    look: Look,
) -> Rewriting | Look | None:
    """Return how a leaf is cut; or the look that was in vain; None where there was none."""
    size = leaf.run.size
    if size < 2 * prices.least or not len(served.rows):
        return None
    some, counts = questions.take(served.rows), weights[served.rows]
    now = cost_of(served.reads, prices)
    since = some.version >= leaf.since
    price = prices.to_rewrite(size)
    most = _saved(leaf.run, some, now, prices)
    if not _worth_a_look(most[since], counts[since], some.number[since], price, look):
        return None
    points = load((number,))
    more, as_many = imagined(points, some, counts)
    every = join_rows([some, more])
    cut = best_cut(points, leaf.cell, every, np.append(counts, as_many), prices)
    regret = float((now - cut.cost[: len(some)])[since] @ counts[since])
    waste = 0.0
    if len(cut.parts) > 1 and regret >= price:
        waste = _waste(leaf.run, points, some.take(np.flatnonzero(since)), served.reads[since], prices)
    if waste < size:
        return Look(int(questions.number[-1]), max(regret, 0.0) / max(float(most[since] @ counts[since]), 1.0))
    return Rewriting((number,), points, cut.parts, size, regret, waste)


def _saved(run: Run, some: Questions, now: NDArray[np.float64], prices: Prices) -> NDArray[np.float64]:
    """Return about what questions could save where rows are as dense everywhere, by boxes alone.

    Whatever is cut, an answer takes a request and a block, or as large a part of what was read as it is of the leaf.
    """
    low, high = run.low.min(axis=0), run.high.max(axis=0)
    wide = np.argsort(high - low)[-2:]  # of a box on the sphere the third side is the flat one
    reach = some.reach[:, None]
    inner = np.minimum(some.high + reach, high) - np.maximum(some.low - reach, low)
    shares = (np.clip(inner, 0.0, None) / np.maximum(high - low, _FLAT))[:, wide].prod(axis=1)
    pieces = np.repeat(np.arange(len(some)), np.diff(some.begin))
    part = np.minimum(np.bincount(pieces, shares, len(some)), 1.0)
    part[np.diff(some.begin) == 0] = 1.0
    read = now - prices.request
    return np.maximum(read - np.maximum(run.size / len(run.bytes), part * read), 0.0)


_FLAT = 1e-300
"""The extent of a box that has none."""


def _worth_a_look(
    cost: NDArray[np.float64],
    counts: NDArray[np.float64],
    number: NDArray[np.int64],
    price: float,
    look: Look,
) -> bool:
    """Return whether questions may have paid, by the most that each could save, and how much of that was found before.

    A leaf that was never looked at is taken for one like those that were, and the first of all could save everything.
    Between two looks half of the price has to be lost: more than a look reads.
    """
    if look.number == NEVER_LOOKED:
        return bool(float(cost @ counts) * max(look.share, 1.0 / _DOUBTED) >= price)
    fresh = number > look.number
    lately = float(cost[fresh] @ counts[fresh])
    return bool(lately >= price / 2 and max(float(cost @ counts) * look.share, lately / _DOUBTED) >= price)


_DOUBTED = 4.0
"""What is saved of new questions may be so much more than what was found of those before: others are asked now."""


def _waste(run: Run, points: Points, some: Questions, reads: NDArray[np.int64], prices: Prices) -> float:
    return wasted_bytes(reads, matched_rows(points, run, some), points.row_bytes, prices.block_rows)


def _merges(
    leaves: Sequence[Leaf],
    served: list[_Served],
    questions: Questions,
    weights: NDArray[np.float64],
    load: Load,
    prices: Prices,
    taken: set[int],
    looks: Mapping[tuple[int, ...], Look],
) -> list[tuple[tuple[int, ...], Rewriting | Look]]:
    """Return what becomes of neighbours whose cells make a rectangle, where that was worth a look."""
    found: list[tuple[tuple[int, ...], Rewriting | Look]] = []
    for a, b in neighbours([leaf.cell for leaf in leaves]):
        if a in taken or b in taken:
            continue
        rows = np.intersect1d(served[a].rows, served[b].rows)
        rows = rows[questions.version[rows] >= max(leaves[a].since, leaves[b].since)]
        if not len(rows):
            continue
        left, right = _reads_within(served[a], rows), _reads_within(served[b], rows)
        most = (left[:, 0] + right[:, 0] - 1) * prices.request + np.minimum(left[:, 1], right[:, 1])
        size = leaves[a].run.size + leaves[b].run.size
        price, look = prices.to_rewrite(size), looks.get((a, b), Look(NEVER_LOOKED, 1.0))
        if not _worth_a_look(np.asarray(most, np.float64), weights[rows], questions.number[rows], price, look):
            continue
        if not still_a_tree(leaves, found, (a, b)):
            continue
        made = _merged(leaves, served, questions, weights, load, prices, (a, b), float(most @ weights[rows]))
        found.append(((a, b), made))
        if isinstance(made, Rewriting):
            taken |= {a, b}
    return found


def still_a_tree(
    leaves: Sequence[Leaf], found: list[tuple[tuple[int, ...], Rewriting | Look]], pair: tuple[int, int]
) -> bool:
    """Return whether cells are those of some tree once a pair is merged beside those that are merged already.

    Two that make a rectangle may lie on both sides of a cut that others need.
    """
    pairs = [pair, *(key for key, made in found if isinstance(made, Rewriting))]
    gone = {number for key in pairs for number in key}
    cells = [leaf.cell for number, leaf in enumerate(leaves) if number not in gone]
    cells += [_around(leaves[key[0]].cell, leaves[key[1]].cell) for key in pairs]
    try:
        tree_of_cells(np.array(cells, np.float64))
    except ValueError:
        return False
    return True


def _merged(
    leaves: Sequence[Leaf],
    served: list[_Served],
    questions: Questions,
    weights: NDArray[np.float64],
    load: Load,
    prices: Prices,
    pair: tuple[int, int],
    most: float,
) -> Rewriting | Look:
    a, b = pair
    both = np.union1d(served[a].rows, served[b].rows)
    both = both[questions.version[both] >= max(leaves[a].since, leaves[b].since)]
    reads = _reads_within(served[a], both) + _reads_within(served[b], both)
    size = leaves[a].run.size + leaves[b].run.size
    points = load(pair)
    rows = np.arange(len(points), dtype=np.int64)
    some = questions.take(both)
    run = run_of(points, rows, prices)
    now = cost_of(reads, prices)
    regret = float((now - cost_of(reads_of(run, some, prices), prices)) @ weights[both])
    waste = 0.0
    if regret >= prices.to_rewrite(size):
        matched = matched_rows(points, run, some)
        matched += prices.block_rows * (matched > 0)  # the answers of two leaves fill one block more at the most
        waste = wasted_bytes(reads, matched, points.row_bytes, prices.block_rows)
    if waste < size:
        return Look(int(questions.number[-1]), max(regret, 0.0) / max(most, 1.0))
    return Rewriting(pair, points, [(rows, _around(leaves[a].cell, leaves[b].cell))], size, regret, waste)


def _reads_within(served: _Served, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what each of some questions reads, 0 where it does not read the leaf."""
    out = np.zeros((len(rows), 2), np.int64)
    _, mine, theirs = np.intersect1d(rows, served.rows, assume_unique=True, return_indices=True)
    out[mine] = served.reads[theirs]
    return out


def neighbours(cells: Sequence[Cell]) -> list[tuple[int, int]]:
    """Return pairs of cells that make a rectangle together, the left or lower one first.

    Examples
    --------
    >>> neighbours([(0.0, 0.0, 1.0, 2.0), (1.0, 0.0, 3.0, 2.0), (0.0, 2.0, 1.0, 3.0)])
    [(0, 1), (0, 2)]
    """
    left = {(cell[0], cell[1], cell[3]): number for number, cell in enumerate(cells)}
    lower = {(cell[1], cell[0], cell[2]): number for number, cell in enumerate(cells)}
    pairs = set()
    for number, (x0, y0, x1, y1) in enumerate(cells):
        for other in (left.get((x1, y0, y1)), lower.get((y1, x0, x1))):
            if other is not None and other != number:
                pairs.add((number, other))
    return sorted(pairs)


def _around(a: Cell, b: Cell) -> Cell:
    return (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
