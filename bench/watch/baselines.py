"""What others do for circles, behind the call that ours has: a tree of boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.watch.index.covers import circle_rects, squared_chords
from dtoss.watch.matching.matches import Matches

Floats = NDArray[np.float64]


class Circles(NamedTuple):
    """Circles of the sphere: vectors of their centres, radii in metres, and squared chords beyond which nothing is."""

    centres: Floats
    radius: Floats
    chords: Floats


def circles_of(centres: Floats, radius: Floats) -> Circles:
    """Return circles of float64 (n, 2) in degrees and (n,) in metres."""
    space = space_of()
    return Circles(space.vectors(operand(centres)), radius, squared_chords(radius, space))


class BoxTree:
    """The boxes of circles in shapely's STRtree, then a squared chord, then the distance.

    Parameters
    ----------
    circles
        That rows are asked for.
    """

    def __init__(self, circles: Circles) -> None:
        self._circles = circles
        rects = circle_rects(circles.centres[:, :2], circles.centres, circles.radius, space_of())
        west, south, east, north = rects.T
        across = np.flatnonzero(west > east)
        # two boxes where the antimeridian cuts one
        sides = (
            np.concatenate([west, np.full(len(across), -180.0)]),
            np.concatenate([south, south[across]]),
            np.concatenate([np.where(west > east, 180.0, east), east[across]]),
            np.concatenate([north, north[across]]),
        )
        self._owner = np.concatenate([np.arange(len(west)), across])
        self._tree = shapely.STRtree(shapely.box(*sides))
        self._tree.query(shapely.points([0.0], [0.0]))  # which builds it

    def match(self, positions: Floats) -> Matches:
        """Return the matches of rows, by row."""
        vectors = space_of().vectors(positions)
        row, box = self._tree.query(shapely.points(positions))
        sub = self._owner[box]
        gap = vectors[row] - self._circles.centres[sub]
        near = np.einsum("ij,ij->i", gap, gap) <= self._circles.chords[sub]
        return _exact(vectors, self._circles, row[near], sub[near])


def _exact(vectors: Floats, circles: Circles, row: NDArray[np.int64], sub: NDArray[np.int64]) -> Matches:
    """Return of pairs those that are within the radius."""
    far = distance(operand(vectors[row]), operand(circles.centres[sub]))
    held = far <= circles.radius[sub]
    return Matches(0, len(vectors), row[held], sub[held].astype(np.int32), far[held])
