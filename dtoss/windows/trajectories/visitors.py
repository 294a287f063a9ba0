"""How many different objects each place had in any window that ends now: all lengths from one look at the objects."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dtoss.compiled.kernel import operand
from dtoss.windows.aggregation.backward_sums import Backwards, backwards
from dtoss.windows.aggregation.pane_cells import Numbers
from dtoss.windows.aggregation.slots import Slots, different
from dtoss.windows.patches import NO_KEY
from dtoss.windows.spec import Spec
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.visits_kernel import NOT_YET, count_last

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
