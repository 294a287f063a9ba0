"""How many different objects each place had in any window that ends now: all lengths from one look at the objects.

Last visits of objects before an end: how many objects were last in a place so many panes before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dtoss.compiled.kernel import kernel, operand
from dtoss.windows.aggregation.pane_cells import Numbers
from dtoss.windows.aggregation.slots import Slots, different
from dtoss.windows.aggregation.windows_at_watermark import Backwards, backwards
from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import Spec
from dtoss.windows.trajectories.known_rows import ObjectState

_DENSE = 1 << 25
"""Panes times places of some objects that are counted at once: a quarter of a gigabyte."""


def last_visits(spec: Spec, states: Iterable[ObjectState], end: int) -> Backwards:
    """Return how many objects last visited a key in which pane before an end, a column. O(rows and visits)."""
    parts = [_of(spec, state, end) for state in states]
    none = np.zeros(0, np.int64)
    pane, key, objects = (np.concatenate([none, *(part[i] for part in parts)]) for i in range(3))
    return backwards(pane, key, objects[:, None], end)


def _of(spec: Spec, state: ObjectState, end: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return panes, keys, and how many objects were there last then."""
    labels = state.labels
    keys = different([labels.key, state.visit_key])
    keys = keys[keys != NO_KEY]
    slots = Slots(keys)
    label_first = np.zeros(1, np.int64) if labels.first is None else operand(labels.first)
    slot, visit_slot = (slots.of(one).astype(np.int64) for one in (labels.key, state.visit_key))
    panes = max(_DENSE // max(len(keys), 1), 1)
    found = []
    for ago in range(0, spec.longest, panes):
        # where places are many, so many panes at a time
        counts = np.zeros((min(panes, spec.longest - ago), len(keys)), np.int64)
        count_last(
            end, ago, operand(state.first), state.t // spec.pane, label_first, slot, operand(state.visit_first),
            operand(state.visit_pane), visit_slot, labels.first is None, np.full(len(keys), NOT_YET, np.int64),
            np.zeros(len(keys), np.int64), counts,
        )  # fmt: skip
        at = np.flatnonzero(counts.reshape(-1))
        back, place = np.divmod(at, max(len(keys), 1))
        found.append((end - 1 - ago - back, keys[place], counts.reshape(-1)[at]))
    pane, key, objects = (np.concatenate(column) for column in zip(*found, strict=True))
    return pane, key, objects


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
