"""Rows against all that stands: the large index and the small one, as if they were one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.watch.arriving_rows import Rows
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.matcher import ANY_EVENT, MOST_MATCHES, Matcher, joined_pieces
from dtoss.watch.matching.matches import Matches, joined


@dataclass(frozen=True)
class StandingMatcher:
    """What holds rows against the subscriptions that are alive."""

    standing: Standing
    alive: NDArray[np.bool_]  # bool (n,). Which of it count

    def pieces(
        self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT, most: int = MOST_MATCHES
    ) -> Iterator[Matches]:
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
            if len(matchers) == 1:
                yield piece
                continue
            begin = piece.first_row
            first, small = matchers[1]
            some = rows.take(np.arange(begin, piece.last_row))
            for few in small.pieces(some, wanted[begin : piece.last_row], most):
                last = begin + few.last_row
                numbers = (few.subscription + first).astype(np.int32)
                mine = Matches(begin + few.first_row, last, few.row + begin, numbers, few.distance)
                yield joined(mine.first_row, last, [piece.between(mine.first_row, last), mine])

    def match(self, rows: Rows, wants: int | NDArray[np.uint8] = ANY_EVENT) -> Matches:
        """Return all matches of rows at once."""
        return joined_pieces(len(rows), list(self.pieces(rows, wants)))
