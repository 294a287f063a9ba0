"""PS2Stream's kdt-tree (Chen et al., algorithm 1): space cut where messages ask alike, words dealt where they do not.

A node whose messages say other words than its subscriptions ask for is cut again, where its halves differ most. One
that cannot be cut with a gain is cut by words alone; all others by space or by words, whichever costs less. The paper
cuts a node one way into all its parts. Here each piece is cut its own way, so that what is left when seldom words have
gone may be cut by space.

Leaves of a kdt-tree given to workers: where they cost least, as long as that does not make loads more uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ceps.balance.cell_layout import Flags, Floats, Ints, Layout, WordParts, of_parts
from ceps.balance.ps2stream.kdt_pieces import Ground, Piece, Rect, cost, cut_by_space, cut_by_words, dealt, halves
from ceps.balance.round_costs import Loads, sigma
from ceps.balance.subscription_load import SubscriptionLoad

By = Literal["both", "space", "words"]
MOST_NAMED = 1 << 21
"""Pairs of a cell and a word that a layout names at the most; what is more stays with the rest."""
_GAIN = 0.02
"""By how much a cut has to lower the likeness of what is said and asked to be one."""


@dataclass(frozen=True, eq=False)
class Node:
    """Cells, and whether only words are cut there."""

    rect: Rect  # First column, first row, last column, last row
    by_words: bool = False  # Whether it is cut by words alone (N_t in the paper), not by whatever costs less (N_s)


def nodes_of(ground: Ground, delta: float, theta: int) -> list[Node]:
    """Return the nodes of the tree, at most ``theta`` (lines 1 to 12). ``theta``: nodes at the most."""
    waiting = [(ground.whole, ground.likeness(ground.whole))]
    found: list[Node] = []
    while waiting:
        rect, alike = waiting.pop()
        if alike > delta:
            found.append(Node(rect))
            continue
        best: tuple[float, list[tuple[Rect, float]]] | None = None
        for by_row in (True, False):
            parts = [(one, ground.likeness(one)) for one in halves(ground.work, rect, by_row)]
            if parts and (best is None or min(part[1] for part in parts) < best[0]):
                best = (min(part[1] for part in parts), parts)
        full = len(waiting) + len(found) + 2 > theta
        if best is None or full or best[0] > alike - _GAIN:
            found.append(Node(rect, by_words=True))
        else:
            waiting += best[1]
    return found


def shares_of_nodes(costs: Sequence[Floats], parts: int) -> list[int]:
    """Return into how many parts each node goes, so that costs are least: L(i, j) = min L(i - 1, j - k) + C(i, k).

    ``costs``: of each node, what it costs in 1, 2, ... parts; at most ``parts`` of them; ``parts``: in all, at least as
    many as nodes; fewer where nodes cannot be cut into so many.

    O(nodes x parts^2).

    Examples
    --------
    >>> shares_of_nodes([np.array([9.0, 4.0, 3.0]), np.array([5.0, 4.0, 4.0])], 3)
    [2, 1]
    """
    least = np.full(parts + 1, np.inf)
    least[0] = 0.0
    choice = np.zeros((len(costs), parts + 1), np.int64)
    for number, cost_of in enumerate(costs):
        fresh = np.full(parts + 1, np.inf)
        for total in range(number + 1, parts + 1):
            for count in range(1, min(len(cost_of), total - number) + 1):
                value = least[total - count] + cost_of[count - 1]
                if value < fresh[total]:
                    fresh[total], choice[number, total] = value, count
        least = fresh
    left = int(np.flatnonzero(np.isfinite(least))[-1])
    found = []
    for number in range(len(costs) - 1, -1, -1):
        found.append(int(choice[number, left]))
        left -= found[-1]
    return found[::-1]


def cut(ground: Ground, piece: Piece, by: By) -> list[Piece]:
    """Return a piece in two, by words, by space, or the way that costs less; itself where there is none."""
    ways = []
    if by != "space":
        ways.append(cut_by_words(ground, piece))
    # where words alone are no way at all, what is left is cut by space
    if by != "words" or (len(ways[0]) < 2 and piece.words is None):
        ways.append(cut_by_space(ground, piece))
    cuts = [one for one in ways if len(one) > 1]
    return min(cuts, key=cost) if cuts else [piece]


def into(ground: Ground, pieces: list[Piece], by: By, count: int) -> list[list[Piece]]:
    """Return pieces in as many, one more, ... up to ``count``: each time the dearest that can be is cut."""
    found, whole = [pieces], set[int]()
    while len(found[-1]) < count:
        now = list(found[-1])
        ways = [at for at in range(len(now)) if id(now[at]) not in whole]
        if not ways:
            break
        dearest = max(ways, key=lambda at: (now[at].load, -at))
        parts = cut(ground, now[dearest], by)
        if len(parts) < 2:
            whole.add(id(now[dearest]))
            continue
        now[dearest : dearest + 1] = parts
        found.append(now)
    return found


@dataclass(frozen=True, eq=False)
class Tree:
    """A kdt-tree whose leaves have workers."""

    leaves: list[Piece]  # Pieces; those of a cell are its rest, and words
    worker: list[int]
    load: Floats  # float64 (workers,). What each costs (def. 1, leaf by leaf; what two leaves store is stored once)


def kdt_tree(
    loads: Loads, asked: SubscriptionLoad, workers: int, delta: float, theta: int, sigma: float, *, leaves: int = 1,
    by: By = "both",
) -> Tree:  # fmt: skip
    """Return the tree of a sample (algorithm 1).

    ``leaves``: of each worker, at least, as far as there are cells and words: finer leaves cost less; ``by``: "space"
    never cuts by words, "words" only by words.
    """
    ground = Ground(loads, asked)
    nodes = nodes_of(ground, delta, theta) if by == "both" else [Node(ground.whole, by == "words")]
    ways: list[By] = ["words" if node.by_words else by for node in nodes]
    roots = [[ground.piece(node.rect)] for node in nodes]
    wanted = min(max(workers * leaves, workers), max(theta, workers))
    if len(nodes) < wanted:
        many = [into(ground, root, way, wanted - len(nodes) + 1) for root, way in zip(roots, ways, strict=True)]
        counts = shares_of_nodes([np.array([cost(one) for one in each]) for each in many], wanted)
        roots = [each[count - 1] for each, count in zip(many, counts, strict=True)]
    pieces = [piece for root in roots for piece in root]
    way_of = {id(piece): way for root, way in zip(roots, ways, strict=True) for piece in root}
    while True:
        worker, load = assign_pieces(ground, pieces, workers)
        if (load.min() > 0.0 and load.max() <= sigma * load.min()) or len(pieces) >= theta:
            return Tree(pieces, worker, load)
        dearest = max(range(len(pieces)), key=lambda at: (pieces[at].load, -at))
        way = way_of[id(pieces[dearest])]
        parts = cut(ground, pieces[dearest], way)
        if len(parts) < 2:
            return Tree(pieces, worker, load)
        way_of |= {id(part): way for part in parts}
        pieces[dearest : dearest + 1] = parts


def kdt_layout(
    loads: Loads, asked: SubscriptionLoad, workers: int, delta: float, theta: int, sigma: float, *, leaves: int = 1,
    by: By = "both",
) -> Layout:  # fmt: skip
    """Return the layout of :func:`kdt_tree`: cells on workers, and words of cells that are leaves of their own."""
    tree = kdt_tree(loads, asked, workers, delta, theta, sigma, leaves=leaves, by=by)
    return layout_of(loads.shape, workers, tree.leaves, tree.worker, asked)


LEAVES, MOST_LEAVES = 8, 256
"""Of a tree for each worker, at least; and of all workers, unless there are more of these."""
UNEVEN = 1.5
"""What the busiest worker may have over the least busy (sigma)."""


def space_leaves(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return the layout of a tree that never cuts by words."""
    return kdt_layout(loads, asked, workers, 0.0, most_leaves(workers), UNEVEN, leaves=LEAVES, by="space")


def most_leaves(workers: int, theta: int = MOST_LEAVES) -> int:
    """Return how many leaves a tree may have: at least two a worker."""
    return max(theta, 2 * workers)


def words_by_frequency(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return the layout that deals words by how often they are said, everywhere alike; the first worker has the rest.

    Where nobody asks for words it is one worker's.
    """
    ground = Ground(loads, asked)
    pieces = dealt(ground, ground.whole, workers)
    return layout_of(loads.shape, workers, pieces, list(range(len(pieces))), asked)


def layout_of(
    shape: tuple[int, int], workers: int, pieces: Sequence[Piece], worker_of: Sequence[int], asked: SubscriptionLoad
) -> Layout:
    """Return the layout of pieces; of words only those that somebody asks for in a cell are named there.

    Those of pieces that would name too many pairs stay with the rest of their cells.
    """
    columns = shape[1]
    owner = np.zeros(shape[0] * columns, np.int64)
    named: list[tuple[Ints, Ints, int]] = []
    left = MOST_NAMED
    for piece, whose in zip(pieces, worker_of, strict=True):
        if piece.words is None:
            west, south, east, north = piece.rect
            owner.reshape(shape)[south : north + 1, west : east + 1] = whose
            continue
        pairs = asked.under_words.pairs(piece.words, piece.rect, left)
        if pairs is not None:
            named.append((*pairs, whose))
            left -= len(pairs[0])
    none = np.zeros(0, np.int64)
    cell = np.concatenate([none, *(one[0] for one in named)])
    word = np.concatenate([none, *(one[1] for one in named)])
    worker = np.concatenate([none, *(np.full(len(one[0]), one[2]) for one in named)])
    elsewhere = worker != owner[cell]
    parts = WordParts(cell[elsewhere], word[elsewhere], worker[elsewhere].astype(np.int32))
    return of_parts(shape, workers, np.arange(len(owner)), owner, np.ones(len(owner)), parts)


def assign_pieces(ground: Ground, pieces: Sequence[Piece], workers: int) -> tuple[list[int], Floats]:
    """Return the worker of each piece, and what each worker costs then, float64 (workers,).

    The dearest piece comes first. It goes to the worker whose cost rises least, which is one that stores much of it
    already, unless the busiest then has more over the least busy than before, or somebody has nothing yet; else to
    whoever has least.

    Cost O(pieces x workers x subscriptions of the sample).
    """
    load, found = np.zeros(workers), [0] * len(pieces)
    stored: Flags = np.zeros((workers, len(ground.asked)), np.bool_)
    for one in sorted(range(len(pieces)), key=lambda at: (-pieces[at].load, at)):
        piece = pieces[one]
        there = np.flatnonzero(piece.stored)
        rise = piece.load - ground.prices.stored * stored[:, there].sum(axis=1)
        cheapest = int(np.lexsort((load, rise))[0])
        after = load.copy()
        after[cheapest] += rise[cheapest]
        even = load.min() > 0.0 and sigma(after) <= sigma(load)
        taker = cheapest if even else int(load.argmin())
        found[one] = taker
        load[taker] += rise[taker]
        stored[taker, there] = True
    return found, load
