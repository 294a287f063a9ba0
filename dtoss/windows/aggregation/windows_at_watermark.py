"""Windows that end at the watermark, of any length: backward sums of the panes that are kept for the longest one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.row_runs import offsets
from dtoss.windows.aggregation.pane_cells import Cells, Numbers, joined
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.reduce_step import put_in_order
from dtoss.windows.aggregation.slots import Slots, different
from dtoss.windows.bins import BOUNDS, MIDDLES
from dtoss.windows.durations import duration_text
from dtoss.windows.measures import PERCENTILES
from dtoss.windows.spec import Spec

_FAR = 1 << 62


def sums_before(spec: Spec, state: PaneState, end: int) -> Backwards:
    """Return the sums of panes before an end that slide, backwards: of the window of any length that ends there."""
    columns = len(Columns(spec).sliding)
    return cells_backwards([*state.closed_sums, state.sums.between(-_FAR, end).columns(range(columns))], columns, end)


def window_now(
    spec: Spec,
    state: PaneState,
    watermark: int,
    length: int,
    name: str,
    visitors: tuple[Numbers, Numbers],
    sums: Backwards | None = None,
) -> pa.Table:
    """Return the window of a length that ends at the watermark: a row for each key with any value, by key.

    ``watermark``: microseconds; ``length``: microseconds, a multiple of the pane up to the longest length;
    ``visitors``: the keys and how many different objects each had in the window, int64 (n,) twice; counted only where
    the measures have objects; ``sums``: as :func:`sums_before` the watermark; made here when None.

    O(panes of the window that have anything). Objects are not known by pane: they come from the last visits of
    :mod:`dtoss.windows.trajectories`.
    """
    check_length(spec, length)
    end, width = watermark // spec.pane, length // spec.pane
    columns = Columns(replace(spec, lengths=(length,), names=(name,)))
    slid = sums_before(spec, state, end) if sums is None else sums
    cells, bins = state.sums.between(-_FAR, end), state.bins.between(end - width, end)
    speeds = joined([state.queues, _without_buckets(state.maxima)]).between(end - width, end)
    counts = "objects" in spec.measures
    known = [state.keys, slid.slots.keys, *(one.labels[:, 0] for one in (cells, bins, speeds))]
    slots = Slots(different([*known, visitors[0]] if counts else known))
    totals = np.zeros((len(columns.sliding), len(slots)), np.int64)
    totals[:, slots.of(slid.slots.keys)] = slid.within(width)
    values = {f"{column}_{name}": row for column, row in zip(columns.sliding, totals, strict=True)}
    if "here" in spec.measures:
        values["here"] = _here(spec, state, cells, slots)
    if counts:
        values[f"objects_{name}"] = np.zeros(len(slots), np.int64)
        values[f"objects_{name}"][slots.of(visitors[0])] = visitors[1]
    if columns.greatest:
        greatest = np.full(len(slots), -1, np.int64)
        np.maximum.at(greatest, slots.of(speeds.labels[:, 0]), speeds.values[:, 0])
        values[f"max_speed_{name}"] = greatest
    for which, answer in _percentiles(columns, bins, slots).items():
        values[f"{which}_{name}"] = answer
    there = np.zeros(len(slots), np.bool_)
    for column, one in values.items():
        there |= one != (-1 if columns.is_speed(column) else 0)
    return put_in_order(columns, {column: one[there] for column, one in values.items()}, slots.keys[there])


def flow_between(spec: Spec, state: PaneState, end: int, length: int) -> pa.Table:
    """Return how many moves there were from each key to each other in a window, by both; -1 is none.

    ``end``, ``length``: microseconds, multiples of the pane.
    """
    check_length(spec, length)
    first, last = (end - length) // spec.pane, end // spec.pane
    kept = None if state.base is None else state.base - spec.longest
    if kept is not None and first < kept:
        legal = kept * spec.pane + length
        raise ValueError(
            f"a window of {duration_text(length)} that ends at {end} is not kept: those that end from {legal} on are"
        )
    cells = state.flow.between(first, last)
    code = Slots(different([cells.labels[:, 0], cells.labels[:, 1]]))
    pair = code.of(cells.labels[:, 0]).astype(np.int64) * max(1, len(code)) + code.of(cells.labels[:, 1])
    pairs = different([pair])
    moves = np.zeros(len(pairs), np.int64)
    np.add.at(moves, Slots(pairs).of(pair), cells.values[:, 0])
    there = moves != 0
    left, entered = code.keys[pairs[there] // max(1, len(code))], code.keys[pairs[there] % max(1, len(code))]
    return pa.table({"from": left, "to": entered, "moves": moves[there]})


def check_length(spec: Spec, length: int) -> None:
    """Check that windows that end now can have a length."""
    if length > 0 and length % spec.pane == 0 and length <= spec.lengths[-1]:
        return
    below = min(max(length // spec.pane * spec.pane, 0), spec.lengths[-1])
    near = [one for one in (below, below + spec.pane) if 0 < one <= spec.lengths[-1]]
    raise ValueError(
        f"a window of {length / 1e6:g}s is not kept: lengths are multiples of {duration_text(spec.pane)} up to "
        f"{duration_text(spec.lengths[-1])}; the nearest are {' and '.join(map(duration_text, near))}"
    )


def _without_buckets(maxima: Cells) -> Cells:
    return Cells(maxima.pane, maxima.labels[:, :1], maxima.values)


def _here(spec: Spec, state: PaneState, cells: Cells, slots: Slots) -> Numbers:
    found = np.zeros(len(slots), np.int64)
    found[slots.of(state.keys)] = state.running[Columns(spec).running.index("here")]
    np.add.at(found, slots.of(cells.labels[:, 0]), cells.values[:, spec.sums.index("here")])
    return found


def _percentiles(columns: Columns, bins: Cells, slots: Slots) -> dict[str, NDArray[np.int64]]:
    """Return each percentile by key, -1 where there was no move."""
    if not columns.percentiles:
        return {}
    wide = len(BOUNDS)
    place = slots.of(bins.labels[:, 0]).astype(np.int64) * wide + bins.labels[:, 1]
    cells = different([place])
    counts = np.zeros(len(cells), np.int64)
    np.add.at(counts, Slots(cells).of(place), bins.values[:, 0])
    up_to = offsets(counts)
    edges = np.searchsorted(cells, np.arange(len(slots) + 1) * wide)
    before, total = up_to[edges[:-1]], np.diff(up_to[edges])
    moved = total > 0
    found = {}
    for which in columns.percentiles:
        rank = -(-PERCENTILES[which] * total // 100)
        at = np.searchsorted(up_to[1:], (before + rank)[moved])
        answer = np.full(len(slots), -1, np.int64)
        answer[moved] = MIDDLES[cells[at] % wide]
        found[which] = answer
    return found


_MOST = 1 << 24
"""Numbers of a table of all sums: an eighth of a gigabyte."""


@dataclass(frozen=True)
class Backwards:
    """Values by pane before an end and key."""

    slots: Slots
    back: Numbers  # int64 (n,), rising. Panes from that of the value to the last one before the end
    slot: NDArray[np.int32]  # int32 (n,). The key's
    values: Numbers  # int64 (n, columns)
    # int64 (panes, columns, keys). The sums over the last panes, of one on; None where none is made
    table: Numbers | None = None

    def within(self, panes: int) -> Numbers:
        """Return the sums over the last panes, int64 (columns, keys). O(keys) with a table, else O(values)."""
        if self.table is not None:
            return self.table[min(panes, len(self.table)) - 1]
        count = int(np.searchsorted(self.back, panes))
        found = np.zeros((self.values.shape[1], len(self.slots)), np.int64)
        for column, row in zip(self.values[:count].T, found, strict=True):
            np.add.at(row, self.slot[:count], column)
        return found

    def with_table(self, panes: int) -> Backwards:
        """Return them with a table of the sums over up to so many panes, where it is not too large."""
        columns, keys = self.values.shape[1], len(self.slots)
        if self.table is not None or panes * columns * keys > _MOST:
            return self
        table = np.zeros((panes, keys, columns), np.int64)
        there = self.back < panes
        np.add.at(table, (self.back[there], self.slot[there]), self.values[there])
        table = np.ascontiguousarray(table.transpose(0, 2, 1))
        none = self.back[:0], self.slot[:0], self.values[:0]  # the table has all of them
        return Backwards(self.slots, *none, np.cumsum(table, axis=0, out=table))


def backwards(pane: Numbers, key: Numbers, values: Numbers, end: int) -> Backwards:
    """Return values of panes before an end, in any order, backwards. Cost O(n log n), O(n) where they are in order.

    ``pane``, ``key``: int64 (n,); ``values``: int64 (n, columns).
    """
    there = np.flatnonzero(pane < end)[::-1]
    back = end - 1 - pane[there]
    if (back[1:] < back[:-1]).any():
        order = np.argsort(back, kind="stable")
        there, back = there[order], back[order]
    slots = Slots(different([key[there]]))
    return Backwards(slots, back, slots.of(key[there]), np.ascontiguousarray(values[there]))


def cells_backwards(parts: list[Cells], columns: int, end: int) -> Backwards:
    """Return cells of a key each, of no pane and key twice, backwards."""
    whole = join_rows([Cells.none(1, columns), *parts])
    return backwards(whole.pane, whole.labels[:, 0], whole.values, end)
