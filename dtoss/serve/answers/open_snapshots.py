"""Which snapshots are open, and conditions that are evaluated on them: in the pool, a few at a time.

What a request says of which of them answers, and of how several servers are to.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dtoss.index import Index
from dtoss.serve.core.problems import Problem
from dtoss.serve.tiles.tiling import MapFacts, Tiles

if TYPE_CHECKING:
    from dtoss.conditions.matching_objects import Filter
    from dtoss.queries.cell_of import CellView
    from dtoss.shards.share import Share


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


SEQ_HEADER = b"dtoss-seq"
"""Says up to which sequence number of a log an answer holds all rows."""
ANSWERING: ContextVar[ServedSnapshot | None] = ContextVar("answering", default=None)
"""What the request in hand is answered from, also where the answer is that something is wrong."""
OPEN_SECONDS, OPEN_GENERATIONS = 10.0, 8
"""For which a generation stays open for those who page through it, and how many do: who goes on asking keeps his."""
KEPT_NARROW = 8
"""Conditions of tokens that a snapshot keeps a map for."""


@dataclass(frozen=True, eq=False)
class ServedSnapshot:
    """A snapshot that is open, verified and warm."""

    index: Index
    name: str
    commit: int  # The number of the commit that made it current
    made: float  # When it was made, seconds since 1970
    conditions: Conditions  # Those that were evaluated on it
    facts: Mapping[str, Any]  # What ``/snapshot`` tells of it, but for its age
    # What a map shows of it; made when None
    tiles: Tiles = field(default=None)  # type: ignore[assignment]
    # What the page is told of it; made when None
    map_facts: MapFacts = field(default=None)  # type: ignore[assignment]
    # What its manifest says, but for its partitions and what was read of its sources
    manifest: Mapping[str, Any] = field(default_factory=dict)
    # What this server holds of it, where it answers together with others: ``index`` is of that alone. None where it
    # holds all
    share: Share | None = None

    def __post_init__(self) -> None:
        if self.tiles is None:
            object.__setattr__(self, "tiles", Tiles(self.index))
        if self.map_facts is None:
            object.__setattr__(self, "map_facts", MapFacts(self.index, self.tiles))

    @property
    def whole(self) -> Index:
        """The index of all partitions, of which a share opens only its own."""
        return self.index if self.share is None else self.share.index

    @property
    def generation(self) -> Index | None:
        """The index of all partitions of a generation, of which the next one takes those that are the same."""
        return None if self.seq is None else self.whole

    @property
    def cells(self) -> CellView:
        """What cells of objects are drawn by: at borders those of other partitions count, too."""
        return self.whole.engine.view

    def narrow_tiles(self, seen: Filter) -> Tiles:
        """Return what a map shows of the objects that satisfy a condition alone; the latest ones are kept."""
        return self._narrow(seen)[0]

    def narrow_map(self, seen: Filter) -> MapFacts:
        """Return what the page is told of the objects that satisfy a condition alone."""
        return self._narrow(seen)[1]

    def _narrow(self, seen: Filter) -> tuple[Tiles, MapFacts]:
        kept, text = self._narrowed, seen.condition.text
        found = kept.get(text)
        if found is None:
            tiles = Tiles(self.index, among=seen)
            found = kept.setdefault(text, (tiles, MapFacts(self.index, tiles)))
            for old in [*kept][:-KEPT_NARROW]:
                kept.pop(old, None)
        return found

    @cached_property
    def _narrowed(self) -> dict[str, tuple[Tiles, MapFacts]]:
        return {}

    @cached_property
    def seq(self) -> int | None:
        """The sequence number up to which it holds all rows of a log; None where it is no generation."""
        fresh = self.facts.get("fresh")
        return None if fresh is None else int(fresh["seq"])

    @property
    def writer(self) -> int | None:
        """The server of a plan that has made it, and writes the log; None where each server makes its own."""
        fresh = self.facts.get("fresh")
        return None if fresh is None else fresh.get("server")

    @property
    def commit_of_base(self) -> int | None:
        """The commit of the store upon whose snapshot it stands, of a generation."""
        fresh = self.facts.get("fresh")
        return None if fresh is None else int(fresh["commit"])

    @cached_property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What the headers of an answer say of it."""
        seq = [] if self.seq is None else [(SEQ_HEADER, b"%d" % self.seq)]
        return [(b"x-dtoss-snapshot", self.name.encode()), *seq]

    @cached_property
    def header_lines(self) -> bytes:
        """These headers as they are written."""
        return b"".join(b"%b: %b\r\n" % header for header in self.headers)

    @cached_property
    def beginning(self) -> bytes:
        """How the JSON of its hits begins."""
        return b'{"snapshot":"%s","hits":' % self.name.encode()


@dataclass(eq=False)
class ClusterOptions:
    """What a request says of how it is to be answered by several servers."""

    partial: bool = False  # Whether an answer may lack what is held by nobody who answers
    snapshot: str | None = None  # Which one answers, where it does not name one
    missing: set[int] = field(default_factory=set)  # Partitions that the answer lacks
    asker: str = ""  # The name of the token of who asks


GIVEN: ContextVar[ClusterOptions | None] = ContextVar("given", default=None)
"""Of the request in hand."""


class Serving:
    """The open snapshots of a worker; what answers is replaced between two turns of the loop."""

    def __init__(self, first: ServedSnapshot) -> None:
        self.now = first
        self.before: ServedSnapshot | None = None
        self.refused: str | None = None
        self.opened: dict[str, ServedSnapshot] = {}  # by name: those that another server has asked for
        self._kept: dict[str, tuple[ServedSnapshot, float]] = {}  # generations, and when each was last asked for
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # for rows of these sequence numbers

    def named(self, name: str | None) -> ServedSnapshot:
        """Return the open snapshot of a name, the one that answers when None."""
        if name is None and (given := GIVEN.get()) is not None:
            name = given.snapshot
        found = self.now if name is None or name == self.now.name else self.open_one(name)
        if found is not None:
            ANSWERING.set(found)
            return found
        known = [served.name for served in (self.now, self.before) if served is not None]
        raise Problem(
            410,
            f"snapshot {name!r} is not open any more: ask again without it, or name one of {', '.join(known)}",
            limit="snapshot",
            value=name,
            bound=known,
        )

    def open_one(self, name: str) -> ServedSnapshot | None:
        """Return a snapshot that is open, None where it is not.

        One that was opened for others comes before that which answered before: it holds what a later plan says.
        """
        if name == self.now.name:
            return self.now
        if (found := self.opened.get(name)) is not None:
            return found
        if name in self._kept:
            found, _ = self._kept.pop(name)  # behind all others
            self._kept[name] = found, time.monotonic()
            return found
        return self.before if self.before is not None and self.before.name == name else None

    def all(self) -> list[ServedSnapshot]:
        """Return all snapshots that are open, the one that answers first."""
        some = (self.now, self.before, *self.opened.values(), *(kept for kept, _ in [*self._kept.values()]))
        return list({served.name: served for served in reversed(some) if served is not None}.values())[::-1]

    def names(self) -> list[str]:
        """Return the names of all snapshots that are open, the one that answers first."""
        return [served.name for served in self.all()]

    def replace(self, fresh: ServedSnapshot) -> list[ServedSnapshot]:
        """Let a snapshot answer from now on; the one before stays open. Return generations that are let go."""
        if fresh.name != self.now.name:
            self.before = self.now
        if self.now.seq is not None:
            self._kept[self.now.name] = self.now, time.monotonic()
        self.now = fresh
        self.refused = None
        for seq, waiting in self._waiting:
            if self.reaches(seq) and not waiting.done():
                waiting.set_result(None)
        return self._let_go()

    def _let_go(self) -> list[ServedSnapshot]:
        """Take away generations that nobody has asked for lately, and those beyond a number."""
        since = time.monotonic() - OPEN_SECONDS
        going = [name for name, (_, asked) in self._kept.items() if asked < since]
        going += [name for name in self._kept if name not in going][:-OPEN_GENERATIONS]
        return [self._kept.pop(name)[0] for name in going]

    def reaches(self, seq: int) -> bool:
        """Return whether what answers holds all rows up to a sequence number."""
        return self.now.seq is not None and self.now.seq >= seq

    async def reach(self, seq: int, seconds: float) -> bool:
        """Wait until what answers holds all rows up to a sequence number; return whether it does by then."""
        if not self.reaches(seq):
            waiting = seq, asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(waiting[1], seconds)
            finally:
                self._waiting.remove(waiting)
        return self.reaches(seq)
