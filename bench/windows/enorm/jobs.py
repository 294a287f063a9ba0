"""A job: operators and what flows between them (section 4.3), checked before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from bench.windows.enorm.operators import Compute, Consolidate, Map, Operator
from bench.windows.enorm.spans import Window, longest, pane_of


@dataclass(frozen=True)
class Job:
    """Operators in the order of the flow, and edges between their names.

    Parameters
    ----------
    operators : from the first to the last.
    edges : (from, to); those that nothing flows to read the sources, those that nothing flows from are the ends.
    """

    operators: tuple[Operator, ...]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        order = [one.name for one in self.operators]
        if len(set(order)) < len(order):
            raise ValueError(f"two operators have one name: {order}")
        for before, after in self.edges:
            if before not in order or after not in order or order.index(before) >= order.index(after):
                raise ValueError(f"{before} -> {after}: both must be there, and in the order of the flow")
        for one in self.operators:
            self._check(one)

    @cached_property
    def by_name(self) -> dict[str, Operator]:
        """Operators by their names."""
        return {one.name: one for one in self.operators}

    def before(self, name: str) -> list[str]:
        """Return the operators that send to it."""
        return [one for one, other in self.edges if other == name]

    def after(self, name: str) -> list[str]:
        """Return the operators that it sends to."""
        return [other for one, other in self.edges if one == name]

    def merged_by(self, name: str) -> list[str]:
        """Return the consolidates that it sends to."""
        return [one for one in self.after(name) if isinstance(self.by_name[one], Consolidate)]

    @cached_property
    def held_back(self) -> int:
        """How far the last operator may be behind what sources promise: rows that count from their beginning."""
        return sum(one.held_back for one in self.operators if isinstance(one, Compute))

    def units(self, name: str) -> tuple[Window, ...]:
        """Return the windows whose instances an operator keeps apart: panes where they are shared."""
        one = self.by_name[name]
        if isinstance(one, Consolidate):
            return one.windows
        if not isinstance(one, Compute):
            return ()
        windows = {window for other in self.merged_by(name) for window in self.by_name[other].windows}  # type: ignore[attr-defined]
        every = tuple(sorted({*one.windows, *windows}))
        if not (one.shared and windows):
            return every
        pane = pane_of(every)
        return (Window(one.pane or pane.length, one.pane or pane.length, pane.start),)

    def given(self, name: str) -> tuple[Window, ...]:
        """Return the pieces that come to a consolidate."""
        return self.units(self.before(name)[0])

    def kept_for(self, name: str) -> int:
        """Return how long what was sent to a consolidate must be kept, to be sent again: its longest window."""
        return longest(self.units(name))

    def _check(self, one: Operator) -> None:
        inputs = [self.by_name[name] for name in self.before(one.name)]
        if isinstance(one, Consolidate):
            if not one.windows or not inputs or any(isinstance(other, Map) for other in inputs):
                raise ValueError(f"{one.name}: a consolidate has windows, and computes or consolidates before it")
            if one.aggregate.merge is None and any(isinstance(other, Consolidate) or other.shared for other in inputs):  # type: ignore[attr-defined]
                raise ValueError(f"{one.name}: an aggregate without merge has no panes; shared=False before it")
            if len({self.units(other.name) for other in inputs}) > 1:
                raise ValueError(f"{one.name}: what comes from {[i.name for i in inputs]} is of different pieces")
        if isinstance(one, Compute):
            if not self.units(one.name):
                raise ValueError(f"{one.name}: no windows of its own, and no consolidate after it")
            pane = pane_of(self._all_windows(one))
            if one.pane and pane.length % one.pane:
                raise ValueError(f"{one.name}: panes of {one.pane} do not make {pane.length}, which all windows need")
            if one.spanning != "end" and any(isinstance(self.by_name[n], Consolidate) for n in self.before(one.name)):
                raise ValueError(f'{one.name}: windows that are complete begin before what is promised; spanning="end"')

    def _all_windows(self, one: Compute) -> Sequence[Window]:
        after = [self.by_name[name] for name in self.merged_by(one.name)]
        return [*one.windows, *(window for other in after for window in other.windows)]  # type: ignore[attr-defined]


def chain(*operators: Operator) -> Job:
    """Return the job in which each operator sends to the next."""
    names = [one.name for one in operators]
    return Job(operators, tuple(pairwise(names)))
