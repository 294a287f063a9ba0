"""The order of sites in which those of one line follow each other, whatever other lines lie among them.

The curve of ``dtoss/geometry/hilbert.py`` comes back to a tilted line again and again, and runs to and fro between two
that are close: a node of its tree holds pieces of both. Here the sites of a plane that holds many, on the sphere those
of a circle, stand apart from all others, and what is left is halved across its length, over and over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import CHILDREN, LEAF
from dtoss.compiled.kernel import kernel
from dtoss.geometry.distance import SPHERE
from dtoss.geometry.rounding import OFF_PLANE

_PLANES, _SITES_A_PLANE = 12, 8
"""Planes through three sites that are tried in any run, and one more for each so many sites of it."""
_LOOKED_AT, _CLOSER = 32, 8
"""Sites that are looked at for each plane, about, and so many times more where two lie on it."""
_LEAST, _MANY = 6, 0.02
"""A plane that holds fewer, or a smaller share, of the sites looked at is not one of a line."""
_MOST = 0.25
"""One that holds a greater share is taken at once."""
_FEW = 64
"""So few sites are not searched for planes."""
_TURN_AT = SPHERE
"""Where behind a normal it stands how far digits may turn it."""
_MULTIPLIER, _MODULUS = 48271, 2147483647
"""Of the generator: each number below 2^31 but 0 comes once."""
_ROOM = 128
"""Runs of sites that wait: two for each halving at the most."""


@kernel
def _off_plane(vectors, i, corner, normal, turn):
    """Return whether a site lies off the plane through another one by more than digits tell."""
    a, b, c = (
        vectors[i, 0] - vectors[corner, 0],
        vectors[i, 1] - vectors[corner, 1],
        vectors[i, 2] - vectors[corner, 2],
    )
    return abs(a * normal[0] + b * normal[1] + c * normal[2]) > OFF_PLANE + turn * np.sqrt(a * a + b * b + c * c)


@kernel
def _drawn(number):
    """Return the number drawn after another one, below 2^31. Park and Miller's generator."""
    return _MULTIPLIER * number % _MODULUS


@kernel
def _share(vectors, order, begin, end, count, corner, normal, turn):
    """Return how many of a run's sites lie on a plane, of about ``count`` that are looked at, and their share."""
    step, on, looked_at = 1 + (end - begin - 1) // count, 0, 0
    for t in range(begin, end, step):
        on += not _off_plane(vectors, order[t], corner, normal, turn)
        looked_at += 1
    return on, on / looked_at


@kernel
def _common_plane(vectors, order, begin, end, normal):
    """Find the plane that holds most of a run's sites; returns a site on it, -1 where none holds many.

    Fills its normal, and how far the last digits of the three sites that tell it may turn it.
    """
    size = end - begin
    choice, most, corner = size, _MANY, -1
    tried = np.empty(SPHERE)
    for _ in range(_PLANES + size // _SITES_A_PLANE):
        choice = _drawn(choice)
        i = order[begin + choice % size]
        choice = _drawn(choice)
        j = order[begin + choice % size]
        choice = _drawn(choice)
        k = order[begin + choice % size]
        a, b, c = vectors[j, 0] - vectors[i, 0], vectors[j, 1] - vectors[i, 1], vectors[j, 2] - vectors[i, 2]
        p, q, r = vectors[k, 0] - vectors[i, 0], vectors[k, 1] - vectors[i, 1], vectors[k, 2] - vectors[i, 2]
        x, y, z = b * r - c * q, c * p - a * r, a * q - b * p
        area = np.sqrt(x * x + y * y + z * z)
        if not area > 0.0:
            continue
        tried[0], tried[1], tried[2] = x / area, y / area, z / area
        # over the least height of the triangle
        turn = OFF_PLANE * max(np.sqrt(a * a + b * b + c * c), np.sqrt(p * p + q * q + r * r)) / area
        on, share = _share(vectors, order, begin, end, _LOOKED_AT, i, tried, turn)
        if on > 1 and share < _MOST:
            on, share = _share(vectors, order, begin, end, _CLOSER * _LOOKED_AT, i, tried, turn)
        if on >= _LEAST and share > most:
            most, corner = share, i
            normal[0], normal[1], normal[2], normal[_TURN_AT] = tried[0], tried[1], tried[2], turn
            if most > _MOST:
                break
    return corner


@kernel
def _apart(vectors, order, begin, end, corner, normal):
    """Put the sites of a plane before all others of a run; returns where the others begin."""
    i, j = begin, end - 1
    while i <= j:
        if _off_plane(vectors, order[i], corner, normal, normal[_TURN_AT]):
            order[i], order[j] = order[j], order[i]
            j -= 1
        else:
            i += 1
    return i


@kernel
def _along(vectors, order, begin, end, keys):
    """Fill the keys of a run's sites: where they lie along its length."""
    dimension = vectors.shape[1]
    one, other = order[begin], order[begin]
    for _ in range(2):
        one, most = other, -1.0
        for i in range(begin, end):
            gap = 0.0
            for axis in range(dimension):
                d = vectors[order[i], axis] - vectors[one, axis]
                gap += d * d
            if gap > most:
                most, other = gap, order[i]
    for i in range(begin, end):
        keys[i] = 0.0
        for axis in range(dimension):
            keys[i] += (vectors[order[i], axis] - vectors[one, axis]) * (vectors[other, axis] - vectors[one, axis])


@kernel
def _select(keys, order, begin, end, middle):
    """Put the least keys of a run before ``middle``, and their sites with them. Hoare's selection."""
    low, high = begin, end - 1
    while low < high:
        pivot = keys[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i, j = i + 1, j - 1
        if j < middle:
            low = i
        if i >= middle:
            high = j


@kernel
def _middle(begin, end):
    """Return where a run is cut in two: between two nodes of the tree that are as high as may be."""
    width = LEAF
    while width * CHILDREN < end - begin:
        width *= CHILDREN
    while True:
        middle = ((begin + end) // 2 + width // 2) // width * width
        if begin < middle < end:
            return middle
        width //= CHILDREN


@kernel("void(float64[:, ::1], int32[::1], float64[::1])")
def _order(vectors, order, keys):
    begins, ends, lines = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64), np.empty(_ROOM, np.bool_)
    normal = np.empty(4)
    for i in range(order.size):
        order[i] = i
    begins[0], ends[0], lines[0] = 0, order.size, vectors.shape[1] == 2
    waiting = 1
    while waiting > 0:
        waiting -= 1
        begin, end, line = begins[waiting], ends[waiting], lines[waiting]
        if end - begin <= LEAF:
            continue
        if not line and end - begin > _FEW:
            corner = _common_plane(vectors, order, begin, end, normal)
            if corner >= 0:
                middle = _apart(vectors, order, begin, end, corner, normal)
                line = middle == end
                if not line:
                    begins[waiting], ends[waiting], lines[waiting] = middle, end, False
                    waiting += 1
                    line, end = True, middle
        if end - begin <= LEAF:
            continue
        _along(vectors, order, begin, end, keys)
        middle = _middle(begin, end)
        _select(keys, order, begin, end, middle)
        begins[waiting], ends[waiting], lines[waiting] = middle, end, line
        begins[waiting + 1], ends[waiting + 1], lines[waiting + 1] = begin, middle, line
        waiting += 2


def line_order(vectors: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return sites, float64 (n, dimension), in the order of the lines that they lie on, int32 (n,). Cost O(n log n)."""
    order = np.empty(len(vectors), np.int32)
    _order(vectors, order, np.empty(len(vectors)))
    return order
