"""The cells of sites in view as tiles: of each place the polygon, the lowest id and how many objects there are.

Cells that their partition alone could not certify, as tiles: where partitions had to ask each other.

The regions of the partitions as tiles: polygons of what each owns, and their borders as lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.building.border import BorderTable
from dtoss.cells.cell_polygons import CellPolygons, shapes
from dtoss.compiled.kernel import operand
from dtoss.export.cell_rings import border_edges
from dtoss.geometry.distance import EARTH_RADIUS, distance
from dtoss.geometry.space import HALF_TURN, space_of
from dtoss.index import Index
from dtoss.locks import Lock
from dtoss.partition import Partition
from dtoss.partitioning.region_polygons import region_shapes
from dtoss.partitioning.regions import Regions
from dtoss.queries.batch_answer import answer
from dtoss.row_runs import offsets, runs
from dtoss.tiles.map_frame import Frame, unmercator
from dtoss.tiles.mvt import EXTENT, LINES, POLYGONS, layer
from dtoss.tiles.rings import TOLERANCE, MapRings, rings_on_map
from dtoss.tiles.tile_clipping import (
    Clipped,
    TileBox,
    clipped_lines,
    clipped_polygons,
    rings_in,
    thin_for_zoom,
    tile_box,
)

NEAR_ZOOM, NEAREST_ZOOM = 14, 16
"""Zooms from which more cells are drawn: there are no smaller tiles than those of the latter."""
_WIDE = 0.25
"""Sides of the map up to which the corners of a tile are its furthest places from its middle."""
_NARROWLY = 1e-9
"""Share of a distance that is more than rounding."""
_ROUNDS = 64
"""Rounds of neighbours at the most; each goes on where cells of the one before reach."""
_COARSE = 0.25
"""Units of a tile that a cell's edge may be off, as long as that is not finer than regions are drawn."""


class CellLimits(NamedTuple):
    """Objects round a tile up to which cells are drawn: at any zoom, and from either of those on."""

    far: int = 3_000
    near: int = 10_000
    nearest: int = 30_000

    def at(self, z: int) -> int:
        """Return the limit of a zoom."""
        if z >= NEAREST_ZOOM:
            return self.nearest
        return self.near if z >= NEAR_ZOOM else self.far


CELL_LIMITS = CellLimits()


@dataclass(frozen=True)
class Sites:
    """Some sites: the partitions that own them and their numbers there, int64 (m,) each."""

    part: NDArray[np.int64]
    site: NDArray[np.int64]


class CellSource:
    """Cells of an index by the tile; thread-safe."""

    def __init__(self, index: Index, frame: Frame, limits: CellLimits = CELL_LIMITS) -> None:
        self.index, self.frame, self._limits = index, frame, limits
        self._view = index.engine.view
        self._edges: dict[int, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = {}
        self._lock = Lock()

    def tile(self, z: int, x: int, y: int) -> bytes:
        """Return a tile of cells: polygons in the layer ``cells``; none where there are too many to be seen.

        The properties of a cell are ``id``, the lowest of its site as text, and ``objects`` on it.
        """
        tile = tile_box(z, x, y)
        found = self.in_view(tile, self._limits.at(z))
        if found is None:
            return b""
        sites, made = found
        cut = clipped_polygons(made, tile)
        kept = np.unique(cut.polygon)
        ids = np.full(len(made), "", object)
        objects = np.zeros(len(made), np.int64)
        for number in np.unique(sites.part[kept]).tolist():
            partition = self.index.parts[number]
            rows = kept[sites.part[kept] == number]
            first = partition.first_object[sites.site[rows]]
            objects[rows] = partition.first_object[sites.site[rows] + 1] - first
            ids[rows] = pa.array(partition.ids).take(pa.array(first)).cast(pa.large_string()).to_pylist()
        told = (("id", pa.array(ids, pa.large_string())), ("objects", objects))
        return layer("cells", cut.features(POLYGONS, told))

    def uncertified_tile(self, z: int, x: int, y: int) -> bytes:
        """Return a tile of the borders of those cells that their partitions could not certify.

        As :func:`.cell_tiles.uncertified_tile`, small ones as they are.
        """
        tile = tile_box(z, x, y)
        found = self.in_view(tile, self._limits.at(z))
        if found is None:
            return b""
        sites, made = found
        cut = clipped_lines(made, tile)
        is_open = np.zeros(len(made), np.bool_)
        for number in np.unique(sites.part).tolist():
            rows = sites.part == number
            is_open[rows] = np.isin(sites.site[rows], self.index.parts[number].uncertified)
        return layer("uncertified", cut.only(is_open).features(LINES, (("partition", sites.part),)))

    def in_view(self, tile: TileBox, most: int) -> tuple[Sites, MapRings] | None:
        """Return all cells that may reach into a tile's box, on the map; None where more objects than that are near.

        Cells that reach into a box hang together there: from those of the sites in it, one goes on to neighbours.
        """
        view, index = self._view, self.index
        if len(index) == 0:
            return None
        centre, radius = self._disc(tile)
        found = answer(view.opened, centre, np.array([radius]), most + 1)
        if len(found.distance) > most:
            return None
        reach2 = (1.0 - _NARROWLY) * _chord2(radius, index.space.dimension)
        if len(found.distance) == 0:
            found = answer(view.opened, centre, np.array([np.inf]), 1)
        waiting = _distinct(self._vectors(found.part, found.item))
        known: set[bytes] = set()
        sites: list[Sites] = []
        rings: list[MapRings] = []
        for _ in range(_ROUNDS):
            names = _names(waiting)
            fresh = [i for i, name in enumerate(names) if name not in known]
            if not fresh:
                break
            known.update(names[i] for i in fresh)
            if len(known) > 2 * most + self._limits.far:
                return None
            own = self._located(waiting[fresh])
            made, others = self._cells(own)
            on_map = _on_map(self.frame, made, tile)
            near = np.unique(np.searchsorted(on_map.rings, rings_in(on_map, tile), side="right") - 1)
            near = np.union1d(near, np.flatnonzero(on_map.turned_out))
            cell = np.repeat(np.arange(len(made.area)), np.diff(made.first))
            touched = np.isin(cell, near) & (made.owner >= 0)
            next_to = others[made.owner[touched]]
            # all sites nearer to the middle are known from the start
            waiting = _distinct(next_to[((next_to - centre) ** 2).sum(axis=1) >= reach2])
            sites.append(own)
            rings.append(on_map)
        return Sites(*(np.concatenate([getattr(s, name) for s in sites]) for name in ("part", "site"))), _joined(rings)

    def _disc(self, tile: TileBox) -> tuple[NDArray[np.float64], float]:
        """Return the vector of a tile's middle (1, dimension), and how far from there its furthest place is.

        Where that is half the map or more, or a CRS has no place for it, infinity.
        """
        xmin, ymin, xmax, ymax = tile.box.tolist()
        world = np.array(
            [[(xmin + xmax) / 2, (ymin + ymax) / 2], *((x, y) for x in (xmin, xmax) for y in (ymin, ymax))]
        )
        lonlat = unmercator(world)
        if self.index.space.dimension == 2:
            vectors = self.frame.positions_of(lonlat)
        else:
            lonlat[:, 0] -= 2.0 * HALF_TURN * np.rint(lonlat[:, 0] / (2.0 * HALF_TURN))
            vectors = space_of().vectors(lonlat)
        if not np.isfinite(vectors).all():
            return np.zeros((1, 2)), np.inf
        wide = xmax - xmin > _WIDE and self.frame.plane is None
        reach = np.inf if wide else float(distance(vectors[1:], np.repeat(vectors[:1], 4, axis=0)).max())
        return operand(vectors[:1]), reach * (1.0 + _NARROWLY)

    def _vectors(self, part: NDArray[np.int32], item: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the vectors of objects, float64 (n, dimension)."""
        out = np.empty((len(part), self.index.space.dimension))
        for number in np.unique(part).tolist():
            rows, partition = part == number, self.index.parts[number]
            out[rows] = partition.sites[np.searchsorted(partition.first_object, item[rows], side="right") - 1]
        return out

    def _located(self, vectors: NDArray[np.float64]) -> Sites:
        """Return the owned sites at vectors of sites (m, dimension)."""
        found = answer(self._view.opened, operand(vectors), np.zeros(len(vectors)), 1)
        part, site = found.part.astype(np.int64), np.empty(len(vectors), np.int64)
        for number in np.unique(part).tolist():
            rows = part == number
            site[rows] = np.searchsorted(self.index.parts[number].first_object, found.item[rows], side="right") - 1
        return Sites(part, site)

    def _cells(self, sites: Sites) -> tuple[CellPolygons, NDArray[np.float64]]:
        """Return the cells of owned sites, and the candidates that their owners number."""
        count = np.zeros(len(sites.part), np.int64)
        pieces: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        centres = np.empty((len(sites.part), self.index.space.dimension))
        for number in np.unique(sites.part).tolist():
            rows, partition = np.flatnonzero(sites.part == number), self.index.parts[number]
            at = sites.site[rows]
            centres[rows] = partition.sites[at]
            listed, others = self._candidates(partition, at)
            count[rows] = listed
            pieces.append((rows, listed, others))
        first = offsets(count)
        together = np.empty((int(first[-1]), centres.shape[1]))
        for rows, listed, others in pieces:
            together[runs(first[rows], listed)] = others
        return shapes(centres, first, together, self._view.bounds), together

    def _candidates(
        self, partition: Partition, sites: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return how many candidates each owned site of a partition has, and all of them, site by site."""
        graph = partition.graph
        start = graph.first[sites].astype(np.int64)
        own = np.where(np.isin(sites, partition.uncertified), 0, graph.first[sites + 1] - start).astype(np.int64)
        border_site, border_first, border_others = self._border_edges(partition)
        place = np.minimum(np.searchsorted(border_site, sites), max(len(border_site) - 1, 0))
        added = np.zeros(len(sites), np.int64)
        begin = np.zeros(len(sites), np.int64)
        if len(border_site):
            there = border_site[place] == sites
            begin = border_first[place]
            added = np.where(there, border_first[place + 1] - begin, 0)
        total = offsets(own + added)
        out = np.empty((int(total[-1]), partition.sites.shape[1]))
        out[runs(total[:-1], own)] = partition.sites[graph.neighbours[runs(start, own)]]
        out[runs(total[:-1] + own, added)] = border_others[runs(begin, added)]
        return own + added, out

    def _border_edges(self, partition: Partition) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        with self._lock:
            known = self._edges.get(partition.number)
        if known is None:
            known = border_edges(partition, self._view.border)
            with self._lock:
                self._edges[partition.number] = known
        return known


def closed_rings(made: CellPolygons) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the vertices of cells as closed rings, where each begins, and the ring of each cell; few have none."""
    count = np.diff(made.first)
    has = count > 0
    first = offsets(count[has] + 1)
    rows = runs(made.first[:-1][has], count[has] + 1)
    rows[first[1:] - 1] = made.first[:-1][has]
    return made.vertices[rows], first, offsets(has)


def _on_map(frame: Frame, made: CellPolygons, tile: TileBox) -> MapRings:
    vectors, first, rings = closed_rings(made)
    return rings_on_map(
        frame, vectors, first, rings, np.diff(made.first) == 0, max(_COARSE / float(tile.grid[2]), TOLERANCE)
    )


def _joined(pieces: list[MapRings]) -> MapRings:
    """Return polygons one after another."""

    def chained(name: str) -> NDArray[np.int64]:
        ends = np.cumsum([0] + [int(getattr(piece, name)[-1]) for piece in pieces])
        starts = [getattr(piece, name)[:-1] + end for piece, end in zip(pieces, ends[:-1], strict=True)]
        return np.concatenate([*starts, ends[-1:]]).astype(np.int64)

    def together(name: str) -> NDArray:
        return np.concatenate([getattr(piece, name) for piece in pieces])

    return MapRings(
        together("points"), chained("first"), chained("rings"), together("winding"), together("turned_out"),
        together("boxes"),
    )  # fmt: skip


def _chord2(radius: float, dimension: int) -> float:
    """Return the squared chord of a distance on the sphere, or the square of one in the plane."""
    if dimension == 2:
        return radius * radius
    return 4.0 * float(np.sin(0.5 * min(radius / EARTH_RADIUS, np.pi)) ** 2)


def _names(vectors: NDArray[np.float64]) -> list[bytes]:
    """Return the bytes of each vector: equal ones are equal places."""
    whole = np.ascontiguousarray(vectors)
    names: list[bytes] = whole.view(f"V{8 * whole.shape[1]}").ravel().tolist()
    return names


def _distinct(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distinct vectors."""
    names = dict(zip(_names(vectors), range(len(vectors)), strict=True)) if len(vectors) else {}
    return vectors[list(names.values())]


MOST_UNCERTIFIED = 200_000
"""Cells that are kept, the largest ones: 40 MB at the most."""
POINT_UNITS = 8
"""Units of a tile that a picture's point is wide; smaller cells are drawn as one, once."""
_TOLERANCE = 2.0**-22
"""As :data:`.rings.TOLERANCE`, 10 m at the equator: these cells are seen from afar."""


@dataclass(frozen=True)
class UncertifiedCells:
    """Uncertified cells on the map."""

    made: MapRings
    partition: NDArray[np.int64]  # int64 (n,). Who owns the site of each
    # Whether these are all: the smallest are left out where there are more than :data:`MOST_UNCERTIFIED`
    complete: bool


def uncertified_on_map(
    frame: Frame, border: BorderTable | None, bounds: NDArray[np.float64] | None, most: int = MOST_UNCERTIFIED
) -> UncertifiedCells:
    """Return the cells that the border table holds, the largest of them where there are many.

    Cost O(their neighbours).
    """
    dimension = 2 if bounds is not None else 3
    if border is None:
        none = np.zeros(1, np.int64)
        return UncertifiedCells(rings_on_map(frame, np.zeros((0, dimension)), none, none), none[:0], True)
    sites = np.flatnonzero(border.open)
    complete = len(sites) <= most
    if not complete:
        sites = np.sort(sites[np.argsort(-border.area[sites], kind="stable")[:most]])
    count = np.diff(border.first)[sites].astype(np.int64)
    near = border.neighbours[runs(border.first[sites].astype(np.int64), count)]
    first = offsets(count)
    made = shapes(border.sites[sites], first, border.sites[near], bounds)
    vectors, ring_first, rings = closed_rings(made)
    on_map = rings_on_map(frame, vectors, ring_first, rings, np.diff(made.first) == 0, _TOLERANCE)
    return UncertifiedCells(on_map, border.home[sites].astype(np.int64), complete)


def uncertified_tile(cells: UncertifiedCells, z: int, x: int, y: int) -> bytes:
    """Return a tile of the borders of uncertified cells: lines in the layer ``uncertified``, property ``partition``.

    Cells that are smaller than a point of the picture are drawn as the point's border, one for all of them there.
    """
    tile, made = tile_box(z, x, y), cells.made
    chosen = rings_in(made, tile)
    west, north, east, south = made.boxes[chosen].T
    small = np.maximum(east - west, south - north) * tile.grid[2] < POINT_UNITS
    small &= made.winding[chosen] == 0
    owner = np.searchsorted(made.rings, chosen, side="right") - 1
    middles = np.column_stack([west + east, north + south])[small] / 2.0
    cut = _with_points(clipped_lines(made, tile, chosen[~small]), middles, owner[small], tile)
    return layer("uncertified", cut.features(LINES, (("partition", cells.partition),)))


def _with_points(cut: Clipped, middles: NDArray[np.float64], owner: NDArray[np.int64], tile: TileBox) -> Clipped:
    """Return lines and, behind them, those round points of the picture that hold middles of small cells, each once."""
    offset = middles - tile.grid[:2]
    offset[:, 0] -= np.floor(offset[:, 0])
    at = np.floor(offset * tile.grid[2] / POINT_UNITS).astype(np.int64)
    inside = ((at >= 0) & (at < EXTENT // POINT_UNITS)).all(axis=1)
    _, kept = np.unique(at[inside] @ np.array([1, EXTENT]), return_index=True)
    corner = (at[inside][kept] * POINT_UNITS).astype(np.int32)
    square = POINT_UNITS * np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)], np.int32)
    points = (corner[:, None] + square).reshape(-1, 2)
    polygon = np.concatenate([cut.polygon, owner[inside][kept]])
    first = np.concatenate([cut.first, cut.first[-1] + len(square) * np.arange(1, len(corner) + 1)])
    return Clipped(np.concatenate([cut.points, points]), first, polygon, np.zeros(len(polygon), np.int64))


FAR_ZOOM = 5
"""The last zoom whose tiles are cut from fewer points."""


@dataclass(frozen=True)
class DrawnRegions:
    """The regions on the map, polygon i that of partition i: as they are, and as they look from afar."""

    near: MapRings
    far: MapRings

    def __len__(self) -> int:
        return len(self.near)


def regions_on_map(frame: Frame, regions: Regions, bounds: NDArray[np.float64] | None) -> DrawnRegions:
    """Return the regions on the map. Cost O(P^2) and more."""
    shapes = region_shapes(regions, bounds)
    curves = [ring for shape in shapes for piece in shape.polygons for ring in piece]
    vectors = np.concatenate([np.zeros((0, regions.pivots.shape[1])), *curves])
    rings = [sum(len(piece) for piece in shape.polygons) for shape in shapes]
    whole = np.array([not shape.polygons and shape.area > 0.0 for shape in shapes])
    near = rings_on_map(frame, vectors, offsets([len(ring) for ring in curves]), offsets(rings), whole)
    return DrawnRegions(near, thin_for_zoom(near, FAR_ZOOM))


def region_tile(drawn: DrawnRegions, z: int, x: int, y: int) -> bytes:
    """Return a tile of regions: polygons in the layer ``regions``, and their borders as lines in ``borders``.

    A feature's id and its property ``partition`` are the number of the partition. Polygons also run along the sides of
    the tile, and lines do not.
    """
    tile, made = tile_box(z, x, y), drawn.far if z <= FAR_ZOOM else drawn.near
    told = (("partition", np.arange(len(made))),)
    areas = layer("regions", clipped_polygons(made, tile).features(POLYGONS, told, numbered=True))
    return areas + layer("borders", clipped_lines(made, tile).features(LINES, told, numbered=True))
