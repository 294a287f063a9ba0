"""A place as kernels pass it on: one argument in stead of four."""

from __future__ import annotations

from typing import NamedTuple

from dtoss.compiled.kernel import kernel

SPHERE = 3
"""Numbers in a place of the sphere, a unit vector; a place of the plane has two."""

XMIN, YMIN, XMAX, YMAX = range(4)
"""Where the bounds of a planar index stand in their array."""


class Place(NamedTuple):
    """A place of either surface, made inside a kernel: compiled, it is four registers."""

    x: float  # x, y, z: CRS units and z = 0 in the plane, a unit vector on the sphere
    y: float
    z: float
    dimension: int


@kernel
def place_at(vectors, row, dimension):
    """Return the place in a row of vectors (n, dimension), of which ``vectors`` is the pointer."""
    at = row * dimension
    return Place(vectors[at], vectors[at + 1], vectors[at + 2] if dimension == SPHERE else 0.0, dimension)
