"""What batches of a watch or of windows have done, whose turn is the next, and what moves their time without rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from dtoss.commits.chain import Commit
from dtoss.commits.folder import Folder
from dtoss.commits.lease import Writer, take, without_lease
from dtoss.errors import InputError


@dataclass(frozen=True)
class Ran:
    """What a batch has done, for whoever looks on."""

    commit: Commit
    seconds: float  # From plan to commit
    busiest: float  # Seconds of the task that took longest

    @property
    def counts(self) -> Mapping[str, int]:
        """By name."""
        counts: Mapping[str, int] = self.commit.document["counts"]
        return counts


@dataclass
class Tally:
    """What the batches of a run have done together."""

    batches: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # Of these, by name

    def add(self, ran: Ran | None) -> bool:
        """Add a batch; return whether there was one."""
        if ran is None:
            return False
        self.batches += 1
        for name, value in ran.counts.items():
            self.counts[name] = self.counts.get(name, 0) + value
        return True


@dataclass
class Turns:
    """One batch at a time, and none once whoever gives them has ended."""

    whose: str  # What runs, for the error: "watch taxis"
    over: bool = False  # Whether that has ended
    _lock: Any = field(default_factory=RLock)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While inside, nobody else runs a batch."""
        with self._lock:
            yield

    def check(self) -> None:
        """Do nothing while batches may run."""
        if self.over:
            raise InputError(f"the query that ran {self.whose} has ended: nothing of this batch counts")

    def end(self) -> None:
        """Let the batch in hand end, and have no other: whoever runs the next one may begin."""
        with self._lock:
            self.over = True


def take_lease(folder: Folder, name: str, warn: Callable[[str], None], lease: bool = True) -> Writer:
    """Return the right to commit to a folder, which is made; without ``lease`` nobody is kept out.

    ``lease``: whether others are kept out.
    """
    folder.make()
    return take(folder, name, warn, lambda: None) if lease else without_lease(folder, name)


DATA, WALL = "data", "wall"


def wall() -> int:
    """Return the time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1000


def clock_of(word: str) -> Callable[[], int] | None:
    """Return the clock that a user means by ``data`` or ``wall``; None where rows alone tell the time."""
    if word not in (DATA, WALL):
        raise InputError(f"clock is {word!r}: {DATA} or {WALL} is wanted")
    return wall if word == WALL else None
