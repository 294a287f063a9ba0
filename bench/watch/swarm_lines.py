"""SWARM's statistics as the paper keeps them (Daghistani et al., 4.2), to compare those by cell with.

A rectangle keeps five numbers for each of its rows and each of its columns, and gets from them in O(1) what two parts
of it would have: points, queries and arrivals on either side of a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ceps.balance.cell_layout import Floats, Ints
from ceps.balance.swarm import FADING


class Part(NamedTuple):
    """What a part of a rectangle has: points, queries that overlap it, arrivals of the last round."""

    points: float
    queries: float
    arrivals: float


@dataclass(frozen=True, eq=False)
class LineStatistics:
    """The statistics of a rectangle along one axis, for k lines. All float64 (k,)."""

    points: Floats  # N(i): points up to line i, those of earlier rounds faded
    queries: Floats  # Q(i): queries that begin at line i or before
    arrivals: Floats  # R(i): points and queries of the last round that lie, or begin, up to line i
    spans: Floats  # spanQ(i): queries that go on from line i - 1 to line i
    new_spans: Floats  # preSpanQ'(i): those of them that came in the last round

    def after_round(self, points: Ints, first: Ints, last: Ints) -> LineStatistics:
        """Return the statistics at the end of a round (algorithm 2). Cost O(k + arrivals).

        ``points``: int64. The line of each point that came; ``first``, ``last``: int64. The lines from which to which
        each query that came goes, clipped to the rectangle.
        """
        lines = len(self.points)
        fresh_points, fresh_queries = (np.bincount(at, minlength=lines) for at in (points, first))
        edges = np.bincount(first + 1, minlength=lines + 2) - np.bincount(last + 1, minlength=lines + 2)
        spans = np.cumsum(edges)[:lines].astype(np.float64)
        return LineStatistics(
            self.points / FADING + np.cumsum(fresh_points),
            self.queries + np.cumsum(fresh_queries),
            np.cumsum(fresh_points + fresh_queries).astype(np.float64),
            self.spans + spans,
            spans,
        )

    def parts(self, line: int) -> tuple[Part, Part]:
        """Return what lies up to a line, and behind it; the line is none of the last."""
        end, after = len(self.points) - 1, line + 1
        behind = Part(
            float(self.points[end] - self.points[line]),
            float(self.queries[end] - self.queries[line] + self.spans[after]),
            float(self.arrivals[end] - self.arrivals[line] + self.new_spans[after]),
        )
        return Part(float(self.points[line]), float(self.queries[line]), float(self.arrivals[line])), behind

    def split(self, line: int) -> tuple[LineStatistics, LineStatistics]:
        """Return the statistics of both parts along the same axis; those along the other one have to be counted."""
        first = LineStatistics(*(getattr(self, name)[: line + 1] for name in self.__dataclass_fields__))
        after = line + 1
        second = LineStatistics(
            self.points[after:] - self.points[line],
            self.queries[after:] - self.queries[line] + self.spans[after],
            self.arrivals[after:] - self.arrivals[line] + self.new_spans[after],
            self.spans[after:].copy(),
            self.new_spans[after:].copy(),
        )
        # nothing goes on from before the part's first line: it is clipped
        second.spans[0] = second.new_spans[0] = 0.0
        return first, second


def no_statistics(lines: int) -> LineStatistics:
    """Return the statistics of a rectangle to which nothing has come."""
    return LineStatistics(*(np.zeros(lines) for _ in range(5)))
