"""Greatest values of sliding windows: for each key one queue of falling values, which all lengths share.

A value that is not greater than a later one never counts again, so it leaves the queue when that one comes. The first
of the queue that a window still holds is its greatest. Each value enters and leaves once: O(1) for each, however long
the windows are. It is a queue with two ends in place of the two stacks of the literature, which need one pair for each
length.
"""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_NUMBERS}, {_NUMBERS}, int64[::1], int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, :, ::1])"
)
def slide_maxima(
    first, stride, ends, pane, slot, value, lengths, cursors, links, newest, oldest, greatest, block
):  # fmt: skip
    """Move the queues from end to end, and write the greatest values for each.

    Parameters
    ----------
    first, stride, ends
        The first end and from one to the next, in panes; how many.
    pane, slot, value
        (n,). By pane, a pane and key once.
    lengths
        int64 (l,). In panes.
    cursors
        int64 (l + 1,). The entry that comes next: to enter, to leave each length.
    links
        int64 (2, n). The entry before and behind each in the queue of its key; -1 where there is none.
    newest
        int64 (keys,). The last entry of each queue.
    oldest, greatest
        int64 (l, keys). The first entry of the queue in each window and its value; -1 where there is none.
    block
        int64 (l, ends, keys), or with no ends, where nothing is written.
    """
    for i in range(ends):
        end = first + i * stride
        at = cursors[0]
        while at < pane.size and pane[at] < end:
            key = slot[at]
            before = newest[key]
            while before >= 0 and value[before] <= value[at]:
                before = links[0, before]
            links[0, at], links[1, at] = before, -1
            if before >= 0:
                links[1, before] = at
            newest[key] = at
            for length in range(lengths.size):
                if greatest[length, key] <= value[at]:
                    oldest[length, key], greatest[length, key] = at, value[at]
            at += 1
        cursors[0] = at
        for length in range(lengths.size):
            at, gone = cursors[1 + length], end - lengths[length]
            while at < pane.size and pane[at] < gone:
                key = slot[at]
                if oldest[length, key] == at:
                    behind = links[1, at]
                    oldest[length, key] = behind
                    greatest[length, key] = value[behind] if behind >= 0 else -1
                at += 1
            cursors[1 + length] = at
        if block.shape[1] > 0:
            for length in range(lengths.size):
                for key in range(newest.size):
                    block[length, i, key] = greatest[length, key]


@kernel(f"void({_NUMBERS}, int64[:, ::1], int64[::1], int64, uint8[::1])")
def mark_queues(pane, links, newest, since, marks):
    """Mark the entries of all queues whose pane is not before ``since``."""
    for key in range(newest.size):
        at = newest[key]
        while at >= 0 and pane[at] >= since:
            marks[at] = 1
            at = links[0, at]
