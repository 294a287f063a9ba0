"""How long objects stay: enter, leave and dwell of subscriptions that count more rows than the one before.

Of each object the state keeps where it is inside, since when, since when it was not held there, and whether a dwell was
told. All is found for all pairs of an object and a subscription at once: the rows that hold it, and the gaps between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.row_runs import runs
from dtoss.watch.index.large_and_small import NEVER_DUE, Stays
from dtoss.watch.matching.margins import near_places
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.matching.matches import join_pieces
from dtoss.watch.processing.event_table import DWELLS, ENTERS, LEAVES
from dtoss.watch.processing.last_rows import STAY_TYPE
from dtoss.watch.processing.object_rows import StayEvents, Tracks
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.subscription import DWELL, ENTER, LEAVE, STAYS

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]


def with_stays(plan: Plan, tracks: Tracks, until: int | None = None) -> Tracks:
    """Return rows with what is told of stays, and with what is kept of them; as they are where nobody asks.

    ``until``: the clock: what is full by then is told, of objects that have no later row; None is the last row of each.

    Cost O(m log m) for m matches of such subscriptions, which are held in memory, and one look at each row outside of a
    place with a margin in metres that its object has been in.
    """
    asked = plan.standing.stays
    if asked is None:
        return tracks
    return _Found.of(plan, tracks, asked, until).done()


@dataclass
class _Members:
    """Stays of an object in a place, (m,) each: those before, or those that are found."""

    object: Longs
    sub: Longs  # The place of the subscription among those of :class:`Stays`
    row: Longs  # The first row of it here: the row before of those before, else the one that came in
    since: Longs
    out: Longs  # Since when it is not held, NEVER_DUE where it is
    told: Flags

    take = take_rows


@dataclass
class _Found:
    plan: Plan
    tracks: Tracks
    asked: Stays
    until: int | None
    t: Longs
    begin: Longs
    events: list[StayEvents]

    @classmethod
    def of(cls, plan: Plan, tracks: Tracks, asked: Stays, until: int | None) -> _Found:
        assert tracks.rows.t is not None
        return cls(plan, tracks, asked, until, tracks.rows.t, tracks.begin, [])

    def done(self) -> Tracks:
        """Return the rows with their events, and what is kept."""
        before, tracks = self._before(), self.tracks
        over = tracks.expired[before.row]
        self._end(before.take(over))
        points, known, far = self._points(before.take(~over))
        begins, spans = self._join(points)
        members, left, row = spans
        entered = ~known[begins]
        came = points.take(begins)
        self._tell(ENTER, ENTERS, came.take(entered), came.row[entered], came.since[entered], far[begins][entered])
        stay_until = np.where(left < NEVER_DUE, left, self._horizon(members.object))
        members = self._dwell(members, stay_until)
        gone = left < NEVER_DUE
        self._tell(LEAVE, LEAVES, members.take(gone), row[gone], left[gone])
        events = join_rows(self.events)
        return replace(tracks, told=events, stays=self._state(members.take(~gone)))

    def _before(self) -> _Members:
        """Return what is known of the rows before, where its subscription still stands."""
        none = np.zeros(0, np.int64)
        held, rows = self.tracks.stays_before, np.flatnonzero(self.tracks.before)
        if held is None or held.null_count == len(held):
            return _Members(none, none, none, none, none, none.astype(np.bool_))
        lists = held.field("of")
        said = lists.flatten()
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        row = np.repeat(rows, sizes)
        standing, asked = self.plan.standing, self.asked
        alive = standing.alive(self.plan.clock)[asked.number]
        lives = np.flatnonzero(alive)
        at = pc.index_in(said.field("subscription"), value_set=asked.ids.take(pa.array(lives)))
        at = pc.fill_null(at, -1).to_numpy(zero_copy_only=False)
        sub = np.append(lives, -1)[at]
        same = (sub >= 0) & (standing.versions[asked.number[sub]] == said.field("version").to_numpy())
        found = _Members(
            np.searchsorted(self.begin, row, "right") - 1,
            sub,
            row,
            said.field("since").to_numpy(),
            pc.fill_null(said.field("out"), NEVER_DUE).to_numpy(zero_copy_only=False),
            said.field("told").to_numpy(zero_copy_only=False),
        )
        return found.take(same)

    def _end(self, members: _Members) -> None:
        """Tell what ends because the object was over before any row of these came."""
        expire = self.plan.options.expire
        assert expire is not None or not len(members.row)
        over = self.t[members.row] + (expire or 0)
        full = _plus(members.out, self.asked.seconds[members.sub])
        left = np.minimum(full, over)
        members = self._dwell(members, left, members.row)
        self._tell(LEAVE, LEAVES, members, members.row, left, over=full > over)

    def _points(self, before: _Members) -> tuple[_Members, Flags, NDArray[np.float64]]:
        """Return the rows that are held, as stays of their own, behind those of before; which are these; distances."""
        plan, tracks, asked = self.plan, self.tracks, self.asked
        matcher = StandingMatcher(plan.standing, plan.standing.alive(plan.clock))
        wants = np.where(tracks.before, 0, STAYS).astype(np.uint8)
        found = join_pieces(0, len(tracks.rows), list(matcher.pieces(tracks.rows, wants)))
        count, row = len(before.row), found.row
        since = self.t[row]
        object = np.searchsorted(self.begin, row, "right") - 1
        sub = np.searchsorted(asked.number, found.subscription)
        out, told = np.full(len(row), NEVER_DUE), np.zeros(len(row), np.bool_)
        points = join_rows([before, _Members(object, sub, row, since, out, told)])
        known = np.arange(len(points.row)) < count
        far = np.concatenate([np.full(count, np.nan), found.distance])
        order = np.lexsort((points.row, points.sub, points.object))
        return points.take(order), known[order], far[order]

    def _join(self, points: _Members) -> tuple[Longs, tuple[_Members, Longs, Longs]]:
        """Return the points that begin a stay; the stays, when each was left, and the row with which.

        A stay goes on over a gap that its margin allows. What was not left has NEVER_DUE, and no row.
        """
        count = len(points.row)
        same = np.zeros(count, np.bool_)
        same[:-1] = (points.object[1:] == points.object[:-1]) & (points.sub[1:] == points.sub[:-1])
        begin, end = points.row + 1, self.begin[points.object + 1]
        end[:-1][same[:-1]] = points.row[1:][same[:-1]]
        left, row, out = self._gaps(points, begin, end, same)
        starts = np.ones(count, np.bool_)
        starts[1:] = ~same[:-1] | (left[:-1] < NEVER_DUE)
        begins = np.flatnonzero(starts)
        last = np.append(begins[1:], count)[: len(begins)] - 1
        members = points.take(begins)
        members.out = out[last]
        return begins, (members, left[last], row[last])

    def _gaps(self, points: _Members, begin: Longs, end: Longs, closed: Flags) -> tuple[Longs, Longs, Longs]:
        """Return when and with which row each gap behind a point is left, and since when the object is not held.

        ``begin``, ``end``: int64 (m,). The rows of the gap; ``closed``: bool (m,). Whether it is held again behind it.
        """
        asked, t = self.asked, self.t
        empty = begin >= end
        out = np.where(points.out < NEVER_DUE, points.out, np.where(empty, NEVER_DUE, np.append(t, NEVER_DUE)[begin]))
        metres, seconds = asked.metres[points.sub], asked.seconds[points.sub]
        # without any margin the first row is too far; with one in metres, the first that is not near
        row = np.where((seconds < NEVER_DUE) & np.isnan(metres), end, begin)
        for at, first in self._too_far(points, begin, end, metres):
            row[at] = first
        is_far = row < end
        far = np.where(is_far, np.append(t, NEVER_DUE)[np.where(is_far, row, len(t))], NEVER_DUE)
        full = _plus(out, seconds)
        known_until = np.where(closed, np.append(t, NEVER_DUE)[np.minimum(end, len(t))], self._horizon(points.object))
        full = np.where(full <= known_until, full, NEVER_DUE)
        by_time = full < far
        row = np.where(by_time, self._last_until(points.object, full), row)
        return np.minimum(far, full), row, out

    def _too_far(
        self, points: _Members, begin: Longs, end: Longs, metres: NDArray[np.float64]
    ) -> list[tuple[Longs, Longs]]:
        """Return gaps with a margin in metres, and the first row of each that is too far; its end where none is."""
        at = np.flatnonzero((begin < end) & ~np.isnan(metres))
        if not len(at):
            return []
        sizes = end[at] - begin[at]
        gap = np.repeat(np.arange(len(at)), sizes)
        row = runs(begin[at], sizes)
        sub = points.sub[at][gap]
        near = near_places(self.plan.standing, self.tracks.rows, row, self.asked.number[sub], self.asked.metres[sub])
        first = end[at].copy()
        np.minimum.at(first, gap[~near], row[~near])
        return [(at, first)]

    def _horizon(self, object: Longs) -> Longs:
        """Return up to when it is known where objects are."""
        last = self.t[self.begin[object + 1] - 1]
        return last if self.until is None else np.maximum(last, self.until)

    def _last_until(self, object: Longs, moment: Longs) -> Longs:
        """Return the last row of each object up to a time, its first where all are later."""
        low, high = self.begin[object], self.begin[object + 1] - 1
        while (low < high).any():
            middle = (low + high + 1) // 2
            early = self.t[middle] <= moment
            low, high = np.where(early, middle, low), np.where(early, high, middle - 1)
        return low

    def _dwell(self, members: _Members, until: Longs, row: Longs | None = None) -> _Members:
        """Tell of those that have been there for long enough by a time each, and return them with that noted."""
        full = _plus(members.since, self.asked.dwell[members.sub])
        now = ~members.told & (full <= until) & (full < NEVER_DUE)
        some = members.take(now)
        rows = self._last_until(some.object, full[now]) if row is None else row[now]
        self._tell(DWELL, DWELLS, some, rows, full[now])
        return replace(members, told=members.told | now)

    def _tell(
        self,
        bit: int,
        kind: int,
        members: _Members,
        row: Longs,
        t: Longs,
        distance: NDArray[np.float64] | None = None,
        over: Flags | None = None,
    ) -> None:
        wanted = (self.asked.events[members.sub] & bit) != 0
        count = int(wanted.sum())
        self.events.append(
            StayEvents(
                row[wanted],
                self.asked.number[members.sub[wanted]],
                np.full(count, kind, np.uint8),
                np.full(count, np.nan) if distance is None else distance[wanted],
                t[wanted],
                np.zeros(count, np.bool_) if over is None else over[wanted],
            )
        )

    def _state(self, members: _Members) -> pa.Array:
        """Return what the state keeps of each object."""
        asked, standing = self.asked, self.plan.standing
        dwell = np.where(members.told, NEVER_DUE, _plus(members.since, asked.dwell[members.sub]))
        due = np.full(len(self.begin) - 1, NEVER_DUE)
        np.minimum.at(due, members.object, np.minimum(dwell, _plus(members.out, asked.seconds[members.sub])))
        order = np.lexsort((members.sub, members.object))
        some = members.take(order)
        whole = pa.StructArray.from_arrays(
            [
                asked.ids.take(pa.array(some.sub)),
                pa.array(standing.versions[asked.number[some.sub]]),
                pa.array(some.since),
                pa.array(some.out, mask=some.out == NEVER_DUE),
                pa.array(some.told),
            ],
            fields=list(STAY_TYPE.field("of").type.value_type),
        )
        ends = np.searchsorted(some.object, np.arange(len(self.begin)))
        lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), whole)
        return pa.StructArray.from_arrays(
            [pa.array(due), lists], fields=list(STAY_TYPE), mask=pa.array(np.diff(ends) == 0)
        )


def _plus(moment: Longs, span: Longs) -> Longs:
    """Return a time after a span, NEVER_DUE where either never comes."""
    never = (moment == NEVER_DUE) | (span == NEVER_DUE)
    return np.where(never, NEVER_DUE, np.where(never, 0, moment) + np.where(never, 0, span))
