"""Patches of a batch as cells: those of several tasks added up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dtoss.windows.aggregation.pane_cells import Cells, Numbers, added, replace_cells, sorted_cells
from dtoss.windows.patches import Patch, Patches
from dtoss.windows.spec import Spec


@dataclass(frozen=True)
class Incoming:
    """What a batch changes in panes."""

    sums: Cells  # By key, the columns of ``spec.sums``
    flow: Cells
    bins: Cells  # By key and bin
    maxima: Cells  # By key and bucket; -1 where there is none any more

    @cached_property
    def first(self) -> int | None:
        """The first pane that changes; None where none does."""
        panes = [int(cells.pane[0]) for cells in (self.sums, self.flow, self.bins, self.maxima) if len(cells)]
        return min(panes, default=None)

    def keys_before(self, pane: int) -> list[Numbers]:
        """Return the keys whose results change for an end up to a pane, some of them more than once."""
        return [
            cells.labels[: int(np.searchsorted(cells.pane, pane)), 0] for cells in (self.sums, self.bins, self.maxima)
        ]

    def with_more(self, more: Incoming) -> Incoming:
        """Return the sum with what another task changes; maxima of a bucket come from one task."""
        return Incoming(
            added(self.sums, more.sums),
            added(self.flow, more.flow),
            added(self.bins, more.bins),
            _either(self.maxima, more.maxima),
        )


def _either(one: Cells, other: Cells) -> Cells:
    if len(one) == 0 or len(other) == 0:
        return one if len(other) == 0 else other
    raised = replace_cells(
        Cells(one.pane, one.labels, one.values + 1), Cells(other.pane, other.labels, other.values + 1)
    )
    return Cells(raised.pane, raised.labels, raised.values - 1)  # -1 is a value here, and not one to leave out


def incoming_of(spec: Spec, *patches: Patches) -> Incoming:
    """Return patches of different tasks as one, as cells. Cost O(n log n)."""
    found = Incoming(Cells.none(1, len(spec.sums)), Cells.none(2, 1), Cells.none(2, 1), Cells.none(2, 1))
    for one in patches:
        found = found.with_more(Incoming(*(_cells(part) for part in (one.sums, one.flow, one.bins, one.maxima))))
    return found


def _cells(patch: Patch) -> Cells:
    return sorted_cells(patch.pane, patch.labels, patch.values)
