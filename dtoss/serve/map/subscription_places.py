"""Subscriptions of one table on the map: which of them a view meets, and how they are drawn."""

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
from dtoss.geometry.space import HALF_TURN, Space
from dtoss.tiles.drawings import (
    TILE_PIXELS,
    Drawing,
    drawn_boxes,
    drawn_circles,
    drawn_polygons,
)
from dtoss.tiles.map_frame import Frame
from dtoss.tiles.sample import hashes_of
from dtoss.watch.index.covers import box_rects, circle_rects, polygon_rects
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, POLYGON
from dtoss.watch.subscriptions.json_text import polygons_kept

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
