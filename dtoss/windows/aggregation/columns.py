"""Which columns a spec's results and running sums have, and where each is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from dtoss.windows.measures import MEASURES, PERCENTILES, SPEEDS
from dtoss.windows.spec import Spec

SLIDING = ("rows", "arrivals", "departures", "distance_mm", "moving_us")
"""Columns of sums that leave a window with their pane; the others count from their pane on."""
_FIRST = (("end", pa.int64()), ("key", pa.int64()), ("revision", pa.int64()), ("final", pa.bool_()))


@dataclass(frozen=True)
class Columns:
    """The columns of a spec."""

    spec: Spec

    @cached_property
    def sliding(self) -> tuple[str, ...]:
        """Columns of sums that leave a window with their pane."""
        return tuple(name for name in self.spec.sums if name in SLIDING)

    @cached_property
    def standing(self) -> tuple[str, ...]:
        """Columns of sums that count from their pane on."""
        return tuple(name for name in self.spec.sums if name not in SLIDING)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in panes."""
        return tuple(length // self.spec.pane for length in self.spec.lengths)

    @cached_property
    def greatest(self) -> bool:
        """Whether the greatest speed is asked for."""
        return "max_speed" in self.spec.measures

    @cached_property
    def percentiles(self) -> tuple[str, ...]:
        """The percentiles that are asked for."""
        return tuple(name for name in PERCENTILES if name in self.spec.measures)

    @cached_property
    def running(self) -> tuple[str, ...]:
        """The running sums, in the order in which they are kept."""
        slid = [f"{name}_{length}" for length in self.spec.names for name in self.sliding]
        return (*(self._shown(name) for name in self.standing), *slid)

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """All columns of numbers in the order in which a sweep has them: sums, greatest values, percentiles."""
        greatest = [f"max_speed_{name}" for name in self.spec.names] if self.greatest else []
        return (
            *self.running,
            *greatest,
            *(f"{which}_{name}" for name in self.spec.names for which in self.percentiles),
        )

    @cached_property
    def speeds(self) -> int:
        """How many of them are speeds: the last ones."""
        return sum(map(self.is_speed, self.measured))

    @cached_property
    def results(self) -> pa.Schema:
        """The schema of results; a speed is null where there was no move."""
        each = [column for measure in MEASURES.values() for column in measure.columns if column != "here"]
        order = ["here", *(f"{column}_{name}" for name in self.spec.names for column in each)]
        return pa.schema([*_FIRST, *((name, pa.int64()) for name in order if name in self.measured)])

    @staticmethod
    def is_speed(name: str) -> bool:
        """Return whether a column of results holds speeds."""
        return name.startswith(SPEEDS)

    def _shown(self, name: str) -> str:
        """Return a column of sums by its name in results."""
        kind, mark, which = name.partition("_")
        return f"objects_{self.spec.names[int(which)]}" if mark and kind == "objects" else name
