"""The one function behind every reported distance, the same bits on every machine.

Only additions, multiplications, divisions and square roots are used, which IEEE 754 rounds exactly; library arctangents
differ in the last bit between processors, and the order of answers is the order of reported distances.

A place as kernels pass it on: one argument in stead of four.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import above, entries, equal, larger, roots, splat, where, whole
from dtoss.compiled.pointers import pointer

EARTH_RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres (IUGG)."""

# arctan(k / 16)
_ATAN = (
    0.0,
    0.06241880999595735,
    0.12435499454676144,
    0.18534794999569476,
    0.24497866312686414,
    0.3028848683749714,
    0.35877067027057225,
    0.4124104415973873,
    0.4636476090008061,
    0.5123894603107377,
    0.5585993153435624,
    0.6022873461349642,
    0.6435011087932844,
    0.6823165548747481,
    0.7188299996216245,
    0.7531512809621944,
    0.7853981633974483,
)
_ATAN_AT = np.array(_ATAN)
_STEPS, _STEP = 16.0, 0.0625
"""Steps to 1 of the table of arctangents, and how wide they are."""
_ATAN_3, _ATAN_5, _ATAN_7, _ATAN_9, _ATAN_11, _ATAN_13, _ATAN_15 = (1.0 / k for k in range(3, 17, 2))
"""Coefficients of Taylor's series of the arctangent, by the power of t."""
_ASIN_3, _ASIN_5, _ASIN_7 = 1.0 / 6.0, 3.0 / 40.0, 15.0 / 336.0
_ASIN_9, _ASIN_11, _ASIN_13 = 105.0 / 3456.0, 945.0 / 42240.0, 10395.0 / 599040.0
"""Those of the arcsine."""
_HALVED_CHORD2 = 0.25
"""Of the squared chord: the square of its half, of which the angle's half is the arcsine."""
_HALF_PI = 1.5707963267948966
NEAR_CHORD2 = 0.015625
"""Squared chord, 1 / 64, up to which the chord alone gives the distance."""


@kernel
def _small_atan(t):
    # Taylor's series; the first term left out is below 1e-24 at |t| = 1/32
    s = t * t
    tail = _ATAN_13 - s * _ATAN_15
    tail = _ATAN_11 - s * tail
    tail = _ATAN_9 - s * tail
    tail = _ATAN_7 - s * tail
    tail = _ATAN_5 - s * tail
    tail = _ATAN_3 - s * tail
    return t - t * s * tail


@kernel
def _atan(t):
    """Return arctan(t) for t in [0, 1]."""
    k = int(t * _STEPS + 0.5)
    if k == 0:
        return _small_atan(t)
    c = k * _STEP
    return _ATAN[k] + _small_atan((t - c) / (1.0 + t * c))


@kernel
def _arcsine_series(s):
    """Return arcsin(x) / x for s = x^2, of one number or of eight."""
    tail = _ASIN_9 + s * (_ASIN_11 + s * _ASIN_13)
    return 1.0 + s * (_ASIN_3 + s * (_ASIN_5 + s * (_ASIN_7 + s * tail)))


@kernel
def near_distance(chord2):
    """Return the great-circle distance in metres for a squared chord of at most ``NEAR_CHORD2``."""
    return EARTH_RADIUS * (np.sqrt(chord2) * _arcsine_series(_HALVED_CHORD2 * chord2))


@kernel
def near_distances(chords2):
    """Return eight distances as :func:`near_distance` would, of as many squared chords; the bits are the same."""
    return EARTH_RADIUS * (roots(chords2) * _arcsine_series(_HALVED_CHORD2 * chords2))


@kernel
def sphere_distance(ax, ay, az, bx, by, bz):
    """Return the great-circle distance of two unit vectors in metres.

    ``2 R atan2(|a - b|, |a + b|)``; up to 796 km the same as ``2 R arcsin(|a - b| / 2)`` by its series in the chord,
    whose first term left out is below 1e-18 of it.
    """
    x, y, z = ax - bx, ay - by, az - bz
    chord2 = x * x + y * y + z * z
    if chord2 <= NEAR_CHORD2:
        return near_distance(chord2)
    u, v, w = ax + bx, ay + by, az + bz
    sum2 = u * u + v * v + w * w
    if chord2 <= sum2:
        return 2.0 * EARTH_RADIUS * _atan(np.sqrt(chord2) / np.sqrt(sum2))
    return 2.0 * EARTH_RADIUS * (_HALF_PI - _atan(np.sqrt(sum2) / np.sqrt(chord2)))


@kernel
def _atans(t):
    """Return eight arctangents as :func:`_atan` would, the same bits; that of no number is some number."""
    t = larger(t, splat(0.0))  # which also is a place in the table then
    k = whole(t * _STEPS + 0.5)
    c = k * _STEP
    return entries(pointer(_ATAN_AT), k) + _small_atan((t - c) / (1.0 + t * c))


@kernel
def sphere_distances(chords2, sums2):
    """Return eight distances as :func:`sphere_distance` would, the same bits.

    ``chords2``, ``sums2``: of difference and sum of the two unit vectors, the squared lengths.
    """
    nearer, further = above(sums2, chords2) | equal(sums2, chords2), above(chords2, splat(NEAR_CHORD2))
    chords, sums = roots(chords2), roots(sums2)
    angles = _atans(where(nearer, chords, sums) / where(nearer, sums, chords))
    far = 2.0 * EARTH_RADIUS * where(nearer, angles, _HALF_PI - angles)
    return where(further, far, near_distances(chords2))


@kernel
def plane_distance(ax, ay, bx, by):
    """Return the Euclidean distance in CRS units."""
    x, y = ax - bx, ay - by
    return np.sqrt(x * x + y * y)


_STRIDED = types.Array(types.float64, 3, "A", readonly=True)


@kernel(types.void(_STRIDED, _STRIDED, types.float64[:, ::1]))
def _distances(a, b, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            if a.shape[2] == SPHERE:
                out[i, j] = sphere_distance(a[i, j, 0], a[i, j, 1], a[i, j, 2], b[i, j, 0], b[i, j, 1], b[i, j, 2])
            else:
                out[i, j] = plane_distance(a[i, j, 0], a[i, j, 1], b[i, j, 0], b[i, j, 1])


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distances of vectors a (..., dimension) and b (..., dimension), broadcast against each other.

    Metres for unit vectors in 3-D, CRS units for vectors in the plane. Equal vectors are exactly 0 apart; the
    relative error is below 1e-15 times a few.

    Examples
    --------
    >>> float(distance(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])))
    10007557.221017962
    >>> float(distance(np.array([3.0, 0.0]), np.array([0.0, 4.0])))
    5.0
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    flat = shape if len(shape) == 2 else (1, math.prod(shape))  # of two dimensions a view is enough
    a, b = (np.broadcast_to(side, (*shape, a.shape[-1])).reshape(*flat, a.shape[-1]) for side in (a, b))
    out = np.empty(flat)
    _distances(a, b, out)
    return out.reshape(shape)[()]


def chord_of(radius: ArrayLike) -> NDArray[np.float64]:
    """Return the chord of the unit sphere that spans a distance in metres; 2 from half round the Earth on."""
    angle = np.minimum(np.asarray(radius, dtype=np.float64) / (2.0 * EARTH_RADIUS), _HALF_PI)
    return 2.0 * np.sin(angle)


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
def opposite_of(place):
    """Return the place on the other side of the Earth: how far it is says how long the sum of two vectors is."""
    return Place(-place.x, -place.y, -place.z, place.dimension)


@kernel
def place_at(vectors, row, dimension):
    """Return the place in a row of vectors (n, dimension), of which ``vectors`` is the pointer."""
    at = row * dimension
    return Place(vectors[at], vectors[at + 1], vectors[at + 2] if dimension == SPHERE else 0.0, dimension)
