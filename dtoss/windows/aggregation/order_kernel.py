"""Cells put in order by counting: each is written once to its place, which its pane and first label say."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel

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
