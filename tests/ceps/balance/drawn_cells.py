"""Layouts, subscriptions and loads that are drawn, and what they mean cell by cell: the slow, obvious way."""

from __future__ import annotations

import numpy as np

from ceps.balance.cell_layout import WordParts, of_parts
from ceps.balance.round_costs import Loads, WorkModel
from ceps.balance.subscription_load import SubscriptionLoad

WORDS = 6


def drawn_layout(rng, shape, workers, words=False):
    """A layout with shared cells, and with some that are split by words."""
    cell, worker, share, of, word, goes = [], [], [], [], [], []
    for one in range(shape[0] * shape[1]):
        count = int(rng.integers(1, workers + 1)) if rng.random() < 0.5 else 1
        held = rng.permutation(workers)[:count]
        cell += [one] * count
        worker += held.tolist()
        share += rng.dirichlet(np.full(count, 3.0)).tolist()
        if words and count == 1:
            some = np.flatnonzero(rng.random(WORDS) < 0.4)
            of += [one] * len(some)
            word += some.tolist()
            goes += rng.integers(0, workers, len(some)).tolist()
    parts = WordParts(np.array(of, np.int64), np.array(word, np.int64), np.array(goes, np.int32))
    return of_parts(shape, workers, cell, worker, share, parts)


def drawn_asked(rng, shape, count):
    """Subscriptions of one or two rectangles, some under words."""
    rects, owner, cover, begin = [], [], [], [0]
    for one in range(count):
        for _ in range(int(rng.integers(1, 3))):
            low, high = np.sort(rng.integers(0, [[shape[1], shape[0]]] * 2, (2, 2)), axis=0)
            rects.append([*low, *high])
            owner.append(one)
        cover += np.flatnonzero(rng.random(WORDS) < 0.3).tolist()
        begin.append(len(cover))
    return SubscriptionLoad(
        shape,
        np.array(rects, np.int64).reshape(-1, 4),
        np.array(owner, np.int64),
        rng.integers(1, 9, count).astype(float),
        np.array(begin, np.int64),
        np.array(cover, np.int64),
    )


def drawn_loads(rng, asked, most=100):
    """Loads of rows that lie anywhere, some cells without any."""
    cells = asked.shape[0] * asked.shape[1]
    rows = (rng.integers(0, most, cells) * (rng.random(cells) < 0.7)).astype(float)
    stored = asked.stored_by_cell.astype(float)
    model = WorkModel(1.0, 0.1, 0.5)
    return Loads(asked.shape, rows, rows * stored, rng.integers(0, 9, cells) * 1.0, stored, asked.bytes_by_cell, model)


def cells_of(asked, one):
    """The cells that a subscription touches."""
    found = set()
    for west, south, east, north in asked.rects[asked.owner == one].tolist():
        found |= {row * asked.shape[1] + column for row in range(south, north + 1) for column in range(west, east + 1)}
    return found


def stores(layout, asked, worker, one):
    """Whether a worker stores a subscription, cell by cell and word by word."""
    words = asked.cover[asked.cover_begin[one] : asked.cover_begin[one + 1]].tolist()
    for cell in cells_of(asked, one):
        held = layout.worker[layout.begin[cell] : layout.begin[cell + 1]].tolist()
        here = layout.words.cell == cell
        goes = dict(zip(layout.words.word[here].tolist(), layout.words.worker[here].tolist(), strict=True))
        if not goes:
            if worker in held:
                return True
        elif any(goes.get(word, held[0]) == worker for word in words) or (not words and held[0] == worker):
            return True
    return False
