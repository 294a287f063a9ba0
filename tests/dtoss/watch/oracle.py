"""The slow, obvious version of a watch: what a subscription holds, and what is told of rows that come."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil, inf
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.conditions.parse import Condition, parse_condition
from dtoss.geometry.distance import distance
from dtoss.geometry.space import Space
from dtoss.watch.subscription import Near, Stay, said_of_stay
from dtoss.watch.words.formula import parse_words
from dtoss.watch.words.tokenizer import tokens
from tests.oracles import in_order, in_zone


@cache
def _condition(text: str, schema: tuple[tuple[str, Any], ...]) -> Condition:
    """Return a condition, which is asked of each row."""
    return parse_condition(text, dict(schema))


def asked_holds(space: Space, schema: Mapping[str, Any], asked: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
    """Whether a subscription holds a row: None, or the distance, NaN of a place without a centre.

    A subscription is a row of dtoss.watch.subscription.SUBSCRIPTION_SCHEMA, a row has x, y, attributes and
    perhaps a text.
    """
    far = float("nan")
    place = np.array([[row["x"], row["y"]]])
    if asked["kind"] in (1, 4):
        if asked["x"] is None:
            return None
        centre = np.array([[asked["x"], asked["y"]]])
        far = float(distance(space.vectors(place), space.vectors(centre))[0])
        if not far <= asked["radius"]:
            return None
    elif asked["kind"] == 2:
        names = [row["x"]]
        if space.metric == "sphere":
            # the antimeridian has two longitudes, and a pole has all
            names = [row["x"], -row["x"]] if abs(row["x"]) == 180.0 else names
            names = [asked["west"]] if abs(row["y"]) == 90.0 else names
        west, east = asked["west"], asked["east"]
        across = space.metric == "sphere" and west > east
        wide = any((x >= west or x <= east) if across else west <= x <= east for x in names)
        if not (wide and asked["south"] <= row["y"] <= asked["north"]):
            return None
    elif asked["kind"] == 3:
        shape = json.loads(asked["polygon"])
        polygons = shape["coordinates"] if shape["type"] == "MultiPolygon" else [shape["coordinates"]]
        if not in_zone(space, [[ring[:-1] for ring in rings] for rings in polygons], place)[0]:
            return None
    if asked["where"] is not None:
        values = {"id": row.get("id"), **row["attributes"]}
        columns = {name: pa.array([values.get(name)], kind) for name, kind in schema.items()}
        if not _condition(asked["where"], tuple(schema.items())).matches(columns.__getitem__, 1)[0]:
            return None
    if asked["words"] is not None:
        if row.get("text") is None and "text" not in row:
            return None
        if not parse_words(asked["words"]).holds(tokens(row["text"] or "")):
            return None
    return far


@dataclass
class Witnessed:
    """What time it is by the rows of objects, batch after batch: a loop over their last times.

    ``tick`` rounds times down, ``edge`` is the time before which an object counts no more, None before the first batch;
    ``border`` is 1 where one counts no more at the end of its span, 0 where it does still.
    """

    witnesses: str
    span: Any
    tick: Callable[[Any], Any] = lambda t: t
    border: int = 1
    now: Any = None
    sure: Any = None
    held: Any = None
    waits: Any = 0
    edge: Any = None

    def wanted(self, count: int) -> int:
        """How many of so many objects have to reach a time."""
        if self.witnesses.endswith("%"):
            return min(count, max(3, ceil(Fraction(self.witnesses[:-1]) * count / 100)))
        return min(count, int(self.witnesses))

    def counts(self, t: Any) -> bool:
        """Whether an object counts by its last time."""
        return self.edge is None or t >= self.edge

    def set_back(self, before: Mapping[Any, Any], came: Mapping[Any, list[Any]], over: Any) -> bool:
        """Go back where those whose rows are all over say so, and too few others do not; return whether it did."""
        if self.now is None or (self.sure is not None and self.sure >= self.now):
            return False
        lasts = {id: max([t, *came.get(id, ())]) for id, t in before.items()}
        lasts |= {id: max(times) for id, times in came.items() if id not in before and not over(max(times))}
        counted = [self.tick(t) for t in lasts.values() if self.counts(t)]
        behind = []
        for id, times in came.items():
            if (id not in lasts or not self.counts(lasts[id])) and (id not in before or max(times) > before[id]):
                behind.append(max(times))
        every = sorted([*counted, *(self.tick(t) for t in behind)])
        wanted = self.wanted(len(every))
        enough = 3 if self.witnesses.endswith("%") else int(self.witnesses)
        if not behind or wanted < enough or len(counted) >= wanted:
            return False
        self.now = every[-wanted] if self.sure is None else max(every[-wanted], self.sure)
        self.sure, self.held, self.waits, self.edge = (
            self.now,
            self.now,
            0,
            self.tick(self.now - self.span + self.border),
        )
        return True

    def after(self, before: Mapping[Any, Any], rows: Mapping[Any, list[Any]], wall: Any = None) -> None:
        """Go on, from the last times of objects before a batch and the times of their rows in it that count, rising."""
        lasts = dict(before) | {id: times[-1] for id, times in rows.items() if times}
        every = sorted(self.tick(t) for t in lasts.values() if self.counts(t))
        if not every:
            return
        wanted = self.wanted(len(every))
        held, enough = every[-wanted], 3 if self.witnesses.endswith("%") else int(self.witnesses)
        ways = [0]
        for id, times in rows.items() if self.held is not None else ():
            path = [max(t, self.held) for t in [before.get(id, self.held), *times]]
            ways.append(sum(b - a for a, b in itertools.pairwise(path) if b - a <= self.span))
        self.waits = self.waits + max(ways) if held == self.held else 0
        found, others = held, [t for t in every if t > held]
        if self.waits >= 2 * self.span and 2 * len(others) >= len(every):
            found = others[-self.wanted(len(others))]
        self.now = found if self.now is None else max(self.now, found)
        if wanted >= enough:
            self.sure = held if self.sure is None else max(self.sure, held)
        self.held = held
        if wall is not None and wall > self.now:
            self.now = self.sure = wall
        edge = self.tick(self.now - self.span + self.border)
        self.edge = edge if self.edge is None else max(edge, self.edge)


@dataclass
class Watched:
    """What a watch tells, batch after batch: a loop over rows and subscriptions."""

    space: Space
    schema: Mapping[str, Any]
    expire: int | None = None
    messages: bool = False
    witnesses: str = "1%"
    max_gap: int = 600_000_000
    changes: int = 0
    asked: dict[str, Any] = field(default_factory=dict)
    before: dict[Any, Any] = field(default_factory=dict)
    stays: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    pairs: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    moves: list[Any] = field(default_factory=list)
    told_of_pairs: list[Any] = field(default_factory=list)
    heard: dict[Any, int] = field(default_factory=dict)
    batches: int = 0
    begun: bool = False

    def __post_init__(self) -> None:
        self.schema = {"speed": pa.float64(), **self.schema}
        span = 3_600_000_000 if self.expire is None else self.expire
        self.time = Witnessed(self.witnesses, span, lambda t: t >> 20 << 20)

    @property
    def clock(self) -> int | None:
        """What time it is."""
        return self.time.now

    def batch(
        self, rows: list[dict[str, Any]], changes: int, asked: Iterable[dict[str, Any]], wall: int | None = None
    ) -> list[Any]:
        """The events of a batch, under what stands at a change, as (kind, subscription, version, object, t, reason)."""
        now = {one["id"]: one for one in asked}
        came: dict[Any, list[int]] = {}
        for row in rows:
            came.setdefault(row["id"], []).append(row["t"])
        before = {id: row["t"] for id, row in self.before.items()}
        if self.messages:
            came = self._messages_of(rows)
            if self.time.set_back(self.heard, came, self._over):
                self.heard = {}
        else:
            self.time.set_back(before, came, self._over)
        before = {id: t for id, t in before.items() if not self._over(t)}
        stood, self.moves = dict(self.before), []
        clock = self.clock
        out = self._resets(now)
        every = [one for _, one in sorted(now.items()) if self._lives(one, clock)]
        alive = [one for one in every if Near.of(one["stay"]) is None]
        if self.messages:
            for row in rows:
                out += [
                    ("inside", one["id"], one["version"], row["id"], row["t"], None)
                    for one in alive
                    if one["events"] & 1 and self._holds(one, row) is not None
                ]
            self.heard |= {one: max(times) for one, times in came.items()}
            self.time.after(self.heard, {})
        else:
            counted: dict[Any, list[int]] = {}
            out += self._followed(rows, alive, changes, counted)
            self.time.after(before, counted, wall)
        self.asked, self.changes, self.begun = now, changes, True
        for one in every:
            if not self._lives(one, self.clock):
                out.append(("reset", one["id"], one["version"], None, None, "expired"))
        alive = [one for one in alive if self._lives(one, self.clock)]
        for id, last in sorted(self.before.items()):
            ended = self._full(id, alive, self.clock) if not self._over(last["t"]) else self._leaves(id, last, alive)
            out += sorted(ended, key=_told_order)
            if self._over(last["t"]):
                self._moved(2, last["t"] + (self.expire or 0), id, None)
                del self.before[id]
        self.told_of_pairs = self._pairs(stood, every, [one for one in every if self._lives(one, self.clock)])
        return out

    def _full(self, id: Any, alive: list[Any], until: int | None) -> list[Any]:
        """What is told of an object's stays up to a time."""
        out = []
        for one in alive if until is not None else ():
            stay = self.stays.get(id, {}).get((one["id"], one["version"]))
            if stay is None:
                continue
            rule = Stay.of(one["stay"])
            leaves = inf if stay["out"] is None or rule.seconds is None else stay["out"] + rule.seconds
            dwells = inf if stay["told"] or rule.dwell is None else stay["since"] + rule.dwell
            if dwells <= min(leaves, until):
                stay["told"] = True
                out += self._stay_told(32, "dwell", one, id, dwells)
            if leaves <= until:
                del self.stays[id][one["id"], one["version"]]
                out += self._stay_told(4, "leave", one, id, leaves)
        return out

    def _stay_told(self, bit: int, kind: str, one: Any, id: Any, t: Any, reason: str | None = None) -> list[Any]:
        return [(kind, one["id"], one["version"], id, t, reason)] if one["events"] & bit else []

    def _stayed(self, id: Any, row: Mapping[str, Any], alive: list[Any]) -> list[Any]:
        """What is told of an object's stays up to a row, and of the row."""
        out = self._full(id, alive, row["t"])
        for one in alive:
            if one["stay"] is None:
                continue
            rule, key, stays = Stay.of(one["stay"]), (one["id"], one["version"]), self.stays.setdefault(id, {})
            if self._holds(one, row) is not None:
                if key not in stays:
                    stays[key] = {"since": row["t"], "told": False}
                    out += self._stay_told(2, "enter", one, id, row["t"])
                stays[key]["out"] = None
            elif key in stays:
                if stays[key]["out"] is None:
                    stays[key]["out"] = row["t"]
                near = rule.seconds is not None if rule.metres is None else self._near(one, row, rule.metres)
                if not near:
                    del stays[key]
                    out += self._stay_told(4, "leave", one, id, row["t"])
        kept = {(one["id"], one["version"]) for one in alive}
        self.stays[id] = {key: stay for key, stay in self.stays.get(id, {}).items() if key in kept}
        return out

    def _near(self, one: Mapping[str, Any], row: Mapping[str, Any], metres: float) -> bool:
        """Whether a row that satisfies the condition lies so near to a place that does not hold it."""
        if self._holds({**one, "kind": 0}, row) is None:
            return False
        place = np.array([[row["x"], row["y"]]])
        return bool(far_from_place(self.space, one, place) <= metres)

    def _moved(self, turn: int, t: int, id: Any, row: Mapping[str, Any] | None) -> None:
        self.moves.append((turn, t, id, row))

    def _pairs(self, before: dict[Any, Any], alive: list[Any], still: list[Any]) -> list[Any]:
        """What is told of pairs of objects: every one that moves is held against all others, one after another."""
        out = []
        for one in alive:
            if "near" not in said_of_stay(one["stay"]):
                continue
            near, key = said_of_stay(one["stay"])["near"], (one["id"], one["version"])
            other = {**one, "where": near.get("where")}
            places = {id: row for id, row in before.items() if row["changes"] >= one["version"]}
            pairs, told = self.pairs.setdefault(key, {}), []

            def pair(a: Any, b: Any, places: Any = places, one: Any = one, other: Any = other, m: Any = near) -> Any:
                if a not in places or b not in places:
                    return None
                ends = [self.space.vectors(np.array([[places[id]["x"], places[id]["y"]]])) for id in (a, b)]
                if not distance(*ends)[0] <= m["metres"]:
                    return None
                for first, second in ((min(a, b), max(a, b)), (max(a, b), min(a, b))):
                    if self._holds(one, places[first]) is not None and self._holds(other, places[second]) is not None:
                        return first, second
                return None

            for turn, t, id, row in sorted(self.moves, key=lambda move: move[:3]):
                if turn == 2 and one not in still:
                    continue
                if row is None:
                    places.pop(id, None)
                else:
                    places[id] = row
                reason = None if row is not None else "expired"
                for both in [both for both in pairs if id in both]:
                    if pair(*both) is None:
                        told.append(("leave", both, t, pairs.pop(both), reason))
                for there in sorted(places):
                    both = (min(id, there), max(id, there))
                    if id != there and both not in pairs and pair(*both) is not None:
                        pairs[both] = pair(*both)
                        told.append(("enter", both, t, pairs[both], None))
            moments: dict[Any, list[Any]] = {}
            for event in told:
                moments.setdefault((event[1], event[2]), []).append(event)
            for events in moments.values():
                kind, _, t, both, reason = events[-1]
                if len(events) % 2 and one["events"] & {"enter": 2, "leave": 4}[kind]:
                    out.append((kind, one["id"], one["version"], both[0], t, reason, both[1]))
        return out

    def _messages_of(self, rows: list[dict[str, Any]]) -> dict[Any, list[int]]:
        """The times of messages: each id of a batch is another object, and each row without one."""
        self.heard = {one: t for one, t in self.heard.items() if self.time.counts(t)}
        found: dict[Any, list[int]] = {}
        self.batches += 1
        for number, row in enumerate(rows):
            found.setdefault((self.batches, number if row["id"] is None else str(row["id"])), []).append(row["t"])
        return found

    def _over(self, t: int) -> bool:
        """Whether an object is over by its last time."""
        return self.expire is not None and self.clock is not None and t <= self.clock - self.expire

    def _speed(self, last: Mapping[str, Any] | None, row: Mapping[str, Any]) -> float | None:
        """Metres a second on the way from the row before; None where there is no way."""
        if last is None or row["t"] - last["t"] > self.max_gap:
            return None
        begin, end = (self.space.vectors(np.array([[one["x"], one["y"]]])) for one in (last, row))
        return float(distance(begin, end)[0]) / ((row["t"] - last["t"]) / 1e6)

    def _leaves(self, id: Any, last: Mapping[str, Any], alive: list[Any]) -> list[Any]:
        assert self.expire is not None
        t = last["t"] + self.expire
        out = self._full(id, alive, t)
        stays = self.stays.pop(id, {})
        for one in alive:
            there = self._counted(one, last) if one["stay"] is None else (one["id"], one["version"]) in stays
            out += self._stay_told(4, "leave", one, id, t, "expired") if there else []
        return out

    def _lives(self, one: Mapping[str, Any], clock: int | None) -> bool:
        return clock is None or one["expires"] is None or one["expires"] > clock

    def _holds(self, one: Mapping[str, Any], row: Mapping[str, Any]) -> Any:
        return asked_holds(self.space, self.schema, one, row)

    def _counted(self, one: Mapping[str, Any], last: Mapping[str, Any]) -> bool:
        """Whether a row before counts for a subscription, and is held by it."""
        return one["version"] <= last["changes"] and self._holds(one, last) is not None

    def _resets(self, now: Mapping[str, Any]) -> list[Any]:
        out = []
        for id, old in sorted(self.asked.items() if self.begun else ()):
            new = now.get(id)
            if self._lives(old, self.clock) and (new is None or new["version"] != old["version"]):
                out.append(("reset", id, old["version"], None, None, "removed" if new is None else "changed"))
        return out

    def _followed(
        self, rows: list[dict[str, Any]], alive: list[Any], changes: int, counted: dict[Any, list[int]]
    ) -> list[Any]:
        out = []
        by_id: dict[Any, list[Any]] = {}
        for row in rows:
            by_id.setdefault(row["id"], []).append(row)
        for id in sorted({*by_id, *self.before}):
            last = self.before.get(id)
            if last is not None and self._over(last["t"]):
                out += sorted(self._leaves(id, last, alive), key=_told_order)
                del self.before[id]
                self._moved(0, last["t"] + (self.expire or 0), id, None)
                last = None
            told: list[Any] = []
            for t in sorted({row["t"] for row in by_id.get(id, ())}):
                if self._over(t) or (last is not None and t <= last["t"]):
                    continue
                row = max((row for row in by_id[id] if row["t"] == t), key=_row_order) | {"changes": changes}
                row["attributes"] = {"speed": self._speed(last, row)} | row["attributes"]
                counted.setdefault(id, []).append(t)
                was = [last is not None and self._counted(one, last) for one in alive]
                held = [self._holds(one, row) is not None for one in alive]
                for bit, kind in ((4, "leave"), (2, "enter"), (1, "inside")):
                    for one, old, new in zip(alive, was, held, strict=True):
                        happens = {"leave": old and not new, "enter": new and not old, "inside": new}[kind]
                        if happens and one["events"] & bit and (one["stay"] is None or kind == "inside"):
                            told.append((kind, one["id"], one["version"], id, t, None))
                told += self._stayed(id, row, alive)
                if self.moves and self.moves[-1][0] == 0 and self.moves[-1][2] == id:
                    self._moved(0, min(self.moves.pop()[1], t), id, None)
                self._moved(1, t, id, row)
                last = self.before[id] = row
            out += sorted(told, key=_told_order)
        return out


def _told_order(event: Any) -> Any:
    kind, subscription, _, _, t, _ = event
    return t, ("dwell", "cross", "leave", "enter", "inside").index(kind), subscription


def far_from_place(space: Space, asked: Mapping[str, Any], place: NDArray[np.float64]) -> float:
    """How far a place outside of a subscription's is from it: by places on its edges, nearer and nearer ones."""
    at = space.vectors(place)
    if asked["kind"] == 1:
        return float(distance(at, space.vectors(np.array([[asked["x"], asked["y"]]])))[0]) - asked["radius"]
    if asked["kind"] == 2:
        west, south, east, north = (asked[side] for side in ("west", "south", "east", "north"))
        east += 360.0 if space.metric == "sphere" and east < west else 0.0
        rings = [[[west, south], [east, south], [east, north], [west, north], [west, south]]]
    else:
        shape = json.loads(asked["polygon"])
        rings = [ring for rings in ([shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"])
                 for ring in rings]  # fmt: skip
    arcs = asked["kind"] == 3 and space.metric == "sphere" and json.loads(asked["polygon"]).get("edges") != "planar"
    least = inf
    for ring in rings:
        for begin, end in itertools.pairwise(np.array(ring, float)):
            low, high = 0.0, 1.0
            for _ in range(8):
                share = np.linspace(low, high, 1001)[:, None]
                if arcs:
                    ends = space.vectors(np.array([begin, end]))
                    on = ends[0] + share * (ends[1] - ends[0])
                    on /= np.sqrt((on * on).sum(axis=1))[:, None]
                else:
                    flat = begin + share * (end - begin)
                    flat[:, 0] = (flat[:, 0] + 180.0) % 360.0 - 180.0 if space.metric == "sphere" else flat[:, 0]
                    on = space.vectors(flat)
                far = distance(on, at)
                best, step = float(share[far.argmin(), 0]), (high - low) / 1000
                low, high, least = max(best - 2 * step, 0.0), min(best + 2 * step, 1.0), min(least, float(far.min()))
    return least


def _row_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = sorted(row["attributes"])
    return (row["x"], row["y"], *(in_order(row["attributes"][name]) for name in names))
