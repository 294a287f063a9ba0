"""The subscriptions of a watch as the page shows them: those in view, at most some, and one by its id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import StoreError
from dtoss.geometry.space import Space, space_of
from dtoss.locks import Lock
from dtoss.serve.map.subscription_places import POINT_PIXELS, SubscriptionPlaces, placed_of
from dtoss.tiles.map_frame import Frame
from dtoss.watch.events.watch_document import Document, head_of
from dtoss.watch.index.large_and_small import Files, standing_of
from dtoss.watch.subscriptions.current import change_number, changes_between, table_at
from dtoss.watch.subscriptions.known_columns import asked_space
from dtoss.watch.watch_folder import Home

MOST_SHOWN = 2_000
"""Subscriptions that are drawn of a view."""
MOST_TEXT = 4_000_000
"""Bytes of GeoJSON of those: what comes after is not drawn."""
_KEPT = 3
"""Tables whose rectangles are kept."""


@dataclass(frozen=True)
class Marks:
    """What subscriptions stand for: they are read again when this has changed."""

    files: Files | None  # The last batch's; None before the first one
    change: int  # The number of the last change
    space: Space

    @property
    def text(self) -> str:
        """What a page compares."""
        names = [] if self.files is None else [self.files.base, self.files.delta]
        return "-".join([str(self.change), *(entry["name"].split(".")[0] for entry in names if entry)])


def marks_of(home: Home, head: Document | None) -> Marks:
    """Return what stands now. ``head``: its last batch; None before the first one."""
    space = head.settings.space if head is not None else asked_space(home) or space_of()
    return Marks(None if head is None else Files.of(head.standing), change_number(home), space)


@dataclass(frozen=True, eq=False)
class Fences:
    """The subscriptions that stand at a moment."""

    marks: Marks  # What they stand for
    parts: tuple[tuple[SubscriptionPlaces, NDArray[np.bool_]], ...]  # Tables, and which of their rows stand, bool (n,)

    def alive(self, clock: int | None) -> list[NDArray[np.bool_]]:
        """Return which rows of each table have not expired at a clock of the watch, in microseconds."""
        return [stands if clock is None else stands & (placed.expires > clock) for placed, stands in self.parts]

    def standing(self, clock: int | None) -> int:
        """Return how many stand at a clock."""
        return sum(int(here.sum()) for here in self.alive(clock))

    def in_view(
        self,
        frame: Frame,
        box: Sequence[float],
        zoom: float,
        clock: int | None,
        most: int = MOST_SHOWN,
        text: int = MOST_TEXT,
    ) -> dict[str, Any]:
        """Return the subscriptions of a view as :meth:`.subscription_places.SubscriptionPlaces.drawn`, and of how many.

        ``box``: west, south, east, north of the view in degrees on the map; ``most``: that are drawn: of more than
        these the ones whose ids have the lowest hashes, the same ones wherever the view is moved.

        Cost O(n) for n subscriptions, and O(corners) for those that are drawn.
        """
        alive = self.alive(clock)
        rows = [placed.meeting(frame, box) for placed, _ in self.parts]
        rows = [some[here[some]] for some, here in zip(rows, alive, strict=True)]
        part = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
        row = np.concatenate([np.zeros(0, np.int64), *rows])
        hashes = np.concatenate(
            [np.zeros(0, np.uint64), *(one.hashes[some] for (one, _), some in zip(self.parts, rows, strict=True))]
        )
        few = np.arange(len(row)) if len(row) <= most else np.argpartition(hashes, most)[:most]
        few = few[np.argsort(hashes[few], kind="stable")]
        shapes: list[tuple[int, dict[str, Any]]] = []
        written = np.zeros(len(few), np.int64)
        for number, (placed, _) in enumerate(self.parts):
            mine = part[few] == number
            written[mine] = placed.corners(row[few[mine]])
        few = few[np.cumsum(written) <= text]
        for number, (placed, _) in enumerate(self.parts):
            mine = np.flatnonzero(part[few] == number)
            shapes += zip(mine.tolist(), placed.drawn(row[few[mine]], frame, zoom, POINT_PIXELS), strict=True)
        return {
            "standing": sum(int(here.sum()) for here in alive),
            "found": len(row),
            "shown": len(few),
            "shapes": [shape for _, shape in sorted(shapes, key=lambda one: one[0])],
        }

    def of(self, prefix: str) -> Fences:
        """Return those whose ids begin so, as if there were no others. Cost O(n)."""
        parts = [
            (placed, stands & np.asarray(pc.starts_with(placed.table.column("id"), prefix)))
            for placed, stands in self.parts
        ]
        return Fences(self.marks, tuple(parts))

    def row_of(self, id: str, clock: int | None) -> tuple[SubscriptionPlaces, int] | None:
        """Return where a subscription is that stands at a clock; None where there is none of the id."""
        for (placed, _), here in zip(self.parts, self.alive(clock), strict=True):
            same = np.asarray(pc.equal(placed.table.column("id"), id))
            found = np.flatnonzero(same & here)
            if len(found):
                return placed, int(found[0])
        return None


class FenceSource:
    """Reads what stands when it has changed; thread-safe."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._reading = Lock()
        self._held: Fences | None = None
        self._placed: dict[str, SubscriptionPlaces] = {}

    def now(self) -> tuple[Fences, int | None]:
        """Return what stands, and the clock of the watch.

        Where nothing has changed two small files are read. Cost O(n) at a new base of n subscriptions, else O(those
        that came since).
        """
        for attempt in range(2):
            head = head_of(self.home)
            marks = marks_of(self.home, head)
            clock = None if head is None else head.clock
            try:
                with self._reading:
                    if self._held is None or self._held.marks != marks:
                        self._held = Fences(marks, tuple(self._parts(marks)))
                    return self._held, clock
            except StoreError:
                if attempt:  # files of a batch before may have gone meanwhile
                    raise
        raise AssertionError

    def _parts(self, marks: Marks) -> list[tuple[SubscriptionPlaces, NDArray[np.bool_]]]:
        files, space = marks.files, marks.space
        if files is None:
            return [_all_of(placed_of(table_at(self.home, marks.change), space))]
        found: list[tuple[SubscriptionPlaces, NDArray[np.bool_]]] = []
        delta = changes_between(self.home, files.number, marks.change)
        if not delta.replaced:
            standing = standing_of(self.home, files)
            names = [entry["name"] for entry in (files.base, files.delta) if entry is not None]
            for name, (first, built) in zip(names, standing.parts, strict=True):
                if name not in self._placed:
                    self._placed[name] = placed_of(built.table, built.space, built)
                placed = self._placed[name]
                stands = standing.stands[first : first + len(built)]
                if len(delta.removed):
                    stands = stands & ~np.asarray(pc.is_in(placed.table.column("id"), value_set=delta.removed))
                found.append((placed, stands))
            for name in [name for name in self._placed if name not in names][: max(len(self._placed) - _KEPT, 0)]:
                del self._placed[name]
        if len(delta.table):
            found.append(_all_of(placed_of(delta.table, space)))
        return found


def _all_of(placed: SubscriptionPlaces) -> tuple[SubscriptionPlaces, NDArray[np.bool_]]:
    return placed, np.ones(len(placed), np.bool_)
