"""Which snapshots are open: the one that answers, and the one before it for those who still page through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dtoss.index import Index
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.request_options import GIVEN
from dtoss.serve.tiles.snapshot_facts import MapFacts
from dtoss.serve.tiles.tiling import Tiles

if TYPE_CHECKING:
    from dtoss.conditions.matching_objects import Filter
    from dtoss.queries.cell_of import CellView
    from dtoss.serve.core.served_conditions import Conditions
    from dtoss.shards.share import Share

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
    def cells(self) -> CellView:
        """What cells of objects are drawn by: at borders those of other partitions count, too."""
        return self.whole._view

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
    def beginning(self) -> bytes:
        """How the JSON of its hits begins."""
        return b'{"snapshot":"%s","hits":' % self.name.encode()


class Serving:
    """The open snapshots of a worker; what answers is replaced between two turns of the loop.

    ``first``: the first to be served.
    """

    def __init__(self, first: ServedSnapshot) -> None:
        self.now = first
        self.before: ServedSnapshot | None = None
        self.refused: str | None = None
        self.opened: dict[str, ServedSnapshot] = {}  # by name: those that another server has asked for

    def named(self, name: str | None) -> ServedSnapshot:
        """Return the open snapshot of a name, the one that answers when None."""
        if name is None and (given := GIVEN.get()) is not None:
            name = given.snapshot
        if name is None or name == self.now.name:
            return self.now
        found = self.open_one(name)
        if found is not None:
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
        return self.before if self.before is not None and self.before.name == name else None

    def names(self) -> list[str]:
        """Return the names of all snapshots that are open, the one that answers first."""
        some = (self.now, self.before, *self.opened.values())
        return list(dict.fromkeys(served.name for served in some if served is not None))

    def replace(self, fresh: ServedSnapshot) -> None:
        """Let a snapshot answer from now on; the one before stays open."""
        if fresh.name != self.now.name:
            self.before = self.now
        self.now = fresh
        self.refused = None
