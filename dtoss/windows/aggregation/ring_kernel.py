"""Running sums where most panes have most keys: what came before each pane is kept, and a window is a difference."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, shift

_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"
_TABLE = "Array(int64, 2, 'C', readonly=True)"
RING_END, RING_ENTRY = range(2)
"""Where an array says up to which pane the ring has come, and the entry that comes next."""


class Entries(NamedTuple):
    """What happens in panes, by pane: of which key, and what."""

    pane: Any
    slot: Any
    values: Any


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_TABLE}, int64, {_NUMBERS}, int64[::1], int64[:, :, ::1],"
    " int64[:, :, ::1])"
)
def slide_ring(first, stride, ends, pane, slot, values, standing, lengths, at, ring, block):
    """Move the ring from end to end, and write the running sums for each.

    ``first``, ``stride``, ``ends``: the first end and from one to the next, in panes; how many. An end holds the panes
    before it; ``pane``, ``slot``, ``values``: (n,), (n,), int64 (n, c + d). By pane: c columns that count in the
    windows that hold their pane, and d that count from their pane on; ``lengths``: int64 (l,). In panes; ``at``: int64
    (2,). The pane up to which the ring has come, and the entry that comes next; ``ring``: int64 (longest length + 1, c
    + d, keys). The sums of all that came before a pane, at the pane modulo that many; ``block``: int64 (d + l * c,
    ends, keys), or with no ends, where nothing is written.
    """
    entries, wide, keys = Entries(pane, slot, values), values.shape[1] - standing, ring.shape[2]
    row, out = ring.shape[1] * keys, block.shape[1] * keys
    for i in range(ends):
        end = first + i * stride
        _move_ring(entries, end, at, ring)
        if block.shape[1] == 0:
            continue
        now, to = shift(pointer(ring), (end % ring.shape[0]) * row), shift(pointer(block), i * keys)
        for column in range(standing):
            _copy(shift(to, column * out), shift(now, (wide + column) * keys), keys)
        for length in range(lengths.size):
            gone = shift(pointer(ring), ((end - lengths[length]) % ring.shape[0]) * row)
            for column in range(wide):
                write = shift(to, (standing + length * wide + column) * out)
                _subtract(write, shift(now, column * keys), shift(gone, column * keys), keys)


@kernel
def _move_ring(entries, end, at, ring):
    """Move the ring to a pane."""
    row, last = ring.shape[1] * ring.shape[2], at[RING_ENTRY]
    for pane in range(at[RING_END], end):
        now = (pane + 1) % ring.shape[0]
        _copy(shift(pointer(ring), now * row), shift(pointer(ring), (pane % ring.shape[0]) * row), row)
        while last < entries.pane.size and entries.pane[last] <= pane:
            for column in range(ring.shape[1]):
                ring[now, column, entries.slot[last]] += entries.values[last, column]
            last += 1
    at[RING_END], at[RING_ENTRY] = max(end, at[RING_END]), last


@kernel
def _copy(out, values, count):
    for i in range(count):
        out[i] = values[i]


@kernel
def _subtract(out, values, gone, count):
    for i in range(count):
        out[i] = values[i] - gone[i]
