"""Pages in the order of ids: of objects, and of cells and regions with their polygons. The latter need shapely.

A page begins where an id says, and keeps nothing of the one before. Where a box holds few objects they are searched
for and sorted, where it holds many, ids are walked through in their order: so no page costs much more than the square
root of all objects, however many there are behind it.

A cell is known by the lowest id on its place. Of the places in a disc of radius r round c the nearest object is at most
2 r + d away from c, d being the distance from c to the nearest object of all: so no cell that reaches into a box is of
an object further from the discs that cover the box.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyproj
from numpy.typing import NDArray

from dtoss.column_rows import join_rows, take_rows
from dtoss.conditions.matching_objects import Filter
from dtoss.errors import InputError
from dtoss.export.cell_rings import cells_at
from dtoss.export.clip import Boundary, boundary_of
from dtoss.export.export_layers import Columns, Drawing, drawn_cells, drawn_crs, planar_regions
from dtoss.export.geojson import polygons_in_degrees
from dtoss.export.planar import PLANAR_TOLERANCE
from dtoss.extras import need
from dtoss.geometry.space import LONLAT, Space, same_crs
from dtoss.index import Index
from dtoss.partition import Partition
from dtoss.queries.covered import Shape, boxes_of, search_within
from dtoss.queries.gather import take_positions
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.core.pool import Stop
from dtoss.tiles.map_frame import Frame

Box: TypeAlias = tuple[float, float, float, float]
"""West, south, east, north in degrees; a west greater than the east crosses the antimeridian."""
DEGREES = Space(LONLAT, "sphere")
FEWEST_IDS, MOST_IDS = 16, 4_096
"""Ids of a partition that are looked at in a step: the first ones, and the last ones."""


@dataclass(frozen=True, eq=False)
class Items:
    """Objects by id, ascending, each once."""

    part: NDArray[np.integer]  # (n,). Their partitions, and their numbers there
    item: NDArray[np.integer]
    ids: NDArray[Any]  # int64 or strings

    def __len__(self) -> int:
        return len(self.part)

    take = take_rows

    @property
    def hits(self) -> RawHits:
        """The same as raw hits of one query."""
        ids = None if self.ids.dtype == object else self.ids
        none, size = np.zeros(len(self)), np.array([len(self)])
        return RawHits(size, self.part.astype(np.int32), self.item.astype(np.int32), none, ids, np.zeros(1, np.int32))


Kept: TypeAlias = Callable[[Items], NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Choice:
    """Which objects there are pages of."""

    index: Index
    frame: Frame
    box: Box | None = None
    where: str | None = None  # A condition, evaluated already
    seen: Filter | None = None  # The same

    @property
    def most(self) -> int:
        """How many they are at the most."""
        return len(self.index) if self.seen is None else self.seen.count

    def shapes(self) -> list[list[Shape]]:
        """Return the box as what is searched within."""
        return boxes_of([] if self.box is None else [self.box], DEGREES)

    def holds(self, items: Items) -> NDArray[np.bool_]:
        """Return which objects are among them, bool (n,)."""
        kept = np.ones(len(items), np.bool_) if self.seen is None else self.seen.holds(items.part, items.item)
        for (shape,) in self.shapes():
            positions = self.frame.lonlat_of(take_positions(self.index.parts, items.part, items.item))
            kept &= shape.holds(positions, positions)
        return kept


def page_of(choice: Choice, after: Any, most: int, stop: Stop) -> tuple[Items, int | None]:
    """Return the first objects of a choice whose ids are above one, so many at the most, and how many there are in all.

    ``after``: None is before all of them. The number is None where it would take a search through all objects.
    """
    index = choice.index
    if choice.box is None:
        return first_of(ids_in_order(index, after, most), choice.holds, most, stop), choice.most
    if index.space.geographic:
        shapes = choice.shapes()
        discs = shapes[0][0].discs
        held = int(index.search_vectors(discs.centres, discs.radii, -1, choice.where).count.sum())
        stop.check()
        if held * held <= most * max(choice.most, 1):
            found = items_of(index, search_within(
                shapes, lambda at, radii: index.search_vectors(at, radii, 0, choice.where), index.parts, index.space,
                index.string_ids,
            ))  # fmt: skip
            return behind(found, after).take(slice(0, most)), len(found)
    return first_of(ids_in_order(index, after, most), choice.holds, most, stop), None


def first_of(steps: Iterator[Items], holds: Kept, most: int, stop: Stop) -> Items:
    """Return the first objects of those that pass a test, so many at the most."""
    found: list[Items] = []
    count = 0
    for items in steps:
        stop.check()
        found.append(items.take(holds(items)))
        count += len(found[-1])
        if count >= most:
            break
    return join_items(found).take(slice(0, most))


def ids_in_order(index: Index, after: Any, about: int) -> Iterator[Items]:
    """Yield all objects whose ids are above one, in the order of ids, some at a time; about so many are wanted."""
    partitions = index.parts.all()
    begins = [_place_of(partition, after) for partition in partitions]
    size = max(2 * about // len(partitions), FEWEST_IDS)
    while True:
        steps = [
            (partition, partition.id_order[begin : begin + size])
            for partition, begin in zip(partitions, begins, strict=True)
            if begin < partition.owned_objects
        ]
        if not steps:
            return
        ids = [_ids_at(partition, rows) for partition, rows in steps]
        # above the last id of a partition that has more, there may be others of it before the next one here
        ends = [
            some[-1] for (one, _), some in zip(steps, ids, strict=True) if begins[one.number] + size < len(one.id_order)
        ]
        sizes = [len(some) if not ends else int(np.searchsorted(some, min(ends), side="right")) for some in ids]
        whole = [
            Items(np.full(count, partition.number, np.int32), rows[:count], some[:count])
            for (partition, rows), some, count in zip(steps, ids, sizes, strict=True)
        ]
        items = join_items(whole)
        yield items.take(np.argsort(items.ids, kind="stable"))
        for (partition, _), count in zip(steps, sizes, strict=True):
            begins[partition.number] += count
        size = min(2 * size, MOST_IDS)


def items_of(index: Index, found: RawHits) -> Items:
    """Return raw hits that come by id as objects."""
    ids = index.ids_of(found) if found.ids is None else found.ids
    return Items(found.part, found.item, as_array(ids))


def behind(items: Items, after: Any) -> Items:
    """Return those whose ids are above one."""
    return items if after is None else items.take(slice(int(np.searchsorted(items.ids, after, side="right")), None))


def join_items(some: list[Items]) -> Items:
    """Return objects one after another."""
    return join_rows(some or [Items(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))])


def _place_of(partition: Partition, after: Any) -> int:
    """Return how many owned objects have an id that is not above one."""
    order, ids = partition.id_order, partition.ids
    if after is None:
        return 0
    return bisect_right(range(len(order)), after, key=lambda at: as_array(ids[order[at] : order[at] + 1])[0])


def _ids_at(partition: Partition, rows: NDArray[np.int32]) -> NDArray[Any]:
    ids = partition.ids
    return as_array(ids.take(pa.array(rows))) if isinstance(ids, pa.Array) else ids[rows]


def as_array(ids: Any) -> NDArray[Any]:
    """Return ids, which may be Arrow's, as int64 or strings."""
    return ids.to_numpy(zero_copy_only=False).astype(object) if isinstance(ids, pa.Array) else ids


DRAWN_AT_ONCE = 256
"""Cells that are drawn at the most before it is asked whether anybody still waits."""
_MORE = 1.0 + 1e-9
"""Times a distance is more than rounding."""


def cells_page(choice: Choice, after: Any, most: int, stop: Stop) -> tuple[Items, int | None]:
    """Return the objects after whom cells are called, as :func:`.pages_by_id.page_of`: of cells that meet the box."""
    index = choice.index
    if choice.box is None:
        steps = ids_in_order(index, after, most)
        return first_of(steps, lambda items: _names_cell(index, items), most, stop), index.sites
    if not index.space.geographic:
        raise InputError(f"cells of {index.crs} are not found by bbox: leave it out, or ask for objects")
    boundary = boundary_of(choice.box, DEGREES)

    def meets(items: Items) -> NDArray[np.bool_]:
        kept = _names_cell(index, items)
        rows = np.flatnonzero(kept)
        inside = choice.holds(items.take(rows))
        outside = rows[~inside]
        kept[outside] = reach_into(polygons_of(index, items.take(outside)), boundary)
        return kept

    near = _near(choice, after)
    steps = ids_in_order(index, after, most) if near is None else iter([near])
    return first_of(_small_steps(steps, min(most, DRAWN_AT_ONCE)), meets, most, stop), None


def _near(choice: Choice, after: Any) -> Items | None:
    """Return the objects whose cells may meet the box; None where these are most of all."""
    index, discs = choice.index, choice.shapes()[0][0].discs
    nearest = index.search_vectors(discs.centres, np.full(len(discs.radii), np.inf), 1).distance
    if not len(nearest):
        return join_items([])
    radii = (2.0 * discs.radii + nearest) * _MORE
    if 2 * int(index.search_vectors(discs.centres, radii, -1).count.sum()) > len(index):
        return None
    found = items_of(index, index.search_vectors(discs.centres, radii, 0))
    return behind(found.take(np.unique(found.ids, return_index=True)[1]), after)


def _small_steps(steps: Iterator[Items], size: int) -> Iterator[Items]:
    """Yield objects so many at a time: none is drawn that a page does not need."""
    return (items.take(slice(at, at + size)) for items in steps for at in range(0, len(items), size))


def _names_cell(index: Index, items: Items) -> NDArray[np.bool_]:
    """Return which objects are the first ones on their places, bool (n,)."""
    first = np.zeros(len(items), np.bool_)
    for number in np.unique(items.part).tolist():
        rows, begins = items.part == number, index.parts[number].first_object
        first[rows] = begins[np.searchsorted(begins, items.item[rows])] == items.item[rows]
    return first


def polygons_of(index: Index, items: Items) -> NDArray[Any]:
    """Return the cells of objects in degrees, shapely polygons, object (n,); None where nothing is left of one."""
    return cells_of(index, items)[1]


def cells_of(index: Index, items: Items) -> tuple[dict[str, list[Any]], NDArray[Any]]:
    """Return what is told of the cells of objects, and their polygons in degrees."""
    view = index.engine.view
    told: dict[str, list[Any]] = {name: [None] * len(items) for name in ("objects", "area", "neighbours", "partition")}
    shapes = np.full(len(items), None, object)
    for number in np.unique(items.part).tolist():
        rows, partition = np.flatnonzero(items.part == number), index.parts[number]
        sites = np.searchsorted(partition.first_object, items.item[rows], side="right") - 1
        columns, made, _ = drawn_cells(view, partition, cells_at(view, partition, sites), Drawing(True))
        shapes[rows] = made
        for name, values in told.items():
            for row, value in zip(rows.tolist(), columns[name].to_pylist(), strict=True):
                values[row] = value
    return told, in_degrees(shapes, index.space)


def regions_of(index: Index) -> tuple[Columns, NDArray[Any]]:
    """Return the columns of all regions, and their polygons in degrees. Cost O(P^2) of P partitions."""
    bounds = None if index.bounds is None else np.array(index.bounds)
    columns, shapes = planar_regions(index.partitioning, bounds, index.parts, Drawing(True))
    return columns, in_degrees(shapes, index.space)


def regions_page(shapes: NDArray[Any], box: Box | None) -> NDArray[np.int64]:
    """Return the numbers of the regions that meet a box."""
    if box is None:
        return np.arange(len(shapes))
    return np.flatnonzero(reach_into(shapes, boundary_of(box, DEGREES)))


def reach_into(shapes: NDArray[Any], boundary: Boundary) -> NDArray[np.bool_]:
    """Return which polygons have a place in a boundary or on it, bool (n,)."""
    import shapely

    found: NDArray[np.bool_] = shapely.intersects(boundary.shape, shapes)
    return found


def in_degrees(shapes: NDArray[Any], space: Space) -> NDArray[Any]:
    """Return polygons that were drawn in the CRS of a space in longitude and latitude."""
    crs = drawn_crs(space)
    if same_crs(crs, LONLAT) or not len(shapes):
        return shapes
    return polygons_in_degrees(shapes, _change_of(crs), PLANAR_TOLERANCE)


def as_json(shapes: NDArray[Any]) -> list[Any]:
    """Return polygons as ready JSON, outer rings counter-clockwise; null for None."""
    import shapely

    texts = shapely.to_geojson(shapely.orient_polygons(shapes)).tolist()
    return [None if text is None else orjson.Fragment(text) for text in texts]


@cache
def has_shapely() -> bool:
    """Return whether polygons can be drawn here."""
    try:
        need("shapely", "polygons", "geo")
    except InputError:
        return False
    return True


@cache
def _change_of(crs: str) -> pyproj.Transformer:
    return pyproj.Transformer.from_crs(crs, LONLAT, always_xy=True)
