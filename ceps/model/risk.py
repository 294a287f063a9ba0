"""Risk: what share of tomorrow's requests a plan may fail to answer, and its grade."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
