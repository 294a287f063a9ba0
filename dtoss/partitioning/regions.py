"""Voronoi regions of weighted pivots: which partition holds a place, and how far a place is past each border.

The region of pivot i is where ``|x - p_i|^2 - w_i`` is least (ties: lowest number). The border of i and j is a plane;
``f_j(x) = x . n - c`` with n the unit vector from p_i to p_j is the signed distance past it, positive on j's side.
Powers are rounded, so a place is on a side of a border only within a tolerance (:func:`power_tolerance`): whoever
compares a place with a border, to leave something out, allows it. Dissertation, sections 3.1.1, 3.1.3 and 3.3.1.

The borders between partitions as kernels pass them on: one argument in stead of six.

The bounds of a planar index: given, or the box of its objects grown by a tenth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import SPHERE, place_at
from dtoss.geometry.hilbert import curve_order
from dtoss.geometry.rounding import BORDER
from dtoss.geometry.space import FURTHEST
from dtoss.locks import once
from dtoss.plain_numbers import floats

LISTED = 256
"""Borders listed for one region, the nearest to its pivot first."""
GROUPED = 32
"""Neighbouring pivots whose borders are found together."""
BORDER_SLACK = 1e-12
"""More than all roundings and tolerances on the way to the distance of a border, as a share of what goes into it."""


@kernel
def power_tolerance(length2, gap2, weights):
    """Return how far rounding may move half the difference of two powers: ``length`` times what it moves a border by.

    ``docs/cells.md`` derives it. Numbers or arrays: ``power_tolerance.py_func`` takes arrays.

    ``length2``: squared distance of the two pivots; ``gap2``: squared distance of the place from either pivot.
    """
    return BORDER * (length2 + gap2 + weights)


@dataclass(frozen=True)
class Regions:
    """P weighted pivots."""

    pivots: NDArray[np.float64]  # float64 (P, dimension), distinct. Vectors in the plane or unit vectors
    # float64 (P,). Squared CRS units or squared chords; all 0 is the ordinary Voronoi diagram
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.pivots)

    @once
    def borders(self) -> Borders:
        """The borders of each region, nearest to its pivot first. Cost once O(P), and O(G^2) of G = P / 32 groups."""
        return _borders(self.pivots, self.weights)

    @property
    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]:
        """What kernels take of regions: the pivots, their weights, and ``order`` and ``distance`` of the borders."""
        return self.pivots, self.weights, self.borders.order, self.borders.distance

    @once
    def digest(self) -> str:
        """A hash of pivots and weights, in hexadecimal: plans and patterns carry it."""
        data = np.concatenate([self.pivots.ravel(), self.weights]).astype("<f8").tobytes()
        return hashlib.sha256(data).hexdigest()[:16]

    def nearest(self, vectors: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the number of the region that holds each vector (n, dimension), int32 (n,)."""
        return _nearest(operand(vectors), *self.arrays)

    def past(self, vectors: NDArray[np.float64], region: int) -> NDArray[np.float64]:
        """Return ``f_j(x)``, float64 (n, P), seen from one region; its own column is -inf."""
        d = self.pivots - self.pivots[region]
        length = np.linalg.norm(d, axis=1)
        length[region] = 1.0
        offset = 0.5 * length + (self.weights[region] - self.weights) / (2.0 * length)
        f = (vectors - self.pivots[region]) @ d.T / length - offset
        f[:, region] = -np.inf
        return f

    def tolerance(self, vectors: NDArray[np.float64], region: int) -> NDArray[np.float64]:
        """Return within what distance of each border rounding decides a vector's side, float64 (n, P); 0 for its own.

        A vector with ``f_j(x)`` below minus this belongs to another region than j, one above it to another than this.
        """
        length2 = ((self.pivots - self.pivots[region]) ** 2).sum(axis=1)
        length2[region] = 1.0
        gap2 = ((vectors - self.pivots[region]) ** 2).sum(axis=1)
        weights = np.abs(self.weights) + abs(self.weights[region])
        tolerance = power_tolerance.py_func(length2, gap2[:, None], weights) / np.sqrt(length2)
        tolerance[:, region] = 0.0
        return tolerance


@dataclass(frozen=True, slots=True)
class Borders:
    """For each region, the other regions by the distance of its pivot to their common border."""

    order: NDArray[np.int32]  # int32 (P, L). Other regions; L is P - 1, or 256 if that is less
    # float64 (P, L). How far from the pivot places begin that may belong to the other region, rounding included,
    # ascending; less than ``-f_j(p_i)``, and negative where a pivot lies past the border
    distance: NDArray[np.float64]


def _borders(pivots: NDArray[np.float64], weights: NDArray[np.float64]) -> Borders:
    count = len(pivots)
    listed = min(count - 1, LISTED)
    order = np.zeros((count, listed), np.int32)
    distance = np.zeros((count, listed))
    if listed == 0:
        return Borders(order, distance)
    along = curve_order(pivots, np.zeros(count, np.int64))
    groups = np.split(along, np.arange(GROUPED, count, GROUPED))
    for mine, least in zip(groups, _least_distances(pivots, weights, along), strict=True):
        near = np.argsort(least)[: listed // GROUPED + 3]  # more than are listed, though one group may be short
        far = _distances(pivots, weights, mine, np.concatenate([groups[g] for g in near]))
        furthest = np.partition(far, listed - 1, axis=1)[:, listed - 1].max()
        others = np.sort(np.concatenate([groups[g] for g in np.flatnonzero(least <= furthest)]))
        far = _distances(pivots, weights, mine, others)
        last = np.partition(far, listed - 1, axis=1)[:, listed - 1]
        for i, row, most in zip(mine, far, last, strict=True):
            some = np.flatnonzero(row <= most)
            best = some[np.argsort(row[some], kind="stable")[:listed]]
            order[i], distance[i] = others[best], row[best]
    return Borders(order, distance)


def _least_distances(
    pivots: NDArray[np.float64], weights: NDArray[np.float64], along: NDArray[np.int32]
) -> Iterator[NDArray[np.float64]]:
    """Yield for each group of pivots what no distance to a border with one of each group is less than, (groups,).

    A border is the further the further the other pivot is and the less it weighs: the nearest and the heaviest count.
    ``along``: the pivots, a group after the other.
    """
    group = np.arange(len(along)) // GROUPED
    first = np.flatnonzero(np.diff(group, prepend=-1))
    centre = np.add.reduceat(pivots[along], first) / np.bincount(group)[:, None]
    radius = np.maximum.reduceat(np.linalg.norm(pivots[along] - centre[group], axis=1), first)
    lightest, heaviest = (reduce.reduceat(weights[along], first) for reduce in (np.minimum, np.maximum))
    rounding = BORDER_SLACK * np.abs(weights).max()
    for g in range(len(first)):
        apart = np.linalg.norm(centre - centre[g], axis=1)
        gap = apart - radius - radius[g] - BORDER_SLACK * (apart + radius + radius[g])
        gap = np.maximum(gap, 1e-150)
        with np.errstate(over="ignore"):  # in a plane of 1e89 it is minus infinity, which is a bound as well
            least = (0.5 - BORDER_SLACK) * gap - (np.maximum(heaviest - lightest[g], 0.0) + rounding) / (2.0 * gap)
        yield least


def _distances(
    pivots: NDArray[np.float64], weights: NDArray[np.float64], some: NDArray[np.int32], others: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return from some pivots the distances to their borders with others, as :class:`Borders`; infinity to itself."""
    itself = some[:, None] == others
    length2 = ((pivots[others] - pivots[some][:, None]) ** 2).sum(axis=2)
    length2[itself] = 1.0
    length = np.sqrt(length2)
    mine, theirs = weights[some][:, None], weights[others]
    far = 0.5 * length + (mine - theirs) / (2.0 * length)
    # less the tolerance of a place as far away as that: the root of d + tolerance(d) = far
    far -= power_tolerance.py_func(length2, 0.0, np.abs(theirs) + np.abs(mine)) / length
    steep = np.maximum(4.0 * power_tolerance.py_func(0.0, 1.0, 0.0) / length * far, 0.0)
    far = np.where(far > 0.0, 2.0 * far / (1.0 + np.sqrt(1.0 + steep)), far)
    far[itself] = np.inf
    return far


@kernel
def pivot_gap2(place, fences, i):
    """Return ``|x - p_i|^2``."""
    at = i * place.dimension
    a, b = place.x - fences.pivots[at], place.y - fences.pivots[at + 1]
    if place.dimension == 2:
        return a * a + b * b
    c = place.z - fences.pivots[at + 2]
    return a * a + b * b + c * c


@kernel
def past_border(place, fences, i, j, gap2):
    """Return f_j(x) seen from region i, positive on j's side, with its tolerance on top: what it is at the most.

    ``gap2`` is the squared distance from a pivot of the place whose side is in question: this one, or an object near.
    """
    pivots, weights = fences.pivots, fences.weights
    p, q = i * place.dimension, j * place.dimension
    a, b, c = pivots[q] - pivots[p], pivots[q + 1] - pivots[p + 1], 0.0
    along = a * (place.x - pivots[p]) + b * (place.y - pivots[p + 1])
    if place.dimension == SPHERE:
        c = pivots[q + 2] - pivots[p + 2]
        along += c * (place.z - pivots[p + 2])
    length2 = a * a + b * b + c * c
    tolerance = power_tolerance(length2, gap2, abs(weights[i]) + abs(weights[j]))
    return (along - 0.5 * (length2 + (weights[i] - weights[j])) + tolerance) / np.sqrt(length2)


@kernel
def furthest_past_border(place, fences, i):
    """Return ``max_j f_j(x)`` seen from region i, negative inside it; -inf where it is the only one."""
    gap2 = pivot_gap2(place, fences, i)
    d = np.sqrt(gap2)
    most = -np.inf
    ended = fences.listed == fences.partitions - 1
    for t in range(i * fences.listed, (i + 1) * fences.listed):
        # f_j(x) <= |x - p_i| - border[j], and the list ascends
        if d - fences.border[t] < most:
            ended = True
            break
        most = max(most, past_border(place, fences, i, int(fences.order[t]), gap2))
    if not ended:
        for j in range(fences.partitions):
            if j != i:
                most = max(most, past_border(place, fences, i, j, gap2))
    return most


@kernel
def nearest_region(place, fences, guess):
    """Return the region that holds a place: the least power, ties to the lowest number, whatever the guess.

    From the guess, step to a region beyond a border that the place has passed. A border further from the pivot than
    the place is cannot be passed, so few are looked at. The last step compares the powers of all that come in
    question, so the result does not depend on the way there.
    """
    count, listed, weights = fences.partitions, fences.listed, fences.weights
    i = guess
    if listed == 0:
        return i
    for _ in range(count):
        gap2 = pivot_gap2(place, fences, i)
        best, least = i, gap2 - weights[i]
        d = np.sqrt(gap2)
        base = i * listed
        ended = listed == count - 1
        for t in range(base, base + listed):
            if fences.border[t] > d:
                ended = True
                break
            j = int(fences.order[t])
            value = pivot_gap2(place, fences, j) - weights[j]
            if value < least or (value == least and j < best):
                best, least = j, value
        if not ended:
            # a border that is not listed may have been passed: all powers are compared, once
            for j in range(count):
                value = pivot_gap2(place, fences, j) - weights[j]
                if value < least or (value == least and j < best):
                    best, least = j, value
            return best
        if best == i:
            return i
        i = best
    return i


@kernel("int32[::1](float64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1])")
def _nearest(vectors, pivots, weights, order, distance):
    n, dimension = vectors.shape
    fences = fences_of(pivots, weights, order, distance)
    v = pointer(vectors)
    out = np.empty(n, np.int32)
    guess = 0
    for r in range(n):
        guess = nearest_region(place_at(v, r, dimension), fences, guess)
        out[r] = guess
    return out


class Fences(NamedTuple):
    """The pivots and borders of all partitions, made inside a kernel by :func:`fences_of`."""

    pivots: Any  # pivots, weights: pointers to float64, as in :class:`~dtoss.partitioning.regions.Regions`
    weights: Any
    order: Any  # order, border: pointers to int32 and float64, as ``order`` and ``distance`` of its borders
    border: Any
    partitions: int  # How many there are
    listed: int  # Borders that are listed for each


@kernel
def fences_of(pivots, weights, order, border):
    """Return the fences of the arrays of regions, in their order; the caller keeps them alive."""
    return Fences(pointer(pivots), pointer(weights), pointer(order), pointer(border), pivots.shape[0], order.shape[1])


def planar_bounds(vectors: NDArray[np.float64], bounds: ArrayLike | None) -> NDArray[np.float64]:
    """Return the rectangle that planar cells are clipped to, float64 (4,)."""
    low = vectors.min(axis=0) if len(vectors) else np.zeros(2)
    high = vectors.max(axis=0) if len(vectors) else np.zeros(2)
    return bounds_round(low, high, bounds)


def bounds_round(low: NDArray[np.float64], high: NDArray[np.float64], bounds: ArrayLike | None) -> NDArray[np.float64]:
    """Return bounds that hold the box ``low, high``: those given, or the box grown by a tenth of its longer side."""
    if bounds is None:
        side = float((high - low).max())
        margin = 0.1 * side if side > 0.0 else 1.0
        return np.concatenate([low - margin, high + margin])
    try:
        box = floats(bounds)
    except (TypeError, ValueError, OverflowError):
        box = np.zeros(0)
    if box.shape != (4,) or not np.isfinite(box).all() or not (box[0] < box[2] and box[1] < box[3]):
        raise ValueError(
            f"bounds are {np.asarray(bounds).tolist()}: xmin, ymin, xmax, ymax with xmin < xmax, ymin < ymax"
        )
    if np.abs(box).max() > FURTHEST:
        raise ValueError(f"bounds are {box.tolist()}: at most {FURTHEST:g} in size is legal")
    if (low < box[:2]).any() or (high > box[2:]).any():
        raise ValueError(
            f"bounds {box.tolist()} do not hold all objects, which reach from {low.tolist()} to {high.tolist()}"
        )
    return box


def grow_bounds(
    bounds: NDArray[np.float64], base: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return bounds that hold the box ``low, high`` too, float64 (4,); the same where they do already.

    They grow by 1, 3, 7, ... times the longer side of ``base``, which they were at first. So they depend on all places
    that ever arrived, and not on the order in which they came.
    """
    side = float((base[2:] - base[:2]).max())
    grown = bounds.copy()
    for axis in (0, 1):
        grown[axis] = min(grown[axis], -_reaching(-base[axis], side, -low[axis]))
        grown[axis + 2] = max(grown[axis + 2], _reaching(base[axis + 2], side, high[axis]))
    return np.clip(grown, -FURTHEST, FURTHEST)


def _reaching(edge: float, side: float, place: float) -> float:
    """Return the first of edge, edge + side, edge + 3 side, edge + 7 side, ... that a place is not beyond."""
    step = 0.0
    while edge + step * side < place:
        step = 2.0 * step + 1.0
    return edge + step * side
