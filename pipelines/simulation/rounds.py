"""Rounds of a stream: what its rows cost in each routing cell, counted with the index that a watch would have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ceps.balance.round_costs import Loads, Terms, WorkModel
from ceps.balance.subscription_load import SubscriptionLoad
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.grid_search import candidates_of
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.sharding.routing_grid import RoutingGrid, cells_of
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of

MOST_ROUNDS = 10_000


@dataclass(frozen=True, eq=False)
class Spoken:
    """Words by round and cell."""

    ends: NDArray[np.int64]  # int64 (r,). Where those of each round end in the arrays below
    cell: NDArray[np.int64]  # cell, word, rows, under: int64. As of :class:`ceps.balance.round_costs.Terms`
    word: NDArray[np.int64]
    rows: NDArray[np.int64]
    under: NDArray[np.int64]

    def terms(self, number: int) -> Terms:
        """Return those of a round."""
        part = slice(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))
        rows, under = self.rows[part].astype(np.float64), self.under[part].astype(np.float64)
        return Terms(self.cell[part], self.word[part], rows, under)


@dataclass(frozen=True, eq=False)
class Rounds:
    """What rows of each round cost, of r rounds that have any."""

    grid: RoutingGrid
    asked: SubscriptionLoad
    begin_us: NDArray[np.int64]  # int64 (r,). When each begins, microseconds since 1970
    ends: NDArray[np.int64]  # int64 (r,). Where the cells of each end in the arrays below
    # cell, rows, candidates, matches: int64. Cells of a round that have rows, rising, and what these are
    cell: NDArray[np.int64]
    rows: NDArray[np.int64]
    candidates: NDArray[np.int64]
    matches: NDArray[np.int64]
    model: WorkModel
    # What rows of each round have said of the words that are asked for; None where rows have no words
    spoken: Spoken | None = None

    def __len__(self) -> int:
        return len(self.begin_us)

    def loads(self, number: int) -> Loads:
        """Return what a round has cost."""
        part = slice(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))
        full = [np.zeros(self.grid.cells) for _ in range(3)]
        for total, values in zip(full, (self.rows, self.candidates, self.matches), strict=True):
            total[self.cell[part]] = values[part]
        rows, candidates, matches = full
        stored, sizes = self.asked.stored_by_cell.astype(np.float64), self.asked.bytes_by_cell
        terms = None if self.spoken is None else self.spoken.terms(number)
        return Loads(self.grid.shape, rows, candidates, matches, stored, sizes, self.model, terms)

    def each(self) -> Iterator[tuple[Loads, SubscriptionLoad]]:
        """Yield all in turn, as a rehearsal takes them."""
        for number in range(len(self)):
            yield self.loads(number), self.asked


def rounds_of(
    rows: Rows, standing: Standing, space: Space, grid: RoutingGrid, asked: SubscriptionLoad, round_us: int,
    model: WorkModel, vocabulary: Vocabulary,
) -> Rounds:  # fmt: skip
    """Return the rounds of a stream. Cost O(rows log rows + matches), and O(words log words) where rows have texts.

    Candidates of a row are the places that the index looks at for it, and the subscriptions of its cell that stand
    under one of its words.

    ``round_us``: microseconds of a round; rounds begin at whole multiples.
    """
    assert rows.t is not None
    number = rows.t // round_us
    begins, of = np.unique(number, return_inverse=True)
    if len(begins) > MOST_ROUNDS:
        raise InputError(
            f"the stream has {len(begins):,} rounds of {round_us / 1e6:g} s; at most {MOST_ROUNDS:,} are wanted"
        )
    cell = cells_of(grid, space, rows.positions)
    looked, held = candidates_of(standing, rows.positions), _matches(rows, standing)
    key, inverse = np.unique(of * grid.cells + cell, return_inverse=True)
    ends = np.searchsorted(key, (np.arange(len(begins)) + 1) * grid.cells)
    candidates = np.bincount(inverse, looked, len(key)).astype(np.int64)
    spoken = None
    if rows.text is not None and len(asked.cover):
        spoken = _spoken(inverse, key, ends, rows.text, asked, vocabulary)
        at = np.searchsorted(
            key, np.repeat(np.arange(len(ends)), np.diff(spoken.ends, prepend=0)) * grid.cells + spoken.cell
        )
        candidates += np.bincount(at, spoken.rows * spoken.under, len(key)).astype(np.int64)
    return Rounds(
        grid,
        asked,
        begins * round_us,
        ends,
        key % grid.cells,
        np.bincount(inverse, minlength=len(key)),
        candidates,
        np.bincount(inverse, held, len(key)).astype(np.int64),
        model,
        spoken,
    )


def _spoken(
    of: NDArray[np.int64], key: NDArray[np.int64], ends: NDArray[np.int64], text: pa.Array, asked: SubscriptionLoad,
    vocabulary: Vocabulary,
) -> Spoken:  # fmt: skip
    """Return the words of rows: ``of`` is the place of each in ``key``, of rounds and cells."""
    said = messages_of(vocabulary, text)
    row, word = np.repeat(np.arange(len(text)), np.diff(said.first)), said.words.astype(np.int64)
    wanted = np.isin(word, asked.under_words.words)
    count = max(int(asked.under_words.words.max(initial=0)) + 1, 1)
    pairs, rows = np.unique(of[row[wanted]] * count + word[wanted], return_counts=True)
    place, word = pairs // count, pairs % count
    cell = key[place] % (asked.shape[0] * asked.shape[1])
    under = asked.under_words.over(cell, word)
    return Spoken(np.searchsorted(place, ends), cell, word, rows, under)


def _matches(rows: Rows, standing: Standing) -> NDArray[np.int64]:
    """Return how many subscriptions hold each row, int64 (n,)."""
    found = np.zeros(len(rows), np.int64)
    for piece in StandingMatcher(standing, standing.alive(None)).pieces(rows, INSIDE | ENTER | LEAVE):
        size = piece.last_row - piece.first_row
        found[piece.first_row : piece.last_row] += np.bincount(piece.row - piece.first_row, minlength=size)
    return found
