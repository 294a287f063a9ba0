"""The layers of the map that are made of tiles: a name, and what makes a tile of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dtoss.serve.problems import Problem
from dtoss.serve.serving import Served


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a tile.

    Parameters
    ----------
    z, x, y
        The tile.
    by
        An attribute whose classes are shown.
    where
        A condition on the objects.
    """

    z: int
    x: int
    y: int
    by: str | None = None
    where: str | None = None


MakeTile: TypeAlias = Callable[[Served, Wanted], bytes]


def objects(served: Served, wanted: Wanted) -> bytes:
    """Return a tile of objects.

    Raises
    ------
    ValueError
        If the condition cannot be read, or there is no such attribute.
    """
    where = None if wanted.where is None else served.conditions.get(wanted.where)
    if wanted.by is not None and wanted.by not in (known := served.index.column_names):
        raise ValueError(f"by is {wanted.by!r}: there is {', '.join(known) or 'no attribute'}")
    return served.tiles.objects(wanted.z, wanted.x, wanted.y, wanted.by, where)


LAYERS: dict[str, MakeTile] = {
    "objects": objects,
    "regions": lambda served, wanted: served.tiles.shapes.regions(wanted.z, wanted.x, wanted.y),
    "cells": lambda served, wanted: served.tiles.shapes.cells(wanted.z, wanted.x, wanted.y),
    "uncertified": lambda served, wanted: served.tiles.shapes.uncertified(wanted.z, wanted.x, wanted.y),
}


def layer_of(name: str) -> MakeTile:
    """Return what makes tiles of a layer.

    Raises
    ------
    Problem
        404 if there is no such layer.
    """
    if (made := LAYERS.get(name)) is None:
        raise Problem(404, f"there is no layer {name!r}: {', '.join(LAYERS)}", limit="layer", value=name)
    return made
