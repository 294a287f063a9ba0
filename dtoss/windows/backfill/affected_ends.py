"""Which ends a rebuild counts anew, and which raw rows these need."""

from __future__ import annotations

from dataclasses import dataclass

from dtoss.errors import InputError
from dtoss.windows.durations import duration_text, time_text
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.watermark import horizon_of


@dataclass(frozen=True)
class Rebuild:
    """What a rebuild counts anew; all in microseconds since 1970."""

    since: int  # since, until: rows from ``since`` on and before ``until`` are those that the user means
    until: int
    first: int  # first, last: ends after ``first`` and up to ``last`` are counted anew: those that such rows can change
    last: int
    rows_from: int  # rows_from, rows_to: these need the raw rows from ``rows_from`` on and before ``rows_to``
    rows_to: int
    # Whether the state that later ends rest on is made of the raw rows, too. Else it stays: no row that is meant
    # reaches into it
    replaced: bool


def reach_of(spec: Spec) -> int:
    """Return how long after a row another one of its object, or its silence, still changes a place; microseconds.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> plane = space_of(None, "plane")
    >>> reach_of(spec_of("5min", "1min", "rows", "partition", plane, "", max_gap="10min"))
    0
    >>> reach_of(spec_of("5min", "1min", "speed", "partition", plane, "", max_gap="10min")) // 1_000_000
    600
    """
    found = [0]
    if spec.moves:
        found.append(spec.max_gap)
    if "here" in spec.measures:
        found.append(LAST_TIME if spec.expire is None else spec.expire)
    return max(found)


def rebuild_of(spec: Spec, watermark: int | None, since: int, until: int) -> Rebuild:
    """Return what a rebuild counts anew.

    ``watermark``: of their last commit, in microseconds; None before the first row; ``since``, ``until``: microseconds.
    Raw rows from the one on and before the other are meant.

    A row at t changes windows that end after t and up to t + the longest length; by the moves and stays that follow it,
    later ones, too (:func:`reach_of`). Where such an end is not final yet, the state of objects and panes rests on the
    rows: all ends from there on, or from the first that is not final, are counted anew, and the state with them.
    """
    if until <= since:
        raise InputError(
            f"--rebuild {time_text(since)} {time_text(until)} is no time: give the beginning first, then the end"
        )
    if watermark is None or since >= watermark:
        mark = "no row was read yet" if watermark is None else f"the watermark is {time_text(watermark)}"
        raise InputError(
            f"--rebuild {time_text(since)} {time_text(until)}: {mark}, and no end after {time_text(since)} is due; "
            "rows from there on are counted by the next batch"
        )
    longest, reach = spec.lengths[-1], reach_of(spec)
    horizon = horizon_of(spec, watermark)
    assert horizon is not None
    last = -(-(until + longest + reach) // spec.slide) * spec.slide
    replaced = last > horizon
    first = min(since, horizon) if replaced else since
    rows_from = max(first - longest - reach, -LAST_TIME) // spec.pane * spec.pane
    if replaced:
        return Rebuild(since, until, first, watermark, rows_from, LAST_TIME, replaced)
    return Rebuild(since, until, first, last, rows_from, last, replaced)


def backfill_text(rebuild: Rebuild) -> str:
    """Return what a rebuild counts anew, for whoever looks on.

    Examples
    --------
    >>> backfill_text(Rebuild(60_000_000, 120_000_000, 60_000_000, 420_000_000, 0, 420_000_000, False))
    'ends after 1970-01-01T00:01:00Z, up to 1970-01-01T00:07:00Z (6min)'
    """
    return (
        f"ends after {time_text(rebuild.first)}, up to {time_text(rebuild.last)} "
        f"({duration_text(rebuild.last - rebuild.first)})"
    )
