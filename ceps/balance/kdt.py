"""PS2Stream's kdt-tree (Chen et al., algorithm 1): space cut where messages ask alike, words dealt where they do not.

A node whose messages say other words than its subscriptions ask for is cut again, where its halves differ most; one
that cannot be cut with a gain is dealt out by words. Nodes are then merged into as many parts as there are workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ceps.balance.asked import FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW, Asked
from ceps.balance.layout import Floats, Ints, Layout, WordParts, of_parts
from ceps.balance.loads import Loads

_GAIN = 0.02
"""By how much a cut has to lower the likeness of what is said and asked to be one."""


@dataclass(frozen=True, eq=False)
class Node:
    """Cells, and whether words are dealt there.

    Parameters
    ----------
    rect
        First column, first row, last column, last row.
    work
        Seconds.
    by_words
        Whether it is dealt out by words.
    """

    rect: tuple[int, int, int, int]
    work: float
    by_words: bool = False


@dataclass
class _Field:
    """What nodes are made of: work by cell, words said and asked by cell."""

    loads: Loads
    asked: Asked
    work: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.loads.work.reshape(self.loads.shape)
        cover = self.asked.cover
        said = np.zeros(0, np.int64) if self.loads.terms is None else self.loads.terms.word
        self.words = int(max(cover.max(initial=-1), said.max(initial=-1))) + 1
        sizes = np.diff(self.asked.cover_begin)
        self.holder = np.repeat(np.arange(len(self.asked)), sizes)

    def inside(self, rect: tuple[int, int, int, int]) -> float:
        west, south, east, north = rect
        return float(self.work[south : north + 1, west : east + 1].sum())

    def cells(self, rect: tuple[int, int, int, int]) -> Ints:
        west, south, east, north = rect
        columns, rows = np.arange(west, east + 1), np.arange(south, north + 1)
        return (rows[:, None] * self.loads.shape[1] + columns).ravel()

    def said(self, rect: tuple[int, int, int, int]) -> Floats:
        """Return how many rows hold each word."""
        if self.loads.terms is None:
            return np.zeros(self.words)
        mine = np.isin(self.loads.terms.cell, self.cells(rect))
        return np.bincount(self.loads.terms.word[mine], self.loads.terms.rows[mine], self.words).astype(np.float64)

    def asked_for(self, rect: tuple[int, int, int, int]) -> Floats:
        """Return how many subscriptions stand under each word."""
        west, south, east, north = rect
        rects = self.asked.rects
        touching = (rects[:, FIRST_COLUMN] <= east) & (rects[:, LAST_COLUMN] >= west)
        touching &= (rects[:, FIRST_ROW] <= north) & (rects[:, LAST_ROW] >= south)
        there = np.zeros(len(self.asked), np.bool_)
        there[self.asked.owner[touching]] = True
        return np.bincount(self.asked.cover[there[self.holder]], minlength=self.words).astype(np.float64)

    def likeness(self, rect: tuple[int, int, int, int]) -> float:
        """Return the cosine of words said and asked for; 1 where there are none."""
        said, wanted = self.said(rect), self.asked_for(rect)
        size = float(np.linalg.norm(said) * np.linalg.norm(wanted))
        return float(said @ wanted) / size if size > 0.0 else 1.0


def halves(work: Floats, rect: tuple[int, int, int, int], by_row: bool) -> list[tuple[int, int, int, int]]:
    """Return a rectangle of cells cut at the median of its work along an axis; none where it has one line there."""
    west, south, east, north = rect
    table = work[south : north + 1, west : east + 1]
    sums = np.cumsum(table.sum(axis=1 if by_row else 0))
    if len(sums) < 2:
        return []
    total = float(sums[-1])
    at = int(np.argmin(np.abs(sums[:-1] - total / 2))) if total > 0.0 else (len(sums) - 1) // 2
    if by_row:
        return [(west, south, east, south + at), (west, south + at + 1, east, north)]
    return [(west, south, west + at, north), (west + at + 1, south, east, north)]


def nodes_of(loads: Loads, asked: Asked, delta: float, theta: int) -> list[Node]:
    """Return the nodes of the tree, at most ``theta`` (lines 1 to 14).

    Parameters
    ----------
    loads
        Of a sample, with its words; without them space alone is cut.
    asked
        The subscriptions.
    delta
        A node whose words are more alike than this is one of space.
    theta
        Nodes at the most.
    """
    ground = _Field(loads, asked)
    whole = (0, 0, loads.shape[1] - 1, loads.shape[0] - 1)
    waiting = [(whole, ground.likeness(whole))]
    found: list[Node] = []
    while waiting:
        rect, alike = waiting.pop()
        if alike > delta:
            found.append(Node(rect, ground.inside(rect)))
            continue
        best: tuple[float, list[tuple[tuple[int, int, int, int], float]]] | None = None
        for by_row in (True, False):
            parts = [(one, ground.likeness(one)) for one in halves(ground.work, rect, by_row)]
            if parts and (best is None or min(part[1] for part in parts) < best[0]):
                best = (min(part[1] for part in parts), parts)
        full = len(waiting) + len(found) + 2 > theta
        if best is None or full or best[0] > alike - _GAIN:
            found.append(Node(rect, ground.inside(rect), by_words=True))
        else:
            waiting += best[1]
    return found


def shares_of_nodes(costs: Sequence[Floats], parts: int) -> list[int]:
    """Return into how many parts each node goes, so that costs are least: L(i, j) = min L(i - 1, j - k) + C(i, k).

    Parameters
    ----------
    costs
        Of each node, what it costs in 1, 2, ... parts; at most ``parts`` of them.
    parts
        In all, at least as many as nodes; fewer where nodes cannot be cut into so many.

    Notes
    -----
    O(nodes x parts^2).

    Examples
    --------
    >>> shares_of_nodes([np.array([9.0, 4.0, 3.0]), np.array([5.0, 4.0, 4.0])], 3)
    [2, 1]
    """
    least = np.full(parts + 1, np.inf)
    least[0] = 0.0
    choice = np.zeros((len(costs), parts + 1), np.int64)
    for number, cost in enumerate(costs):
        fresh = np.full(parts + 1, np.inf)
        for total in range(number + 1, parts + 1):
            for count in range(1, min(len(cost), total - number) + 1):
                value = least[total - count] + cost[count - 1]
                if value < fresh[total]:
                    fresh[total], choice[number, total] = value, count
        least = fresh
    left = int(np.flatnonzero(np.isfinite(least))[-1])
    found = []
    for number in range(len(costs) - 1, -1, -1):
        found.append(int(choice[number, left]))
        left -= found[-1]
    return found[::-1]


@dataclass(frozen=True, eq=False)
class _Piece:
    """What is given to a worker whole: cells of space, or some words of a node."""

    work: float
    cells: Ints
    words: Ints | None = None


def kdt_layout(loads: Loads, asked: Asked, workers: int, delta: float, theta: int, sigma: float) -> Layout:
    """Return the layout of a kdt-tree: cells on workers, and words of cells where nodes are dealt out by words.

    Parameters
    ----------
    loads
        Of a sample.
    asked
        The subscriptions.
    workers
        How many.
    delta, theta
        As :func:`nodes_of`.
    sigma
        The most that the busiest may have over the least busy; the dearest piece is halved while it has more.
    """
    ground = _Field(loads, asked)
    nodes = nodes_of(loads, asked, delta, theta)
    if len(nodes) < workers:
        counts = shares_of_nodes([_costs(ground, node, workers) for node in nodes], workers)
    else:
        counts = [1] * len(nodes)
    pieces = [piece for node, count in zip(nodes, counts, strict=True) for piece in _cut(ground, node, count)]
    while len(pieces) < theta:
        worker_of, work = _merged(pieces, workers)
        if work.min() > 0.0 and work.max() <= sigma * work.min():
            break
        dearest = max(range(len(pieces)), key=lambda one: (pieces[one].work, -one))
        parts = _halved(ground, pieces[dearest])
        if len(parts) < 2:
            break
        pieces[dearest : dearest + 1] = parts
    worker_of, _ = _merged(pieces, workers)
    return _layout(loads.shape, workers, pieces, worker_of, asked)


def _costs(ground: _Field, node: Node, most: int) -> Floats:
    """Return what a node costs in 1, 2, ... parts: rows that several parts see are counted in each."""
    said = ground.said(node.rect)
    rows = float(ground.loads.rows[ground.cells(node.rect)].sum())
    seen = np.array([min(count, max(float(said.sum()) / rows, 1.0)) if rows else 1.0 for count in range(1, most + 1)])
    extra = rows * ground.loads.model.a * (seen - 1.0) if node.by_words else np.zeros(most)
    # the sum of loads, and the largest part beside it: without that one part would always be cheapest
    return node.work + extra + node.work / np.arange(1, most + 1)


def _cut(ground: _Field, node: Node, count: int) -> list[_Piece]:
    if node.by_words and count > 1:
        return _dealt(ground, node, count)
    pieces = [_Piece(node.work, ground.cells(node.rect))]
    rects = [node.rect]
    while len(rects) < count:
        largest = max(range(len(rects)), key=lambda one: (ground.inside(rects[one]), -one))
        west, south, east, north = rects[largest]
        parts = halves(ground.work, rects[largest], north - south >= east - west)
        if not parts:
            break
        rects[largest : largest + 1] = parts
        pieces = [_Piece(ground.inside(one), ground.cells(one)) for one in rects]
    return pieces


def _dealt(ground: _Field, node: Node, count: int) -> list[_Piece]:
    """Return the words of a node in as many pieces, the most said first, each to the least; the first has the rest."""
    weight = ground.said(node.rect) * (ground.asked_for(node.rect) > 0)
    total = float(weight.sum())
    lists: list[list[int]] = [[] for _ in range(count)]
    load = np.zeros(count)
    for word in np.argsort(-weight, kind="stable")[: int((weight > 0).sum())].tolist():
        least = int(load.argmin())
        lists[least].append(word)
        load[least] += weight[word]
    cells = ground.cells(node.rect)
    share = load / total if total > 0.0 else np.full(count, 1.0 / count)
    rest = _Piece(float(node.work * share[0]), cells)
    return [rest, *(_Piece(float(node.work * share[k]), cells, np.sort(lists[k])) for k in range(1, count) if lists[k])]


def _halved(ground: _Field, piece: _Piece) -> list[_Piece]:
    """Return a piece of space cut once more; words stay together."""
    columns = ground.loads.shape[1]
    rows, across = piece.cells // columns, piece.cells % columns
    rect = (int(across.min()), int(rows.min()), int(across.max()), int(rows.max()))
    if piece.words is not None or len(piece.cells) < 2:
        return [piece]
    parts = halves(ground.work, rect, rect[3] - rect[1] >= rect[2] - rect[0])
    return [_Piece(ground.inside(one), ground.cells(one)) for one in parts]


def _merged(pieces: Sequence[_Piece], workers: int) -> tuple[list[int], Floats]:
    """Return the worker of each piece, the dearest first to whoever has least, and what each has then."""
    load, found = np.zeros(workers), [0] * len(pieces)
    for one in sorted(range(len(pieces)), key=lambda at: (-pieces[at].work, at)):
        found[one] = int(load.argmin())
        load[found[one]] += pieces[one].work
    return found, load


def _layout(
    shape: tuple[int, int], workers: int, pieces: Sequence[_Piece], worker_of: Sequence[int], asked: Asked
) -> Layout:
    owner = np.zeros(shape[0] * shape[1], np.int64)
    cell, word, worker = [], [], []
    for piece, whose in zip(pieces, worker_of, strict=True):
        if piece.words is None:
            owner[piece.cells] = whose
            continue
        cell.append(np.repeat(piece.cells, len(piece.words)))
        word.append(np.tile(piece.words, len(piece.cells)))
        worker.append(np.full(len(piece.cells) * len(piece.words), whose, np.int32))
    none = np.zeros(0, np.int64)
    parts = WordParts(
        np.concatenate([none, *cell]), np.concatenate([none, *word]), np.concatenate([none.astype(np.int32), *worker])
    )
    return of_parts(shape, workers, np.arange(len(owner)), owner, np.ones(len(owner)), parts)
