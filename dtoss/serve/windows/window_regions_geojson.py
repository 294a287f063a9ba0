"""The regions that windows count by, as the page draws them: partitions, what is nearest to sites, polygons, H3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.export.cell_rings import cells_of
from dtoss.export.h3_cells import h3_cells
from dtoss.geometry.polygons import Rings, polygons_in
from dtoss.geometry.space import Space
from dtoss.in_process import build
from dtoss.partitioning.regions import Regions
from dtoss.serve.core.problems import Problem
from dtoss.tiles.cell_tiles import closed_rings, regions_on_map
from dtoss.tiles.drawings import drawn_polygons
from dtoss.tiles.map_frame import Frame, unmercator
from dtoss.tiles.rings import MapRings, rings_on_map
from dtoss.tiles.tile_clipping import TileBox, clipped_polygons, thin_for_zoom
from dtoss.windows.query.window_query import Windows
from dtoss.windows.storage.keys_file import rings_from

Shape: TypeAlias = list[list[list[list[float]]]]
"""Coordinates of a GeoJSON MultiPolygon."""
GRID_UNITS = 1 << 28
"""Of a side of the map: corners are told to 15 cm."""
SHAPES_ZOOM, COARSE_ZOOM = 12, 6
"""At which regions are drawn with all their corners, to a metre; and where these are too many, to 60 m at the worst."""
MOST_CORNERS = 400_000
"""Of all regions: 9 MB of GeoJSON."""
MOST_HEXAGONS = 50_000
"""Cells of H3 that are drawn at once: 8 MB of GeoJSON."""
_DIGITS = 6
_MARGIN = 0.25
"""Share of their spread by which sites of a plane are seen beyond the outermost ones."""


@dataclass(frozen=True)
class Ground:
    """Where regions are drawn."""

    frame: Frame  # What the map is for places of the windows
    # Of a plane xmin, ymin, xmax, ymax, to which regions are cut; None on the sphere
    bounds: tuple[float, float, float, float] | None

    @property
    def text(self) -> str:
        """Names it: equal ones have the same regions of the same keys."""
        return f"{self.frame.plane} {self.bounds}"


@dataclass(frozen=True)
class Drawn:
    """Regions on the map."""

    keys: NDArray[np.int64]  # int64 (n,)
    at: NDArray[np.float64]  # float64 (n, 2). Longitude and latitude on the map of a place that stands for each
    shapes: list[Shape]  # Of each; empty where nothing is nearer to it than to another one


def regions_of(windows: Windows, ground: Ground, end: float | str | None = None) -> Drawn:
    """Return the regions of the keys of windows. Cost O(n log n) for n sites or corners, O(P^2) for P partitions.

    ``end``: of cells of H3, of which there are too many to draw all: those in which anything happened in the longest
    window that ended then; None takes the last end that is due.
    """
    space, tables = windows.spec.space, windows.reader.material
    if "h3" in tables:
        return of_h3(windows.at(end, windows.spec.names[-1])["key"].to_numpy(), ground)
    if "regions" in tables:
        columns = tables["regions"]
        pivots = [columns[f"pivot_{i}"].to_numpy() for i in range(columns.num_columns - 1)]
        weights = np.array(columns["weight"].to_numpy())
        return of_partitions(Regions(np.ascontiguousarray(np.stack(pivots, axis=1)), weights), ground)
    if "corners" in tables:
        return of_polygons(rings_from(tables), space, ground)
    return of_sites(_places(tables["sites"]), space, ground)


def of_h3(keys: NDArray[np.int64], ground: Ground) -> Drawn:
    """Return cells of H3; each stands at its middle."""
    if len(keys) > MOST_HEXAGONS:
        raise Problem(
            413,
            f"there are {len(keys):,} cells of H3, and at most {MOST_HEXAGONS:,} are drawn: ask for a key over time "
            "(/series), or count by larger cells",
            limit="cells",
            value=len(keys),
            bound=MOST_HEXAGONS,
        )
    middles, made = h3_cells(keys)
    return Drawn(keys, middles, shapes_of(rings_on_map(ground.frame, *closed_rings(made))))


def of_partitions(regions: Regions, ground: Ground) -> Drawn:
    """Return the regions of pivots; each stands at its pivot."""
    bounds = None if ground.bounds is None else np.array(ground.bounds)
    made = regions_on_map(ground.frame, regions, bounds).near
    return Drawn(np.arange(len(regions)), ground.frame.lonlat_of_vectors(regions.pivots), shapes_of(made))


def of_sites(positions: NDArray[np.float64], space: Space, ground: Ground) -> Drawn:
    """Return the places of which each site (n, 2) is the nearest one; of equal ones the first has them."""
    first = np.unique(space.vectors(positions), axis=0, return_index=True)[1]
    bounds = None if ground.bounds is None else _round(positions, ground.bounds)
    index = build(
        first, positions[first], crs=space.crs, metric=space.metric, bounds=bounds, partitions=1, progress=False
    )
    shapes: list[Shape] = [[] for _ in range(len(positions))]
    partition = index.parts[0]
    for cells in cells_of(index.engine.view, partition):
        vectors, begin, rings = closed_rings(cells.made)
        made = rings_on_map(ground.frame, vectors, begin, rings, np.diff(cells.made.first) == 0)
        ids = np.asarray(partition.ids)[partition.first_object[cells.site]]
        for key, shape in zip(ids.tolist(), shapes_of(made), strict=True):
            shapes[key] = shape
    return Drawn(np.arange(len(positions)), ground.frame.lonlat_of(positions), shapes)


def of_polygons(rings: Rings, space: Space, ground: Ground) -> Drawn:
    """Return polygons as they are; each stands in the middle of its largest one."""
    shapes = [one.fill for one in drawn_polygons(ground.frame, polygons_in(rings, space), SHAPES_ZOOM)]
    at = np.array([_middle(shape) for shape in shapes]).reshape(-1, 2)
    return Drawn(np.arange(len(shapes)), at, shapes)


def features(drawn: Drawn, windows: Windows) -> list[dict[str, Any]]:
    """Return regions as GeoJSON features with the properties key, at, and name where they are called something."""
    at, told = drawn.at.round(_DIGITS).tolist(), windows.names.beside(pa.table({"key": drawn.keys}))
    names = told["name"].to_pylist() if "name" in told.column_names else [None] * len(at)
    return [
        {
            "type": "Feature",
            "properties": {"key": key, "at": place} if name is None else {"key": key, "name": name, "at": place},
            "geometry": {"type": "MultiPolygon", "coordinates": shape} if shape else None,
        }
        for key, name, place, shape in zip(drawn.keys.tolist(), names, at, drawn.shapes, strict=True)
    ]


def shapes_of(made: MapRings) -> list[Shape]:
    """Return polygons of the map as coordinates: cut at its sides, round poles too, with their holes."""
    whole = TileBox(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, GRID_UNITS]))
    zoom, few = SHAPES_ZOOM, thin_for_zoom(made, SHAPES_ZOOM)
    while few.first[-1] > MOST_CORNERS and zoom > COARSE_ZOOM:
        zoom -= 1
        few = thin_for_zoom(made, zoom)
    cut = clipped_polygons(few, whole)
    lonlat = unmercator(cut.points / GRID_UNITS).round(_DIGITS)
    found: list[Shape] = [[] for _ in range(len(made))]
    for ring, polygon in enumerate(cut.polygon.tolist()):
        # what runs clockwise to the eye runs the other way in GeoJSON
        corners = lonlat[cut.first[ring] : cut.first[ring + 1]][::-1].tolist()
        corners.append(corners[0])
        if cut.area[ring] > 0 or not found[polygon]:
            found[polygon].append([corners])
        else:
            found[polygon][-1].append(corners)
    return found


def _places(table: Any) -> NDArray[np.float64]:
    return np.stack([table[name].to_numpy() for name in ("x", "y")], axis=1)


def _round(
    positions: NDArray[np.float64], bounds: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """Return a box round sites and what else is seen of a plane."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    margin = _MARGIN * max(float((high - low).max()), 1.0)
    west, south = np.minimum(low - margin, bounds[:2]).tolist()
    east, north = np.maximum(high + margin, bounds[2:]).tolist()
    return west, south, east, north


def _middle(shape: Shape) -> tuple[float, float]:
    """Return the centroid of the largest polygon of a shape."""
    best, area = (0.0, 0.0), -1.0
    for polygon in shape:
        ring = np.array(polygon[0])
        origin = ring[0]
        (x, y), (u, v) = (ring[:-1] - origin).T, (ring[1:] - origin).T
        cross = x * v - u * y
        twice = float(cross.sum())
        if abs(twice) > area:
            middle = ((x + u) @ cross, (y + v) @ cross) if twice else (0.0, 0.0)
            third = 3.0 * twice if twice else 1.0
            best, area = (origin[0] + middle[0] / third, origin[1] + middle[1] / third), abs(twice)
    return best
