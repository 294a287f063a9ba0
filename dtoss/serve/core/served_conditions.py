"""Conditions of one snapshot as a server asks them: evaluated in the pool, a few at a time, and never on the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dtoss.index import Index
from dtoss.serve.core.problems import Problem

if TYPE_CHECKING:
    from dtoss.conditions.matching_objects import Filter


def untold(seconds: float) -> None:
    """Tell nobody."""


class Conditions:
    """The conditions that were evaluated on one snapshot, the latest 16; thread-safe.

    They are those of the index itself, so that questions that name a condition find them evaluated.

    ``evaluated``: is told how many seconds each evaluation took.
    """

    def __init__(
        self,
        index: Index,
        evaluations: threading.Semaphore,
        later: Callable[[Callable[[], None]], None],
        evaluated: Callable[[float], None] = untold,
    ) -> None:
        self._filters = index.filters
        self._evaluations = evaluations
        self._later = later
        self._evaluated = evaluated
        self._building: set[Filter] = set()

    def ready(self, text: str) -> Filter | None:
        """Return the filter of a condition if it was evaluated, else None; for the loop, which it does not hold up.

        Where an index of the matches would pay by now, a thread of the pool is asked to make it. Answers from the loop
        go by ``Filter.answer(..., may_build=False)``.
        """
        found = self._filters.ready(text)
        if found is not None and found.pays() and found not in self._building:
            self._building.add(found)
            try:
                self._later(lambda: self._build(found))
            except Problem:  # the pool is full: the next one that asks tries again
                self._building.discard(found)
        return found

    def get(self, text: str) -> Filter:
        """Return the filter of a condition, evaluated here if it has to be; for threads of the pool.

        Of several that ask the same, one evaluates it and the others wait.
        """
        found = self._filters.ready(text)
        return self._filters.get(text, self._turn()) if found is None else found

    def on(self, index: Index) -> Conditions:
        """Return those of another index, of which none is evaluated yet."""
        return Conditions(index, self._evaluations, self._later, self._evaluated)

    def in_use(self) -> list[str]:
        """Return the conditions that were evaluated and are kept, the one asked last first."""
        return self._filters.texts()

    def carried_to(self, index: Index, breathe: Callable[[], None]) -> Conditions:
        """Return those of another snapshot, on which all that are in use here are evaluated already.

        What does not fit its columns is left out. An index of few matches is made too.
        """
        others = self.on(index)
        for text in reversed(self.in_use()):
            with suppress(ValueError):
                fresh = others.get(text)
                fresh.follow(self.get(text))
                if fresh.few:
                    fresh.build()
            breathe()
        return others

    def _build(self, found: Filter) -> None:
        try:
            found.build()
        finally:
            self._building.discard(found)

    def _turn(self) -> _Turn:
        return _Turn(self._evaluations, self._evaluated)


class _Turn:
    """A place among those that evaluate at a time, and the seconds that were spent on it."""

    def __init__(self, evaluations: threading.Semaphore, evaluated: Callable[[float], None]) -> None:
        self._evaluations, self._evaluated = evaluations, evaluated

    def __enter__(self) -> None:
        self._evaluations.acquire()
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._evaluations.release()
        self._evaluated(time.perf_counter() - self._began)
