"""Races: ours and others on the same work, in turns in one process, so that a noisy machine is noisy for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

Work = Callable[[], Any]


@dataclass(frozen=True)
class Race:
    """What came of one: seconds of each, and what was hoped for.

    Parameters
    ----------
    data, work : of what, and what was asked.
    units : queries, rows or bytes that ours handled.
    seconds, others : of ours; of each other, scaled to the same work.
    goals : at least so many times as fast as that other.
    at_most : microseconds a unit that ours should not take longer than; ours is then shown in these, not as a rate.
    """

    data: str
    work: str
    units: float
    seconds: float
    others: Mapping[str, float]
    goals: Mapping[str, float] = field(default_factory=dict)
    at_most: float | None = None

    def ratio(self, other: str) -> float:
        """Return the other's time over ours: above 1 ours is faster."""
        return self.others[other] / self.seconds


def timed(work: Work, timer: Callable[[], float] = perf_counter) -> tuple[float, Any]:
    """Return how long a call took, in seconds, and its result."""
    begin = timer()
    result = work()
    return timer() - begin, result


def summary(times: Sequence[float], best: bool = False) -> float:
    """Return the median of times in seconds, or the best."""
    return float(min(times) if best else median(times))


def table(races: list[Race]) -> str:
    """Return races as a table in Markdown: rates of ours, and how many times as fast as each other it was."""
    names = list(dict.fromkeys(name for race in races for name in race.others))
    rows = [["data", "work", "ours", *names]]
    for race in races:
        cells = [race.data, race.work, _rate(race)]
        for name in names:
            cells.append(_cell(race, name) if name in race.others else "")
        rows.append(cells)
    width = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in width) + "|")
    return "\n".join(lines)


def _rate(race: Race) -> str:
    if race.at_most is None:
        return f"{race.units / race.seconds:,.0f}/s"
    micro = race.seconds / race.units * 1e6
    return f"{micro:.1f} us ({'goal' if micro <= race.at_most else 'MISSED'} {race.at_most:g})"


def _cell(race: Race, name: str) -> str:
    ratio = race.ratio(name)
    text = f"{ratio:.2f}x"
    if name not in race.goals:
        return text
    reached = ratio >= race.goals[name]
    return f"{text} ({'goal' if reached else 'MISSED'} {race.goals[name]:g})"
