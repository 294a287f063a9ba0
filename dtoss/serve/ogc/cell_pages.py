"""Cells and regions that reach into a box of degrees, and their polygons as GeoJSON has them. Needs shapely.

A cell is known by the lowest id on its place. Of the places in a disc of radius r round c the nearest object is at most
2 r + d away from c, d being the distance from c to the nearest object of all: so no cell that reaches into a box is of
an object further from the discs that cover the box.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import orjson
import pyproj
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.export.cell_rings import cells_at
from dtoss.export.clip import Boundary, boundary_of
from dtoss.export.export_layers import Columns, Drawing, drawn_cells, drawn_crs, planar_regions
from dtoss.export.geojson import polygons_in_degrees
from dtoss.export.planar import PLANAR_TOLERANCE
from dtoss.extras import need
from dtoss.geometry.space import LONLAT, Space, same_crs
from dtoss.index import Index
from dtoss.serve.core.pool import Stop
from dtoss.serve.ogc.pages_by_id import (
    DEGREES,
    Box,
    Choice,
    Items,
    behind,
    first_of,
    ids_in_order,
    items_of,
    join_items,
)

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
