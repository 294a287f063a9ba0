"""How far objects have come in time: the watermark, behind which windows are due, and where rows may change still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.windows.spec import Spec
from dtoss.witnesses import Lasts

TOO_LATE, IN_FUTURE = "later than --late", "time in the future"
"""Why rows are set aside for their times."""


@dataclass(frozen=True)
class PaneCounts:
    """How many objects have their last row in which pane; sums of these are those of all tasks."""

    panes: NDArray[np.int64]  # int64 (n,), rising
    objects: NDArray[np.int64]  # int64 (n,)


def reached_of(spec: Spec, last: NDArray[np.int64]) -> PaneCounts:
    """Return what the last times of objects, int64 (k,), say. Cost O(k log k)."""
    panes, objects = np.unique(last // spec.pane, return_counts=True)
    return PaneCounts(panes, objects.astype(np.int64))


def add_counts(parts: Sequence[PaneCounts]) -> PaneCounts:
    """Return the sum of what several tasks say."""
    none = np.zeros(0, np.int64)
    whole = join_rows([PaneCounts(none, none), *parts])
    panes, back = np.unique(whole.panes, return_inverse=True)
    objects = np.zeros(len(panes), np.int64)
    np.add.at(objects, back, whole.objects)
    return PaneCounts(panes, objects)


def watermark_of(spec: Spec, reached: PaneCounts, before: int | None) -> int | None:
    """Return the watermark after a batch, in microseconds: the beginning of the pane that enough objects have reached.

    ``before``: the watermark before; it never goes back, and objects whose last row is a longest window or more behind
    it do not count. None in the first batch, where all count.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> spec = spec_of("5min", "1min", "rows", "partition", space_of(None, "plane"), "", late="0s")
    >>> watermark_of(spec, PaneCounts(np.array([3, 7, 400]), np.array([5, 2, 1])), None) // spec.pane
    7
    """
    lasts = Lasts(reached.panes, reached.objects)
    if before is not None:
        lasts = lasts.after(before // spec.pane - spec.longest - 1)
    if lasts.count == 0:
        return before
    pane = int(lasts.reached(spec.witnesses_of(lasts.count)))
    found = (pane * spec.pane - spec.delay) // spec.pane * spec.pane
    return found if before is None else max(before, found)


def follow_clock(spec: Spec, clock_us: int, before: int) -> int:
    """Return the watermark once it has followed a clock, where no rows tell the time, in microseconds.

    ``clock_us``: what the clock says, in microseconds since 1970; ``before``: the watermark before; it never goes back.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> spec = spec_of("5min", "1min", "rows", "partition", space_of(None, "plane"), "", delay="90s")
    >>> [follow_clock(spec, minutes * 60_000_000, 3 * spec.pane) // spec.pane for minutes in (4, 5, 9)]
    [3, 3, 7]
    """
    return max(before, (clock_us - spec.delay) // spec.pane * spec.pane)


def horizon_of(spec: Spec, watermark: int | None) -> int | None:
    """Return the time from which on rows may change still, the beginning of a pane; None where there is no watermark.

    Rows before the watermark less ``late`` are not accepted, so none from the horizon on is final.
    """
    return None if watermark is None else (watermark - spec.late) // spec.pane * spec.pane
