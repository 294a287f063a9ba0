"""The horizon moves: rows before it change no more, and what is kept of them is the last one and the last visits.

Rows that came among those of their objects; and those that no longer change, folded into what is kept of them.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.row_runs import offsets, runs
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.trajectories.known_rows import ObjectState

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
    taken = runs(kept, rows)
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


_READ, _PLACES = "Array(int64, 1, 'C', readonly=True)", "Array(float64, 2, 'C', readonly=True)"


@kernel(f"boolean({_READ}, {_READ})")
def in_order(number, t):
    """Return whether rows are by number and time."""
    for i in range(1, number.size):
        if number[i] < number[i - 1] or (number[i] == number[i - 1] and t[i] < t[i - 1]):
            return False
    return True


@kernel
def _greater(a, i, b, j):
    """Return whether row i of positions a is greater than row j of b."""
    return a[i, 0] > b[j, 0] or (a[i, 0] == b[j, 0] and a[i, 1] > b[j, 1])


@kernel(
    f"int64({_READ}, {_READ}, {_READ}, {_READ}, {_PLACES}, {_READ}, {_READ}, {_PLACES}, int64[::1], int64[::1],"
    " int64[::1])"
)
def merge(known, came, first, t, positions, new_first, new_t, new_positions, order, begin, start):
    """Write the rows of each object by time, of equal times the greatest position, and return how many are left out.

    ``known``, ``came``: int64 (k,). The number of each object among those known and those that came, or -1.
    """
    held = t.size
    count = duplicates = 0
    for k in range(known.size):
        begin[k] = count
        i = end = j = last = 0
        if known[k] >= 0:
            i, end = first[known[k]], first[known[k] + 1]
        if came[k] >= 0:
            j, last = new_first[came[k]], new_first[came[k] + 1]
        fresh = -1
        while i < end or j < last:
            if j == last or (i < end and t[i] <= new_t[j]):
                order[count] = i
                count += 1
                i += 1
                continue
            before = order[count - 1] if count > begin[k] else -1
            if before >= 0 and (t[before] if before < held else new_t[before - held]) == new_t[j]:
                duplicates += 1
                if before < held:
                    wins = _greater(new_positions, j, positions, before)
                else:
                    wins = _greater(new_positions, j, new_positions, before - held)
                if not wins:
                    j += 1
                    continue
                count -= 1
            order[count] = held + j
            if fresh < 0:
                fresh = count
            count += 1
            j += 1
        start[k] = count if fresh < 0 else fresh
    begin[known.size] = count
    return duplicates


@kernel(
    f"int64(int64, int64, int64, int64, int64, boolean, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ},"
    f" {_READ}, {_READ}, int64[::1], int64[::1], int64[::1], int64[::1])"
)
def fold(
    horizon, pane, longest, keep_from, visits, single, first, t, row_pane, key_first, key,
    visit_first, visit_key, visit_pane, kept, kept_visits, out_key, out_pane,
):  # fmt: skip
    """Write what stays of each object: its first row that is kept, and its last visits; return how many visits.

    ``horizon``, ``pane``, ``longest``: rows before the horizon change no more; pane is the number of that pane. Visits
    stay that are at most the longest window before it; ``keep_from``: the last row before the horizon is kept from this
    time on; ``visits``: whether visits are kept: 1 or 0; ``kept``, ``kept_visits``: int64 (k,). The first row that is
    kept of each object, and how many visits.
    """
    count = 0
    for k in range(first.size - 1):
        began = count
        i = first[k]
        if visits != 0:
            for v in range(visit_first[k], visit_first[k + 1]):
                out_key[count], out_pane[count] = visit_key[v], visit_pane[v]
                count += 1
        while i < first[k + 1] and t[i] < horizon:
            if visits != 0:
                low, high = (i, i + int(key[i] >= 0)) if single else (key_first[i], key_first[i + 1])
                for j in range(low, high):
                    at = began
                    while at < count and out_key[at] != key[j]:
                        at += 1
                    out_key[at], out_pane[at] = key[j], row_pane[i]
                    count = max(count, at + 1)
            i += 1
        if i > first[k] and t[i - 1] >= keep_from:
            i -= 1
        kept[k] = i
        left = began
        for v in range(began, count):
            if out_pane[v] + longest >= pane:
                out_key[left], out_pane[left] = out_key[v], out_pane[v]
                left += 1
        count = left
        kept_visits[k] = count - began
    return count
