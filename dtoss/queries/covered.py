"""All objects within boxes and polygons: discs that cover the shape, then each object on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.compiled.kernel import operand
from dtoss.geometry.disc_cover import Discs, cover_box, cover_polygon
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.polygon_tables import areas_of
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import Space, hint_of
from dtoss.plain_numbers import floats
from dtoss.queries.gather import take_ids, take_positions
from dtoss.queries.kernels.zone_kernel import IN, UNSURE, held_kernel
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.queries.raw_hits import RawHits
from dtoss.row_runs import offsets

WORTH_TABLES = 1 << 20
"""Places times corners from which on it pays to sort the edges of a polygon into strips."""
Search: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], RawHits]
Test: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]


@dataclass(frozen=True)
class Shape:
    """Discs that cover a shape, and the test of places: of their positions and vectors, (n, 2) and (n, dimension)."""

    discs: Discs
    holds: Test


def polygons_of(shapes: Any, space: Space, edges: str | None = None) -> list[list[Shape]]:
    """Return the parts of each shape, with other edges than it means if any are said.

    One by itself is a list of one.
    """
    return [[shape_of(p) for p in as_polygons(shape, space, edges)] for shape in list_shapes(shapes)]


def list_shapes(shapes: Any) -> list[Any]:
    """Return shapes as a list, also where there is one by itself."""
    alone = not isinstance(shapes, (list, tuple)) or _is_ring(shapes)
    return [shapes] if alone else list(shapes)


def boxes_of(boxes: ArrayLike, space: Space) -> list[list[Shape]]:
    """Return the shapes of boxes, (4,) or (m, 4): xmin, ymin, xmax, ymax, or west, south, east, north in degrees.

    A box whose west is greater than its east crosses the antimeridian. Boxes are closed.
    """
    return [[Shape(cover_box(box, space), _box_test(box, space))] for box in as_boxes(boxes, space)]


def as_boxes(boxes: ArrayLike, space: Space) -> NDArray[np.float64]:
    """Return boxes as float64 (m, 4)."""
    if space.to_lonlat:
        raise ValueError(f"positions are in {space.crs} and compared on the sphere: search within a polygon instead")
    try:
        array = floats(boxes)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"boxes are not numbers ({error}): (4,) or (m, 4) is wanted") from None
    if array.ndim == 1 and array.shape == (4,):
        array = array[None]
    if array.size == 0:
        array = array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise ValueError(f"boxes have shape {array.shape}: (4,) or (m, 4) is wanted")
    legal = space.legal(array[:, :2]) & space.legal(array[:, 2:]) & (array[:, 1] <= array[:, 3])
    if not space.geographic:
        legal &= array[:, 0] <= array[:, 2]
    if not legal.all():
        row = int(np.flatnonzero(~legal)[0])
        bound = "west, south, east, north in degrees" if space.geographic else "xmin, ymin, xmax, ymax"
        west, south, east, north = array[row].tolist()
        bad = [at for at in ((west, south), (east, north)) if not space.legal(np.array([at])).all()]
        hint = hint_of(*bad[0], space) if bad else ""
        raise ValueError(f"box {row} is {array[row].tolist()}: {bound} with south <= north, all legal, is wanted{hint}")
    return array


def search_within(
    shapes: list[list[Shape]], search: Search, parts: OpenPartitions, space: Space, string_ids: bool
) -> RawHits:
    """Return the objects within each shape, by id, each once; distances are 0."""
    discs = [shape.discs for whole in shapes for shape in whole]
    if not discs:
        return _none(len(shapes), string_ids)
    centres = np.concatenate([d.centres for d in discs])
    found = search(centres, np.concatenate([d.radii for d in discs]))
    per_disc = offsets(found.count)
    keys = _keys(parts, found)
    picked: list[NDArray[np.int64]] = []
    at = 0
    for whole in shapes:
        rows = [np.zeros(0, np.int64)]
        for shape in whole:
            end = at + len(shape.discs.radii)
            mine = _once(keys, np.arange(per_disc[at], per_disc[end]))
            rows.append(mine[_held(shape, found, mine, parts, space)])
            at = end
        picked.append(_once(keys, np.concatenate(rows)))
    taken = np.concatenate(picked)
    return RawHits(
        np.array([len(rows) for rows in picked]),
        found.part[taken],
        found.item[taken],
        np.zeros(len(taken)),
        None if found.ids is None else found.ids[taken],
        np.zeros(len(shapes), np.int32),
    )


def _is_ring(shape: Any) -> bool:
    try:
        return np.asanyarray(shape).ndim == 2
    except (TypeError, ValueError):
        return False


def shape_of(polygon: Any, worth_tables: int = WORTH_TABLES) -> Shape:
    """Return the shape of a polygon (:class:`dtoss.geometry.polygons.Polygon`)."""
    areas = cache(lambda: areas_of([polygon]))

    def holds(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
        if len(vectors) * len(polygon.corners) < worth_tables:
            return inside(vectors, polygon, positions)
        told = np.empty(len(vectors), np.uint8)
        held_kernel(operand(vectors), *areas(), told)
        held = np.asarray(told == IN)
        unsure = np.flatnonzero(told == UNSURE)
        held[unsure] = inside(vectors[unsure], polygon, positions[unsure])
        return held

    return Shape(cover_polygon(polygon), holds)


def _box_test(box: NDArray[np.float64], space: Space) -> Test:
    west, south, east, north = box.tolist()

    def holds(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
        x, y = positions[:, 0], positions[:, 1]
        high = (y >= south) & (y <= north)
        if not space.geographic:
            return high & (x >= west) & (x <= east)

        def between(lon: NDArray[np.float64]) -> NDArray[np.bool_]:
            if west <= east:
                return (lon >= west) & (lon <= east)
            return (lon >= west) | (lon <= east)

        # the antimeridian has two longitudes, and a pole has all of them
        return high & (between(x) | ((np.abs(x) == 180.0) & between(-x)) | (np.abs(y) == 90.0))

    return holds


def _held(
    shape: Shape, found: RawHits, rows: NDArray[np.int64], parts: OpenPartitions, space: Space
) -> NDArray[np.bool_]:
    positions = take_positions(parts, found.part[rows], found.item[rows])
    return shape.holds(positions, space.vectors(positions))


def _keys(parts: OpenPartitions, found: RawHits) -> NDArray[np.int64]:
    """Return numbers in the order of the ids: a replica has that of its object."""
    if found.ids is not None:
        return found.ids
    ids = take_ids(parts, found)
    order = pc.array_sort_indices(ids).to_numpy()
    codes = ids.dictionary_encode().indices.to_numpy()[order]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(np.append(0, codes[1:] != codes[:-1]))[: len(order)]
    return ranks


def _once(keys: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of hits, one for each object, by id."""
    return rows[np.unique(keys[rows], return_index=True)[1]]


def _none(queries: int, string_ids: bool) -> RawHits:
    empty = np.zeros(0, np.int32)
    ids = None if string_ids else np.zeros(0, np.int64)
    return RawHits(np.zeros(queries, np.int64), empty, empty, np.zeros(0), ids, np.zeros(queries, np.int32))
