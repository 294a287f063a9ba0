"""Greatest values of sliding windows: for each key one queue of falling values, which all lengths share.

A value that is not greater than a later one never counts again, so it leaves the queue when that one comes. The first
of the queue that a window still holds is its greatest. Each value enters and leaves once: O(1) for each, however long
the windows are. It is a queue with two ends in place of the two stacks of the literature, which need one pair for each
length.
"""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

NO_LEAVING = 1 << 62
"""A pane that never leaves."""
_NUMBERS, _SLOTS = "Array(int64, 1, 'C', readonly=True)", "Array(int32, 1, 'C', readonly=True)"


@kernel(
    f"void(int64, int64, int64, {_NUMBERS}, {_SLOTS}, {_NUMBERS}, {_NUMBERS}, int64[::1], int64[:, ::1], int64[::1],"
    " int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, :, ::1])"
)
def slide_maxima(
    first, stride, ends, pane, slot, value, lengths, cursor, links, newest, oldest, since, greatest, block
):  # fmt: skip
    """Move the queues from end to end, and write the greatest values for each.

    ``first``, ``stride``, ``ends``: the first end and from one to the next, in panes; how many; ``pane``, ``slot``,
    ``value``: (n,). By pane, a pane and key once; ``lengths``: int64 (l,). In panes, rising: what is the greatest of a
    window is of each longer one too, or less than its; ``cursor``: int64 (1,). The entry that enters next; ``links``:
    int64 (2, n). The entry before and behind each in the queue of its key; -1 where there is none; ``newest``: int64
    (keys,). The last entry of each queue; ``oldest``, ``since``, ``greatest``: int64 (l, keys). The first entry of the
    queue in each window, its pane and its value; -1, a pane that never leaves and -1 where there is none; ``block``:
    int64 (l, ends, keys), or with no ends, where nothing is written.
    """
    at = cursor[0]
    for i in range(ends):
        end = first + i * stride
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
                if greatest[length, key] > value[at]:
                    break
                oldest[length, key], since[length, key], greatest[length, key] = at, pane[at], value[at]
            at += 1
        for length in range(lengths.size):
            gone = end - lengths[length]
            for key in range(newest.size):
                if since[length, key] < gone:
                    first_in = oldest[length, key]
                    while first_in >= 0 and pane[first_in] < gone:
                        first_in = links[1, first_in]
                    there = first_in >= 0
                    oldest[length, key], since[length, key] = first_in, pane[first_in] if there else NO_LEAVING
                    greatest[length, key] = value[first_in] if there else -1
            if block.shape[1] > 0:
                for key in range(newest.size):
                    block[length, i, key] = greatest[length, key]
    cursor[0] = at


@kernel(f"void({_NUMBERS}, int64[:, ::1], int64[::1], int64, uint8[::1])")
def mark_queues(pane, links, newest, since, marks):
    """Mark the entries of all queues whose pane is not before ``since``."""
    for key in range(newest.size):
        at = newest[key]
        while at >= 0 and pane[at] >= since:
            marks[at] = 1
            at = links[0, at]
