"""The cells of a partition as polygons: exact across partitions, with their boxes, areas and numbers of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.building.border import BorderTable
from dtoss.cells.cell_polygons import CellPolygons, shapes
from dtoss.cells.edge_doubt import edges_in_doubt
from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.distance import EARTH_RADIUS, SPHERE, YMAX
from dtoss.geometry.rounding import EDGE_TURN, ONE_CORNER, OVER_POLE
from dtoss.locks import once
from dtoss.partition import Partition
from dtoss.queries.cell_of import CellView, candidates, cell_at
from dtoss.queries.find_by_id import Place
from dtoss.row_runs import offsets, runs

AT_ONCE = 65_536
"""Cells drawn at a time: a row group."""


@dataclass(frozen=True)
class Rings:
    """Closed rings of m cells."""

    # int64 (m + 1,). The points of ring i are ``points[first[i]:first[i + 1]]``, the last equal to the first; a cell
    # without corners has none
    first: NDArray[np.int64]
    points: NDArray[np.float64]  # float64 (p, 2): lon, lat in degrees or x, y, counter-clockwise
    # float64 (m, 4): xmin, ymin, xmax, ymax. One that crosses the antimeridian or holds a pole spans all longitudes.
    # NaN for a cell without corners
    boxes: NDArray[np.float64]


@dataclass(frozen=True)
class Cells:
    """The cells of m sites of a partition."""

    site: NDArray[np.int64]  # int64 (m,). The numbers of the sites
    made: CellPolygons
    others: NDArray[np.float64]  # float64 (c, dimension). The candidates that ``made.owner`` counts
    area: NDArray[np.float64]  # float64 (m,). Square metres or CRS units
    neighbours: NDArray[np.int32]  # int32 (m,). How many each has

    @once
    def rings(self) -> Rings:
        """The cells as closed rings."""
        return rings_of(self.made)


def cells_of(view: CellView, partition: Partition) -> Iterator[Cells]:
    """Yield the cells of a partition's owned sites in their order, some at a time. Cost O(sites)."""
    edges = border_edges(partition, view.border)
    for begin in range(0, partition.owned_sites, AT_ONCE):
        end = min(begin + AT_ONCE, partition.owned_sites)
        first, others = _candidates(partition, edges, begin, end)
        made = shapes(partition.sites[begin:end], first, others, view.bounds)
        neighbours = _neighbour_counts(view, partition, made, first, others, begin)
        yield Cells(np.arange(begin, end), made, others, made.area * _scale(view), neighbours)


def cells_at(view: CellView, partition: Partition, sites: NDArray[np.int64]) -> Cells:
    """Return the cells of some owned sites of a partition. Cost O(log n) each, and more than those of all."""
    listed = [candidates(view, partition, site)[0] for site in sites.tolist()]
    first = offsets([*map(len, listed)])
    others = np.concatenate([np.zeros((0, view.space.dimension)), *listed])
    made = shapes(partition.sites[sites], first, others, view.bounds)
    places = [Place(partition, int(partition.first_object[site]), site) for site in sites.tolist()]
    neighbours = [len(cell_at(view, place).neighbours) for place in places]
    return Cells(sites, made, others, made.area * _scale(view), np.array(neighbours, np.int32))


def _scale(view: CellView) -> float:
    return EARTH_RADIUS**2 if view.space.dimension == 3 else 1.0


def border_edges(
    partition: Partition, table: BorderTable | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges that the border table lists for a partition's owned sites.

    ``others[first[i]:first[i + 1]]`` are neighbours of ``site[i]``; sites ascend.
    """
    none = np.zeros(0, np.int64)
    if table is None or not (table.home == partition.number).any():
        return none, np.zeros(1, np.int64), np.zeros((0, partition.sites.shape[1]))
    points = np.flatnonzero(table.home == partition.number)
    owned = partition.sites[: partition.owned_sites]
    likely = np.flatnonzero(np.isin(owned[:, 0], table.sites[points, 0]))
    both = np.concatenate([owned[likely], table.sites[points]])
    order = np.lexsort(both.T[::-1])
    same = (both[order[1:]] == both[order[:-1]]).all(axis=1)
    # each vector stands at most once on either side, and the sort is stable: the site comes before the point
    site, point = likely[order[:-1][same]], points[order[1:][same] - len(likely)]
    ascending = np.argsort(site)
    site, point = site[ascending], point[ascending]
    begin, count = table.first[point].astype(np.int64), np.diff(table.first)[point].astype(np.int64)
    return site, offsets(count), table.sites[table.neighbours[runs(begin, count)]]


def _candidates(
    partition: Partition,
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
    begin: int,
    end: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return sites that hold all neighbours of the sites ``begin:end``, as :func:`.cell_of.candidates` does."""
    graph = partition.graph
    start = graph.first[begin : end + 1].astype(np.int64)
    near = graph.neighbours[start[0] : start[-1]]
    certified = np.ones(end - begin, np.bool_)
    low, high = np.searchsorted(partition.uncertified, [begin, end])
    certified[partition.uncertified[low:high] - begin] = False
    site, first, others = edges
    low, high = np.searchsorted(site, [begin, end])
    if low == high and certified.all():
        return start - start[0], partition.sites[near]
    listed = np.where(certified, np.diff(start), 0)
    added = np.zeros(end - begin, np.int64)
    added[site[low:high] - begin] = np.diff(first)[low:high]
    total = offsets(listed + added)
    out = np.empty((int(total[-1]), partition.sites.shape[1]))
    from_table = np.zeros(len(out), np.bool_)
    from_table[runs(total[:-1] + listed, added)] = True
    out[from_table] = others[first[low] : first[high]]
    out[~from_table] = partition.sites[near[np.repeat(certified, np.diff(start))]]
    return total, out


def _neighbour_counts(
    view: CellView,
    partition: Partition,
    made: CellPolygons,
    first: NDArray[np.int64],
    others: NDArray[np.float64],
    begin: int,
) -> NDArray[np.int32]:
    """Return how many neighbours each cell has; where an edge is about as long as counts, both sides are asked."""
    cells = len(made.area)
    real = made.owner >= 0
    length = np.bincount(made.owner[real], made.length[real], minlength=len(others)).astype(np.float64)
    cell = np.repeat(np.arange(cells), np.diff(first))
    count = np.bincount(cell[length > view.shortest], minlength=cells)
    # rounding turns an edge by its share of the distance to the site beyond it: in a long cell it moves the far end
    gap = np.full(cells, np.inf)
    np.minimum.at(gap, cell, np.sqrt(((others - partition.sites[begin : begin + cells][cell]) ** 2).sum(axis=1)))
    doubtful = (EDGE_TURN * made.radius**2 > 0.01 * view.shortest * gap)[cell]
    doubtful |= edges_in_doubt(made, partition.sites[begin : begin + cells], first, others, length, view.shortest)
    for i in np.unique(cell[doubtful]).tolist():
        item = int(partition.first_object[begin + i])
        count[i] = len(cell_at(view, Place(partition, item, begin + i)).neighbours)
    return count.astype(np.int32)


_POLAR = 90.0 - 1e-9
"""Latitude in degrees, 0.1 mm from a pole, from which on a longitude says nothing."""


_HALF_TURN, _WHOLE_TURN, _POLE = 180.0, 360.0, 90.0
"""In degrees: longitudes lie between minus a half turn and a half turn, latitudes between the poles."""
_WIDE, _NEAR_POLE = 90.0, 80.0
"""A ring that spans fewer degrees of longitude, nearer to the equator, neither crosses the antimeridian nor holds a
pole."""
_BULGING = 1e-4
"""Degrees that a ring must span for an arc to leave the box of its ends by more than digits."""
_TRIANGLE = 3
"""Corners that a ring needs."""


@kernel
def _unwrap(points, begin, end, turned):
    """Return the span of a ring's longitudes and how far round the ring goes in all.

    A corner on a pole takes its neighbour's longitude. A ring that fits between -180 and 180 is written so.
    """
    known = begin
    while known < end - 1 and abs(points[known, 1]) >= _POLAR:
        known += 1
    before = points[known, 0]
    now, low, high = before, before, before
    half = False
    for step in range(1, end - begin + 1):
        t = begin + (known - begin + step) % (end - begin)
        if abs(points[t, 1]) < _POLAR:
            move = points[t, 0] - before
            # half a turn, over a pole: the corners do not say to which side of the meridian the cell lies
            half = half or abs(abs(move) - _HALF_TURN) < OVER_POLE
            if move > _HALF_TURN:
                move -= _WHOLE_TURN
            if move < -_HALF_TURN:
                move += _WHOLE_TURN
            now += move
            before = points[t, 0]
        turned[t - begin] = now
        low, high = min(low, now), max(high, now)
    winding = now - points[known, 0]
    if half:
        return -_WHOLE_TURN, _WHOLE_TURN, winding
    if abs(winding) > _HALF_TURN:
        return low, high, winding
    shift = 0.0
    if high > _HALF_TURN and low >= _HALF_TURN:
        shift = -_WHOLE_TURN
    if low < -_HALF_TURN and high <= -_HALF_TURN:
        shift = _WHOLE_TURN
    low, high = low + shift, high + shift
    if low >= -_HALF_TURN and high <= _HALF_TURN:
        for t in range(begin, end):
            points[t, 0] = turned[t - begin] + shift
    return low, high, winding


@kernel
def _bulge(points, i, j):
    """Return the least and the greatest latitude on the great-circle arc between two points, in degrees."""
    a, b = np.radians(points[i, 1]), np.radians(points[j, 1])
    turn = np.radians(points[j, 0] - points[i, 0])
    low, high = min(points[i, 1], points[j, 1]), max(points[i, 1], points[j, 1])
    # the latitude climbs at the start and falls at the end of an arc that holds the circle's highest place
    climb = np.cos(a) * np.sin(b) - np.sin(a) * np.cos(b) * np.cos(turn)
    fall = np.cos(b) * np.sin(a) - np.sin(b) * np.cos(a) * np.cos(turn)
    across = np.cos(b) * np.sin(turn)
    length = np.sqrt(climb * climb + across * across)
    if length > 0.0 and climb * fall > 0.0:
        top = np.degrees(np.arccos(min(np.cos(a) * abs(across) / length, 1.0)))
        if climb > 0.0:
            high = max(high, top)
        else:
            low = min(low, -top)
    return low, high


@kernel(
    "int64(int64[::1], float64[:, ::1], float64[::1], float64, int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[::1])"
)
def _rings(first, vertices, length, shortest, ring_first, points, boxes, turned):
    """Fill rings and boxes; returns the number of points. ``turned`` holds the longitudes of one ring, unwrapped."""
    sphere = vertices.shape[1] == SPHERE
    filled = 0
    for i in range(first.size - 1):
        ring_first[i] = filled
        kept = 0
        for j in range(first[i], first[i + 1]):
            if length[j] > shortest:
                kept += 1
        whole = kept < _TRIANGLE
        begin = filled
        for j in range(first[i], first[i + 1]):
            if not whole and length[j] <= shortest:
                continue
            if sphere:
                x, y, z = vertices[j, 0], vertices[j, 1], vertices[j, 2]
                points[filled, 0] = np.degrees(np.arctan2(y, x))
                points[filled, 1] = np.degrees(np.arctan2(z, np.sqrt(x * x + y * y)))
            else:
                points[filled, 0], points[filled, 1] = vertices[j, 0], vertices[j, 1]
            filled += 1
        m = filled - begin
        if m == 0:
            for side in range(4):
                boxes[i, side] = np.nan
            continue
        x0, y0, x1, y1 = points[begin, 0], points[begin, 1], points[begin, 0], points[begin, 1]
        for t in range(begin, filled):
            x0, y0 = min(x0, points[t, 0]), min(y0, points[t, 1])
            x1, y1 = max(x1, points[t, 0]), max(y1, points[t, 1])
        if sphere and (x1 - x0 > _WIDE or y1 > _NEAR_POLE or y0 < -_NEAR_POLE):
            x0, x1, winding = _unwrap(points, begin, filled, turned)
            if winding > _HALF_TURN:
                y1 = _POLE
            if winding < -_HALF_TURN:
                y0 = -_POLE
            if abs(winding) > _HALF_TURN or x0 < -_HALF_TURN or x1 > _HALF_TURN:
                x0, x1 = -_HALF_TURN, _HALF_TURN
        if sphere and (x1 - x0 > _BULGING or y1 - y0 > _BULGING):
            for t in range(begin, filled):
                low, high = _bulge(points, t, t + 1 if t + 1 < filled else begin)
                y0, y1 = min(y0, low), max(y1, high)
        boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, YMAX] = x0, y0, x1, y1
        points[filled, 0], points[filled, 1] = points[begin, 0], points[begin, 1]
        filled += 1
    ring_first[first.size - 1] = filled
    return filled


def rings_of(made: CellPolygons) -> Rings:
    """Return cells as closed rings, in degrees on the sphere."""
    cells = len(made.area)
    ring_first = np.empty(cells + 1, np.int64)
    points, boxes = np.empty((len(made.vertices) + cells, 2)), np.empty((cells, 4))
    scale = float(np.abs(made.vertices).max(initial=0.0))
    turned = np.empty(int(np.diff(made.first).max(initial=0)) + 1)
    filled = _rings(
        made.first, operand(made.vertices), operand(made.length), ONE_CORNER * scale, ring_first, points, boxes, turned
    )
    return Rings(ring_first, points[:filled], boxes)
