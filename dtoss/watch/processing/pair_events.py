"""Which objects come near one another, and part: of all rows of a batch in the order of their times, in one place.

Objects of all tasks meet, so tasks hand their rows over. Pairs that are near are kept as a run of the state that counts
for no bucket: a row for each, by its first object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, bitmap, bucket_of
from dtoss.conditions.parse import Condition
from dtoss.geometry.distance import SPHERE, distance
from dtoss.watch.index.large_and_small import AskedPairs
from dtoss.watch.matching.matcher import texts_hold
from dtoss.watch.matching.near_pairs import CAME, Moves, NearPairs, near_pairs
from dtoss.watch.processing.event_table import (
    ENTERS,
    LEAVES,
    OTHER_COLUMN,
    OTHER_PLACE,
    EventWriter,
    coded,
    kinds_of,
)
from dtoss.watch.processing.last_rows import STAY_TYPE, Before, Run, concatenated, keys_of, write_run
from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.state_runs import Asked, ids_until, layers_of, newest, open_run
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.subscription import ENTER, LEAVE
from dtoss.watch.watch_settings import Rows

_SUBSCRIPTION = "subscription"
_EARLIEST, _FIRST, _ROW, _LAST = range(-1, 3)
"""Whether a row of which nothing is told moves an object, it was over before the rows, one moves it, or it is over."""


@dataclass(frozen=True)
class PairsDone:
    """What has become of pairs in a batch."""

    run: dict[str, Any] | None  # The run of those that are near, as a commit says it; None for none
    counts: dict[str, int]


def moves_of(plan: Plan, tracks: Tracks) -> pa.Table | None:
    """Return where objects of a task have moved, and which were over before; None where nobody asks for pairs."""
    if not plan.standing.pairs:
        return None
    rows = tracks.rows
    assert rows.t is not None
    t, over = rows.t.copy(), np.flatnonzero(tracks.expired)
    t[over] += plan.options.expire or 0
    # what came of an object after it was over may be from before that
    again = over[~np.isin(over + 1, tracks.begin)]
    t[again] = np.minimum(t[again], rows.t[again + 1])
    some = np.flatnonzero(~tracks.before | tracks.expired)
    return _as_moves(plan, rows.take(some), t[some], np.where(tracks.expired[some], _FIRST, _ROW))


def _as_moves(plan: Plan, rows: Rows, t: NDArray[np.int64], turn: NDArray[Any]) -> pa.Table:
    columns: dict[str, Any] = {"id": rows.ids, "t": t, "turn": turn.astype(np.int64)}
    columns |= {"x": np.ascontiguousarray(rows.positions[:, 0]), "y": np.ascontiguousarray(rows.positions[:, 1])}
    attributes = {f"a:{name}": rows.attributes[name].cast(kind) for name, kind in plan.kept_types.items()}
    return pa.table(columns | attributes)


def write_pairs(plan: Plan, earlier: pa.Table, moves: pa.Table, out: EventWriter) -> int:
    """Write what becomes of pairs by rows, where no state has them; return how often one had no room.

    ``earlier``: of rows before, by which pairs are near at first.
    """
    turn = earlier.schema.get_field_index("turn")
    earlier = earlier.set_column(turn, "turn", pa.repeat(_EARLIEST, len(earlier)))
    world = _World.of(plan, pa.concat_tables([earlier, moves]).combine_chunks())
    alive = plan.standing.alive(plan.clock)
    found = [(one, world.followed(one, None, True)) for one in plan.standing.pairs if alive[one.number]]
    _write(plan, world, [world.events(*each) for each in found], out)
    return sum(each.crowded for _, each in found)


def pairs_after(
    plan: Plan, moves: Sequence[pa.Table], over: Before | None, clock: int | None, out: EventWriter
) -> PairsDone:
    """Write what becomes of pairs in a batch.

    ``moves``: of :func:`moves_of`; ``over``: the last rows of objects that are over behind them; ``clock``: behind the
    batch: subscriptions that have ended by then are not told of these. Cost O(objects log objects + rows x near ones)
    for each subscription to pairs.
    """
    run = next((one for one in plan.state if not len(one.buckets)), None)
    if over is not None and len(over):
        rows = Rows(over.positions, over.ids, over.t, None, over.attributes)
        moves = [*moves, _as_moves(plan, rows, over.t + (plan.options.expire or 0), np.full(len(over), _LAST))]
    moved = pa.concat_tables(moves).combine_chunks() if moves else None
    if moved is None or not len(moved):
        return PairsDone(None if run is None else _entry_of(run), {"crowded": 0})
    world = _World.of(plan, moved)
    kept, parts, crowded = [], [], 0
    held = None if run is None else _read_run(plan, run)
    for one in plan.standing.pairs:
        if not plan.standing.alive(plan.clock)[one.number]:
            continue
        stays = bool(plan.standing.alive(clock)[one.number])
        found = world.followed(one, held, stays)
        crowded += found.crowded
        parts.append(world.events(one, found))
        if stays:
            kept.append(world.as_run(one, found.left))
    counts = _write(plan, world, parts, out)
    whole = concatenated(kept, {_SUBSCRIPTION: pa.string(), OTHER_COLUMN: world.ids.type}, world.ids.type)
    entry = write_run(plan.home.folder, bucket_of(whole.ids), whole)
    none = bitmap(np.zeros(0, np.int64))
    return PairsDone(None if entry is None else entry | {"buckets": none}, counts | {"crowded": crowded})


def _entry_of(run: Run) -> dict[str, Any]:
    return {
        "name": run.name, "rows": run.rows, "bytes": run.bytes, "sha256": run.sha256, "buckets": bitmap(run.buckets)
    }  # fmt: skip


def _read_run(plan: Plan, run: Run) -> Before:
    held = open_run(plan.home, run.name)
    return held.taken(np.arange(len(held.key)))


@dataclass(frozen=True)
class _World:
    """All objects of a batch by their ids, where they were before, and the rows that move them, in turn."""

    plan: Plan
    ids: pa.Array
    before: Rows  # Of each object; anything where there is none
    changes: NDArray[np.int64]  # The change that it was judged under; -1 where there is none
    moved: Rows
    object: NDArray[np.int64]  # Of each row that moves one
    turn: NDArray[np.int64]

    @classmethod
    def of(cls, plan: Plan, moved: pa.Table) -> _World:
        kind = pa.int64() if plan.settings.id_type == "int64" else pa.string()
        layers = layers_of(plan.home, plan.state, np.arange(BUCKETS))
        asked = Asked.of(ids_until(layers, np.iinfo(np.int64).max, kind))
        last = concatenated(newest(layers, asked), plan.kept_types, kind)
        mine = moved.column("id").combine_chunks().cast(kind)
        ids = pc.unique(pa.concat_arrays([last.ids, mine]))
        ids = ids.take(pc.sort_indices(ids))
        object = np.asarray(pc.index_in(mine, value_set=ids)).astype(np.int64)
        t, turn = moved.column("t").to_numpy(), moved.column("turn").to_numpy()
        order = np.lexsort((object, t, turn))
        at = np.asarray(pc.fill_null(pc.index_in(ids, value_set=last.ids), -1)).astype(np.int64)
        taken = pa.array(at, mask=at < 0)
        places = np.concatenate([last.positions, np.zeros((1, 2))])[at]
        before = Rows(
            places,
            ids,
            np.append(last.t, 0)[at],
            None,
            {name: one.take(taken) for name, one in last.attributes.items()},
        )
        rows = Rows(
            np.stack([moved.column("x").to_numpy(), moved.column("y").to_numpy()], axis=1),
            mine,
            t,
            None,
            {name[2:]: moved.column(name).combine_chunks() for name in moved.column_names if name.startswith("a:")},
        ).take(order)
        return cls(plan, ids, before, np.append(last.changes, -1)[at], rows, object[order], turn[order])

    def followed(self, one: AskedPairs, held: Before | None, stays: bool) -> NearPairs:
        """Return what becomes of the pairs of a subscription."""
        version = int(self.plan.standing.versions[one.number])
        sides = np.where(self.changes >= version, self._sides(one, self.before), 0).astype(np.uint8)
        last = len(self.turn) if stays else int(np.searchsorted(self.turn, _LAST))
        moves = (self.turn == _ROW) | (self.turn == _EARLIEST)
        to_sides = np.where(moves, self._sides(one, self.moved), 0).astype(np.uint8)[:last]
        pairs = np.zeros((0, 2), np.int64)
        if held is not None:
            said = held.attributes[_SUBSCRIPTION]
            mine = np.asarray(pc.equal(said, one.id)).astype(np.bool_) & (held.changes == version)
            at = pa.array(np.flatnonzero(mine))
            both = (held.ids.take(at), held.attributes[OTHER_COLUMN].take(at))
            pairs = np.stack([np.asarray(pc.index_in(half, value_set=self.ids)) for half in both], axis=1)
        moved = Moves(self._vectors(self.before), sides, self.object[:last], self._vectors(self.moved)[:last], to_sides)
        sphere = self.plan.settings.space.metric == "sphere"
        return near_pairs(moved, np.ascontiguousarray(pairs.astype(np.int64)), one.metres, sphere)

    def _vectors(self, rows: Rows) -> NDArray[np.float64]:
        vectors = self.plan.settings.space.vectors(rows.positions)
        wide = np.zeros((len(rows), SPHERE))
        wide[:, : vectors.shape[1]] = vectors
        return wide

    def _sides(self, one: AskedPairs, rows: Rows) -> NDArray[np.int64]:
        every = np.arange(len(rows))

        def holds(condition: Condition | None) -> NDArray[np.bool_]:
            return np.ones(len(rows), np.bool_) if condition is None else texts_hold(condition, rows, every)

        return holds(one.where) * 1 + holds(one.other) * 2

    def events(self, one: AskedPairs, found: NearPairs) -> dict[str, NDArray[Any]]:
        """Return what is told of pairs: by a moment, that of a pair which comes and goes within it is nothing."""
        assert self.moved.t is not None
        found = found.taken(self.turn[found.row] != _EARLIEST)
        t = self.moved.t[found.row]
        low, high = np.minimum(found.first, found.second), np.maximum(found.first, found.second)
        order = np.lexsort((np.arange(len(t)), t, high, low))
        same = (low[order][1:] == low[order][:-1]) & (high[order][1:] == high[order][:-1])
        same &= t[order][1:] == t[order][:-1]
        begins = np.flatnonzero(np.append(True, ~same)[: len(order)])
        sizes = np.diff(np.append(begins, len(order)))
        kept = order[(begins + sizes - 1)[sizes % 2 == 1]]
        kept = kept[(one.events & np.where(found.kind[kept] == CAME, ENTER, LEAVE)) != 0]
        row, first, second = found.row[kept], found.first[kept], found.second[kept]
        here, there = self._places(first, row), self._places(second, row)
        vectors = self.plan.settings.space.vectors
        far = distance(vectors(here), vectors(there)) if len(kept) else np.zeros(0)
        came = found.kind[kept] == CAME
        return {
            "number": np.full(len(kept), one.number), "first": first, "second": second, "t": t[kept],
            "kind": np.where(came, ENTERS, LEAVES), "x": here[:, 0], "y": here[:, 1],
            "distance": np.where(came, far, np.nan), "over": ~came & (self.turn[row] != _ROW),
            **dict(zip(OTHER_PLACE, there.T, strict=True)),
        }  # fmt: skip

    def _places(self, object: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return where objects were seen last, up to a row each."""
        count = len(self.object) + 1
        keys = self.object * count + np.arange(len(self.object))
        order = np.argsort(keys)
        at = np.searchsorted(keys[order], object * count + row, "right") - 1
        moved = order[np.maximum(at, 0)]
        there = (at >= 0) & (self.object[moved] == object)
        return np.where(there[:, None], self.moved.positions[moved], self.before.positions[object])

    def as_run(self, one: AskedPairs, left: NDArray[np.int64]) -> Before:
        """Return pairs as rows of the state."""
        first, second = (self.ids.take(pa.array(left[:, half])) for half in (0, 1))
        count = len(left)
        version = int(self.plan.standing.versions[one.number])
        attributes = {_SUBSCRIPTION: pa.repeat(one.id, count), OTHER_COLUMN: second}
        none = np.zeros(count, np.int64)
        return Before(
            keys_of(first), first, none, np.zeros((count, 2)), np.full(count, version), none.astype(np.bool_),
            attributes, pa.nulls(count, STAY_TYPE),
        )  # fmt: skip


def _write(plan: Plan, world: _World, parts: list[dict[str, NDArray[Any]]], out: EventWriter) -> dict[str, int]:
    """Write events by object, time, kind, subscription and the other object; return how many of each kind."""
    counts = {"leave": 0, "enter": 0}
    if not parts:
        return counts
    told = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    standing = plan.standing
    turns = standing.turns[told["number"]] if len(standing.turns) else told["number"]
    order = np.lexsort((told["second"], turns, told["kind"], told["t"], told["first"]))
    told = {name: column[order] for name, column in told.items()}
    number, kind = told["number"], told["kind"]
    codes = pa.array(np.zeros(len(kind), np.int32), mask=~told["over"])
    out.add(
        {
            "kind": kinds_of(kind),
            "subscription": coded(standing.texts("id"), number),
            "version": standing.versions[number],
            "object": world.ids.take(pa.array(told["first"])),
            "t": told["t"],
            "x": np.ascontiguousarray(told["x"]),
            "y": np.ascontiguousarray(told["y"]),
            "distance": told["distance"],
            "reason": pa.DictionaryArray.from_arrays(codes, pa.array(["expired"])),
            "meta": coded(standing.texts("meta"), number),
            OTHER_COLUMN: world.ids.take(pa.array(told["second"])),
            **{name: told[name] for name in OTHER_PLACE},
        }
    )
    return {"leave": int((kind == LEAVES).sum()), "enter": int((kind == ENTERS).sum())}
