"""What searches over blocks share: squared distances of a block's sites, and whether its ball meets a disc."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import ball_meets, gaps_plane, gaps_sphere
from dtoss.compiled.pointers import float64_at, int32_at, shift
from dtoss.geometry.position import SPHERE
from dtoss.partition import BLOCK, FAN
from dtoss.queries.kernels.address_table import (
    BALLS,
    BLOCK_FIRST,
    BLOCK_NEIGHBOURS,
    RIM,
    RIM_BALLS,
    RIM_COUNT,
    SITE_COUNT,
    SITES,
)
from dtoss.queries.kernels.walk import gap2


@kernel
def gaps_of(row, place, block, out):
    """Fill ``out[:16]`` with squared distances of a block's sites; past the last one NaN, within nothing."""
    sites = float64_at(row[SITES])
    begin = block * BLOCK
    if begin + BLOCK <= row[SITE_COUNT]:
        if place.dimension == SPHERE:
            gaps_sphere(shift(sites, SPHERE * begin), place.x, place.y, place.z, out)
        else:
            gaps_plane(shift(sites, 2 * begin), place.x, place.y, out)
        return
    # the last block: sixteen at once would read past its end
    count = row[SITE_COUNT] - begin
    for i in range(BLOCK):
        out[i] = gap2(sites, begin + i, place) if i < count else np.nan


@kernel
def meets(balls, block, place, reach):
    """Return 1 if the ball of a block meets the disc of a radius, ``reach``, round a place, else 0."""
    return ball_meets(shift(balls, block << 2), place.x, place.y, place.z, reach)


@kernel
def consider(row, place, reach, block, end, scratch):
    """Append the neighbours of a block that were not seen to the queue if the disc meets them; returns its end."""
    queue, seen = scratch.queue, scratch.seen
    balls = float64_at(row[BALLS])
    first, neighbours = int32_at(row[BLOCK_FIRST]), int32_at(row[BLOCK_NEIGHBOURS])
    for t in range(first[block], first[block + 1]):
        other = int(neighbours[t])
        before = int(seen[other])
        now = before | meets(balls, other, place, reach)
        # written in any case, and kept where the end moves on: no branch
        queue[end] = other
        seen[other] = np.uint8(now)
        end += now - before
    return end


@kernel
def consider_rim(row, place, reach, end, scratch):
    """Append the blocks of rim sites that the disc meets, for a query outside the bounds; returns the queue's end.

    The graph ends at the bounds: what is in reach of such a query may be connected across them only. But the straight
    way to each site of the disc enters the bounds in the cell of a rim site that is no further.
    """
    queue, seen = scratch.queue, scratch.seen
    balls, rim, runs = float64_at(row[BALLS]), int32_at(row[RIM]), float64_at(row[RIM_BALLS])
    count = row[RIM_COUNT]
    for run in range((count + FAN - 1) // FAN):
        if meets(runs, run, place, reach) == 0:
            continue
        for t in range(run * FAN, min((run + 1) * FAN, count)):
            block = int(rim[t]) // BLOCK
            if seen[block] == 0 and meets(balls, block, place, reach) == 1:
                queue[end] = block
                seen[block] = 1
                end += 1
    return end


@kernel
def forget(end, scratch):
    """Leave ``seen`` all 0, as the next search finds it: only blocks in the queue are marked."""
    for t in range(end):
        scratch.seen[scratch.queue[t]] = 0
