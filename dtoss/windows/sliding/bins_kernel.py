"""Percentiles of sliding windows: counts by bin, and for each percentile a place that moves as the counts do."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel

_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"
_HUNDRED = 100


class Entries(NamedTuple):
    """Moves by pane: of which key, the cell of their bin, and how many."""

    pane: Any
    slot: Any
    cell: Any
    count: Any


class State(NamedTuple):
    """What :func:`slide_bins` goes on from."""

    counts: Any
    moves: Any
    places: Any
    below: Any


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_SLOTS}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS},"
    " int64[::1], int64[:, ::1], int64[:, ::1], int64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1])"
)
def slide_bins(
    first, stride, ends, pane, slot, cell, count, lengths, percents, answers, cursors, counts, moves, places, below,
    block,
):  # fmt: skip
    """Move the counts from end to end, and write the percentiles for each.

    Parameters
    ----------
    first, stride, ends
        The first end and from one to the next, in panes; how many.
    pane, slot, cell, count
        (n,). By pane: the key, the cell of its bin, and how many moves.
    lengths
        int64 (l,). In panes.
    percents
        int64 (q,).
    answers
        int64 (cells,). What is written where a percentile lies in a cell. Cells are by key and bin.
    cursors
        int64 (l + 1,). The entry that comes next: to enter, to leave each length.
    counts
        int64 (cells, l). Moves of each cell in each window.
    moves
        int64 (keys, l). Their sums by key.
    places, below
        int64 (keys, l, q). A cell of the key for each percentile, and how many moves are in cells of the key before it.
    block
        int64 (l * q, ends, keys), or with no ends, where nothing is written; -1 where there is no move.
    """
    asked = percents.size
    entries, state = Entries(pane, slot, cell, count), State(counts, moves, places, below)
    for i in range(ends):
        end = first + i * stride
        while cursors[0] < pane.size and pane[cursors[0]] < end:
            behind = _run(entries, cursors[0], end)
            for length in range(lengths.size):
                _count(entries, cursors[0], behind, 1, length, state)
            cursors[0] = behind
        for length in range(lengths.size):
            at, gone = cursors[1 + length], end - lengths[length]
            while at < pane.size and pane[at] < gone:
                behind = _run(entries, at, gone)
                _count(entries, at, behind, -1, length, state)
                at = behind
            cursors[1 + length] = at
        if block.shape[1] == 0:
            continue
        for key in range(moves.shape[0]):
            for length in range(lengths.size):
                total = moves[key, length]
                for which in range(asked):
                    answer = -1
                    if total > 0:
                        rank = (percents[which] * total + _HUNDRED - 1) // _HUNDRED
                        place, before = places[key, length, which], below[key, length, which]
                        while before >= rank:
                            place -= 1
                            before -= counts[place, length]
                        while before + counts[place, length] < rank:
                            before += counts[place, length]
                            place += 1
                        places[key, length, which], below[key, length, which] = place, before
                        answer = answers[place]
                    block[length * asked + which, i, key] = answer


@kernel
def _run(entries, at, end):
    """Return where the entries of a key end that follow one another, before a pane."""
    behind = at + 1
    while behind < entries.pane.size and entries.slot[behind] == entries.slot[at] and entries.pane[behind] < end:
        behind += 1
    return behind


@kernel
def _count(entries, begin, behind, sign, length, state):
    """Add entries of a key to the counts of a length, or take them away, and so for what is below each place."""
    key, total = entries.slot[begin], 0
    for at in range(begin, behind):
        more = sign * entries.count[at]
        state.counts[entries.cell[at], length] += more
        total += more
    state.moves[key, length] += total
    for which in range(state.places.shape[2]):
        place, lower = state.places[key, length, which], 0
        for at in range(begin, behind):
            lower += entries.count[at] if entries.cell[at] < place else 0
        state.below[key, length, which] += sign * lower
