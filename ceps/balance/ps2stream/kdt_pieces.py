"""Pieces of a kdt-tree: cells of a rectangle with all of their words or some, what they cost, and how they are cut.

A piece costs ``c1 O Q + c2 O + c3 Q`` for O rows and Q subscriptions (Chen et al., def. 1). Words that are seldom said
and often asked for are worth a piece of their own: few rows go there, and all others need not be held against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ceps.balance.cell_layout import FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW, Flags, Floats, Ints
from ceps.balance.round_costs import Loads, Terms, either
from ceps.balance.subscription_load import SubscriptionLoad

STORED = 0.2
"""What a subscription costs that is stored, in rows."""
_MOST_ASKED = 20_000
"""Subscriptions that a tree is made of; of more, a sample."""

Rect = tuple[int, int, int, int]
"""First column, first row, last column, last row."""


class Prices(NamedTuple):
    """What a row costs for each subscription, a row, and a subscription: c1, c2, c3."""

    held: float
    row: float
    stored: float


@dataclass(frozen=True, eq=False)
class Piece:
    """What is given to a worker whole."""

    rect: Rect
    # int64, rising. Words of which it has what stands there; None for the rest: all that no other piece of these cells
    # has
    words: Ints | None
    taken: Flags  # bool (words,). Those that other pieces of these cells have, of the rest
    rows: float
    stored: Flags  # bool (n,). Which subscriptions of the sample do
    load: float


@dataclass(frozen=True, eq=False)
class Ground:
    """What pieces are made of: work by cell, words said and asked for by cell."""

    loads: Loads  # Of a sample of rows
    every: SubscriptionLoad

    @cached_property
    def asked(self) -> SubscriptionLoad:
        """The subscriptions that are looked at."""
        return every_nth(self.every, self._step)

    @property
    def _step(self) -> int:
        return max(-(-len(self.every) // _MOST_ASKED), 1)

    @cached_property
    def prices(self) -> Prices:
        """Of rows and of subscriptions that are looked at, each of which stands for several."""
        model, step = self.loads.model, self._step
        return Prices(model.b * step, model.a, STORED * model.a * step)

    @cached_property
    def work(self) -> Floats:
        """Work of cells, float64 (rows, columns)."""
        return self.loads.work.reshape(self.loads.shape)

    @cached_property
    def terms(self) -> Terms:
        """What is said."""
        none = np.zeros(0, np.int64)
        return Terms(none, none, np.zeros(0), np.zeros(0)) if self.loads.terms is None else self.loads.terms

    @cached_property
    def words(self) -> int:
        """How many there are."""
        return int(max(self.every.cover.max(initial=-1), self.terms.word.max(initial=-1))) + 1

    @cached_property
    def _sizes(self) -> Ints:
        return np.diff(self.asked.cover_begin)

    @cached_property
    def _holder(self) -> Ints:
        """The subscription of each word of a cover."""
        return np.repeat(np.arange(len(self.asked)), self._sizes)

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Row and column of each term."""
        row, column = np.divmod(self.terms.cell, self.loads.shape[1])
        return row, column

    @property
    def whole(self) -> Rect:
        """All cells."""
        return (0, 0, self.loads.shape[1] - 1, self.loads.shape[0] - 1)

    def cells(self, rect: Rect) -> Ints:
        """Return the cells of a rectangle, rising."""
        west, south, east, north = rect
        columns, rows = np.arange(west, east + 1), np.arange(south, north + 1)
        return (rows[:, None] * self.loads.shape[1] + columns).ravel()

    def inside(self, rect: Rect) -> float:
        """Return the work of a rectangle."""
        west, south, east, north = rect
        return float(self.work[south : north + 1, west : east + 1].sum())

    def spoken(self, rect: Rect) -> tuple[Ints, Ints, Floats]:
        """Return cells and words that rows hold in a rectangle, and how many rows."""
        west, south, east, north = rect
        row, column = self._places
        mine = np.flatnonzero((column >= west) & (column <= east) & (row >= south) & (row <= north))
        return self.terms.cell[mine], self.terms.word[mine], self.terms.rows[mine]

    def touching(self, rect: Rect) -> Flags:
        """Return which subscriptions touch a rectangle, bool (n,)."""
        west, south, east, north = rect
        rects = self.asked.rects
        hit = (rects[:, FIRST_COLUMN] <= east) & (rects[:, LAST_COLUMN] >= west)
        hit &= (rects[:, FIRST_ROW] <= north) & (rects[:, LAST_ROW] >= south)
        there = np.zeros(len(self.asked), np.bool_)
        there[self.asked.owner[hit]] = True
        return there

    def asked_for(self, some: Flags) -> Floats:
        """Return how many of some subscriptions stand under each word, float64 (words,)."""
        return np.bincount(self.asked.cover[some[self._holder]], minlength=self.words).astype(np.float64)

    def likeness(self, rect: Rect) -> float:
        """Return the cosine of words said and asked for; 1 where there are none."""
        _, word, rows = self.spoken(rect)
        said = np.bincount(word, rows, self.words).astype(np.float64)
        wanted = self.asked_for(self.touching(rect))
        size = float(np.linalg.norm(said) * np.linalg.norm(wanted))
        return float(said @ wanted) / size if size > 0.0 else 1.0

    def piece(self, rect: Rect, words: Ints | None = None, taken: Flags | None = None) -> Piece:
        """Return a piece of a rectangle: of some words, or of all that are not taken."""
        gone = np.zeros(self.words, np.bool_) if taken is None else taken
        there = self.touching(rect)
        if words is None:
            under = ~gone[self.asked.cover] if gone.any() else np.ones(len(self.asked.cover), np.bool_)
            stored = there & ((self._sizes == 0) | (np.bincount(self._holder[under], minlength=len(there)) > 0))
            rows = float(self.loads.rows[self.cells(rect)].sum())
        else:
            chosen = np.zeros(self.words, np.bool_)
            chosen[words] = True
            under = chosen[self.asked.cover]
            stored = there & (np.bincount(self._holder[under], minlength=len(there)) > 0)
            cell, word, said = self.spoken(rect)
            mine = chosen[word]
            cells, group = np.unique(cell[mine], return_inverse=True)
            rows = float(either(said[mine], self.loads.rows[cell[mine]], group, self.loads.rows[cells]).sum())
        return Piece(rect, words, gone, rows, stored, self.load(rows, float(stored.sum())))

    def load(self, rows: float, stored: float) -> float:
        """Return what rows and subscriptions cost that are held together (def. 1)."""
        return self.prices.held * rows * stored + self.prices.row * rows + self.prices.stored * stored


def every_nth(asked: SubscriptionLoad, step: int) -> SubscriptionLoad:
    """Return each n-th subscription."""
    if step == 1:
        return asked
    kept = np.zeros(len(asked), np.bool_)
    kept[::step] = True
    place = np.cumsum(kept) - 1
    mine = kept[asked.owner]
    sizes = np.diff(asked.cover_begin)
    holder = np.repeat(np.arange(len(asked)), sizes)
    begin = np.concatenate([[0], np.cumsum(sizes[kept])])
    return SubscriptionLoad(
        asked.shape, asked.rects[mine], place[asked.owner[mine]], asked.bytes[kept], begin, asked.cover[kept[holder]]
    )


def halves(work: Floats, rect: Rect, by_row: bool) -> list[Rect]:
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


def cut_by_space(ground: Ground, piece: Piece) -> list[Piece]:
    """Return a piece in two, along the axis where they cost less; itself where it is one cell."""
    found = [piece]
    for by_row in (True, False):
        parts = [ground.piece(rect, piece.words, piece.taken) for rect in halves(ground.work, piece.rect, by_row)]
        if parts and (len(found) == 1 or cost(parts) < cost(found)):
            found = parts
    return found


def cut_by_words(ground: Ground, piece: Piece) -> list[Piece]:
    """Return a piece in two, some words for themselves, so that they cost least; itself where one word is left.

    Words are tried in the order of rows that say them over subscriptions that ask for them: the first few, or more.
    Cost O(terms + words log words).
    """
    wanted = ground.asked_for(piece.stored)
    wanted[piece.taken] = 0.0
    if piece.words is not None:
        mine = np.zeros(ground.words, np.bool_)
        mine[piece.words] = True
        wanted[~mine] = 0.0
    some = np.flatnonzero(wanted)
    if len(some) < 2 or (piece.words is not None and len(piece.words) < 2):
        return [piece]
    _, word, rows = ground.spoken(piece.rect)
    said = np.bincount(word, rows, ground.words)[some]
    order = np.argsort(said / wanted[some], kind="stable")
    # sums count rows with two of the words twice: the pieces below do not
    heard = np.minimum(np.cumsum(said[order]), piece.rows)[:-1]
    moved = np.minimum(np.cumsum(wanted[some][order]), float(piece.stored.sum()))[:-1]
    left = np.full(len(heard), piece.rows)
    if piece.words is not None:
        left = np.minimum(np.cumsum(said[order][::-1])[::-1][1:], piece.rows)
    held, row, _ = ground.prices
    price = held * (heard * moved + left * (piece.stored.sum() - moved)) + row * (heard + left)
    words = np.sort(some[order[: int(price.argmin()) + 1]])
    named = ground.piece(piece.rect, words)
    if piece.words is not None:
        return [named, ground.piece(piece.rect, np.setdiff1d(piece.words, words))]
    taken = piece.taken.copy()
    taken[words] = True
    return [named, ground.piece(piece.rect, None, taken)]


def dealt(ground: Ground, rect: Rect, count: int) -> list[Piece]:
    """Return the words of a rectangle in as many pieces, the most said first, each to the least; the first is the rest.

    It is one of three ways to deal words that the paper compares with: by their frequency alone; by how often they are
    asked for where nothing is known of rows. Those by a metric and by a hypergraph are not here.
    """
    _, word, rows = ground.spoken(rect)
    wanted = ground.asked_for(ground.touching(rect))
    said = np.bincount(word, rows, ground.words)
    weight = wanted if ground.loads.terms is None else said * (wanted > 0)
    lists: list[list[int]] = [[] for _ in range(count)]
    load = np.zeros(count)
    for one in np.argsort(-weight, kind="stable")[: int((weight > 0).sum())].tolist():
        least = int(load.argmin())
        lists[least].append(one)
        load[least] += weight[one]
    taken = np.zeros(ground.words, np.bool_)
    for some in lists[1:]:
        taken[some] = True
    named = [ground.piece(rect, np.sort(some)) for some in lists[1:] if some]
    return [ground.piece(rect, None, taken), *named]


def cost(pieces: list[Piece]) -> float:
    """Return what pieces cost together."""
    return sum(piece.load for piece in pieces)
