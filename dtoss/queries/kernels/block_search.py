"""What searches over blocks share: squared distances of a block's sites, and whether its ball meets a disc."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import gaps_plane, gaps_sphere
from dtoss.compiled.pointers import float64_at, float_bits, int32_at, shifted
from dtoss.partition import BLOCK
from dtoss.queries.kernels.address_table import BALLS, BLOCK_FIRST, BLOCK_NEIGHBOURS, RIM, RIM_COUNT, SITE_COUNT, SITES
from dtoss.queries.kernels.walk import gap2


@kernel
def gaps_of(rows, p, dimension, x, y, z, block, out):
    """Fill ``out[:16]`` with squared distances of a block's sites; past the last one NaN, within nothing."""
    sites = float64_at(rows[p, SITES])
    begin = block * BLOCK
    if begin + BLOCK <= rows[p, SITE_COUNT]:
        if dimension == 3:
            gaps_sphere(shifted(sites, 3 * begin), x, y, z, out)
        else:
            gaps_plane(shifted(sites, 2 * begin), x, y, out)
        return
    count = rows[p, SITE_COUNT] - begin
    for i in range(BLOCK):
        out[i] = gap2(sites, begin + i, dimension, x, y, z) if i < count else np.nan


@kernel
def meets(balls, block, x, y, z, reach):
    """Return 1 if the ball of a block meets the disc of a radius, ``reach``, round (x, y, z), else 0."""
    at = block << 2
    a, b, c = balls[at] - x, balls[at + 1] - y, balls[at + 2] - z
    far = reach + balls[at + 3]
    # the sign of a difference: a comparison becomes a branch that is not to be predicted
    return 1 + (float_bits(far * far - (a * a + b * b + c * c)) >> 63)


@kernel
def consider(rows, p, x, y, z, reach, block, queue, end, seen):
    """Append the neighbours of a block that were not seen to the queue if the disc meets them; returns its end."""
    balls = float64_at(rows[p, BALLS])
    first, neighbours = int32_at(rows[p, BLOCK_FIRST]), int32_at(rows[p, BLOCK_NEIGHBOURS])
    for t in range(first[block], first[block + 1]):
        other = int(neighbours[t])
        before = int(seen[other])
        now = before | meets(balls, other, x, y, z, reach)
        queue[end] = other
        seen[other] = np.uint8(now)
        end += now - before
    return end


@kernel
def consider_rim(rows, p, x, y, z, reach, queue, end, seen):
    """Append the blocks of rim sites that the disc meets, for a query outside the bounds; returns the queue's end.

    The graph ends at the bounds: what is in reach of such a query may be connected across them only.
    """
    balls, rim = float64_at(rows[p, BALLS]), int32_at(rows[p, RIM])
    for t in range(rows[p, RIM_COUNT]):
        block = int(rim[t]) // BLOCK
        if seen[block] == 0 and meets(balls, block, x, y, z, reach) == 1:
            queue[end] = block
            seen[block] = 1
            end += 1
    return end
