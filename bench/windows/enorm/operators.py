"""The three operators with their partition attributes (section 4.2), and what aggregates must have to be moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.windows.enorm.spans import Window

Key = tuple[Any, ...]
Row = tuple[Key, Any, int, int]
"""(key, value, begin, end): the values of the partition attributes in the order of the stream's schema, what the user
put there, and the span that it is of; end is not held."""


@dataclass(frozen=True)
class Withdrawn:
    """A value that was counted and must not be."""

    value: Any


@dataclass(frozen=True)
class Aggregate:
    """How the state of a key comes about.

    Parameters
    ----------
    zero : the state of nothing.
    add : state, value -> state.
    merge : state, state -> state, of a commutative monoid; None where two halves make no whole. Panes and instant
        migration need it, which the paper does not say.
    remove : state, value -> state, for withdrawn values; None where there is no way back (a maximum).
    result : state -> value.
    """

    zero: Any
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any] | None
    remove: Callable[[Any, Any], Any] | None = None
    result: Callable[[Any], Any] = field(default=lambda state: state)

    def without(self, state: Any, value: Withdrawn) -> Any:
        """Return the state without a value that is withdrawn."""
        if self.remove is None:
            raise ValueError("a value is withdrawn from an aggregate that has no way back (remove=None)")
        return self.remove(state, value.value)


COUNT = Aggregate(0, lambda state, _: state + 1, int.__add__, lambda state, _: state - 1)
SUM = Aggregate(0, lambda state, value: state + value, int.__add__, lambda state, value: state - value)
MEAN = Aggregate(
    (0, 0),
    lambda state, value: (state[0] + value, state[1] + 1),
    lambda one, other: (one[0] + other[0], one[1] + other[1]),
    lambda state, value: (state[0] - value, state[1] - 1),
    lambda state: state[0] / state[1] if state[1] else None,
)
GREATEST = Aggregate(
    None,
    lambda state, value: value if state is None else max(state, value),
    lambda one, other: max(one, other),
)


@dataclass(frozen=True)
class Operator:
    """What all operators have.

    Parameters
    ----------
    name : of the operator.
    schema : the attributes of the keys that come in, in order.
    attributes : PA, those by which its input may be divided; a subset of schema, empty for a global operator.
    """

    name: str
    schema: tuple[str, ...]
    attributes: frozenset[str]

    def __post_init__(self) -> None:
        if unknown := self.attributes - set(self.schema):
            raise ValueError(f"{self.name}: {', '.join(sorted(unknown))} is no attribute of {self.schema}")


@dataclass(frozen=True)
class Map(Operator):
    """map(k, v, t1, t2) -> list(k2, v2, t3, t4): no state."""

    logic: Callable[[Row], Iterable[Row]] = field(default=lambda row: (row,))


@dataclass(frozen=True)
class Compute(Operator):
    """compute(k2, v2, t3, t4) -> (k2, v3, t5, t6): the state of each key and pane.

    Parameters
    ----------
    aggregate : what is kept of a key.
    windows : its own; needed where what follows is no consolidate (Figure 5.2). Else those of the consolidate count.
    shared : panes are computed and merged; else each row goes into each window that holds it.
    pane : the length of panes; the greatest common divisor where None.
    spanning : where a row of more than a moment counts: at its "begin", its last moment ("end"), or in "each" window
        that it touches, which panes cannot do.
    longest_row : the longest span of a row; how far one that counts from its beginning may lie before what is promised.
    eager : state, row -> value of the row that goes on at once to what is no consolidate.
    """

    aggregate: Aggregate = COUNT
    windows: tuple[Window, ...] = ()
    shared: bool = True
    pane: int | None = None
    spanning: str = "end"
    longest_row: int = 1
    eager: Callable[[Any, Row], Any] = field(default=lambda state, row: row[1])

    @property
    def held_back(self) -> int:
        """How far a row may count before what was promised."""
        return 0 if self.spanning == "end" else self.longest_row - 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spanning not in ("begin", "end", "each"):
            raise ValueError(f'{self.name}: spanning is {self.spanning!r}, not "begin", "end" or "each"')
        if self.shared and self.spanning == "each":
            raise ValueError(f"{self.name}: a row in two panes would count twice where they are merged; shared=False")
        if self.shared and self.aggregate.merge is None:
            raise ValueError(f"{self.name}: panes of an aggregate without merge make no window; shared=False")


@dataclass(frozen=True)
class Consolidate(Operator):
    """consolidate(k2, list(v3), t5, t6) -> list(k3, v4, t5, t6): panes merged to windows.

    Parameters
    ----------
    aggregate : the one of the computes before it.
    windows : what it makes.
    logic : key, state, begin, end -> rows; None for one with the aggregate's result.
    """

    aggregate: Aggregate = COUNT
    windows: tuple[Window, ...] = ()
    logic: Callable[[Key, Any, int, int], Iterable[Row]] | None = None

    def rows(self, key: Key, state: Any, begin: int, end: int) -> Iterable[Row]:
        """Return what is sent on of a key."""
        if self.logic is None:
            return ((key, self.aggregate.result(state), begin, end),)
        return self.logic(key, state, begin, end)


def is_stateful(operator: Operator) -> bool:
    """Whether it keeps state while rows come (Table 1: compute alone)."""
    return isinstance(operator, Compute)


def is_flexible(operator: Operator) -> bool:
    """Whether it does not care how its input is divided (Table 1: all but consolidate)."""
    return not isinstance(operator, Consolidate)
