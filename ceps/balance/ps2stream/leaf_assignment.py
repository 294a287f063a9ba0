"""Leaves of a kdt-tree given to workers: where they cost least, as long as that does not make loads more uneven."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceps.balance.cell_layout import Flags, Floats
from ceps.balance.ps2stream.kdt_pieces import Ground, Piece
from ceps.balance.round_costs import sigma


def merged(ground: Ground, pieces: Sequence[Piece], workers: int) -> tuple[list[int], Floats]:
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
