"""Messages and subscriptions with words over the United States, as PS2Stream's authors make them: Q1, Q2 and Q3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.measuring.points import DATA, KM_OF_DEGREE, scattered
from bench.watch.rounds import BYTES, SPRAWL_KM, states
from ceps.balance.round_costs import Loads, Terms, WorkModel
from ceps.balance.subscription_load import SubscriptionLoad
from dtoss.watch.words.tokenizer import tokens

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOWNS = DATA / "cities500.parquet"
WORDS_OF_A_MESSAGE = 8
SIGNS = ("and", "or", "not")
SIDE = 64
"""Rows and columns of the grid."""
REGIONS = 10
"""Rows and columns of the regions of Q3."""
WORK = WorkModel(1.0, 0.01, 0.0)
"""A row counts 1, and each subscription of its cell under one of its words .01."""
TOP = 0.01
"""Share of words that are frequent."""
_WEST, _SOUTH, _WIDE, _HIGH = -125.0, 24.0, 59.0, 26.0
_MOST_WORDS = 3


def towns(random: np.random.Generator) -> tuple[NDArray[np.float64], list[str], NDArray[np.float64]]:
    """Return where towns are, distinct words, and the share of each."""
    if TOWNS.exists():
        table = pq.read_table(TOWNS, columns=["lon", "lat", "text"])
        places = np.stack([table.column("lon").to_numpy(), table.column("lat").to_numpy()], axis=1)
        counts = Counter(
            word for text in table.column("text").to_pylist() for word in tokens(text) if word not in SIGNS
        )
        said = np.array(list(counts.values()), np.float64)
        return places, list(counts), said / said.sum()
    size = 150_000
    share = 1.0 / (np.arange(size) + 20.0)
    centres = np.stack([random.uniform(-180, 180, 200), random.uniform(-55, 65, 200)], axis=1)
    places = centres[random.integers(0, 200, 200_000)] + random.normal(0.0, 2.0, (200_000, 2))
    places[:, 0] = (places[:, 0] + 180.0) % 360.0 - 180.0
    return places, [f"w{i:x}" for i in range(size)], share / share.sum()


@dataclass(frozen=True)
class Talk:
    """Where people are, and how they talk.

    Parameters
    ----------
    middles, people
        Cities, and the share of people of each.
    share
        How often each word is said; the first are the most frequent.
    """

    middles: Floats
    people: Floats
    share: Floats


def talk() -> Talk:
    """Return the cities of the United States and the words of names of towns."""
    middles, people = states()
    _, _, share = towns(np.random.default_rng(0))
    return Talk(middles, people, np.sort(share)[::-1])


@dataclass(frozen=True)
class Asking:
    """Subscriptions: a rectangle of cells each, and the words under which it stands.

    Parameters
    ----------
    rects
        int64 (n, 4).
    region
        int64 (n,). Where its middle is.
    cover
        int64 (n, 3). Numbers of words, -1 for none.
    """

    rects: Ints
    region: Ints
    cover: Ints

    def asked(self) -> SubscriptionLoad:
        """Return them as strategies see them."""
        count, there = len(self.rects), self.cover >= 0
        begin = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        rows = np.sort(np.where(there, self.cover, np.iinfo(np.int64).max), axis=1)
        cover = rows[rows < np.iinfo(np.int64).max]
        return SubscriptionLoad((SIDE, SIDE), self.rects, np.arange(count), np.full(count, BYTES), begin, cover)

    def part(self, some: NDArray[np.bool_]) -> Asking:
        """Return some of these."""
        return Asking(self.rects[some], self.region[some], self.cover[some])

    def where(self, some: NDArray[np.bool_], other: Asking) -> Asking:
        """Return these, with others in some places."""
        return Asking(*(np.where(some[:, None] if a.ndim == 2 else some, b, a) for a, b in zip(
            (self.rects, self.region, self.cover), (other.rects, other.region, other.cover), strict=True
        )))  # fmt: skip


def asking(kind: str, world: Talk, count: int, rng: np.random.Generator, wide: bool = False) -> Asking:
    """Return subscriptions of a kind.

    Parameters
    ----------
    kind
        "Q1": squares of 1 to 50 km, words as they are said. "Q2": 1 to 100 km, one word at least is not of the top 1 %.
        "rare": all words are not.
    world
        Where and how people talk.
    count
        How many.
    rng
        Draws.
    wide
        Whether all of them ask of the whole country.
    """
    middle = scattered(rng, world.middles[rng.choice(len(world.middles), count, p=world.people)], SPRAWL_KM)
    half = rng.uniform(1.0, 50.0 if kind == "Q1" else 100.0, count) / 2 / KM_OF_DEGREE
    across = half / np.cos(np.radians(middle[:, 1]))
    x, y = middle.T
    rects = np.stack([_column(x - across), _row(y - half), _column(x + across), _row(y + half)], axis=1)
    if wide:
        rects[:] = [0, 0, SIDE - 1, SIDE - 1]
    top = round(TOP * len(world.share))
    seldom = world.share[top:] / world.share[top:].sum()
    words = rng.choice(len(world.share), (count, _MOST_WORDS), p=world.share)
    odd = top + rng.choice(len(seldom), (count, _MOST_WORDS), p=seldom)
    if kind == "Q2":
        words[:, 0] = odd[:, 0]
    elif kind == "rare":
        words = odd
    size, joined = rng.integers(1, _MOST_WORDS + 1, count), rng.random(count) < 0.5
    words[np.arange(_MOST_WORDS) >= size[:, None]] = -1
    # all of its words must be there: it stands under the least frequent, which has the highest number
    cover = np.where(joined[:, None], np.column_stack([words.max(axis=1), np.full((count, 2), -1)]), words)
    cover[:, 1] = np.where(cover[:, 1] == cover[:, 0], -1, cover[:, 1])
    cover[:, 2] = np.where((cover[:, 2] == cover[:, 0]) | (cover[:, 2] == cover[:, 1]), -1, cover[:, 2])
    region = _row(y) * REGIONS // SIDE * REGIONS + _column(x) * REGIONS // SIDE
    return Asking(rects, region, cover)


def _column(x: Floats) -> Ints:
    return np.clip(np.floor((x - _WEST) / _WIDE * SIDE), 0, SIDE - 1).astype(np.int64)


def _row(y: Floats) -> Ints:
    return np.clip(np.floor((y - _SOUTH) / _HIGH * SIDE), 0, SIDE - 1).astype(np.int64)


def workload(kind: str, world: Talk, count: int, rng: np.random.Generator) -> Asking:
    """Return "Q1", "Q2", "Q3" (Q1 or Q2 by region) or "wide" (in half of the regions all ask rare words anywhere)."""
    if kind in ("Q1", "Q2"):
        return asking(kind, world, count, rng)
    first = asking("Q1", world, count, rng)
    other = asking("rare", world, count, rng, wide=True) if kind == "wide" else asking("Q2", world, count, rng)
    switched = rng.random(REGIONS * REGIONS) < 0.5
    # which region a subscription belongs to is where the first of both has its middle
    return replace(first.where(switched[first.region], other), region=first.region)


def spoken(
    world: Talk, asked: SubscriptionLoad, messages: int, rng: np.random.Generator, model: WorkModel = WORK
) -> Loads:
    """Return what messages cost: eight words each, said as often as in names of towns."""
    places = scattered(rng, world.middles[rng.choice(len(world.middles), messages, p=world.people)], SPRAWL_KM)
    cell = _row(places[:, 1]) * SIDE + _column(places[:, 0])
    words = rng.choice(len(world.share), (messages, WORDS_OF_A_MESSAGE), p=world.share)
    count = len(world.share)
    said = np.unique(np.repeat(np.arange(messages), WORDS_OF_A_MESSAGE) * count + words.ravel())
    row, word = said // count, said % count
    wanted = np.isin(word, asked.under_words.words)
    pairs, rows = np.unique(cell[row[wanted]] * count + word[wanted], return_counts=True)
    under = asked.under_words.over(pairs // count, pairs % count).astype(np.float64)
    terms = Terms(pairs // count, pairs % count, rows.astype(np.float64), under)
    cells = SIDE * SIDE
    candidates = np.bincount(terms.cell, terms.rows * under, cells)
    rows_of = np.bincount(cell, minlength=cells).astype(np.float64)
    stored = asked.stored_by_cell.astype(np.float64)
    return Loads((SIDE, SIDE), rows_of, candidates, np.zeros(cells), stored, asked.bytes_by_cell, model, terms)


def switching(
    world: Talk, count: int, messages: int, rounds: int, every: int, seed: int = 0
) -> Iterator[tuple[Loads, SubscriptionLoad]]:
    """Yield rounds of Q3; after each few a tenth of the regions ask otherwise (Q1 for Q2, and the other way)."""
    rng = np.random.default_rng(seed)
    kinds = [asking("Q1", world, count, rng), asking("Q2", world, count, rng)]
    second = rng.random(REGIONS * REGIONS) < 0.5
    asked = None
    for number in range(rounds):
        if number and number % every == 0:
            some = rng.choice(REGIONS * REGIONS, REGIONS, replace=False)
            second[some] = ~second[some]
            asked = None
        if asked is None:
            asked = kinds[0].where(second[kinds[0].region], kinds[1]).asked()
        yield spoken(world, asked, messages, rng), asked
