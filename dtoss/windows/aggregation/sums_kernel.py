"""Running sums: a pane that enters is added once for each length, and one that leaves is taken away."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel

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
