"""Last visits of objects before an end: how many objects were last in a place so many panes before it."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel

_READ = "Array(int64, 1, 'C', readonly=True)"
NOT_YET = -(1 << 62)
"""The pane of a place where an object was not."""


@kernel(
    f"void(int64, int64, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, boolean, int64[::1],"
    " int64[::1], int64[:, ::1])"
)
def count_last(
    end, ago, first, pane, label_first, slot, visit_first, visit_pane, visit_slot, single, last, touched, counts
):  # fmt: skip
    """Add the pairs of objects and places by when the object was there last.

    ``end``: A pane: what is from it on does not count; ``first``, ``pane``: int64 (k + 1,) and (n,). Rows by object and
    time; ``label_first``, ``slot``: where the places of each row begin, unless ``single``; the places, as small
    numbers, -1 for none; ``visit_first``, ``visit_pane``, ``visit_slot``: int64 (k + 1,), (v,), (v,). What is known of
    before the rows; ``single``: whether a row has one place at the most; ``last``, ``touched``: int64 (places,) of
    :data:`NOT_YET` and int64 (places,): room to work in, left as it was; ``counts``: int64 (panes, places). ``counts[j,
    p]`` is how many were in p last ``ago + j`` panes before the last one before the end.
    """
    for k in range(first.size - 1):
        many = 0
        for i in range(visit_first[k], visit_first[k + 1]):
            place = visit_slot[i]
            if place >= 0:
                if last[place] == NOT_YET:
                    touched[many] = place
                    many += 1
                last[place] = max(last[place], visit_pane[i])
        for row in range(first[k], first[k + 1]):
            if pane[row] >= end:
                break
            begin, after = (row, row + 1) if single else (label_first[row], label_first[row + 1])
            for i in range(begin, after):
                place = slot[i]
                if place >= 0:
                    if last[place] == NOT_YET:
                        touched[many] = place
                        many += 1
                    last[place] = max(last[place], pane[row])
        for i in range(many):
            place = touched[i]
            back = end - 1 - ago - last[place]
            last[place] = NOT_YET
            if 0 <= back < counts.shape[0]:
                counts[back, place] += 1
