"""SWARM's statistics: how many points, queries and arrivals are on either side of a line (Daghistani et al., 4.2).

A rectangle keeps five numbers for each of its rows and each of its columns, and gets from them in O(1) what two parts
of it would have. They are kept here as the paper says, and beside it is what replaces them: counts by cell, of which
the numbers of any rectangle are sums, also of those that a split has made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ceps.balance.cell_layout import Floats, Ints
from ceps.balance.rectangles import FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW, sums_within
from ceps.balance.subscription_load import SubscriptionLoad

FADING = 2.0
"""By which points of earlier rounds are divided at the end of a round."""


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


@dataclass(frozen=True, eq=False)
class Overlaps:
    """How many subscriptions overlap any rectangle of cells: faces less edges plus corners of an Euler histogram."""

    asked: SubscriptionLoad

    @cached_property
    def _sums(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Prefix sums of faces, of edges between columns, of edges between rows, and of corners."""
        west, south, east, north = self.asked.rects.T
        return (
            self._table(south, north, west, east),
            self._table(south, north, west + 1, east),
            self._table(south + 1, north, west, east),
            self._table(south + 1, north, west + 1, east),
        )

    def _table(self, south: Ints, north: Ints, west: Ints, east: Ints) -> Ints:
        rows, columns = self.asked.shape
        edges = np.zeros((rows + 2) * (columns + 2), np.int64)
        some = (south <= north) & (west <= east)
        for row, below in ((south, 1), (north + 1, -1)):
            for column, left in ((west, 1), (east + 1, -1)):
                at = (row * (columns + 2) + column)[some]
                edges += below * left * np.bincount(at, minlength=edges.size)
        held = edges.reshape(rows + 2, columns + 2).cumsum(axis=0).cumsum(axis=1)[:rows, :columns]
        sums = np.zeros((rows + 1, columns + 1), np.int64)
        sums[1:, 1:] = held.cumsum(axis=0).cumsum(axis=1)
        return sums

    def of(self, rects: Ints) -> Ints:
        """Return how many rectangles of subscriptions overlap each of some rectangles of cells, int64 (n,). O(n).

        ``rects``: int64 (n, 4). First column, first row, last column, last row.
        """
        west, south = rects[:, FIRST_COLUMN], rects[:, FIRST_ROW]
        east, north = rects[:, LAST_COLUMN], rects[:, LAST_ROW]
        faces, between_columns, between_rows, corners = self._sums
        found: Ints = (
            sums_within(faces, south, north, west, east)
            - sums_within(between_columns, south, north, west + 1, east)
            - sums_within(between_rows, south + 1, north, west, east)
            + sums_within(corners, south + 1, north, west + 1, east)
        )
        return found
