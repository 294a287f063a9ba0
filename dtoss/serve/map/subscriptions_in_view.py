"""The subscriptions of a watch as the page shows them: those in view, how they are drawn, and one by its id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import one_chunk
from dtoss.errors import StoreError
from dtoss.geometry.space import HALF_TURN, Space, space_of
from dtoss.locks import Lock
from dtoss.tiles.drawings import TILE_PIXELS, Drawing, drawn_boxes, drawn_circles, drawn_polygons
from dtoss.tiles.map_frame import Frame
from dtoss.tiles.sample import hashes_of
from dtoss.watch.events.watch_document import Document, head_of
from dtoss.watch.index.covers import box_rects, circle_rects, polygon_rects
from dtoss.watch.index.large_and_small import Files, standing_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON
from dtoss.watch.subscriptions.current import change_number, changes_between, table_at
from dtoss.watch.subscriptions.known_columns import asked_space
from dtoss.watch.subscriptions.subscription_text import polygons_kept
from dtoss.watch.watch_folder import Home

POINT_PIXELS = 4.0
"""What is smaller is drawn as a point."""
_FULL_TURN = 2.0 * HALF_TURN
_LOOKED_AT = 9
"""Places along each side of a view of which its box in another CRS is made."""
_BEND = 0.05
"""Share of its sides by which that box is wider."""
_NEVER = np.iinfo(np.int64).max
_SIDES = ("west", "south", "east", "north")


@dataclass(frozen=True, eq=False)
class SubscriptionPlaces:
    """Subscriptions and the rectangles that hold their places."""

    table: pa.Table  # Of :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`, n rows
    space: Space
    # float64 (p, 4). Of the parts of places: west, south, east, north in degrees, west greater than east across the
    # antimeridian; of a plane xmin, ymin, xmax, ymax
    rects: NDArray[np.float64]
    owner: NDArray[np.int64]  # int64 (p,), rising. The row that a part is of; what has no place has none
    hashes: NDArray[np.uint64]  # uint64 (n,). Of the ids: those with the lowest ones are shown where there are too many
    expires: NDArray[np.int64]  # int64 (n,). When each ends, in microseconds since 1970

    def __len__(self) -> int:
        return len(self.table)

    def meeting(self, frame: Frame, box: Sequence[float]) -> NDArray[np.int64]:
        """Return the rows whose places may meet a view, rising. Cost O(p).

        ``box``: west, south, east and north of the view, in degrees on the map; an east above 180 is beyond the
        antimeridian.
        """
        if self.space.metric == "sphere":
            met = _meets_degrees(self.rects, box)
        else:
            inside = _box_in_plane(frame, box)
            if inside is None:
                return np.unique(self.owner)
            xmin, ymin, xmax, ymax = inside
            x0, y0, x1, y1 = self.rects.T
            met = (x0 <= xmax) & (x1 >= xmin) & (y0 <= ymax) & (y1 >= ymin)
        rows = self.owner[met]
        return rows[np.append(True, rows[1:] != rows[:-1])[: len(rows)]]

    def corners(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many bytes the polygons of some rows are as text, int64 (m,): what drawing them costs."""
        found = pc.binary_length(self.table.column("polygon").take(pa.array(rows)))
        return np.asarray(pc.fill_null(found, 0).to_numpy()).astype(np.int64)

    def drawn(self, rows: NDArray[np.int64], frame: Frame, zoom: float, smallest: float) -> list[dict[str, Any]]:
        """Return some rows as a page draws them.

        A dict has ``id`` and either ``at``, a place in degrees, or ``fill`` and ``edges``, the coordinates of a
        MultiPolygon and a MultiLineString; without ``edges`` they are the rings of ``fill``.
        """
        rects = self.rects[np.searchsorted(self.owner, rows)]
        several = np.searchsorted(self.owner, rows, "right") - np.searchsorted(self.owner, rows) > 1
        low, high = _on_map(frame, self.space, rects)
        pixels = np.abs(high - low).max(axis=1, initial=0.0) * TILE_PIXELS * 2.0**zoom
        # a place of no extent is a point however near it is seen
        point = ~several & ((pixels < smallest) | (pixels < POINT_PIXELS / TILE_PIXELS))
        middles = _middles(frame, self.space, rects).round(7).tolist()
        said = self.table.select(["id", "kind", "x", "y", "radius", *_SIDES, "polygon"]).take(pa.array(rows))
        kind = np.asarray(said.column("kind").to_numpy())
        found: list[dict[str, Any]] = [{"id": id} for id in said.column("id").to_pylist()]
        for row in np.flatnonzero(point).tolist():
            found[row]["at"] = middles[row]
        for wanted, draw in (
            ((CIRCLE, AROUND), partial(_circles, self.space)),
            ((BOX,), partial(_boxes, self.space)),
            ((POLYGON,), partial(_polygons, self.space)),
        ):
            mine = np.flatnonzero(np.isin(kind, wanted) & ~point)
            if len(mine):
                for row, drawing in zip(mine.tolist(), draw(frame, said.take(pa.array(mine)), zoom), strict=True):
                    found[row] |= _told(drawing)
        return found

    def view(self, row: int, frame: Frame) -> list[float] | None:
        """Return west, south, east and north on the map of a row's place; None where it has none."""
        rects = self.rects[np.searchsorted(self.owner, row) : np.searchsorted(self.owner, row, "right")]
        if not len(rects):
            return None
        if self.space.metric == "sphere":
            west, south, east, north = rects.T
            east = east + np.where(west > east, _FULL_TURN, 0.0)
            turns = _FULL_TURN * np.rint((west[0] - west) / _FULL_TURN)
            box = [(west + turns).min(), south.min(), (east + turns).max(), north.max()]
        else:
            share = np.linspace(0.0, 1.0, _LOOKED_AT)
            low, high = rects[:, :2].min(axis=0), rects[:, 2:].max(axis=0)
            places = low + np.stack(np.meshgrid(share, share), axis=-1).reshape(-1, 2) * (high - low)
            lonlat = frame.lonlat_of(places)
            if np.isnan(lonlat).all():
                return None
            box = [*np.nanmin(lonlat, axis=0), *np.nanmax(lonlat, axis=0)]
        return [round(float(side), 7) for side in box]


def placed_of(table: pa.Table, space: Space, built: SubscriptionIndex | None = None) -> SubscriptionPlaces:
    """Return the subscriptions of a table. Cost O(n + v) for v corners of polygons.

    ``built``: the index of the same table: its polygons are read already.
    """
    table = table.combine_chunks()
    kind = np.asarray(table.column("kind").to_numpy())
    x, y, radius = (np.asarray(table.column(name).to_numpy(), np.float64) for name in ("x", "y", "radius"))
    round_ = np.flatnonzero(((kind == CIRCLE) | (kind == AROUND)) & ~np.isnan(x))
    centres = np.stack([x, y], axis=1)[round_]
    circles = circle_rects(centres, space.vectors(centres), radius[round_], space)
    flat = np.flatnonzero(kind == BOX)
    sides = np.stack([np.asarray(table.column(name).to_numpy(), np.float64)[flat] for name in _SIDES], axis=1)
    boxes = box_rects(sides, space) if len(flat) else sides
    owner, zones = _polygons_of(table, kind, space, built)
    owners = np.concatenate([round_, flat, owner]).astype(np.int64)
    order = np.argsort(owners, kind="stable")
    rects = np.concatenate([circles, boxes, zones])[order]
    ids = table.column("id").cast(pa.large_string())
    expires = np.asarray(pc.fill_null(table.column("expires"), _NEVER).to_numpy())
    return SubscriptionPlaces(table, space, rects, owners[order], hashes_of(one_chunk(ids)), expires)


def _polygons_of(
    table: pa.Table, kind: NDArray[Any], space: Space, built: SubscriptionIndex | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the row of each polygon, and the rectangles that hold them."""
    rows = np.flatnonzero(kind == POLYGON)
    if not len(rows):
        return rows, np.zeros((0, 4))
    if built is not None and len(built.arrays["parts"]):
        return np.repeat(np.arange(len(table)), np.diff(built.arrays["parts"])), built.arrays["polygon/rects"]
    shapes = polygons_kept(table.column("polygon").take(pa.array(rows)).to_pylist(), space)
    rects = polygon_rects([polygon for shape in shapes for polygon in shape], space)
    return np.repeat(rows, [len(shape) for shape in shapes]), rects


def _meets_degrees(rects: NDArray[np.float64], box: Sequence[float]) -> NDArray[np.bool_]:
    west, south, east, north = box
    met = (rects[:, 1] <= north) & (rects[:, 3] >= south)
    if east - west >= _FULL_TURN:
        return met
    rows = np.flatnonzero(met)
    begin, end = rects[rows, 0], rects[rows, 2]
    wide = np.where(begin > end, end + _FULL_TURN, end) - begin
    met[rows] = ((begin - west) % _FULL_TURN <= east - west) | ((west - begin) % _FULL_TURN <= wide)
    return met


def _box_in_plane(frame: Frame, box: Sequence[float]) -> list[float] | None:
    """Return a box of a plane that holds a view; None where the view reaches beyond the CRS."""
    west, south, east, north = box
    share = np.linspace(0.0, 1.0, _LOOKED_AT)
    lon, lat = np.meshgrid(west + share * (east - west), south + share * (north - south))
    places = frame.positions_of(np.stack([lon, lat], axis=-1).reshape(-1, 2))
    if np.isnan(places).any():
        return None
    low, high = places.min(axis=0), places.max(axis=0)
    more = (high - low) * _BEND
    return [*(low - more).tolist(), *(high + more).tolist()]


def _on_map(frame: Frame, space: Space, rects: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two opposite corners of rectangles in the map's square, (m, 2) each; x may go on past its sides."""
    low, high = rects[:, :2], rects[:, 2:]
    if space.metric == "plane":
        return np.nan_to_num(frame.world_of(low)), np.nan_to_num(frame.world_of(high))
    whole = Frame(Space("EPSG:4326", "sphere"), None)
    corners = [whole.world_of(side) for side in (low, high)]
    corners[1][:, 0] += low[:, 0] > high[:, 0]
    return corners[0], corners[1]


def _middles(frame: Frame, space: Space, rects: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middles of rectangles in degrees on the map."""
    middles = 0.5 * (rects[:, :2] + rects[:, 2:])
    if space.metric == "plane":
        return frame.lonlat_of(middles)
    middles[:, 0] += np.where(rects[:, 0] > rects[:, 2], HALF_TURN, 0.0)
    middles[:, 0] -= np.where(middles[:, 0] > HALF_TURN, _FULL_TURN, 0.0)
    return middles


def _circles(space: Space, frame: Frame, said: pa.Table, zoom: float) -> list[Drawing]:
    x, y, radius = (np.asarray(said.column(name).to_numpy(), np.float64) for name in ("x", "y", "radius"))
    return drawn_circles(frame, space, space.vectors(np.stack([x, y], axis=1)), radius, zoom)


def _boxes(space: Space, frame: Frame, said: pa.Table, zoom: float) -> list[Drawing]:
    sides = np.stack([np.asarray(said.column(name).to_numpy(), np.float64) for name in _SIDES], axis=1)
    return drawn_boxes(frame, space, sides, zoom)


def _polygons(space: Space, frame: Frame, said: pa.Table, zoom: float) -> list[Drawing]:
    return drawn_polygons(frame, polygons_kept(said.column("polygon").to_pylist(), space), zoom)


def _told(drawing: Drawing) -> dict[str, Any]:
    rings = [ring for piece in drawing.fill for ring in piece]
    return {"fill": drawing.fill} if rings == drawing.edges else {"fill": drawing.fill, "edges": drawing.edges}


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
        """Return the subscriptions of a view as :meth:`SubscriptionPlaces.drawn`, and of how many.

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
