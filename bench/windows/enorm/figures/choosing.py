"""Sections 5.1.1 and 5.1.2 with what is measured here: what the formulas choose, by three readings of W."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import groupby

from bench.windows.enorm.costs import READINGS, Load
from bench.windows.enorm.figures.simple import GROUPS, MINUTE, SIX, TWO, job, seconds, uniform
from bench.windows.enorm.jobs import Job
from bench.windows.enorm.operators import Compute, Consolidate, Key, Row
from bench.windows.enorm.rules import Rules
from bench.windows.enorm.spans import FOREVER, Window, longest
from bench.windows.enorm.works import ComputeWork, ConsolidateWork


class Alone:
    """The only node: it has all keys, and keeps what is sent on."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def emit(self, row: Row, *, partial: bool, inside_only: bool = False) -> None:
        """Keep a partial result."""
        if partial:
            self.rows.append(row)

    def has(self, key: Key, begin: int) -> bool:
        """Return that it has."""
        return True

    def chooses(self) -> bool:
        """Return that no key is at two nodes."""
        return False


def load(windows: Sequence[Window], rows: int, keys: int, minutes: int = 30) -> Load:
    """Return what a period of the simple job costs here: E, K_1 and the merging, each measured by itself."""
    made: Job = job(windows)
    compute, consolidate = made.by_name["compute"], made.by_name["consolidate"]
    assert isinstance(compute, Compute)
    assert isinstance(consolidate, Consolidate)
    held, place, closes = uniform(rows, keys, minutes), Alone(), Rules().closes
    first = ComputeWork(compute, made, place, closes)
    user = seconds(lambda: [first.take(row) for row in held])
    first.close(FOREVER)
    panes = [list(found) for _, found in groupby(place.rows, key=lambda row: row[2])]
    carried = seconds(lambda: [pickle.loads(pickle.dumps(row, -1)) for pane in panes for row in pane])
    second = ConsolidateWork(consolidate, made, Alone(), closes, True)

    def merge() -> None:
        for pane in panes:
            for row in pane:
                second.take(row)
            second.close(pane[0][3])

    merging = seconds(merge)
    share = longest(windows) / (minutes * MINUTE)
    count = int(len(panes) * share)
    return Load(
        rows * share, user / rows, count, GROUPS, carried / len(panes) / GROUPS, 0, 0.0, tuple(windows), merging * share
    )


def choices(rows: int, keys: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return what split and combine cost in the longest window, in seconds by windows and reading of W (5.1.1)."""
    found = {}
    for name, windows in {"two tumbling": TWO, "six tumbling": SIX, "two each minute": _each_minute(TWO)}.items():
        cost = load(windows, rows, keys)
        found[name] = {reading: (cost.split_cpu(reading), cost.combine_cpu(reading)) for reading in READINGS}
    return found


def _each_minute(windows: Sequence[Window]) -> list[Window]:
    return [Window(one.length, MINUTE) for one in windows]
