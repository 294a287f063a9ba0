"""How much days differ from the patterns, and the risk of that: what share of requests may fail, and its grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_LEVELS = 32
"""Days a file keeps at the most, by hour: of more, means of equally many that follow one another in size."""


@dataclass(frozen=True, eq=False)
class Variation:
    """What was seen of days that are busier or quieter than their pattern; immutable."""

    # float64 (Q, H), what the total was in an hour of the day over what its pattern says; each of the Q is as likely.
    # Sampling noise is taken out. Q = 0 where nothing is known of it
    levels: Floats
    # float64 (P,), squared relative deviation of each partition (or server) that is neither in `levels` nor the noise
    # of counting; 0 or more
    own: Floats

    def __post_init__(self) -> None:
        for name, dimensions in (("levels", 2), ("own", 1)):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != dimensions or not (np.isfinite(array) & (array >= 0)).all():
                raise ValueError(f"variation's {name} must be a {dimensions}-dimensional array of numbers of 0 or more")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def common(self) -> float:
        """Squared relative deviation of the total, the mean over the hours; 0 where nothing is known of it."""
        return float(((self.levels - 1) ** 2).mean()) if self.levels.size else 0.0


def variation_from_lists(levels: list[list[float]], own: list[float]) -> Variation:
    """Variation of what a file holds of it; one that knows no level, as of a single day, comes back as well.

    Examples
    --------
    >>> len(variation_from_lists([], [0.5]).levels), variation_from_lists([[1.0, 2.0]], [0.5]).levels.shape
    (0, (1, 2))
    """
    return Variation(np.array(levels, np.float64).reshape(len(levels), -1 if levels else 0), np.array(own, np.float64))


def variation_of(
    totals: Floats, expected: Floats, freedom: Floats, own_squares: Floats, own_means: Floats, own_power: Floats
) -> Variation:
    """Variation of counts by day and hour against what the patterns expect.

    ``totals``, ``expected``: float64 (D, H), requests of all partitions in each hour of each day, and what the pattern
    of its day says; ``freedom``: float64 (D,), by what squared deviations of a day are multiplied because its own
    counts are in its pattern: n / (n - 1) for a mean of n days; 1 where n is 1, which says nothing; ``own_squares``,
    ``own_means``, ``own_power``: float64 (P,), sums over days and hours of each partition's squared deviations (times
    `freedom`), of its expected requests, and of their squares.
    """
    known = freedom > 1
    if not known.any():
        return Variation(np.empty((0, totals.shape[1])), np.zeros(len(own_squares)))
    totals, expected = _without_the_rarest(totals[known], expected[known]), expected[known]
    excess = ((totals - expected) ** 2 * freedom[known, None]).sum(axis=0)
    means, power = expected.sum(axis=0), (expected**2).sum(axis=0)
    # Hours lend one another half: a few days say little of one hour.
    ring = [np.roll(value, -1) / 4 + value / 2 + np.roll(value, 1) / 4 for value in (excess - means, power)]
    overall = max(float((excess - means).sum()) / max(float(power.sum()), 1e-300), 0.0)
    days = int(known.sum())
    hourly = np.maximum(ring[0] / np.maximum(ring[1], 1e-300), 0.0)
    common = (days * hourly + _PRIOR_DAYS * overall) / (days + _PRIOR_DAYS)
    ratio = np.where(expected > 0, totals / np.maximum(expected, 1e-300), 1.0)
    spread = np.maximum(((ratio - 1) ** 2).mean(axis=0), 1e-300)
    # The days' own shape, at the size that is left when counting noise is taken out.
    shape = (ratio - 1) * np.sqrt(common / spread)
    levels = np.maximum(1 + shape - shape.mean(axis=0), 0.0)
    own = (own_squares - own_means) / np.maximum(own_power, 1e-300) - overall
    return Variation(condensed(levels), np.where(own_power > 0, np.maximum(own, 0.0), 0.0))


def _without_the_rarest(totals: Floats, expected: Floats) -> Floats:
    """`totals` with the hours that are furthest from what is expected brought as near as the next ones."""
    away = totals - expected
    most = np.sqrt(np.quantile(np.maximum(away**2 - expected, 0.0), 1 - _RAREST) + expected)
    return expected + np.clip(away, -most, most)


_RAREST = 0.04  # of the hours: a fault or a marathon says nothing of days to come
_PRIOR_DAYS = 5.0  # days of the whole day's variation that an hour's own is mixed with


def condensed(levels: Floats, most: int = MOST_LEVELS) -> Floats:
    """`levels` with each hour sorted and, where there are more than `most`, means of equally many neighbours."""
    ordered = np.sort(levels, axis=0)
    if len(ordered) <= most:
        return ordered
    pieces = np.array_split(np.arange(len(ordered)), most)
    return np.stack([ordered[piece].mean(axis=0) for piece in pieces])


GRADES = (("very low", 1e-6), ("low", 1e-4), ("medium", 1e-3), ("high", 1e-2), ("very high", np.inf))
"""Names of the grades 0..4, and the share of requests above capacity below which each holds."""

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Risk:
    """Expected overload of a plan.

    Parameters
    ----------
    overload
        Expected share of the requests above the servers' full capacity, over all days.
    grade
        0 (very low) to 4 (very high), of the worst day.
    worst_server
        Number of the server that contributes most; -1 without servers.
    by_day
        The same share for each day of the pattern: seven, Monday first, or one.
    by_server
        And for each server (N rows) on each of these days.
    """

    overload: float
    grade: int
    worst_server: int
    by_day: tuple[float, ...] = (0.0,)
    by_server: tuple[tuple[float, ...], ...] = ()

    @property
    def name(self) -> str:
        """Name of the grade."""
        return GRADES[self.grade][0]

    @property
    def worst_day(self) -> int:
        """Day of the pattern with the largest share; 0 is Monday where there are seven."""
        return int(np.argmax(self.by_day))

    @property
    def worst(self) -> float:
        """Largest share of any day."""
        return max(self.by_day)

    @property
    def worst_name(self) -> str:
        """Name of that weekday; empty where the pattern knows no weekdays."""
        return WEEKDAYS[self.worst_day] if len(self.by_day) == len(WEEKDAYS) else ""

    def to_dict(self) -> dict[str, Any]:
        """Build what plan.json says of it."""
        return {
            "overload": self.overload,
            "grade": self.grade,
            "worst_server": self.worst_server,
            "by_day": list(self.by_day),
            "by_server": [list(row) for row in self.by_server],
        }


def risk_from_dict(content: dict[str, Any]) -> Risk:
    """Risk of what `Risk.to_dict` made."""
    by_server = tuple(tuple(row) for row in content["by_server"])
    return Risk(content["overload"], content["grade"], content["worst_server"], tuple(content["by_day"]), by_server)
