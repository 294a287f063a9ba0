"""The rows of a task against the state of its objects: only theirs is read and written, as a patch of what stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.column_rows import join_rows
from dtoss.row_runs import offsets
from dtoss.windows.state.state_files import (
    ID_KINDS,
    Change,
    due,
    objects_tables,
    read_objects,
    staying,
    too_many,
    with_any,
    write_objects,
)
from dtoss.windows.storage.window_document import Part
from dtoss.windows.trajectories.fold_horizon import fold_state
from dtoss.windows.trajectories.known_rows import ObjectState, labels_from, newest
from dtoss.windows.trajectories.map_step import ObjectsStep, WindowRows, objects_step
from dtoss.windows.trajectories.silent_objects import Others
from dtoss.windows.watermark import horizon_of

if TYPE_CHECKING:
    from dtoss.windows.storage.window_plan import Plan

Numbers = NDArray[np.int64]
BASE_OBJECTS = 32_768
"""Objects of a file of state, about: one of more is cut by buckets."""


@dataclass(frozen=True)
class StepResult:
    """What rows have done to objects, and to the files of their state."""

    step: ObjectsStep  # What the rows have changed
    change: Change
    bytes: Numbers  # int64 (256,). State of each bucket after the batch, about


def step_objects(plan: Plan, task: int, rows: WindowRows) -> StepResult:
    """Return what rows change; the files of state are there, and count for nothing until a commit names them.

    ``rows``: good ones, in any order.

    Rows of a quarter of the objects or more: all state of the task is read and written, O(n + k) for k rows of it. Of
    fewer, all files are read to compare their bytes, and what is walked and written is the state of the rows' objects;
    where the greatest speed is asked for, moves of the others that may still change are looked at.
    """
    of = plan.placement.groups(task)
    parts = with_any(plan.objects, of.tolist())
    held = sum(part.file.rows for part in parts if not part.patch)
    came = rows.ids.unique()
    if plan.fold_to is not None or too_many(len(came), held):
        return _whole(plan, of, parts, rows)
    return _patched(plan, of, parts, rows, came)


def _whole(plan: Plan, of: Numbers, parts: Sequence[Part], rows: WindowRows) -> StepResult:
    """Read all state, and write all of it."""
    keys, spec = plan.keys, plan.spec
    before = read_objects(plan.home, parts, of, plan.id_type, keys.single)
    step = objects_step(spec, keys, before, rows, horizon_of(spec, plan.watermark))
    after = step.after if plan.fold_to is None else fold_state(spec, step.after, plan.fold_to)
    bases = _bases(plan, after, of)
    return StepResult(step, Change(tuple(of.tolist()), bases), _bytes([after], sum(base.file.bytes for base in bases)))


def _patched(plan: Plan, of: Numbers, parts: Sequence[Part], rows: WindowRows, came: pa.Array) -> StepResult:
    """Read all files, walk the objects that have rows, and write what has changed of them."""
    keys, spec = plan.keys, plan.spec
    horizon = horizon_of(spec, plan.watermark)
    layers = [_Layer(part, objects_tables(plan.home, part), of) for part in parts]
    wanted = came.take(pc.sort_indices(came))
    others = _others(layers, wanted, horizon) if "max_speed" in spec.measures else None
    none = ObjectState.none(ID_KINDS[plan.id_type], keys.single)
    before = newest([none, *(layer.of_ids(wanted) for layer in layers)])
    step = objects_step(spec, keys, before, rows, horizon, others=others)
    changed = step.after.take(step.changed)
    bases = [layer for layer in layers if not layer.part.patch]
    patches = [layer for layer in layers if layer.part.patch]
    patched = sum((layer.counts for layer in patches), np.bincount(changed.bucket, minlength=BUCKETS))
    units = [layer.mine for layer in bases]
    left = np.setdiff1d(of, np.concatenate([np.zeros(0, np.int64), *units]))
    if len(left):  # no base has them yet
        units.append(left)
    sizes = np.array([int(layer.counts.sum()) for layer in bases] + [0] * (len(units) - len(bases)))
    anew = due(sizes, np.array([int(patched[unit].sum()) for unit in units]), len(changed))
    written: list[Part] = []
    for unit in anew.tolist():
        states = [layer.of_buckets(units[unit]) for layer in layers]
        whole = newest([none, *states, changed.of_buckets(units[unit])])
        written += _bases(plan, fold_state(spec, whole, horizon), units[unit])
    rest = np.setdiff1d(of, np.concatenate([np.zeros(0, np.int64), *(units[unit] for unit in anew.tolist())]))
    patch, stay = None, None
    if len(anew):
        changed = changed.of_buckets(rest)
    if len(changed):
        stay = staying([layer.part for layer in patches], len(changed))
        changed = newest([none, *(layer.of_buckets(rest) for layer in patches[stay:]), changed])
        patch = Part(write_objects(plan.home, changed), tuple(rest.tolist()), True)
    change = Change(tuple(of.tolist()), tuple(written), patch, stay)
    return StepResult(step, change, sum((layer.bytes for layer in layers), np.zeros(BUCKETS, np.int64)))


class _Layer:
    """A file of state, of which some buckets count."""

    def __init__(self, part: Part, tables: dict[str, pa.Table], of: Numbers) -> None:
        self.part, self._tables = part, tables
        self.mine = np.intersect1d(of, np.array(part.of, np.int64))
        there = np.zeros(BUCKETS, np.bool_)
        there[self.mine] = True
        self._bucket = tables["objects"]["bucket"].to_numpy()
        self.counts = np.where(there, np.bincount(self._bucket, minlength=BUCKETS), 0)
        self._counts = None if len(self._bucket) == int(self.counts.sum()) else there

    @property
    def bytes(self) -> Numbers:
        """Of each bucket, about."""
        return np.rint(self.counts * (self.part.file.bytes / max(len(self._bucket), 1))).astype(np.int64)

    @property
    def columns(self) -> list[str]:
        """Of the rows; without speeds there are no rows."""
        names: list[str] = self._tables["rows"].column_names
        return names

    @property
    def ids(self) -> pa.Array:
        """Of all objects of the file, rising."""
        return self._tables["objects"]["id"].combine_chunks()

    def places(self, wanted: pa.Array) -> Numbers:
        """Return the numbers of objects, rising, of their ids, which rise."""
        known = self.ids
        if pa.types.is_integer(known.type):
            ids, asked = known.to_numpy(), wanted.to_numpy()
            at = np.searchsorted(ids, asked)
            at = at[at < len(ids)]
            return at[ids[at] == asked[: len(at)]]
        return np.flatnonzero(np.asarray(pc.index_in(known, value_set=wanted.cast(known.type)).is_valid()))

    def of_ids(self, wanted: pa.Array) -> ObjectState:
        """Return the state of objects, by their rising ids, that count here."""
        return self._taken(self.places(wanted))

    def of_buckets(self, buckets: Numbers) -> ObjectState:
        """Return the state of the objects of some buckets that count here."""
        return self._taken(np.flatnonzero(np.isin(self._bucket, buckets)))

    def moving(self, horizon: int | None, newer: Sequence[pa.Array]) -> Others:
        """Return the moves that may still change, but of objects that one of several lists of rising ids has."""
        objects, rows = self._tables["objects"], self._tables["rows"]
        there = rows["speed"].to_numpy() >= 0
        if horizon is not None:
            there &= rows["t"].to_numpy() >= horizon
        left = np.ones(len(objects), np.bool_) if self._counts is None else self._counts[self._bucket]
        for ids in newer:
            left[self.places(ids)] = False
        owner = np.repeat(np.arange(len(objects)), objects["rows"].to_numpy())
        at = np.flatnonzero(there & left[owner])
        some = {name: rows[name].take(pa.array(at)).combine_chunks() for name in ("t", "speed", "key")}
        counts = np.bincount(owner[at], minlength=len(objects))
        held = np.flatnonzero(counts)
        t, speed = (np.asarray(some[name]).astype(np.int64) for name in ("t", "speed"))
        return Others(self._bucket[held], offsets(counts[held]), t, speed, labels_from(some["key"]))

    def _taken(self, at: Numbers) -> ObjectState:
        if self._counts is not None:
            at = at[self._counts[self._bucket[at]]]
        return ObjectState.some_from_arrow(self._tables, at)


def _others(layers: Sequence[_Layer], came: pa.Array, horizon: int | None) -> Others | None:
    """Return the moves of objects without rows that may still change, as the newest file has each; None without one."""
    found, newer = [], [came]
    for layer in reversed(layers):
        if "speed" in layer.columns:
            found.append(layer.moving(horizon, newer))
        if layer.part.patch:
            newer.append(layer.ids)
    return join_rows(found) if found else None


def _bases(plan: Plan, state: ObjectState, of: Numbers) -> tuple[Part, ...]:
    """Write the state of all objects of buckets, in files of about as many, and return them."""
    counts = np.bincount(state.bucket, minlength=BUCKETS)[of]
    piece = (np.cumsum(counts) - counts) // BASE_OBJECTS if len(of) else of
    found = []
    for one in np.unique(piece).tolist():
        mine = of[piece == one]
        some = state if len(mine) == len(of) else state.of_buckets(mine)
        found.append(Part(write_objects(plan.home, some), tuple(mine.tolist())))
    return tuple(found)


def _bytes(states: Sequence[ObjectState], size: int) -> Numbers:
    """Return the bytes of each bucket, int64 (256,): its part of files of so many, by what it has in them."""
    held = np.zeros(BUCKETS)
    for state in states:
        held += np.bincount(state.bucket, 1 + np.diff(state.first) + np.diff(state.visit_first), BUCKETS)
    return np.rint(held * (size / max(float(held.sum()), 1.0))).astype(np.int64)
