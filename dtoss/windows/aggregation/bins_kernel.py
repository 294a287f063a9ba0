"""Percentiles of sliding windows: counts by bin, and for each percentile a place that moves as the counts do."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel

_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"
_TABLE = "Array(int64, 2, 'C', readonly=True)"
_WHOLE_PERCENT = 100
"""Of all that is counted."""


AT_PANE, AT_CELL, AT_COUNT = range(3)
"""Columns of moves: their pane, the cell of their bin, which is the bin at first, and how many."""


class Asked(NamedTuple):
    """The first end and from one to the next, in panes; how many; lengths; percentiles; what is said of a cell."""

    first: Any
    stride: Any
    ends: Any
    lengths: Any
    percents: Any
    answers: Any


class State(NamedTuple):
    """What :func:`slide_bins` goes on from."""

    cursors: Any
    counts: Any
    moves: Any
    places: Any
    below: Any


@kernel(f"void({_NUMBERS}, {_SLOTS}, {_TABLE}, {_TABLE}, int64[::1], int64[:, ::1])")
def moves_by_key(pane, slot, labels, counts, first, moves):
    """Write moves by key and pane.

    ``pane``, ``slot``, ``labels``, ``counts``: (n,), (n,), (n, 2), (n, 1). By pane: the key twice, the second label is
    the bin, and how many moves; ``first``: int64 (keys + 2,), zeros; where those of each key begin is left in all but
    the last; ``moves``: int64 (n, 3).
    """
    for i in range(slot.size):
        first[slot[i] + 2] += 1
    for key in range(2, first.size):
        first[key] += first[key - 1]
    for i in range(slot.size):
        at = first[slot[i] + 1]
        first[slot[i] + 1] = at + 1
        moves[at, AT_PANE], moves[at, AT_CELL], moves[at, AT_COUNT] = pane[i], labels[i, 1], counts[i, 0]


@kernel(f"void({_NUMBERS}, int64[:, ::1], int64, int64[::1])")
def first_from(first, moves, pane, found):
    """Write the first of the moves of each key that is not before a pane."""
    for key in range(found.size):
        at = first[key]
        while at < first[key + 1] and moves[at, AT_PANE] < pane:
            at += 1
        found[key] = at


@kernel(f"int64({_NUMBERS}, int64[:, ::1], {_NUMBERS}, int64[::1], int64[::1], int64[::1], int64[::1])")
def number_cells(first, moves, before_first, before_bins, cells, cell_first, number):
    """Write a cell in place of each bin: one for each key and bin that occurs, by both; return how many there are.

    ``first``, ``moves``, ``before_first``, ``before_bins``: key k has ``moves[first[k]:first[k + 1]]``, and the bins
    ``before_bins[before_first[k]:before_first[k + 1]]``; ``cell_first``: int64 (keys + 1,). Where those of each key
    begin; ``number``: int64 (bins,). Of -1, as it is left.
    """
    found = 0
    for key in range(cell_first.size - 1):
        cell_first[key] = found
        last = -1
        for at in range(first[key], first[key + 1]):
            number[moves[at, AT_CELL]], last = 0, max(last, moves[at, AT_CELL])
        for at in range(before_first[key], before_first[key + 1]):
            number[before_bins[at]], last = 0, max(last, before_bins[at])
        for one in range(last + 1):
            if number[one] == 0:
                cells[found], number[one] = one, found
                found += 1
        for at in range(first[key], first[key + 1]):
            moves[at, AT_CELL] = number[moves[at, AT_CELL]]
        for at in range(before_first[key], before_first[key + 1]):
            before_bins[at] = number[before_bins[at]]
        number[: last + 1] = -1
    cell_first[cell_first.size - 1] = found
    return found


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_TABLE}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, int64[:, :, ::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1])"
)
def slide_bins(
    first, stride, ends, begin, entries, lengths, percents, answers, cursors, counts, moves, places, below, block
):  # fmt: skip
    """Move the counts from end to end, and write the percentiles for each.

    ``first``, ``stride``, ``ends``: the first end and from one to the next, in panes; how many; ``begin``, ``entries``:
    (keys + 1,) and (n, 3). Key k has the moves ``entries[begin[k]:begin[k + 1]]``, by pane; ``lengths``: int64 (l,). In
    panes; ``percents``: int64 (p,); ``answers``: int64 (cells,). What is written where a percentile lies in a cell.
    Cells are by key and bin; ``cursors``: int64 (l, keys, 2). The entry that comes next: to enter, to leave;
    ``counts``: int64 (l, cells). Moves of each cell in each window; ``moves``: int64 (l, keys). Their sums by key;
    ``places``, ``below``: int64 (l, keys, p). A cell of the key for each percentile, and how many moves are in cells of
    the key before it; ``block``: int64 (l * p, ends, keys), or with no ends, where nothing is written; -1 where there
    is no move.
    """
    state = State(cursors, counts, moves, places, below)
    asked = Asked(first, stride, ends, lengths, percents, answers)
    for length in range(lengths.size):
        for key in range(begin.size - 1):
            if counts.shape[1] > 0:
                _slide_key(entries, begin[key + 1], asked, state, length, key, block)
    if counts.shape[1] == 0:
        block[:] = -1


@kernel
def _slide_key(entries, stop, asked, state, length, key, block):
    """Move a key's counts of a length from end to end."""
    written, wide, counts = block.shape[1] > 0, asked.percents.size, state.counts[length]
    enter, leave = state.cursors[length, key, 0], state.cursors[length, key, 1]
    total, places, below = state.moves[length, key], state.places[length, key], state.below[length, key]
    for i in range(asked.ends):
        end = asked.first + i * asked.stride
        gone = end - asked.lengths[length]
        changed = i == 0
        while enter < stop and entries[enter, AT_PANE] < end:
            cell, more = entries[enter, AT_CELL], entries[enter, AT_COUNT]
            counts[cell] += more
            total += more
            for which in range(wide):
                below[which] += more if cell < places[which] else 0
            enter += 1
            changed = True
        while leave < enter and entries[leave, AT_PANE] < gone:
            cell, more = entries[leave, AT_CELL], entries[leave, AT_COUNT]
            counts[cell] -= more
            total -= more
            for which in range(wide):
                below[which] -= more if cell < places[which] else 0
            leave += 1
            changed = True
        if not written:
            continue
        for which in range(wide):
            if not changed:
                block[length * wide + which, i, key] = block[length * wide + which, i - 1, key]
            elif total == 0:
                block[length * wide + which, i, key] = -1
            else:
                rank = _rank(asked.percents[which], total)
                places[which], below[which] = _place(counts, places[which], below[which], rank)
                block[length * wide + which, i, key] = asked.answers[places[which]]
    state.cursors[length, key, 0], state.cursors[length, key, 1] = enter, leave
    state.moves[length, key] = total


@kernel
def _rank(percent, total):
    return (percent * total + _WHOLE_PERCENT - 1) // _WHOLE_PERCENT


@kernel
def _place(counts, place, below, rank):
    """Return the cell that a rank lies in, and how many moves are in those before it."""
    while below >= rank:
        place -= 1
        below -= counts[place]
    while below + counts[place] < rank:
        below += counts[place]
        place += 1
    return place, below
