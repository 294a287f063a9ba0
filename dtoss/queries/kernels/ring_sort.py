"""Sorting the hits of a disc: counted into rings of equal area, each ring sorted by counting who is less."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES, NEVER
from dtoss.compiled.pointers import bits_float, float_bits, shifted
from dtoss.compiled.rank_sort import NAMES, RANKED, sort_keys, sort_window

RINGS = 4096
"""Rings at the most."""
IN_RING = 8
"""Hits in a ring in the mean."""


@kernel
def ring_sort(distance, n, keys, ordered, counts):
    """Fill ``ordered[:n]`` with keys whose low bits number the hits ``distance[:n]`` by distance, almost in order.

    What the upper bits leave out, 2^-24 of a distance, may be out of order. ``keys`` has room for n + 16,
    ``counts`` for ``RINGS`` + 1.
    """
    for i in range(n):
        ordered[i] = (float_bits(distance[i]) & ~NAMES) | i
    if n <= RANKED // 2:
        for i in range(n):
            keys[i] = ordered[i]
        sort_keys(keys, n, ordered)
        return
    rings = min(n // IN_RING, RINGS)
    furthest = 0.0
    for i in range(n):
        furthest = max(furthest, bits_float(ordered[i] & ~NAMES))
    scale = rings / (furthest * furthest) if furthest > 0.0 else 0.0
    for c in range(rings + 1):
        counts[c] = 0
    for i in range(n):
        counts[_ring(ordered[i], scale, rings) + 1] += 1
    for c in range(rings):
        counts[c + 1] += counts[c]
    for i in range(n):
        c = _ring(ordered[i], scale, rings)
        keys[counts[c]] = ordered[i]
        counts[c] += 1
    for i in range(LANES):
        keys[n + i] = NEVER
    begin = 0
    for c in range(rings):
        sort_window(shifted(keys, begin), counts[c] - begin, shifted(ordered, begin))
        begin = counts[c]


@kernel
def _ring(key, scale, rings):
    # of the shortened distance: keys that differ in their low bits only fall into one ring
    d = bits_float(key & ~NAMES)
    return min(int(d * d * scale), rings - 1)
