"""Whether an edge in doubt counts, where floating point numbers with known errors tell; else exact ones have to.

The edge of two sites as :mod:`dtoss.cells.edge_doubt` has it, in radians round the middle of what one other site
leaves of the bisector on the sphere, and in lengths of the bisector's direction in the plane. A site on the sphere is
the direction of its vector, so how far its length is from 1 is made up for: that is what tells sites a metre apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import SPHERE, XMIN, YMAX, YMIN

ROUNDED = 1e-14
"""Relative error of what leads from one site to another, and of what is made of it: 90 u, where 10 to 20 are made."""
ROUGH = 1e-4
"""Radians. An angle with a larger error says nothing."""
APART = 1e-15
"""Chord of two directions below which what leads from one to the other has a larger error: that is 1e-31 at least."""
SPLIT = 134217729.0  # 2^27 + 1
"""Times which a number is cut into halves, whose products are exact (Dekker)."""
COUNTS_NOT, COUNTS_SURELY = 0, 1
"""Whether an edge is longer than what counts."""
NOT_KNOWN = -1
"""In place of either: errors are too large to tell."""


@kernel
def _product_rest(x, p):
    """Return what the rounded square p of x leaves out."""
    c = SPLIT * x
    high = c - (c - x)
    low = x - high
    return ((high * high - p) + 2.0 * high * low) + low * low


@kernel
def _sum_rest(a, b, s):
    """Return what the rounded sum s of a and b leaves out."""
    c = s - a
    return (a - (s - c)) + (b - c)


@kernel
def _excess(v, i):
    """Return by how much the squared length of vector i is more than 1."""
    at = SPHERE * i
    x, y, z = v[at], v[at + 1], v[at + 2]
    p, q, r = x * x, y * y, z * z
    s = p + q
    t = s + r
    rest = _sum_rest(p, q, s) + _sum_rest(s, r, t)
    return (t - 1.0) + (rest + _product_rest(x, p) + _product_rest(y, q) + _product_rest(z, r))


@kernel
def _towards(v, i, excess):
    """Return what leads from the direction of the first vector to that of vector i; ``excess`` is of the first."""
    at = SPHERE * i
    f, g = 0.5 * _excess(v, i), 0.5 * excess
    return (
        (v[at] - v[0]) - (v[at] * f - v[0] * g),
        (v[at + 1] - v[1]) - (v[at + 1] * f - v[1] * g),
        (v[at + 2] - v[2]) - (v[at + 2] * f - v[2] * g),
    )


@kernel
def _size(x, y, z):
    return np.sqrt(x * x + y * y + z * z)


@kernel
def _judged(least, most, shortest):
    """Return what the least and the most that an edge may measure say."""
    if least > shortest:
        return COUNTS_SURELY
    return COUNTS_NOT if most < shortest else NOT_KNOWN


@kernel
def _across(x, y, z):
    """Return two unit vectors across a third one and each other, the first by the axis that is furthest from it."""
    a, b, c = 0.0, z, -y
    if abs(y) <= abs(x) and abs(y) <= abs(z):
        a, b, c = -z, 0.0, x
    elif abs(z) <= abs(x):
        a, b, c = y, -x, 0.0
    size = _size(a, b, c)
    a, b, c = a / size, b / size, c / size
    return a, b, c, y * c - z * b, z * a - x * c, x * b - y * a


@kernel
def _limit(v, i, excess, frame):
    """Return the limit that site i sets to the bisector, a unit vector in its frame, and the error of its angle."""
    a, b, c, d, e, f = frame
    x, y, z = _towards(v, i, excess)
    first, second = a * x + b * y + c * z, d * x + e * y + f * z
    far, size = _size(x, y, z), np.sqrt(first * first + second * second)
    if not far > APART or not size > 0.0:
        return 1.0, 0.0, np.inf
    return first / size, second / size, ROUNDED * far / size


@kernel
def _on_sphere(v, count, shortest):
    excess, quarter = _excess(v, 0), 0.5 * np.pi
    x, y, z = _towards(v, 1, excess)
    size = _size(x, y, z)
    if not size > APART:
        return NOT_KNOWN
    frame = _across(x / size, y / size, z / size)
    # angles are counted from the limit that is known best
    best, p, q, error = -1, 0.0, 0.0, ROUGH
    for i in range(2, count):
        a, b, rough = _limit(v, i, excess, frame)
        if rough < error:
            best, p, q, error = i, a, b, rough
    if best < 0:
        return NOT_KNOWN
    low, high, surely_low, surely_high = -quarter, quarter, -quarter, quarter
    for i in range(2, count):
        a, b, rough = _limit(v, i, excess, frame)
        rough += error + ROUNDED
        turn = np.arctan2(p * b - q * a, p * a + q * b)
        if not rough < ROUGH or abs(turn) > np.pi - rough:
            return NOT_KNOWN
        if i == best:
            continue
        if turn > -rough:
            surely_low = max(surely_low, turn - quarter + rough)
        if turn < rough:
            surely_high = min(surely_high, turn + quarter - rough)
        if turn > rough:
            low = max(low, turn - quarter - rough)
        if turn < -rough:
            high = min(high, turn + quarter + rough)
    least, most = max(surely_high - surely_low - ROUNDED, 0.0), max(high - low + ROUNDED, 0.0)
    return _judged(2.0 * np.sin(0.5 * least), 2.0 * np.sin(0.5 * most), shortest)


@kernel
def _in_plane(v, count, bounds, shortest):
    ax, ay = v[0], v[1]
    mx, my = 0.5 * (v[2] - ax), 0.5 * (v[2 + 1] - ay)
    dx, dy = -2.0 * my, 2.0 * mx
    along = np.sqrt(dx * dx + dy * dy)
    low, high, surely_low, surely_high = -np.inf, np.inf, -np.inf, np.inf
    for i in range(2, count + 4):
        if i < count:
            ux, uy = v[2 * i] - ax, v[2 * i + 1] - ay
            far = np.sqrt(ux * ux + uy * uy)
            across, slope = mx * ux + my * uy - 0.5 * (ux * ux + uy * uy), dx * ux + dy * uy
            rough, steep = ROUNDED * far * (along + far), along * far
        else:
            side = i - count
            sign = -1.0 if side in (XMIN, YMIN) else 1.0
            edge, at, m, slope = bounds[side], ax, mx, sign * dx
            if side in (YMIN, YMAX):
                at, m, slope = ay, my, sign * dy
            across = sign * (at + m - edge)
            rough, steep = ROUNDED * (abs(edge) + abs(at) + abs(m)), along
        if slope == 0.0 and across < -rough:
            continue  # along the bisector, on the far side of it
        if not abs(slope) > ROUGH * ROUGH * steep:
            return NOT_KNOWN
        t = -across / slope
        rough = (rough + ROUNDED * abs(t) * steep) / abs(slope)
        if slope > 0.0:
            high, surely_high = min(high, t + rough), min(surely_high, t - rough)
        else:
            low, surely_low = max(low, t - rough), max(surely_low, t + rough)
    least, most = max(surely_high - surely_low, 0.0), max(high - low, 0.0)
    return _judged(along * least * (1.0 - ROUNDED), along * most * (1.0 + ROUNDED), shortest)


@kernel("int64(float64[:, ::1], float64[::1], float64)")
def edge_counts(places, bounds, shortest):
    """Return whether the edge of the first two of some places is longer than what counts, with all others in its way.

    :data:`NOT_KNOWN` where it is about as long, or an error is too large.
    """
    count, dimension = places.shape
    if dimension == SPHERE:
        return _on_sphere(pointer(places), count, shortest)
    return _in_plane(pointer(places), count, pointer(bounds), shortest)


def counts(
    a: NDArray[np.float64], b: NDArray[np.float64], others: NDArray[np.float64], bounds: NDArray[np.float64],
    shortest: float,
) -> bool | None:  # fmt: skip
    """Return whether the edge between two sites is longer than ``shortest``, None where this cannot tell.

    ``a``, ``b``: (dimension,), distinct; ``others``: (c, dimension). As for
    :func:`dtoss.cells.edge_doubt.edge_length`; a and b are passed over; ``bounds``: float64 (4,). Those of the plane;
    ``shortest``: A length: CRS units or a chord.
    """
    rest = others[~((others == a).all(axis=1) | (others == b).all(axis=1))]
    known = edge_counts(np.concatenate([a[None], b[None], rest]), bounds, shortest)
    return None if known == NOT_KNOWN else known == COUNTS_SURELY
