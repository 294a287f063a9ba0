"""A sweep over the ends of windows: what enters and leaves from end to end, for all keys and lengths at once.

Running sums: a pane that enters is added once for each length, and one that leaves is taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.windows.aggregation.bins_kernel import first_from, moves_by_key, number_cells, slide_bins
from dtoss.windows.aggregation.maxima_kernel import NO_LEAVING, mark_queues, slide_maxima
from dtoss.windows.aggregation.pane_cells import Cells, Numbers, joined
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.ring_kernel import RING_END, RING_ENTRY, slide_ring
from dtoss.windows.aggregation.slots import Slots
from dtoss.windows.bins import BOUNDS, MIDDLES
from dtoss.windows.measures import PERCENTILES

Slot = NDArray[np.int32]
_FILLED = 16
"""Panes times keys for each of them that has anything, up to which sums of all are kept."""
_MOST_KEPT = 1 << 24
"""Numbers of such sums."""


@dataclass(frozen=True)
class Snapshot:
    """What a sweep has come to."""

    running: Numbers  # int64 (columns, keys)
    bin_counts: Cells  # bin_counts, queues: as those of the state
    queues: Cells


class Sweep:
    """Running sums that move from the base of a state to later panes; it only goes on."""

    def __init__(self, columns: Columns, state: PaneState, slots: Slots, last: int) -> None:
        assert state.base is not None
        self._lengths = np.array(columns.lengths, np.int64)
        self._slots, self._base, self._last = slots, state.base, last
        longest = columns.spec.longest
        filled = (last - state.base + longest) * len(slots) <= _FILLED * len(state.sums)
        fits = longest * len(columns.spec.sums) * len(slots) <= _MOST_KEPT
        self._sums = (_Ring if filled and fits else _Sums)(self, columns, state)
        self._maxima = _Maxima(self, state) if columns.greatest else None
        self._bins = _Bins(self, columns, state) if columns.percentiles else None
        self._parts = [part for part in (self._sums, self._maxima, self._bins) if part is not None]
        self._rows = sum(part.rows for part in self._parts)

    def moved(self, pane: int) -> None:
        """Move to the panes before one."""
        self._slide(pane, 1, 1, written=False)

    def block(self, first: int, stride: int, ends: int) -> Numbers:
        """Return the values at some ends, and move to the last one.

        int64 (columns, ends, keys), in the order of :attr:`Columns.measured`; -1 for a speed that there is not.
        ``first``, ``stride``: the first end and from one to the next, in panes.
        """
        return self._slide(first, stride, ends, written=True)

    def _slide(self, first: int, stride: int, ends: int, *, written: bool) -> Numbers:
        block = np.empty((self._rows, ends if written else 0, len(self._slots)), np.int64)
        begin = 0
        for part in self._parts:
            part.slide(first, stride, ends, block[begin : begin + part.rows])
            begin += part.rows
        return block

    def snapshot(self) -> Snapshot:
        """Return what the sweep has come to."""
        return Snapshot(
            self._sums.running(),
            Cells.none(2, len(self._lengths)) if self._bins is None else self._bins.counted(),
            Cells.none(1, 1) if self._maxima is None else self._maxima.queued(),
        )

    def next_entry(self) -> int | None:
        """Return the next pane at which anything enters; None where nothing is left."""
        found = [pane for part in self._parts if (pane := part.next_entry()) is not None]
        return min(found, default=None)

    @property
    def lengths(self) -> Numbers:
        """The lengths in panes."""
        return self._lengths

    @property
    def keys(self) -> Slots:
        """The keys that are swept."""
        return self._slots

    def leaving(self, closed: Sequence[Cells]) -> Cells:
        """Return the cells of closed panes that leave a window on the way, without those between."""
        ranges = [(self._base - length, min(self._base, self._last - length)) for length in self._lengths.tolist()]
        return joined([part.between(first, last) for first, last in _united(ranges) for part in closed])

    def begins(self, pane: Numbers) -> Numbers:
        """Return where each length's leaving begins among panes, int64 (lengths,)."""
        return np.searchsorted(pane, self._base - self._lengths).astype(np.int64)

    def spread(self, keys: Numbers, values: Numbers) -> Numbers:
        """Return values of some keys, (columns, n), as those of the keys that are swept, 0 where there are none."""
        found = np.zeros((len(values), len(self._slots)), np.int64)
        slot = self._slots.of(keys)
        found[:, slot[slot >= 0]] = values[:, slot >= 0]
        return found

    def mine(self, cells: Cells) -> tuple[Cells, Slot]:
        """Return the cells of keys that are swept, and their slots."""
        slot = self._slots.of(cells.labels[:, 0])
        there = slot >= 0
        return (cells, slot) if there.all() else (cells.take(there), slot[there])


class _Sums:
    """By what enters and leaves: where few panes and keys have anything."""

    def __init__(self, sweep: Sweep, columns: Columns, state: PaneState) -> None:
        self._lengths, self.rows = sweep.lengths, len(columns.running)
        closed, self._closed_slot = sweep.mine(sweep.leaving((Cells.none(1, len(columns.sliding)), *state.closed_sums)))
        cells, self._slot = sweep.mine(state.sums)
        self._closed_pane, self._closed = operand(closed.pane), operand(closed.values)
        self._pane, self._values = operand(cells.pane), operand(cells.values)
        self._cursors = np.zeros(1 + 2 * len(self._lengths), np.int64)
        self._cursors[1::2] = sweep.begins(closed.pane)
        self._totals = sweep.spread(state.keys, state.running)

    def slide(self, first: int, stride: int, ends: int, block: Numbers) -> None:
        slide_sums(
            first, stride, ends, self._closed_pane, self._closed_slot, self._closed, self._pane, self._slot,
            self._values, self._lengths, self._cursors, self._totals, block,
        )  # fmt: skip

    def next_entry(self) -> int | None:
        return int(self._pane[self._cursors[0]]) if self._cursors[0] < len(self._pane) else None

    def running(self) -> Numbers:
        return self._totals.copy()


class _Ring:
    """By what came before each pane, which is kept for all panes of the longest window and all keys."""

    def __init__(self, sweep: Sweep, columns: Columns, state: PaneState) -> None:
        self._lengths, self.rows, self._standing = sweep.lengths, len(columns.running), len(columns.standing)
        base, longest, wide = state.base or 0, columns.spec.longest, len(columns.sliding)
        cells, self._slot = sweep.mine(state.sums)
        self._pane, self._values = operand(cells.pane), operand(cells.values)
        self._ring = np.zeros((longest + 1, wide + self._standing, len(sweep.keys)), np.int64)
        closed, slot = sweep.mine(joined([Cells.none(1, wide), *state.closed_sums]).between(base - longest, base))
        values = np.zeros((len(closed), wide + self._standing), np.int64)
        values[:, :wide] = closed.values
        none = np.zeros((self.rows, 0, len(sweep.keys)), np.int64)
        at = np.array([base - longest, 0])
        slide_ring(base, 1, 1, operand(closed.pane), slot, values, self._standing, self._lengths, at, self._ring, none)
        self._ring[base % (longest + 1), wide:] = sweep.spread(state.keys, state.running[: self._standing])
        self._at = np.array([base, 0])

    def slide(self, first: int, stride: int, ends: int, block: Numbers) -> None:
        slide_ring(
            first, stride, ends, self._pane, self._slot, self._values, self._standing, self._lengths, self._at,
            self._ring, block,
        )  # fmt: skip

    def next_entry(self) -> int | None:
        return int(self._pane[self._at[RING_ENTRY]]) if self._at[RING_ENTRY] < len(self._pane) else None

    def running(self) -> Numbers:
        found = np.empty((self.rows, 1, self._ring.shape[2]), np.int64)
        self.slide(int(self._at[RING_END]), 1, 1, found)
        return found[:, 0]


class _Maxima:
    def __init__(self, sweep: Sweep, state: PaneState) -> None:
        self._keys, self._lengths, self.rows = sweep.keys, sweep.lengths, len(sweep.lengths)
        cells, slot = sweep.mine(joined([state.queues, _greatest(state.maxima)]))
        self._pane, self._slot, self._value = operand(cells.pane), slot, operand(cells.values[:, 0])
        keys = len(sweep.keys)
        self._cursor = np.zeros(1, np.int64)
        self._links = np.full((2, len(cells)), -1, np.int64)
        self._newest = np.full(keys, -1, np.int64)
        self._oldest, self._values = np.full((self.rows, keys), -1, np.int64), np.full((self.rows, keys), -1, np.int64)
        self._since = np.full((self.rows, keys), NO_LEAVING)
        self._end = state.base or 0

    def slide(self, first: int, stride: int, ends: int, block: Numbers) -> None:
        slide_maxima(
            first, stride, ends, self._pane, self._slot, self._value, self._lengths, self._cursor, self._links,
            self._newest, self._oldest, self._since, self._values, block,
        )  # fmt: skip
        self._end = first + (ends - 1) * stride

    def next_entry(self) -> int | None:
        return int(self._pane[self._cursor[0]]) if self._cursor[0] < len(self._pane) else None

    def queued(self) -> Cells:
        marks = np.zeros(len(self._pane), np.uint8)
        mark_queues(self._pane, self._links, self._newest, self._end - int(self._lengths.max()), marks)
        rows = np.flatnonzero(marks)
        keys = self._keys.keys[self._slot[rows]]
        return Cells(self._pane[rows], keys[:, None], self._value[rows, None])


class _Bins:
    def __init__(self, sweep: Sweep, columns: Columns, state: PaneState) -> None:
        self._keys, self._lengths, keys = sweep.keys, sweep.lengths, len(sweep.keys)
        self._percents = np.array([PERCENTILES[name] for name in columns.percentiles], np.int64)
        self.rows = len(self._lengths) * len(self._percents)
        leaving = sweep.leaving((Cells.none(2, 1), *state.bins.closed))
        entries, slot = sweep.mine(joined([leaving, state.bins.open]))
        before, before_slot = sweep.mine(state.bin_counts)
        self._panes = operand(entries.pane)
        self._entries, first = np.empty((len(entries), 3), np.int64), np.zeros(keys + 2, np.int64)
        moves_by_key(self._panes, slot, operand(entries.labels), operand(entries.values), first, self._entries)
        self._first = first[:-1]
        # cells: the bins of each key that occur, by key and bin
        before_cell = before.labels[:, 1].copy()
        cells = np.empty(min(keys * len(BOUNDS), len(entries) + len(before_cell)), np.int64)
        self._cell_first = np.empty(keys + 1, np.int64)
        count = number_cells(
            self._first, self._entries, np.searchsorted(before_slot, np.arange(keys + 1)).astype(np.int64), before_cell,
            cells, self._cell_first, np.full(len(BOUNDS), -1, np.int64),
        )  # fmt: skip
        self._bin = cells[:count].copy()
        self._answers = MIDDLES[self._bin]
        self._counts = np.zeros((len(self._lengths), count), np.int64)
        self._counts[:, before_cell] = before.values.T
        self._moves = np.zeros((keys, len(self._lengths)), np.int64)
        np.add.at(self._moves, before_slot, before.values)
        self._moves = np.ascontiguousarray(self._moves.T)
        shape = (len(self._lengths), keys, len(self._percents))
        self._places = operand(np.broadcast_to(self._cell_first[:-1, None], shape))
        self._below = np.zeros(shape, np.int64)
        self._end = state.base or 0
        self._cursors = np.empty((len(self._lengths), keys, 2), np.int64)
        self._cursors[:, :, 0] = self._begin(self._end)
        for i, length in enumerate(self._lengths.tolist()):
            self._cursors[i, :, 1] = self._begin(self._end - length)

    def _begin(self, pane: int) -> Numbers:
        """Return the first entry of each key that is not before a pane."""
        found = np.empty(len(self._first) - 1, np.int64)
        first_from(self._first, self._entries, pane, found)
        return found

    def slide(self, first: int, stride: int, ends: int, block: Numbers) -> None:
        slide_bins(
            first, stride, ends, self._first, self._entries, self._lengths, self._percents, self._answers,
            self._cursors, self._counts, self._moves, self._places, self._below, block,
        )  # fmt: skip
        self._end = first + (ends - 1) * stride

    def next_entry(self) -> int | None:
        at = int(np.searchsorted(self._panes, self._end))
        return int(self._panes[at]) if at < len(self._panes) else None

    def counted(self) -> Cells:
        cells = np.flatnonzero(self._counts.any(axis=0))
        slot = np.searchsorted(self._cell_first, cells, "right") - 1
        labels = np.stack([self._keys.keys[slot], self._bin[cells]], axis=1)
        return Cells(np.zeros(len(cells), np.int64), labels, np.ascontiguousarray(self._counts[:, cells].T))


def _greatest(maxima: Cells) -> Cells:
    """Return the greatest value of each pane and key over all buckets."""
    if len(maxima) == 0:
        return Cells.none(1, 1)
    new = np.ones(len(maxima), np.bool_)
    new[1:] = (maxima.pane[1:] != maxima.pane[:-1]) | (maxima.labels[1:, 0] != maxima.labels[:-1, 0])
    first = np.flatnonzero(new)
    values = np.maximum.reduceat(maxima.values, first, axis=0)
    return Cells(maxima.pane[first], maxima.labels[first, :1], values)


def _united(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges as those that do not meet, rising."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"
_TABLE = "Array(int64, 2, 'C', readonly=True)"


class Entries(NamedTuple):
    """What happens in panes, by pane: of which key, and what."""

    pane: Any
    slot: Any
    values: Any


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_TABLE}, {_NUMBERS}, {_SLOTS}, {_TABLE}, {_NUMBERS},"
    " int64[::1], int64[:, ::1], int64[:, :, ::1])"
)
def slide_sums(
    first, stride, ends, closed_pane, closed_slot, closed_values, pane, slot, values, lengths, cursors, totals, block
):  # fmt: skip
    """Move the running sums from end to end, and write them for each.

    ``first``, ``stride``, ``ends``: the first end and from one to the next, in panes; how many. An end holds the panes
    before it; ``closed_pane``, ``closed_slot``, ``closed_values``: (m,), (m,), int64 (m, c). What is in the running
    sums from the beginning, and leaves them; ``pane``, ``slot``, ``values``: (n,), (n,), int64 (n, c + d). What enters
    and leaves later: c columns that count in the windows that hold their pane, and d that count from their pane on;
    ``lengths``: int64 (l,). In panes; ``cursors``: int64 (2 l + 1,). The entry that comes next: to enter, then for each
    length to leave, of those that were closed and of those that entered; ``totals``: int64 (d + l * c, keys). The
    running sums; ``block``: int64 (d + l * c, ends, keys), or with no ends, where nothing is written.
    """
    closed, entries = Entries(closed_pane, closed_slot, closed_values), Entries(pane, slot, values)
    wide = closed_values.shape[1]
    standing = values.shape[1] - wide
    for i in range(ends):
        end = first + i * stride
        at = cursors[0]
        while at < pane.size and pane[at] < end:
            key = slot[at]
            for column in range(standing):
                totals[column, key] += values[at, wide + column]
            for length in range(lengths.size):
                for column in range(wide):
                    totals[standing + length * wide + column, key] += values[at, column]
            at += 1
        cursors[0] = at
        for length in range(lengths.size):
            at, row = 1 + 2 * length, standing + length * wide
            cursors[at] = _leave(closed, cursors[at], end - lengths[length], row, wide, totals)
            cursors[at + 1] = _leave(entries, cursors[at + 1], end - lengths[length], row, wide, totals)
        if block.shape[1] > 0:
            for row in range(totals.shape[0]):
                for key in range(totals.shape[1]):
                    block[row, i, key] = totals[row, key]


@kernel
def _leave(entries, at, gone, row, wide, totals):
    """Take away what is before a pane, and return the entry that comes next."""
    while at < entries.pane.size and entries.pane[at] < gone:
        for column in range(wide):
            totals[row + column, entries.slot[at]] -= entries.values[at, column]
        at += 1
    return at
