"""What searches over blocks share: squared distances of a block's sites, and whether its ball meets a disc."""

from __future__ import annotations

import numpy as np

from dtoss.blocks import BLOCK
from dtoss.kernels import kernel
from dtoss.lanes import gaps_plane, gaps_sphere
from dtoss.pointers import float64_at, shifted
from dtoss.table import SITE_COUNT, SITES
from dtoss.walk import gap2


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
def meets(balls, block, dimension, x, y, z, reach):
    """Return whether the ball of a block meets the disc of a radius, ``reach``, round (x, y, z)."""
    at = int(block) * (dimension + 1)
    a, b = balls[at] - x, balls[at + 1] - y
    gap = a * a + b * b
    if dimension == 3:
        c = balls[at + 2] - z
        gap += c * c
    far = reach + balls[at + dimension]
    return gap <= far * far


@kernel
def consider(balls, dimension, x, y, z, reach, blocks, begin, stop, queue, end, left, later, seen):
    """Append those of ``blocks[begin:stop]`` that were not seen to the queue if the disc meets them, or to ``left``.

    Returns the ends of both. ``left`` may be ``blocks``, from its begin on.
    """
    for t in range(begin, stop):
        block = int(blocks[t])
        new = seen[block] == 0
        near = meets(balls, block, dimension, x, y, z, reach) & new
        queue[end] = block
        left[later] = block
        seen[block] |= np.uint8(near)
        end += near
        later += new & (not near)
    return end, later
