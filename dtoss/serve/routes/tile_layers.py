"""The layers of the map that are made of tiles: a name, and what makes a tile of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.problems import Problem
from dtoss.serve.rights.sight import Sight


@dataclass(frozen=True)
class TileRequest:
    """What is wanted of a tile."""

    z: int
    x: int
    y: int
    by: str | None = None  # An attribute whose classes are shown
    where: str | None = None  # A condition on the objects
    sight: Sight | None = None  # What is seen of the snapshot; None for all


MakeTile: TypeAlias = Callable[[ServedSnapshot, TileRequest], bytes]


def objects(served: ServedSnapshot, wanted: TileRequest) -> bytes:
    """Return a tile of objects."""
    sight, tiles = wanted.sight, served.tiles
    asked = wanted.where if sight is None else sight.condition(wanted.where)
    known = served.index.column_names if sight is None else sight.columns
    if wanted.by is not None and wanted.by not in known:
        raise ValueError(f"by is {wanted.by!r}: there is {', '.join(known) or 'no attribute'}")
    if sight is not None and (own := sight.own()) is not None:
        tiles, asked = served.narrow_tiles(own), asked if wanted.where else None
    where = None if asked is None else served.conditions.get(asked)
    return tiles.objects(wanted.z, wanted.x, wanted.y, wanted.by, where)


OF_OBJECTS = "objects"
"""The layer that shows objects, and nothing that is made of all of them."""
LAYERS: dict[str, MakeTile] = {
    OF_OBJECTS: objects,
    "regions": lambda served, wanted: served.tiles.shapes.regions(wanted.z, wanted.x, wanted.y),
    "cells": lambda served, wanted: served.tiles.shapes.cells(wanted.z, wanted.x, wanted.y),
    "uncertified": lambda served, wanted: served.tiles.shapes.uncertified(wanted.z, wanted.x, wanted.y),
}


def layer_of(name: str) -> MakeTile:
    """Return what makes tiles of a layer."""
    if (made := LAYERS.get(name)) is None:
        raise Problem(404, f"there is no layer {name!r}: {', '.join(LAYERS)}", limit="layer", value=name)
    return made
