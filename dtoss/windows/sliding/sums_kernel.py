"""Running sums: a pane that enters is added once for each length, and one that leaves is taken away."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"
_TABLE = "Array(int64, 2, 'C', readonly=True)"


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_TABLE}, {_NUMBERS}, {_SLOTS}, {_TABLE}, {_NUMBERS},"
    " int64[::1], int64[:, ::1], int64[:, :, ::1])"
)
def slide_sums(
    first, stride, ends, pane, slot, values, step_pane, step_slot, steps, lengths, cursors, totals, block
):  # fmt: skip
    """Move the running sums from end to end, and write them for each.

    Parameters
    ----------
    first, stride, ends
        The first end and from one to the next, in panes; how many. An end holds the panes before it.
    pane, slot, values
        (n,), (n,), int64 (n, c). What counts in the windows that hold its pane, by pane.
    step_pane, step_slot, steps
        (m,), (m,), int64 (m, d). What counts from its pane on, by pane.
    lengths
        int64 (l,). In panes.
    cursors
        int64 (l + 2,). The entry that comes next: to enter, as a step, to leave each length.
    totals
        int64 (d + l * c, keys). The running sums.
    block
        int64 (d + l * c, ends, keys), or with no ends, where nothing is written.
    """
    standing, wide = steps.shape[1], values.shape[1]
    for i in range(ends):
        end = first + i * stride
        at = cursors[0]
        while at < pane.size and pane[at] < end:
            key = slot[at]
            for length in range(lengths.size):
                for column in range(wide):
                    totals[standing + length * wide + column, key] += values[at, column]
            at += 1
        cursors[0] = at
        at = cursors[1]
        while at < step_pane.size and step_pane[at] < end:
            for column in range(standing):
                totals[column, step_slot[at]] += steps[at, column]
            at += 1
        cursors[1] = at
        for length in range(lengths.size):
            at, gone = cursors[2 + length], end - lengths[length]
            while at < pane.size and pane[at] < gone:
                for column in range(wide):
                    totals[standing + length * wide + column, slot[at]] -= values[at, column]
                at += 1
            cursors[2 + length] = at
        if block.shape[1] > 0:
            for row in range(totals.shape[0]):
                for key in range(totals.shape[1]):
                    block[row, i, key] = totals[row, key]
