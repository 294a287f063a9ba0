"""Races: ours and others on the same work, in turns in one process, so that a noisy machine is noisy for all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter, process_time
from typing import Any

Work = Callable[[], Any]


def timed(work: Work, clock: Callable[[], float] = perf_counter) -> tuple[float, Any]:
    """Return how long a call took, in seconds, and its result."""
    begin = clock()
    result = work()
    return clock() - begin, result


def in_turns(
    works: Mapping[str, Work], rounds: int, clock: Callable[[], Any] = process_time
) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return what each took in each round, as the clock tells it, and what it answered last."""
    spent: dict[str, list[Any]] = {name: [] for name in works}
    last: dict[str, Any] = {}
    turn = deque(works)
    for _ in range(rounds):
        for name in turn:
            seconds, last[name] = timed(works[name], clock)
            spent[name].append(seconds)
        turn.rotate(-1)  # each comes after another one the next time, and finds the caches as that one left them
    return spent, last
