"""A batch of rows against what is known of their objects: patches of panes, and what is known then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtoss.windows.keys import Keys
from dtoss.windows.labels import Labels, Numbers, offsets
from dtoss.windows.patches import Patches
from dtoss.windows.spec import Spec
from dtoss.windows.trajectories.fold_horizon import fold_state
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.silent_objects import Others
from dtoss.windows.trajectories.sorted_rows import Met, Placed, WindowRows, met, placed
from dtoss.windows.trajectories.walk_rows import Pool, pool_of, walked
from dtoss.windows.watermark import PaneCounts, reached_of


@dataclass(frozen=True)
class ObjectsStep:
    """What a batch has done."""

    patches: Patches  # What changes in panes
    after: ObjectState  # What is known of objects then; the next step folds it to its horizon
    losers: int  # Rows that do not count: another of the same object and time does
    jumps: int  # How many more pairs of rows are too fast for a move than before
    reached: PaneCounts  # The last panes of all objects
    changed: Numbers  # int64. Those whose rows are others than before, by their number in the state after
    left: PaneCounts  # The last panes of all objects before


def objects_step(
    spec: Spec, keys: Keys, before: ObjectState, rows: WindowRows, horizon: int | None, labels: Labels | None = None,
    others: Others | None = None,
) -> ObjectsStep:  # fmt: skip
    """Return what rows change. Cost O(n) for n rows, those of the state, and panes and keys that they may touch.

    ``rows``: good ones, in any order: none is before the horizon, none is null; ``horizon``: microseconds: that of the
    commit before, :func:`dtoss.windows.watermark.horizon_of`; None in the first batch; ``others``: moves of all other
    objects of the rows' buckets, where the greatest speed is asked for; None where they are in the state.
    """
    state = fold_state(spec, before, horizon)
    batch = placed(rows)
    positions = batch.rows.positions
    wanted = spec.moves or labels is None
    vectors = keys.space.vectors(positions) if wanted else np.zeros((len(positions), 1))  # nobody looks at those
    if labels is None:
        labels = keys.find(positions, vectors)
    elif batch.order is not None:
        labels = labels.take(batch.order)
    found = met(state, batch)
    pool = pool_of(spec, keys, state, batch, labels, vectors, found)
    bucket = _buckets(state, batch, found)
    result = walked(spec, keys, state, pool, found, bucket, horizon, others)
    ends = found.begin[1:][np.diff(found.begin) > 0]
    reached = reached_of(spec, pool.t[found.order[ends - 1]])
    left = reached_of(spec, state.t[state.first[1:][np.diff(state.first) > 0] - 1])
    changed = np.flatnonzero(found.start < found.begin[1:])
    after = _after(spec, state, batch, pool, found, bucket)
    return ObjectsStep(result.patches, after, found.losers, result.jumps, reached, changed, left)


def _buckets(state: ObjectState, batch: Placed, found: Met) -> Numbers:
    """Return the bucket of each object."""
    bucket = np.zeros(len(found.known), np.int64)
    known, came = found.known >= 0, found.came >= 0
    bucket[came] = batch.rows.bucket[batch.first[:-1]]
    bucket[known] = state.bucket
    return bucket


def _after(spec: Spec, state: ObjectState, batch: Placed, pool: Pool, found: Met, bucket: Numbers) -> ObjectState:
    """Return what is known of objects: all their rows that count, and the visits before."""
    speeds = "max_speed" in spec.measures
    visits = np.zeros(len(bucket), np.int64)
    visits[found.known >= 0] = np.diff(state.visit_first)
    positions, t, labels, speed = batch.rows.positions, pool.t, pool.labels, pool.speed
    if len(state.t) or len(found.order) < len(t):
        positions = np.concatenate([state.positions, positions])[found.order]
        t, labels = t[found.order], labels.take(found.order)
        speed = speed[found.order] if speeds else speed
    return ObjectState(
        found.ids, bucket, found.begin, t, positions, labels, speed if speeds else speed[:0],
        offsets(visits), state.visit_key, state.visit_pane,
    )  # fmt: skip
