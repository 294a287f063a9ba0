"""Forecast: what is asked of each partition in the coming 24 hours, by the usual day and by today's level."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import how_many
from ceps.model.patterns import DAY, Patterns

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forecast:
    """What is expected."""

    # The coming 24 hours, each slot at its time of the day: what is left of today at today's level, and tomorrow's
    # first hours as usual
    patterns: Patterns
    level: float  # Today's requests over the usual ones, of all partitions, shrunk towards 1
    levels: Floats  # float64 (P,). Of each partition, shrunk towards the level of all
    slots: int  # How many slots of today were seen


def forecast(usual: Patterns, today: ArrayLike, seen: int, window: int = 0) -> Forecast:
    """Return what is expected of the coming 24 hours.

    The level of all partitions is what was asked today over what usually is; each partition's own is shrunk towards it,
    and it towards 1, the more the fewer requests it rests on: by the variance that counting has (Poisson, each event
    `requests_per_event` requests) beside that by which levels differ as such.

    ``usual``: the usual day, with slots of a day; ``today``: float (P, T), requests/s of each partition in each slot of
    today; those that were not seen yet do not count; ``seen``: slots of today that have ended; 0 expects the usual day.

    O(P T). Where a partition is never asked as usual, today's requests over the window are expected to go on.

    Examples
    --------
    >>> import numpy as np, ceps
    >>> usual = ceps.Patterns(np.full((2, 24), 100.0))
    >>> found = forecast(usual, np.full((2, 24), 200.0), seen=12)
    >>> round(found.level, 2), found.patterns.loads[0, [0, 23]].round().tolist()
    (2.0, [100.0, 200.0])
    """
    if usual.slots * usual.slot_seconds != DAY:
        raise ValueError(
            f"the usual patterns have {how_many(usual.slots, 'slot')}, those of a week; give those of one weekday"
        )
    loads = np.asarray(today, np.float64)
    if loads.shape != usual.loads.shape:
        raise ValueError(f"today has shape {loads.shape} but the usual patterns have {usual.loads.shape}")
    if not (np.isfinite(loads).all() and (loads >= 0).all()):
        raise ValueError("today has requests/s that are negative or not finite")
    seen = whole("seen", seen, 0, usual.slots)
    window = whole("window", window, 0, usual.slots)
    if seen == 0:
        return Forecast(usual, 1.0, np.ones(len(loads)), 0)
    part = slice(max(seen - window, 0) if window else 0, seen)
    events = usual.slot_seconds / number("requests_per_event", usual.requests_per_event, "a number above 0", above=0)
    asked, expected = loads[:, part].sum(axis=1) * events, usual.loads[:, part].sum(axis=1) * events
    level = float(_level(asked.sum(), expected.sum(), 1.0, usual.days))
    levels = _shrunk(asked, expected, level, usual.days)
    coming = usual.loads * levels[:, None]
    never = usual.loads.sum(axis=1) <= 0
    coming[never] = loads[never, part].mean(axis=1)[:, None]
    whole_day = usual.loads.copy()
    whole_day[:, seen:] = coming[:, seen:]
    return Forecast(replace(usual, loads=whole_day), level, levels, seen)


def _level(asked: float, expected: float, towards: float, days: float) -> float:
    """Return the level of all: the ratio, shrunk by its error towards what is usual."""
    if expected <= 0:
        return towards
    ratio = asked / expected
    error = max(asked, 1.0) / expected**2 + ratio**2 / (expected * days)
    spread = (ratio - towards) ** 2
    weight = max(spread - error, 0.0) / spread if spread > 0 else 0.0
    return towards + weight * (ratio - towards)


def _shrunk(asked: Floats, expected: Floats, level: float, days: float) -> Floats:
    """Return the level of each partition: its ratio, shrunk by its error towards the level of all."""
    safe = np.maximum(expected, 1e-300)
    ratio = np.where(expected > 0, asked / safe, level)
    # by the level of all and not by its own count: few requests must not look sure of being few
    error = np.where(expected > 0, level / safe + level**2 / (safe * days), np.inf)
    known = expected > 0
    if not known.any():
        return np.full(len(asked), level)
    weights = expected[known]
    # how much levels differ beyond what counting explains, by moments
    spread = float(np.average((ratio[known] - level) ** 2 - error[known], weights=weights))
    spread = max(spread, 0.0)
    weight = np.where(np.isfinite(error), spread / (spread + np.where(np.isfinite(error), error, 1.0)), 0.0)
    found: Floats = level + np.nan_to_num(weight) * (ratio - level)
    return np.maximum(found, 0.0)
