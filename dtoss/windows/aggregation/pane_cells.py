"""Cells: values by pane and label, sorted, each label once in a pane; what patches are added to.

Cells put in order by counting: each is written once to its place, which its pane and first label say.

Patches of a batch as cells: those of several tasks added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.compiled.kernel import kernel
from dtoss.windows.aggregation.slots import bounds
from dtoss.windows.patches import Patch, Patches
from dtoss.windows.spec import Spec

Numbers = NDArray[np.int64]
_SPARSE = 8
"""Panes times first labels for each cell, up to which cells are ordered by writing them to their places."""
CELLS_AT_ONCE = 1 << 12
"""Cells, about, that are put in order at once."""
_PACKED = 1 << 62


@dataclass(frozen=True)
class Cells:
    """Values by pane and label, sorted by both, no pane and label twice."""

    pane: Numbers  # int64 (n,)
    labels: Numbers  # int64 (n, labels). The key, or two keys, or a key and a bin or bucket
    values: Numbers  # int64 (n, columns)

    def __len__(self) -> int:
        return len(self.pane)

    @classmethod
    def none(cls, labels: int, columns: int) -> Cells:
        """Return cells that there are none of."""
        return cls(np.zeros(0, np.int64), np.zeros((0, labels), np.int64), np.zeros((0, columns), np.int64))

    take = take_rows

    def between(self, first: int, last: int) -> Cells:
        """Return those of panes from ``first`` on and before ``last``, as views."""
        begin, end = np.searchsorted(self.pane, (first, last))
        return self.take(slice(int(begin), int(end)))

    def columns(self, kept: Sequence[int]) -> Cells:
        """Return them with some columns only, without those of zeros."""
        return Cells(self.pane, self.labels, np.ascontiguousarray(self.values[:, list(kept)])).standing()

    def standing(self) -> Cells:
        """Return those with any value that is not 0."""
        there = np.asarray(self.values.any(axis=1))
        return self if there.all() else self.take(there)


def sorted_cells(pane: Numbers, labels: Numbers, values: Numbers, at_once: int = CELLS_AT_ONCE) -> Cells:
    """Return values of different panes and labels as cells, about so many put in order at once.

    Cost O(n log n); O(n) where the places are few.
    """
    return _in_order(pane, labels, values, at_once)


def added(cells: Cells, more: Cells) -> Cells:
    """Return the sum of cells, without those that become 0. Cost O(n log n)."""
    if len(more) == 0 or len(cells) == 0:
        return cells if len(more) == 0 else more
    both = _together(cells, more)
    first = _firsts(both)
    sums = np.add.reduceat(both.values, first, axis=0)
    return Cells(both.pane[first], both.labels[first], sums).standing()


def replace_cells(cells: Cells, newer: Cells) -> Cells:
    """Return the cells with newer ones in place of those of their panes and labels, without values below 0."""
    both = newer if len(cells) == 0 else cells if len(newer) == 0 else _together(cells, newer)
    last = np.append(_firsts(both)[1:], len(both)) - 1  # stable: the newer one is behind
    there = last[: len(both)]
    return both.take(there[both.values[there, 0] >= 0])


def joined(parts: Sequence[Cells]) -> Cells:
    """Return cells whose panes follow one another as one; one part is not copied."""
    return join_rows([part for part in parts if len(part)] or parts[:1])


def gathered(parts: Sequence[Cells]) -> Cells:
    """Return cells of different labels as one."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else parts[0]
    whole = joined(some)
    return sorted_cells(whole.pane, whole.labels, whole.values)


def _together(cells: Cells, more: Cells) -> Cells:
    pane = np.concatenate([cells.pane, more.pane])
    labels = np.concatenate([cells.labels, more.labels])
    values = np.concatenate([cells.values, more.values])
    return _in_order(pane, labels, values)


def _firsts(cells: Cells) -> Numbers:
    """Return the first row of each pane and label, int64."""
    if len(cells) == 0:
        return np.zeros(0, np.int64)
    new = np.ones(len(cells), np.bool_)
    new[1:] = (cells.pane[1:] != cells.pane[:-1]) | (cells.labels[1:] != cells.labels[:-1]).any(axis=1)
    return np.flatnonzero(new)


def _in_order(pane: Numbers, labels: Numbers, values: Numbers, at_once: int = CELLS_AT_ONCE) -> Cells:
    """Return cells by pane and labels; those that are equal stay in their order."""
    if len(pane) == 0:
        return Cells(pane, labels, values)
    columns = [pane, *labels.T]
    lows, highs = (list(some) for some in zip(*map(bounds, columns), strict=True))
    spans = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    if spans[0] * spans[1] <= _SPARSE * len(pane):
        out = np.empty_like(pane), np.empty(labels.shape, np.int64), np.empty(values.shape, np.int64)
        runs = np.concatenate([[0], np.flatnonzero(pane[1:] < pane[:-1]) + 1, [len(pane)]])
        panes = max(1, at_once * spans[0] // len(pane), (len(runs) - 1) * spans[0] // len(pane))
        put_in_places(
            *map(_contiguous, (pane, labels, values)), runs[1:].copy(), runs[:-1].copy(), lows[0], panes, lows[1],
            spans[1], np.zeros(panes * spans[1] + 1, np.int64), *out,
        )  # fmt: skip
        if labels.shape[1] == 1 or carried_back(*out):
            return Cells(*out)
    return Cells(pane, labels, values).take(_order(columns, lows, spans))


def _contiguous(array: Numbers) -> Numbers:
    return np.ascontiguousarray(array, np.int64)


def _order(columns: Sequence[Numbers], lows: Sequence[int], spans: Sequence[int]) -> Numbers:
    """Return the order by some columns, whose least values and spans are given; rows that are equal stay in theirs."""
    places = 1
    for span in spans:
        places *= span
    if places >= _PACKED:
        return np.lexsort(columns[::-1])
    code = columns[0] - lows[0]
    for column, low, span in zip(columns[1:], lows[1:], spans[1:], strict=True):
        code = code * span + (column - low)
    return np.argsort(code, kind="stable")  # runs that are sorted, as those of groups, are merged


_NUMBERS, _TABLE = "Array(int64, 1, 'C', readonly=True)", "Array(int64, 2, 'C', readonly=True)"
MOST_BACK = 64
"""Cells of one pane and first label over which another is carried back to its place among them."""


class Chunk(NamedTuple):
    """Panes from one on and before another, and how their first labels count: the least, and how many at most."""

    begin: Any
    end: Any
    low: Any
    span: Any


@kernel(
    f"void({_NUMBERS}, {_TABLE}, {_TABLE}, {_NUMBERS}, int64[::1], int64, int64, int64, int64, int64[::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1])"
)
def put_in_places(
    pane, labels, values, ends, cursors, low_pane, panes, low_label, span, starts, out_pane, out_labels, out_values
):
    """Write cells by pane and first label; those that have the same ones stay in their order.

    ``pane``, ``labels``, ``values``: (n,), (n, labels) and (n, columns): runs in which panes rise; ``low_pane``,
    ``panes``: the first pane, and how many are written at once: memory that is near is written one after another;
    ``low_label``, ``span``: the least first label, and how many there are at most; ``starts``: int64 (panes * span +
    1,); ``out_pane``, ``out_labels``, ``out_values``: of the shapes of the first three.
    """
    done = 0
    begin = low_pane
    while done < pane.size:
        chunk = Chunk(begin, begin + panes, low_label, span)
        starts[:] = 0
        for run in range(ends.size):
            _count_run(pane, labels, cursors[run], ends[run], chunk, starts)
        starts[0] = done
        for place in range(1, starts.size):
            starts[place] += starts[place - 1]
        done = starts[starts.size - 1]
        for run in range(ends.size):
            at = cursors[run]
            while at < ends[run] and pane[at] < chunk.end:
                place = (pane[at] - chunk.begin) * span + labels[at, 0] - low_label
                to = starts[place]
                starts[place] = to + 1
                out_pane[to] = pane[at]
                for label in range(labels.shape[1]):
                    out_labels[to, label] = labels[at, label]
                for column in range(values.shape[1]):
                    out_values[to, column] = values[at, column]
                at += 1
            cursors[run] = at
        begin += panes


@kernel
def _count_run(pane, labels, at, end, chunk, starts):
    """Count the cells of a run by pane and first label, behind their places."""
    while at < end and pane[at] < chunk.end:
        starts[(pane[at] - chunk.begin) * chunk.span + labels[at, 0] - chunk.low + 1] += 1
        at += 1


@kernel("boolean(int64[::1], int64[:, ::1], int64[:, ::1])")
def carried_back(pane, labels, values):
    """Put cells that are by pane and first label in order by the second one too; return whether none was too far off.

    ``pane``, ``labels``, ``values``: int64 (n,), (n, 2) and (n, columns). Equal cells stay in their order.
    """
    for i in range(1, pane.size):
        back, mine = i, labels[i, 1]
        while (
            back > 0
            and labels[back - 1, 1] > mine
            and pane[back - 1] == pane[i]
            and labels[back - 1, 0] == labels[i, 0]
        ):
            if i - back == MOST_BACK:
                return False
            back -= 1
        if back == i:
            continue
        for column in range(values.shape[1]):
            kept = values[i, column]
            for at in range(i, back, -1):
                values[at, column] = values[at - 1, column]
            values[back, column] = kept
        for at in range(i, back, -1):
            labels[at, 1] = labels[at - 1, 1]
        labels[back, 1] = mine
    return True


@dataclass(frozen=True)
class Incoming:
    """What a batch changes in panes."""

    sums: Cells  # By key, the columns of ``spec.sums``
    flow: Cells
    bins: Cells  # By key and bin
    maxima: Cells  # By key and bucket; -1 where there is none any more

    @cached_property
    def first(self) -> int | None:
        """The first pane that changes; None where none does."""
        panes = [int(cells.pane[0]) for cells in (self.sums, self.flow, self.bins, self.maxima) if len(cells)]
        return min(panes, default=None)

    def keys_before(self, pane: int) -> list[Numbers]:
        """Return the keys whose results change for an end up to a pane, some of them more than once."""
        return [
            cells.labels[: int(np.searchsorted(cells.pane, pane)), 0] for cells in (self.sums, self.bins, self.maxima)
        ]

    def with_more(self, more: Incoming) -> Incoming:
        """Return the sum with what another task changes; maxima of a bucket come from one task."""
        return Incoming(
            added(self.sums, more.sums),
            added(self.flow, more.flow),
            added(self.bins, more.bins),
            _either(self.maxima, more.maxima),
        )


def _either(one: Cells, other: Cells) -> Cells:
    if len(one) == 0 or len(other) == 0:
        return one if len(other) == 0 else other
    raised = replace_cells(
        Cells(one.pane, one.labels, one.values + 1), Cells(other.pane, other.labels, other.values + 1)
    )
    return Cells(raised.pane, raised.labels, raised.values - 1)  # -1 is a value here, and not one to leave out


def incoming_of(spec: Spec, *patches: Patches) -> Incoming:
    """Return patches of different tasks as one, as cells. Cost O(n log n)."""
    found = Incoming(Cells.none(1, len(spec.sums)), Cells.none(2, 1), Cells.none(2, 1), Cells.none(2, 1))
    for one in patches:
        found = found.with_more(Incoming(*(_cells(part) for part in (one.sums, one.flow, one.bins, one.maxima))))
    return found


def _cells(patch: Patch) -> Cells:
    return sorted_cells(patch.pane, patch.labels, patch.values)
