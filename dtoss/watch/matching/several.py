"""Rows against all that stands: the large index and the small one, as if they were one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.watch.built.standing import Standing
from dtoss.watch.matching.matcher import ANY, MOST_MATCHES, Matcher, joined_pieces
from dtoss.watch.matching.matches import Matches, joined
from dtoss.watch.rows import Rows


@dataclass(frozen=True)
class StandingMatcher:
    """What holds rows against the subscriptions that are alive.

    Parameters
    ----------
    standing
        What stands.
    alive
        bool (n,). Which of it count.
    """

    standing: Standing
    alive: NDArray[np.bool_]

    def pieces(self, rows: Rows, wants: int | NDArray[np.uint8] = ANY, most: int = MOST_MATCHES) -> Iterator[Matches]:
        """Yield the matches of consecutive rows, as :meth:`Matcher.pieces`; subscriptions are numbered as the table."""
        matchers = [
            (first, Matcher(built, self.alive[first : first + len(built)])) for first, built in self.standing.parts
        ]
        if not matchers:
            yield joined(0, len(rows), [])
            return
        wanted = np.broadcast_to(np.asarray(wants, np.uint8), len(rows))
        _, large = matchers[0]
        for piece in large.pieces(rows, wanted, most):
            begin, end = piece.first_row, piece.last_row
            parts = [piece]
            for first, small in matchers[1:]:
                some = rows.take(np.arange(begin, end))
                found = small.match(some, wanted[begin:end])
                numbers = (found.subscription + first).astype(np.int32)
                parts.append(Matches(begin, end, found.row + begin, numbers, found.distance))
            yield joined(begin, end, parts)

    def match(self, rows: Rows, wants: int | NDArray[np.uint8] = ANY) -> Matches:
        """Return all matches of rows at once."""
        return joined_pieces(len(rows), list(self.pieces(rows, wants)))
