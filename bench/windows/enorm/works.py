"""What the three operators do with rows, and with their state when windows end or keys go elsewhere."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from bench.windows.enorm.jobs import Job
from bench.windows.enorm.merging import pieces
from bench.windows.enorm.operators import Compute, Consolidate, Key, Map, Row, Withdrawn
from bench.windows.enorm.spans import FOREVER, Span, longest

States = dict[Span, dict[Key, Any]]
"""Of each pane or window the states of its keys; where they are merged at the end only, lists of them."""


class Place(Protocol):
    """Where an operator runs."""

    def emit(self, row: Row, *, partial: bool, inside_only: bool = False) -> None:
        """Send a row on: partial results to consolidates, others to what is none."""

    def has(self, key: Key, begin: int) -> bool:
        """Whether the windows of a key that begin there are this node's."""

    def chooses(self) -> bool:
        """Whether windows of a key are at two nodes now."""


class MapWork:
    """A map: nothing is kept."""

    def __init__(self, operator: Map, place: Place, doubled: bool) -> None:
        self.operator, self.place, self.doubled = operator, place, doubled

    def take(self, row: Row) -> None:
        """Take a row."""
        silent = self.doubled and self.place.chooses() and not self.place.has(row[0], row[3] - 1)
        for made in self.operator.logic(row):
            self.place.emit(made, partial=False, inside_only=silent)

    def close(self, upto: int) -> None:
        """Nothing ends here."""

    def taken_out(self, going: Iterable[Key] | None = None) -> States:
        """Nothing is kept."""
        return {}

    def held_keys(self) -> set[Key]:
        """Return no key."""
        return set()

    def put_in(self, states: States) -> None:
        """Nothing comes."""


class _Stateful:
    """Instances of windows: active until the time has come, then processing in order of their ends, then completed."""

    def __init__(self, closes: Callable[[Span], int]) -> None:
        self.closes = closes
        self.states: States = {}
        self.waiting: list[tuple[int, int, Span]] = []
        self.known: set[Span] = set()
        self.completed = -FOREVER
        """Windows that are complete at a time until then are; others are active."""
        self.processing: Span | None = None
        self.lost = 0

    def wait_for(self, span: Span, closes: int) -> None:
        """Put an instance among the active ones."""
        if span not in self.known:
            self.known.add(span)
            heapq.heappush(self.waiting, (closes, span[1] - span[0], span))

    def due(self, upto: int) -> Iterable[Span]:
        """Yield the instances that end until then: they are processing, then completed."""
        while self.waiting and self.waiting[0][0] <= upto:
            span = heapq.heappop(self.waiting)[2]
            self.known.remove(span)
            self.processing = span
            yield span
            self.processing = None
        self.completed = max(self.completed, upto)

    def stage(self, span: Span) -> str:
        """Return "active", "processing" or "completed" (section 6.2): only the first is changed by a modification."""
        if span == self.processing:
            return "processing"
        return "active" if span in self.known or self.closes(span) > self.completed else "completed"

    def held_keys(self) -> set[Key]:
        """Return all keys with a state."""
        return {key for held in self.states.values() for key in held}

    def taken_out(self, going: Iterable[Key] | None = None) -> States:
        """Remove and return the states of keys."""
        gone = set(going or ())
        return {
            span: found
            for span, held in self.states.items()
            if (found := {key: held.pop(key) for key in list(held) if key in gone})
        }


class ComputeWork(_Stateful):
    """A compute: one state a key and pane, or a key and window."""

    def __init__(self, operator: Compute, job: Job, place: Place, closes: Callable[[Span], int]) -> None:
        super().__init__(closes)
        self.operator, self.place = operator, place
        self.units = job.units(operator.name)
        self.eager = [name for name in job.after(operator.name) if name not in job.merged_by(operator.name)]
        self.partial = bool(job.merged_by(operator.name))
        self.merges_along = False
        """While windows of a key are at two nodes: whether its consolidate goes with it, and needs panes at both."""
        self.each, self.begins = operator.spanning == "each", operator.spanning == "begin"
        only = self.units[0]
        self.tumbling = only if len(self.units) == 1 and only.length == only.frequency and not self.each else None
        self.held_back = operator.held_back
        self.taken = 0
        """Rows times the instances that they were counted in."""

    def take(self, row: Row) -> None:
        """Count a row in each instance that holds it."""
        key, value, begin, end = row
        if self.held_back and end - begin > self.operator.longest_row:
            raise ValueError(f"a row of {end - begin}, longest_row is {self.operator.longest_row}")
        if not self.each:
            begin = begin if self.begins else end - 1
            end = begin + 1
        if (one := self.tumbling) is not None:
            begin -= (begin - one.start) % one.length
            if begin >= one.start:
                self._count((begin, begin + one.length), row, key, value)
            return
        for window in self.units:
            for span in window.touching(begin, end) if self.each else window.holding(begin, end):
                self._count(span, row, key, value)

    def _count(self, span: Span, row: Row, key: Key, value: Any) -> None:
        place = self.place
        if place.chooses() and not self.merges_along and not place.has(key, span[0]):
            return
        held = self.states.get(span)
        if held is None:
            closes = self.closes(span)
            if closes <= self.completed:
                self.lost += 1
                return
            self.wait_for(span, closes)
            held = self.states[span] = {}
        self.taken += 1
        aggregate = self.operator.aggregate
        state = held.get(key, aggregate.zero)
        state = held[key] = (
            aggregate.add(state, value) if type(value) is not Withdrawn else aggregate.without(state, value)
        )
        if self.eager:
            place.emit((key, self.operator.eager(state, row), row[2], row[3]), partial=False)

    def close(self, upto: int) -> None:
        """Send the states of what ends until then to the consolidates."""
        for span in self.due(upto):
            held = self.states.pop(span, {})
            if self.partial:
                for key, state in held.items():
                    self.place.emit((key, state, *span), partial=True)

    def put_in(self, states: States) -> None:
        """Add states from another node."""
        merge = self.operator.aggregate.merge
        for span, coming in states.items():
            self.wait_for(span, self.closes(span))
            held = self.states.setdefault(span, {})
            for key, state in coming.items():
                held[key] = state if key not in held or merge is None else merge(held[key], state)


class ConsolidateWork(_Stateful):
    """A consolidate: pieces until no window needs them; merged when they arrive, or listed and merged at the end."""

    def __init__(
        self, operator: Consolidate, job: Job, place: Place, closes: Callable[[Span], int], on_arrival: bool
    ) -> None:
        super().__init__(closes)
        self.operator, self.place, self.on_arrival = operator, place, on_arrival
        self.given = job.given(operator.name)
        self.longest = longest(operator.windows)
        self.own: States = {}
        """Windows that were completed here while nothing moved: pieces of longer ones."""
        self.merged = 0
        """Pieces that went into windows."""
        self.extra = 0
        """States that came for a key and piece that had one: what a key at two nodes costs."""

    def take(self, row: Row) -> None:
        """Put a piece where it belongs."""
        key, state, *at = row
        span = (at[0], at[1])
        held = self.states.get(span)
        if held is None:
            held = self.states[span] = {}
            for window in self.operator.windows:
                for larger in window.holding(*span):
                    if (closes := self.closes(larger)) > self.completed:
                        self.wait_for(larger, closes)
        there = held.get(key)
        if not self.on_arrival:
            held[key] = [state] if there is None else [*there, state]
        elif there is None:
            held[key] = state
        else:
            held[key] = self.operator.aggregate.merge(there, state)  # type: ignore[misc]
        self.extra += there is not None

    def copies(self) -> int:
        """Return how many states are held beyond one a key and piece."""
        return 0 if self.on_arrival else sum(len(s) - 1 for held in self.states.values() for s in held.values())

    def close(self, upto: int) -> None:
        """Make the windows that end until then, shorter ones first."""
        choosing = self.place.chooses()
        for span in self.due(upto):
            made = self._made(span)
            for key, state in made.items():
                mine = self.place.has(key, span[0])
                if not (mine or choosing):
                    continue
                for row in self.operator.rows(key, state, *span):
                    self.place.emit(row, partial=True, inside_only=not mine)
                    if mine:
                        self.place.emit(row, partial=False)
            if not choosing:
                self.own[span] = made
        for held in (self.states, self.own):
            for span in [span for span in held if span[0] <= upto - self.longest]:
                del held[span]

    def _made(self, span: Span) -> dict[Key, Any]:
        own = [] if self.place.chooses() else self.operator.windows
        taken = pieces(span, self.given, self._weight, own)
        if taken is None:
            raise ValueError(f"{self.operator.name}: {span} cannot be made of {self.given}")
        found = [states for piece in taken if (states := self._piece(piece)) is not None]
        self.merged += len(found)
        made = dict(found[0]) if found else {}
        merge = self.operator.aggregate.merge
        for more in found[1:]:
            for key, state in more.items():
                made[key] = state if key not in made else merge(made[key], state)  # type: ignore[misc]
        return made

    def _weight(self, piece: Span) -> int | None:
        held = self.states.get(piece)
        if held is None:
            held = self.own.get(piece)
        return None if held is None else len(held)

    def _piece(self, piece: Span) -> dict[Key, Any] | None:
        held = self.states.get(piece)
        if held is None:
            return self.own.get(piece)
        if self.on_arrival:
            return held
        return {key: self._one(states) for key, states in held.items()}

    def _one(self, states: list[Any]) -> Any:
        made = states[0]
        for state in states[1:]:
            made = self.operator.aggregate.merge(made, state)  # type: ignore[misc]
        return made

    def forget_windows(self) -> None:
        """Take no completed window as a piece any more: keys have come or gone."""
        self.own = {}

    def put_in(self, states: States) -> None:
        """Add pieces from another node."""
        for span, coming in states.items():
            for key, state in coming.items():
                for one in [state] if self.on_arrival else state:
                    self.take((key, one, *span))
