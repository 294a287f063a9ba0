"""Objects by partition and row: which a tile holds, and what they carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.space import HALF_TURN, LONLAT, QUARTER_TURN, Space
from dtoss.index import Index
from dtoss.partition import Partition
from dtoss.queries.covered import Shape, boxes_of, search_within
from dtoss.queries.gather import take
from dtoss.tiles.map_frame import Frame, box_of
from dtoss.tiles.sample import keys_of

_WIDER = 1e-9
"""By which share of a tile's side its box is wider: the map's rounding is not that of the store."""
_BEND = 0.05
"""The same where sides of a tile bend in the store's CRS."""
_LOOKED_AT = 17
"""Places along each side of a tile from which its box in another CRS is taken."""


class ObjectRows(NamedTuple):
    """Objects: the partitions that own them, and their rows there, (n,) integers each."""

    part: NDArray[Any]
    item: NDArray[Any]

    def rows(self, rows: NDArray[Any] | slice) -> ObjectRows:
        """Return some of them."""
        return ObjectRows(self.part[rows], self.item[rows])


def objects_in(
    index: Index, frame: Frame, z: int, x: int, y: int, few: int, where: str | None = None
) -> ObjectRows | None:
    """Return the objects of a tile and some round it that satisfy a condition; None if there are ``few`` or more.

    None also where the tile has no box in the store's CRS. Cost O(r) for r objects in discs that cover the tile.
    """
    box = box_in_store(frame, z, x, y)
    if box is None:
        return None
    found = search_within(
        [[_shape(frame, box)]],
        lambda centres, radii: index.search_vectors(centres, radii, 0, where),
        index.parts,
        index.space,
        index.string_ids,
    )
    return None if len(found.item) >= few else ObjectRows(found.part, found.item)


def _shape(frame: Frame, box: list[float]) -> Shape:
    """Return a box as what is searched; where the store has another CRS than the box, it is that of lon, lat."""
    if not frame.space.to_lonlat:
        ((shape,),) = boxes_of(box, frame.space)
        return shape
    west, south, east, north = box
    ((shape,),) = boxes_of(box, Space(LONLAT, "sphere"))

    def holds(positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
        lon, lat = frame.lonlat_of(positions).T
        return (lon >= west) & (lon <= east) & (lat >= south) & (lat <= north)

    return Shape(shape.discs, holds)


def box_in_store(frame: Frame, z: int, x: int, y: int) -> list[float] | None:
    """Return a box that holds a tile: xmin, ymin, xmax, ymax of a plane; None if the tile reaches beyond its CRS.

    On the sphere west, south, east and north in degrees.
    """
    west, south, east, north = box_of(z, x, y)
    wide, high = east - west, north - south
    if frame.space.metric == "sphere":
        return [
            max(west - _WIDER * wide, -HALF_TURN), max(south - _WIDER * high, -QUARTER_TURN),
            min(east + _WIDER * wide, HALF_TURN), min(north + _WIDER * high, QUARTER_TURN),
        ]  # fmt: skip
    share = np.linspace(0.0, 1.0, _LOOKED_AT)
    lonlat = np.stack(np.meshgrid(west + share * wide, south + share * high), axis=-1).reshape(-1, 2)
    places = frame.positions_of(lonlat)
    if np.isnan(places).any():
        return None
    low, top = places.min(axis=0), places.max(axis=0)
    more = (top - low) * (_BEND if frame.plane is None else _WIDER)
    return [*(low - more).tolist(), *(top + more).tolist()]


def place_objects(index: Index, frame: Frame, held: ObjectRows) -> tuple[ObjectRows, NDArray[np.uint64]]:
    """Return those of some objects that the map has a place for, and their keys there, uint64 (n,)."""
    world = np.empty((len(held.item), 2))
    for number in np.unique(held.part).tolist():
        rows = np.flatnonzero(held.part == number)
        world[rows] = frame.world_of(index.parts[number].positions[held.item[rows]])
    known = ~np.isnan(world[:, 0])
    return held.rows(known), keys_of(world[known])


def ids_held(index: Index, held: ObjectRows) -> pa.Array:
    """Return the ids of objects."""
    return values_held(index, held, lambda partition: pa.array(partition.ids))


def column_held(index: Index, held: ObjectRows, name: str) -> pa.Array:
    """Return an attribute of objects."""
    return values_held(index, held, lambda partition: partition.attributes[name])


def values_held(index: Index, held: ObjectRows, column: Callable[[Partition], pa.Array]) -> pa.Array:
    """Return a column of objects, in their order."""
    return take(index.parts, held.part, held.item, column)
