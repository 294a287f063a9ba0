"""The horizon moves: rows before it change no more, and what is kept of them is the last one and the last visits."""

from __future__ import annotations

import numpy as np

from dtoss.windows.labels import offsets, ranges
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.merge_kernel import fold

_NONE = np.zeros(1, np.int64)


def fold_state(spec: Spec, state: ObjectState, horizon: int | None) -> ObjectState:
    """Return what is kept of a state whose rows before a horizon change no more. Cost O(rows and visits).

    ``horizon``: microseconds, the beginning of a pane; None where all rows may change still.
    """
    if horizon is None or len(state) == 0:
        return state
    count, labels = len(state), state.labels
    kept, visits = np.empty(count, np.int64), np.empty(count, np.int64)
    room = (len(state.visit_key) + len(labels.key)) if "objects" in spec.measures else 0
    key, pane = np.empty(room, np.int64), np.empty(room, np.int64)
    total = fold(
        horizon, horizon // spec.pane, spec.longest, _kept_from(spec, horizon), int("objects" in spec.measures),
        labels.first is None, state.first, state.t, state.t // spec.pane,
        _NONE if labels.first is None else labels.first, labels.key, state.visit_first, state.visit_key,
        state.visit_pane, kept, visits, key, pane,
    )  # fmt: skip
    rows = state.first[1:] - kept
    stay = np.flatnonzero((rows > 0) | (visits > 0))
    whole = len(stay) == count
    taken = ranges(kept, rows)
    speed = state.speed[taken] if len(state.speed) else state.speed
    return ObjectState(
        state.ids if whole else state.ids.take(stay), state.bucket if whole else state.bucket[stay],
        offsets(rows[stay]), state.t[taken], np.ascontiguousarray(state.positions[taken]), labels.take(taken), speed,
        offsets(visits[stay]), key[:total], pane[:total],
    )  # fmt: skip


def memory_of(spec: Spec) -> int:
    """Return for how long before the horizon the last row of an object is kept, in microseconds.

    So long it may matter: to what comes next, or to how far objects have come.
    """
    since = [spec.longest * spec.pane]
    if spec.moves:
        since.append(spec.max_gap)
    if "here" in spec.measures:
        since.append(LAST_TIME if spec.expire is None else spec.expire)
    return max(since)


def _kept_from(spec: Spec, horizon: int) -> int:
    return max(horizon - memory_of(spec), -LAST_TIME)
