"""Which objects of one partition lie in polygons: its blocks, their sites, and of each the edges that may decide."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.pointers import float64_at, int32_at, pointer, shift, uint8_at
from dtoss.geometry.distance import SPHERE, Place
from dtoss.geometry.point_in_polygon import side_beyond
from dtoss.geometry.polygon_tables import (
    FACT_COLUMNS,
    FLAT_TOLERANCE,
    HALF_SPACES,
    HIGHEST_U,
    HIGHEST_V,
    LEAST_UP,
    LOWEST_U,
    LOWEST_V,
    PER_STRIP,
    SIDE_TOLERANCE,
    U_AXIS,
    U_AXIS_Y,
    U_AXIS_Z,
    U_BEGIN,
    U_END,
    UP_AXIS,
    UP_AXIS_Y,
    UP_AXIS_Z,
    V_AXIS,
    V_AXIS_Y,
    V_AXIS_Z,
    V_BEGIN,
    V_END,
    strip_of,
)
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BALL, BLOCK, FAN, RADIUS
from dtoss.queries.kernels.address_table import BALLS, MASK, OBJECTS, OWNED_SITES, SITES, row_of

OUT, IN, UNSURE = range(3)
"""What is known of a place and a polygon; where rounding could turn it, rational numbers tell."""
OFFSET_OF, LENGTH_OF = 3, 4
"""Of a half-space, behind the three numbers of its direction."""
FLAT_COLUMNS, CORNER_COLUMNS = 4, 3
"""Numbers in a row of two tables."""


class Tables(NamedTuple):
    """Pointers to the tables of :class:`dtoss.geometry.polygon_tables.Areas`."""

    facts: Any
    sides: Any
    begins: Any
    ends: Any
    flat: Any
    strip: Any
    listed: Any
    edges: Any


class Asked(NamedTuple):
    """What a search is asked, and where it marks what it found."""

    dimension: int  # Numbers in a place
    shape: Any  # Pointer to the number of the shape of each polygon
    marks: Any  # Pointer to an entry for each site: the last shape that holds it, and one
    listing: bool  # Whether hits are listed, or only counted


class Found(NamedTuple):
    """Pointers to where the shapes and objects of hits are listed, and doubts."""

    shapes: Any
    items: Any
    doubts: Any


@kernel
def _apart(tables, polygon, ball, dimension):
    """Return whether a ball, of which ``ball`` is the pointer, lies outside of a half-space of a polygon."""
    x, y, z = ball[0], ball[1], ball[2] if dimension == SPHERE else 1.0
    radius = ball[RADIUS]
    at = polygon * HALF_SPACES * HALF_SPACES
    for _ in range(HALF_SPACES):
        a, b, c = x * tables.sides[at], y * tables.sides[at + 1], z * tables.sides[at + 2]
        bound, wide = tables.sides[at + OFFSET_OF], radius * tables.sides[at + LENGTH_OF]
        if a + b + c - bound - wide > PRUNE * (abs(a) + abs(b) + abs(c) + abs(bound) + wide):
            return True
        at += HALF_SPACES
    return False


@step
def _crossed(tables, edge, site, u, v, tolerance, beside):
    """Return whether the ray from a place crosses an edge: 1 or 0, 2 where rounding could turn it, -1 on the edge."""
    at = edge * FLAT_COLUMNS
    ua, va = tables.flat[at + U_BEGIN], tables.flat[at + V_BEGIN]
    ub, vb = tables.flat[at + U_END], tables.flat[at + V_END]
    found = 0
    if tolerance == 0.0 and va == v and vb == v:
        found = -1 if min(ua, ub) <= u <= max(ua, ub) else 0
    elif (abs(va - v) > tolerance and abs(vb - v) > tolerance) or tolerance == 0.0:
        if (va >= v) != (vb >= v):
            if tolerance == 0.0 and ua == ub:
                found = -1 if u == ua else int(u < ua)
            elif ua > u + tolerance and ub > u + tolerance:
                found = 1
            elif ua >= u - tolerance or ub >= u - tolerance:
                at = edge * CORNER_COLUMNS
                begins, ends = tables.begins, tables.ends
                a = Place(begins[at], begins[at + 1], begins[at + 2], SPHERE)
                b = Place(ends[at], ends[at + 1], ends[at + 2], SPHERE)
                side = side_beyond(a, b, site, beside)
                found = 2 if side == 0 else int((side > 0) == (vb >= v))
        elif tolerance == 0.0 and ((ua == u and va == v) or (ub == u and vb == v)):
            found = -1
    elif min(va, vb) - tolerance <= v <= max(va, vb) + tolerance and max(ua, ub) >= u - tolerance:
        found = 2
    return found


@kernel
def polygon_holds(tables, polygon, site):
    """Return whether a place lies in a polygon: OUT, IN or UNSURE."""
    f = polygon * FACT_COLUMNS
    facts = tables.facts
    height = site.x * facts[f + UP_AXIS] + site.y * facts[f + UP_AXIS_Y] + site.z * facts[f + UP_AXIS_Z]
    if not height >= facts[f + LEAST_UP]:
        return OUT
    u = (site.x * facts[f + U_AXIS] + site.y * facts[f + U_AXIS_Y] + site.z * facts[f + U_AXIS_Z]) / height
    if u < facts[f + LOWEST_U] or u > facts[f + HIGHEST_U]:
        return OUT
    v = (site.x * facts[f + V_AXIS] + site.y * facts[f + V_AXIS_Y] + site.z * facts[f + V_AXIS_Z]) / height
    if v < facts[f + LOWEST_V] or v > facts[f + HIGHEST_V]:
        return OUT
    first, end = tables.strip[polygon], tables.strip[polygon + 1]
    strip = first + strip_of(v, facts[f + LOWEST_V], facts[f + PER_STRIP], end - first)
    odd, tolerance, beside = 0, facts[f + FLAT_TOLERANCE], facts[f + SIDE_TOLERANCE]
    for t in range(tables.listed[strip], tables.listed[strip + 1]):
        found = _crossed(tables, int(tables.edges[t]), site, u, v, tolerance, beside)
        if found == 1:
            odd ^= 1
        elif found < 0:
            return IN
        elif found == 2:
            return UNSURE
    return IN if odd else OUT


@kernel
def _site_at(sites, number, dimension):
    at = number * dimension
    return Place(sites[at], sites[at + 1], sites[at + 2] if dimension == SPHERE else 1.0, SPHERE)


@kernel
def _taken(row, site, asked, shape, out, used):
    """Count the objects of a site, or list them from place ``used`` on; returns how many."""
    objects, mask = int32_at(row[OBJECTS]), uint8_at(row[MASK])
    if row[MASK] == 0 and not asked.listing:
        return int(objects[site + 1] - objects[site])
    found = 0
    for item in range(objects[site], objects[site + 1]):
        if row[MASK] == 0 or mask[item]:
            if asked.listing:
                out.shapes[used + found] = shape
                out.items[used + found] = item
            found += 1
    return found


@kernel
def _search_block(row, block, tables, asked, polygon, out, used, unsure):
    """Count or list the objects of a block that a polygon holds; returns how many, and doubts in all."""
    first, stop = block * BLOCK, min(block * BLOCK + BLOCK, row[OWNED_SITES])
    shape = int(asked.shape[polygon])
    sites = float64_at(row[SITES])
    found = 0
    for site in range(first, stop):
        if asked.marks[site] == shape + 1:
            continue  # another polygon of the shape holds it
        told = polygon_holds(tables, polygon, _site_at(sites, site, asked.dimension))
        if told == IN:
            asked.marks[site] = shape + 1
            found += _taken(row, site, asked, shape, out, used + found)
        elif told == UNSURE:
            out.doubts[2 * unsure] = polygon
            out.doubts[2 * unsure + 1] = site
            unsure += 1
    return found, unsure


@kernel(
    "Tuple((int64[::1], int32[::1], int32[::1], int64[::1]))(int64[:, ::1], int64[::1], int64, int64, int64[::1],"
    " int64[::1], int64, int32[::1], boolean, float64[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[:, ::1],"
    " float64[:, ::1], int64[::1], int64[::1], int32[::1])"
)
def zone_kernel(
    rows: Any, runs: Any, p: int, dimension: int,
    polygons: Any, shape: Any, shapes_in_all: int, marks: Any, listing: bool,
    facts: Any, sides: Any, begins: Any, ends: Any, flat: Any, strip: Any, listed: Any, edges: Any,
) -> Any:  # fmt: skip
    """Return what partition p holds of polygons, in the order in which they are named.

    First how many objects of each shape; then, if ``listing``, the shape and the number of each object; last the
    doubts, polygon and site in turn, which are in none of these. An object counts once for a shape whose polygons
    follow one another.
    """
    tables = Tables(
        pointer(facts), pointer(sides), pointer(begins), pointer(ends), pointer(flat), pointer(strip), pointer(listed),
        pointer(edges),
    )  # fmt: skip
    asked = Asked(dimension, pointer(shape), pointer(marks), listing)
    count = np.zeros(shapes_in_all, np.int64)
    shapes, items, doubts = np.empty(FAN, np.int32), np.empty(FAN, np.int32), np.empty(2 * FAN, np.int64)
    used = unsure = 0
    row = row_of(pointer(rows), p)
    balls, groups, objects = float64_at(row[BALLS]), float64_at(runs[p]), int32_at(row[OBJECTS])
    owned = row[OWNED_SITES]
    blocks = (owned + BLOCK - 1) // BLOCK
    for t in range(polygons.size):
        polygon = int(polygons[t])
        for begin in range(0, blocks, FAN):
            if runs[p] != 0 and _apart(tables, polygon, shift(groups, begin // FAN * BALL), dimension):
                continue
            for block in range(begin, min(begin + FAN, blocks)):
                if _apart(tables, polygon, shift(balls, block * BALL), dimension):
                    continue
                # whatever the block holds, there is room for it
                most = int(objects[min((block + 1) * BLOCK, owned)] - objects[block * BLOCK]) if listing else 0
                if used + most > items.size:
                    shapes = np.concatenate((shapes, np.empty(used + most, np.int32)))
                    items = np.concatenate((items, np.empty(used + most, np.int32)))
                if 2 * (unsure + BLOCK) > doubts.size:
                    doubts = np.concatenate((doubts, np.empty(2 * (unsure + BLOCK), np.int64)))
                out = Found(pointer(shapes), pointer(items), pointer(doubts))
                found, unsure = _search_block(row, block, tables, asked, polygon, out, used, unsure)
                count[int(shape[polygon])] += found
                used += found if listing else 0
    return count, shapes[:used], items[:used], doubts[: 2 * unsure]


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[:, ::1],"
    " float64[:, ::1], int64[::1], int64[::1], int32[::1], uint8[::1])"
)
def held_kernel(
    places: Any, facts: Any, sides: Any, begins: Any, ends: Any, flat: Any, strip: Any, listed: Any, edges: Any,
    told: Any,
) -> None:  # fmt: skip
    """Tell of each place (n, dimension) whether the first polygon holds it: OUT, IN or UNSURE."""
    tables = Tables(
        pointer(facts), pointer(sides), pointer(begins), pointer(ends), pointer(flat), pointer(strip), pointer(listed),
        pointer(edges),
    )  # fmt: skip
    sites = pointer(places)
    for i in range(places.shape[0]):
        told[i] = polygon_holds(tables, 0, _site_at(sites, i, places.shape[1]))
