"""Voronoi regions of weighted pivots: which partition holds a place, and how far a place is past each border.

The region of pivot i is where ``|x - p_i|^2 - w_i`` is least (ties: lowest number). The border of i and j is a plane;
``f_j(x) = x . n - c`` with n the unit vector from p_i to p_j is the signed distance past it, positive on j's side. Dissertation,
sections 3.1.1, 3.1.3 and 3.3.1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dtoss.pointers import JIT

LISTED = 256
"""Borders listed for one region, the nearest to its pivot first."""


@dataclass(frozen=True)
class Regions:
    """P weighted pivots.

    Parameters
    ----------
    pivots : float64 (P, dimension), distinct: vectors in the plane or unit vectors.
    weights : float64 (P,): squared CRS units or squared chords; all 0 is the ordinary Voronoi diagram.
    """

    pivots: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.pivots)

    @cached_property
    def borders(self) -> Borders:
        """The borders of each region, nearest to its pivot first. Cost O(P^2 log P) once."""
        return _borders(self.pivots, self.weights)

    @property
    def digest(self) -> str:
        """A hash of pivots and weights, in hexadecimal: plans and patterns carry it."""
        data = np.concatenate([self.pivots.ravel(), self.weights]).astype("<f8").tobytes()
        return hashlib.sha256(data).hexdigest()[:16]

    def nearest(self, vectors: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the number of the region that holds each vector (n, dimension), int32 (n,)."""
        vectors = np.ascontiguousarray(vectors)
        b = self.borders
        return _nearest(vectors, self.pivots, self.weights, b.order, b.distance, b.complete)

    def past(self, vectors: NDArray[np.float64], region: int) -> NDArray[np.float64]:
        """Return ``f_j(x)``, float64 (n, P), seen from one region; its own column is -inf."""
        d = self.pivots - self.pivots[region]
        length = np.linalg.norm(d, axis=1)
        length[region] = 1.0
        normal = d / length[:, None]
        middle = 0.5 * (self.pivots + self.pivots[region])
        middle += normal * ((self.weights[region] - self.weights) / (2.0 * length))[:, None]
        f = vectors @ normal.T - (middle * normal).sum(axis=1)
        f[:, region] = -np.inf
        return f


@dataclass(frozen=True, slots=True)
class Borders:
    """For each region, the other regions by the distance of its pivot to their common border.

    Parameters
    ----------
    order : int32 (P, L): other regions; L is at most 256.
    distance : float64 (P, L): ``-f_j(p_i)``, ascending; negative where a pivot lies past the border.
    complete : whether all P - 1 others are listed.
    """

    order: NDArray[np.int32]
    distance: NDArray[np.float64]
    complete: bool


def _borders(pivots: NDArray[np.float64], weights: NDArray[np.float64]) -> Borders:
    count = len(pivots)
    listed = min(count - 1, LISTED)
    order = np.zeros((count, max(listed, 0)), np.int32)
    distance = np.zeros((count, max(listed, 0)))
    for i in range(count):
        length = np.sqrt(((pivots - pivots[i]) ** 2).sum(axis=1))
        length[i] = 1.0
        far = 0.5 * length + (weights[i] - weights) / (2.0 * length)
        far[i] = np.inf
        best = np.lexsort((np.arange(count), far))[:listed]
        order[i], distance[i] = best, far[best]
    return Borders(order, distance, listed == count - 1)


@njit(**JIT)
def power(vector, pivots, weights, i):  # type: ignore[no-untyped-def]
    """Return ``|x - p_i|^2 - w_i``."""
    total = 0.0
    for axis in range(pivots.shape[1]):
        d = vector[axis] - pivots[i, axis]
        total += d * d
    return total - weights[i]


@njit(**JIT)
def past_border(vector, pivots, weights, i, j):  # type: ignore[no-untyped-def]
    """Return f_j(x) seen from region i: the signed distance past their border, positive on j's side."""
    length2, along = 0.0, 0.0
    for axis in range(pivots.shape[1]):
        a = pivots[i, axis]
        d = pivots[j, axis] - a
        length2 += d * d
        along += d * (vector[axis] - a)
    length = np.sqrt(length2)
    return along / length - (0.5 * length + (weights[i] - weights[j]) / (2.0 * length))


@njit(**JIT)
def nearest_region(vector, pivots, weights, order, distance, complete, guess):  # type: ignore[no-untyped-def]
    """Return the region that holds a vector: the least power, ties to the lowest number, whatever the guess.

    From the guess, step to a region beyond a border that the vector has passed. A border further from the pivot than the
    vector is cannot be passed, so few are looked at. The last step compares the powers of all that come in question,
    so the result does not depend on the way there.
    """
    count, dimension = pivots.shape
    listed = order.shape[1]
    i = guess
    for _ in range(count):
        d = 0.0
        for axis in range(dimension):
            a = vector[axis] - pivots[i, axis]
            d += a * a
        best, least = i, d - weights[i]
        d = np.sqrt(d)
        # wide enough that whatever is left out is worse than the rounding of powers
        reach = d + 1e-9 * (d + abs(distance[i, listed - 1])) if listed > 0 else d
        ended = complete
        for t in range(listed):
            if distance[i, t] > reach:
                ended = True
                break
            j = order[i, t]
            value = power(vector, pivots, weights, j)
            if value < least or (value == least and j < best):
                best, least = j, value
        if not ended:
            for j in range(count):
                value = power(vector, pivots, weights, j)
                if value < least or (value == least and j < best):
                    best, least = j, value
            return best
        if best == i:
            return i
        i = best
    return i


@njit(
    ["int32[::1](float64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], boolean)"],
    **JIT,
)
def _nearest(vectors, pivots, weights, order, distance, complete):  # type: ignore[no-untyped-def]
    n = vectors.shape[0]
    out = np.empty(n, np.int32)
    guess = 0
    for r in range(n):
        guess = nearest_region(vectors[r], pivots, weights, order, distance, complete, guess)
        out[r] = guess
    return out
