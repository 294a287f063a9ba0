"""Order along a space-filling curve: Hilbert keys in the plane and on the six faces of a cube round the sphere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import SPHERE, XMAX, XMIN, YMAX, YMIN


def _hilbert_table() -> NDArray[np.int64]:
    """Return four levels of the Hilbert curve at once: ``[x bits, y bits, state] -> (position bits, state)``."""
    corner = (
        (0, 1, 3, 2),
        (0, 2, 3, 1),
        (3, 2, 0, 1),
        (3, 1, 0, 2),
    )  # quarter visited at each step, by state
    turn = (1, 0, 0, 3)  # the state changes by exclusive or
    table = np.zeros(1024, dtype=np.int64)

    def descend(level: int, x: int, y: int, start: int, position: int, state: int) -> None:
        if level == 4:
            table[(x << 4 | y) << 2 | start] = position << 2 | state
            return
        for step in range(4):
            quarter = corner[state][step]
            descend(
                level + 1,
                x << 1 | quarter >> 1,
                y << 1 | quarter & 1,
                start,
                position << 2 | step,
                state ^ turn[step],
            )

    for state in range(4):
        descend(0, 0, 0, state, 0, state)
    return table


_HILBERT = _hilbert_table()
_STATES = 3
"""The mask of the turns that the curve may have."""
_LEVELS, _KEY_BITS, _ALL_BITS = 4, 8, 15
"""Levels of the curve that the table takes at once, the bits of the key that they give, and the mask of a coordinate's
bits."""
_FACE_BITS, _PLANE_BITS = 30, 31
"""Bits of a coordinate on a face of the cube, and in the plane: with 31 the key stays positive."""
_TOP_SHIFT = 28
"""Where the highest bits of a coordinate begin that the table takes."""
_X_BACK, _Y_BACK, _Z_BACK = 3, 4, 5
"""The faces of the cube on the far sides; those on the near sides are 0, 1, 2."""
_QUADRATIC = 3.0
"""Of the quadratic projection of a face, as S2 has it: areas of cells differ by a factor of about two at the most."""
_DIGITS, _DIGIT_BITS = 6, 11
"""Digits of a key by which it is sorted, one after another, and the bits of each."""
_VALUES = 1 << _DIGIT_BITS
_FEW = 16
"""So few objects are sorted by insertion."""


@kernel
def _hilbert(x, y, last):
    state = 0
    key = 0
    for shift in range(_TOP_SHIFT, last - _LEVELS, -_LEVELS):
        step = _HILBERT[(((x >> shift) & _ALL_BITS) << _LEVELS | ((y >> shift) & _ALL_BITS)) << 2 | state]
        key = key << _KEY_BITS | step >> 2
        state = step & _STATES
    return key << 2 * last


@kernel
def _spread(u):
    # Evens out the area of cells over a face of the cube, from [-1, 1] to [0, 1].
    if u >= 0:
        return 0.5 * np.sqrt(1.0 + _QUADRATIC * u)
    return 1.0 - 0.5 * np.sqrt(1.0 - _QUADRATIC * u)


@kernel
def _sphere_key(x, y, z, last):
    a, b, c = abs(x), abs(y), abs(z)
    if a >= b and a >= c:
        face = 0 if x > 0 else _X_BACK
        u, v = y / a, z / a
    elif b >= c:
        face = 1 if y > 0 else _Y_BACK
        u, v = x / b, z / b
    else:
        face = 2 if z > 0 else _Z_BACK
        u, v = x / c, y / c
    top = float((1 << _FACE_BITS) - 1)
    return face << (2 * _FACE_BITS) | _hilbert(int(_spread(u) * top), int(_spread(v) * top), last)


@kernel
def _plane_scale(box):
    """Return steps of the curve's grid to a unit of the plane."""
    span = max(box[XMAX] - box[XMIN], box[YMAX] - box[YMIN])
    return float((1 << _PLANE_BITS) - 1) / span if span > 0 else 0.0


@kernel
def _plane_key(x, y, box, scale, last):
    top = float((1 << _PLANE_BITS) - 1)
    a = min(max((x - box[XMIN]) * scale, 0.0), top)
    b = min(max((y - box[YMIN]) * scale, 0.0), top)
    return _hilbert(int(a), int(b), last)


@kernel
def coarse_key(place, box):
    """Return the key that :func:`curve_keys` gives a place where it is coarse."""
    if place.dimension == SPHERE:
        return _sphere_key(place.x, place.y, place.z, _KEY_BITS)
    return _plane_key(place.x, place.y, box, _plane_scale(box), _KEY_BITS)


@kernel("void(float64[:, ::1], float64[::1], int64, int64[::1])")
def _keys(vectors, box, last, keys):
    n, dimension = vectors.shape
    if dimension == SPHERE:
        for i in range(n):
            keys[i] = _sphere_key(vectors[i, 0], vectors[i, 1], vectors[i, 2], last)
        return
    edges, scale = pointer(box), _plane_scale(box)
    for i in range(n):
        keys[i] = _plane_key(vectors[i, 0], vectors[i, 1], edges, scale, last)


def curve_keys(
    vectors: NDArray[np.float64], box: NDArray[np.float64] | None = None, *, coarse: bool = False
) -> NDArray[np.int64]:
    """Return each vector's place along a Hilbert curve.

    Not negative. Cost O(n). ``vectors``: shape (n, 2) in the plane or (n, 3) of unit length on the sphere,
    C-contiguous; ``box``: plane only, float64 (4,): xmin, ymin, xmax, ymax of the square that the curve fills; the box
    of the vectors when None. Vectors outside are moved to its rim; ``coarse``: leave the last 16 bits 0, about 2.5
    metres on the sphere: enough to start a query, and quicker.

    Examples
    --------
    >>> curve_keys(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])).argsort().tolist()
    [0, 3, 2, 1]
    """
    if box is None:
        box = np.zeros(4)
        if vectors.shape[1] == 2 and len(vectors):
            box = np.array([vectors[:, 0].min(), vectors[:, 1].min(), vectors[:, 0].max(), vectors[:, 1].max()])
    # numpy's memory comes in huge pages, numba's does not: large arrays are made here
    keys = np.empty(len(vectors), np.int64)
    _keys(operand(vectors), operand(box, dtype=np.float64), 8 if coarse else 0, keys)
    return keys


@kernel("int64(int64[::1], int64[:, ::1], int32[:, ::1])")
def _radix_order(keys, copies, orders):
    """Fill a row of ``orders``, and return its number; the other rows are workspace."""
    n = keys.size
    for i in range(n):
        copies[0, i] = keys[i]
        orders[0, i] = i
    counts = np.zeros((_DIGITS, _VALUES), np.int64)
    for i in range(n):
        k = keys[i]
        for digit in range(_DIGITS):
            counts[digit, (k >> (_DIGIT_BITS * digit)) & (_VALUES - 1)] += 1
    now = 0
    for digit in range(_DIGITS):
        count = counts[digit]
        shift = _DIGIT_BITS * digit
        if n == 0 or count[(keys[0] >> shift) & (_VALUES - 1)] == n:
            continue  # all rows share this digit
        place = 0
        for value in range(_VALUES):
            place, count[value] = place + count[value], place
        read, order, write, spare = copies[now], orders[now], copies[1 - now], orders[1 - now]
        for i in range(n):
            value = (read[i] >> shift) & (_VALUES - 1)
            j = count[value]
            count[value] = j + 1
            write[j] = read[i]
            spare[j] = order[i]
        now = 1 - now
    return now


def radix_order(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the stable order, int32 (n,), that sorts int64 keys that are not negative. Cost O(n).

    Examples
    --------
    >>> radix_order(np.array([30, 10, 20, 10])).tolist()
    [1, 3, 2, 0]
    """
    return sorted_keys(keys)[0]


def sorted_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the stable order, int32 (n,), that sorts int64 keys that are not negative, and the sorted keys. Cost O(n).

    Examples
    --------
    >>> order, ascending = sorted_keys(np.array([30, 10, 20, 10]))
    >>> ascending.tolist()
    [10, 10, 20, 30]
    """
    copies, orders = np.empty((2, len(keys)), np.int64), np.empty((2, len(keys)), np.int32)
    last = _radix_order(operand(keys), copies, orders)
    return orders[last], copies[last]


@kernel("void(float64[:, ::1], int32[::1], float64[:, ::1])")
def _arrange(vectors, order, arranged):
    for i in range(order.size):
        for axis in range(vectors.shape[1]):
            arranged[i, axis] = vectors[order[i], axis]


def take_rows(vectors: NDArray[np.float64], order: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return ``vectors[order]`` for float64 (n, dimension), in a fraction of numpy's time.

    Examples
    --------
    >>> take_rows(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([1, 0], np.int32)).tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    out = np.empty((len(order), vectors.shape[1]))
    _arrange(operand(vectors), operand(order, dtype=np.int32), out)
    return out


@kernel
def _before(vectors, ranks, i, j):
    for axis in range(vectors.shape[1]):
        if vectors[i, axis] != vectors[j, axis]:
            return vectors[i, axis] < vectors[j, axis]
    return ranks[i] < ranks[j]


@kernel
def _sort_run(order, first, last, vectors, ranks):
    """Heap-sort ``order[first:last]`` by (vector, rank): no extra memory and O(n log n) for a run of any length."""
    n = last - first
    if n <= _FEW:
        for i in range(first + 1, last):
            item = order[i]
            j = i
            while j > first and _before(vectors, ranks, item, order[j - 1]):
                order[j] = order[j - 1]
                j -= 1
            order[j] = item
        return
    start = n // 2
    end = n
    while end > 1:
        if start > 0:
            start -= 1
            item = order[first + start]
        else:
            end -= 1
            item = order[first + end]
            order[first + end] = order[first]
        root = start
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and _before(vectors, ranks, order[first + child], order[first + child + 1]):
                child += 1
            if not _before(vectors, ranks, item, order[first + child]):
                break
            order[first + root] = order[first + child]
            root = child
        order[first + root] = item


@kernel("void(int32[::1], int64[::1], float64[:, ::1], int64[::1])")
def _settle_ties(order, keys, vectors, ranks):
    n = order.size
    first = 0
    while first < n:
        last = first + 1
        while last < n and keys[order[last]] == keys[order[first]]:
            last += 1
        if last - first > 1:
            _sort_run(order, first, last, vectors, ranks)
        first = last


def curve_order(
    vectors: NDArray[np.float64],
    ranks: NDArray[np.int64],
    box: NDArray[np.float64] | None = None,
    keys: NDArray[np.int64] | None = None,
) -> NDArray[np.int32]:
    """Return the order of objects along the curve: by (curve key, vector, rank).

    Objects on one site are neighbours in it, in the order of their ranks, so the result depends on the objects alone
    and not on the order in which they came.

    Cost O(n), O(n log n) in the longest run of one key. ``vectors``: (n, 2) or (n, 3), C-contiguous; ``ranks``: int64
    (n,), distinct. The ids, or the ids' places in code point order; ``box``: plane only: as in :func:`curve_keys`;
    ``keys``: what that returns of the vectors, where it is known.
    """
    keys = curve_keys(vectors, box) if keys is None else keys
    order = radix_order(keys)
    _settle_ties(order, keys, operand(vectors), operand(ranks, dtype=np.int64))
    return order
