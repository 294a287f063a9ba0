"""Which snapshots are open: the one that answers, and the one before it for those who still page through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dtoss.index import Index
from dtoss.serve.page.facts import MapFacts
from dtoss.serve.page.tiling import Tiles
from dtoss.serve.problems import Problem

if TYPE_CHECKING:
    from dtoss.serve.conditions import Conditions


@dataclass(frozen=True, eq=False)
class Served:
    """A snapshot that is open, verified and warm.

    Parameters
    ----------
    index
        What answers.
    name
        Of the snapshot.
    commit
        The number of the commit that made it current.
    made
        When it was made, seconds since 1970.
    conditions
        Those that were evaluated on it.
    facts
        What ``/snapshot`` tells of it, but for its age.
    tiles
        What a map shows of it; made when None.
    map_facts
        What the page is told of it; made when None.
    """

    index: Index
    name: str
    commit: int
    made: float
    conditions: Conditions
    facts: Mapping[str, Any]
    tiles: Tiles = field(default=None)  # type: ignore[assignment]
    map_facts: MapFacts = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.tiles is None:
            object.__setattr__(self, "tiles", Tiles(self.index))
        if self.map_facts is None:
            object.__setattr__(self, "map_facts", MapFacts(self.index, self.tiles))

    @cached_property
    def beginning(self) -> bytes:
        """How the JSON of its hits begins."""
        return b'{"snapshot":"%s","hits":' % self.name.encode()


class Serving:
    """The open snapshots of a worker; what answers is replaced between two turns of the loop.

    Parameters
    ----------
    first
        The first to be served.
    """

    def __init__(self, first: Served) -> None:
        self.now = first
        self.before: Served | None = None
        self.refused: str | None = None

    def named(self, name: str | None) -> Served:
        """Return the open snapshot of a name, the one that answers when None.

        Raises
        ------
        Problem
            410 if it is not open.
        """
        if name is None or name == self.now.name:
            return self.now
        if self.before is not None and name == self.before.name:
            return self.before
        known = [served.name for served in (self.now, self.before) if served is not None]
        raise Problem(
            410,
            f"snapshot {name!r} is not open any more: ask again without it, or name one of {', '.join(known)}",
            limit="snapshot",
            value=name,
            bound=known,
        )

    def replace(self, fresh: Served) -> None:
        """Let a snapshot answer from now on; the one before stays open."""
        if fresh.name != self.now.name:
            self.before = self.now
        self.now = fresh
        self.refused = None
