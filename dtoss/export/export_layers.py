"""Objects, cells and regions as columns with geometries, some rows at a time, and as GeoDataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.export.cell_rings import Cells, cells_at, cells_of, rings_of
from dtoss.export.clip import Boundary, boundary_of, inside, kept_in
from dtoss.export.corners import corners_of, on_plane, together
from dtoss.export.geoparquet import Geometries, points_wkb, polygons_wkb, rings_wkb
from dtoss.export.planar import (
    PLANAR_TOLERANCE,
    left_of_ring,
    on_grid,
    polygons_of,
    simple_polygons,
    without_repeats,
    world,
)
from dtoss.extras import need
from dtoss.geometry.space import LONLAT, Space, space_of
from dtoss.names import position_names
from dtoss.partition import Ids, Partition
from dtoss.partitioning.region_polygons import RegionShape, left_of, region_shapes
from dtoss.partitioning.regions import Regions
from dtoss.queries.cell_of import CellView
from dtoss.queries.find_by_id import Place
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.result_frames import geo_frame
from dtoss.row_runs import offsets, runs

if TYPE_CHECKING:
    import geopandas


OBJECTS_AT_ONCE = 262_144
Columns: TypeAlias = dict[str, pa.Array]
_SAME_CORNER = 1e-8
"""Degrees, 1 mm: corners of regions nearer together than this are one."""
_HALVES = [[np.array([[x, 90.0], [x, 0.0], [x, -90.0], [180.0 - x, 0.0], [x, 90.0]])] for x in (0.0, 180.0)]


@dataclass(frozen=True)
class Drawing:
    """How cells and regions are drawn."""

    planar: bool  # Edges are straight in lon, lat, as in a plane they always are; else they are arcs of great circles
    boundary: Boundary | None = None  # Only what lies inside is kept; with planar edges only
    tolerance: float = PLANAR_TOLERANCE  # Metres that a planar edge may leave its great circle


def drawn_crs(space: Space) -> str:
    """Return the CRS in which cells and regions are drawn: degrees where a projected one is compared on the sphere."""
    return LONLAT if space.to_lonlat else space.crs


def id_type_of(string_ids: bool) -> pa.DataType:
    """Return the type of the column of ids."""
    return pa.large_string() if string_ids else pa.int64()


def objects_schema(
    parts: OpenPartitions, space: Space, id_type: pa.DataType, columns: Sequence[str] | None = None
) -> pa.Schema:
    """Return the columns of objects: id, partition, attributes, all or those named, coordinates among them."""
    kinds = {name: column.type for name, column in parts[0].attributes.items()}
    axes = dict.fromkeys(position_names(space.geographic), pa.float64())
    names = kinds if columns is None else columns
    return pa.schema([("id", id_type), ("partition", pa.int32()), *((name, (kinds | axes)[name]) for name in names)])


def cells_schema(id_type: pa.DataType) -> pa.Schema:
    """Return the columns of cells."""
    numbers = {"objects": pa.int32(), "area": pa.float64(), "neighbours": pa.int32(), "partition": pa.int32()}
    return pa.schema([("id", id_type), *numbers.items()])


REGIONS_SCHEMA = pa.schema(
    {
        "partition": pa.int32(),
        "objects": pa.int64(),
        "sites": pa.int64(),
        "area": pa.float64(),
        "neighbours": pa.int32(),
    }.items()
)
"""The columns of regions."""


def object_layers(
    parts: OpenPartitions,
    space: Space,
    boundary: Boundary | None = None,
    rows_of: Callable[[Partition], NDArray[Any]] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[Columns, NDArray[np.float64]]]:
    """Yield columns and positions, float64 (n, 2), of owned objects: those in a boundary, of rows that are asked for.

    ``boundary``: none is everywhere; ``rows_of``: which objects of a partition, ascending; None is all that it owns;
    ``columns``: attributes; None is all.
    """
    axes = position_names(space.geographic)
    for number in range(len(parts)):
        partition = parts[number]
        all_rows = np.arange(partition.owned_objects) if rows_of is None else rows_of(partition)
        for begin in range(0, len(all_rows), OBJECTS_AT_ONCE):
            rows = all_rows[begin : begin + OBJECTS_AT_ONCE]
            points = np.ascontiguousarray(partition.positions[rows])
            if boundary is not None:
                keep = inside(_compared(space, points), boundary)
                points, rows = points[keep], rows[keep]
            at = pa.array(rows)
            told = {"id": taken(partition.ids, rows), "partition": _same(partition.number, len(rows))}
            for name in partition.attributes if columns is None else columns:
                if name in axes:
                    told[name] = pa.array(points[:, axes.index(name)])
                else:
                    told[name] = partition.attributes[name].take(at)
            yield told, points


def points_of(points: NDArray[np.float64]) -> Geometries:
    """Return positions as geometries."""
    return Geometries(points_wkb(points), np.tile(points, 2), frozenset(["Point"] * (len(points) > 0)))


def _compared(space: Space, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions in the coordinates of cells."""
    return Space(LONLAT, "sphere").positions(space.vectors(points)) if space.to_lonlat else points


def spherical_cells(view: CellView) -> Iterator[tuple[Columns, Geometries]]:
    """Yield cells whose edges are those that they have: arcs of great circles, segments in a plane."""
    for partition, cells in _all_cells(view):
        yield _cell_columns(partition, cells, np.arange(len(cells.site))), _whole_cells(cells)


def planar_cells(view: CellView, drawing: Drawing) -> Iterator[tuple[Columns, NDArray[Any]]]:
    """Yield cells as valid shapely polygons of straight edges, None where nothing is left of one."""
    for partition, cells in _all_cells(view):
        columns, shapes, _ = drawn_cells(view, partition, cells, drawing)
        yield columns, shapes


def drawn_cells(
    view: CellView, partition: Partition, cells: Cells, drawing: Drawing
) -> tuple[Columns, NDArray[Any], NDArray[np.int64]]:
    """Return cells of a partition as valid shapely polygons of straight edges, and which ones a boundary keeps."""
    rows = np.arange(len(cells.site))
    if drawing.boundary is not None:
        rows = drawing.boundary.near(cells.rings.boxes)
    first, points = corners_of(cells.made, partition.sites[cells.site], cells.others, view.bounds)
    first, points = _runs(first, points, rows)
    if view.bounds is None:
        shapes = polygons_of(first, points, drawing.tolerance)
        shapes[np.diff(cells.made.first)[rows] == 0] = world()
    else:
        shapes = simple_polygons(*without_repeats(first, points))
    if drawing.boundary is not None:
        keep, shapes = kept_in(shapes, drawing.boundary)
        rows = rows[keep]
    return _cell_columns(partition, cells, rows), shapes, rows


def _all_cells(view: CellView) -> Iterator[tuple[Partition, Cells]]:
    parts = view.opened.parts
    for number in range(len(parts)):
        partition = parts[number]
        for cells in cells_of(view, partition):
            yield partition, cells


def _cell_columns(partition: Partition, cells: Cells, rows: NDArray[np.int64]) -> Columns:
    site, first = cells.site[rows], partition.first_object
    return {
        "id": taken(partition.ids, first[site]),
        "objects": pa.array(first[site + 1] - first[site]),
        "area": pa.array(cells.area[rows]),
        "neighbours": pa.array(cells.neighbours[rows]),
        "partition": _same(partition.number, len(rows)),
    }


def _runs(
    first: NDArray[np.int64], points: NDArray[np.float64], which: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if len(which) == len(first) - 1:
        return first, points
    size = np.diff(first)[which]
    return offsets(size), points[runs(first[which], size)]


def _whole_cells(cells: Cells) -> Geometries:
    rings = cells.rings
    if len(cells.site) == 1 and len(rings.points) == 0:
        # one site owns the whole sphere, which no ring bounds: two halves
        return Geometries(
            pa.array([rings_wkb(_HALVES)], pa.binary()),
            np.array([[-180.0, -90.0, 180.0, 90.0]]),
            frozenset(["MultiPolygon"]),
        )
    return Geometries(polygons_wkb(rings.first, rings.points), rings.boxes, frozenset(["Polygon"]))


def spherical_regions(
    regions: Regions, bounds: NDArray[np.float64] | None, parts: OpenPartitions
) -> tuple[Columns, Geometries]:
    """Return the regions with the edges that they have."""
    shapes = region_shapes(regions, bounds)
    return _region_columns(shapes, parts, np.arange(len(shapes))), region_geometries(shapes, sphere=bounds is None)


def region_geometries(shapes: list[RegionShape], *, sphere: bool) -> Geometries:
    """Return regions as geometries with the edges that they have: arcs of great circles, or segments in a plane."""
    drawn = [[[_lonlat(ring) if sphere else ring for ring in piece] for piece in shape.polygons] for shape in shapes]
    polygons = [_HALVES if _is_whole(shape) else pieces for shape, pieces in zip(shapes, drawn, strict=True)]
    wkb = pa.array([rings_wkb(pieces) if pieces else None for pieces in polygons], pa.binary())
    boxes = np.array([_box(shape, pieces, sphere) for shape, pieces in zip(shapes, polygons, strict=True)])
    kinds = frozenset("Polygon" if len(pieces) == 1 else "MultiPolygon" for pieces in polygons if pieces)
    return Geometries(wkb, boxes.reshape(-1, 4), kinds)


def planar_regions(
    regions: Regions, bounds: NDArray[np.float64] | None, parts: OpenPartitions, drawing: Drawing
) -> tuple[Columns, NDArray[Any]]:
    """Return the regions as valid shapely polygons of straight edges, None for one that is empty."""
    import shapely

    lonlat, shapes = space_of(), region_shapes(regions, bounds)
    rings = [ring[:-1] for shape in shapes for piece in shape.polygons for ring in piece]
    if rings:
        corners = np.concatenate(rings)
        # neighbours have the same corners to some roundings: unions lose whole regions over those
        points = (
            on_plane(corners, bounds)
            if bounds is not None
            else together(on_grid(lonlat.positions(corners)), _SAME_CORNER)
        )
        rings = np.split(points, np.cumsum([len(ring) for ring in rings])[:-1])
    waiting = iter(rings)
    drawn = np.full(len(shapes), None, object)
    for i, shape in enumerate(shapes):
        if _is_whole(shape):
            drawn[i] = world()
            continue
        pieces = []
        for piece in shape.polygons:
            mine = [next(waiting) for _ in piece]
            if bounds is None:
                sides = [side for ring in mine if (side := left_of_ring(ring, drawing.tolerance)) is not None]
                pieces.append(shapely.intersection_all(sides) if len(sides) == len(mine) else None)
            else:
                first = np.array([0, len(mine[0])])
                pieces.append(simple_polygons(*without_repeats(first, mine[0]))[0])
        left = [piece for piece in pieces if piece is not None]
        if left:
            drawn[i] = left[0] if len(left) == 1 else shapely.union_all(left)
    rows = np.arange(len(shapes))
    if drawing.boundary is not None:
        rows, drawn = kept_in(drawn, drawing.boundary)
    return _region_columns(shapes, parts, rows), drawn


def _is_whole(shape: RegionShape) -> bool:
    return not shape.polygons and shape.area > 0.0


def _region_columns(shapes: list[RegionShape], parts: OpenPartitions, rows: NDArray[np.int64]) -> Columns:
    at = rows.tolist()
    return {
        "partition": pa.array(rows.astype(np.int32)),
        "objects": pa.array([parts.facts[i].objects for i in at], pa.int64()),
        "sites": pa.array([parts.facts[i].sites for i in at], pa.int64()),
        "area": pa.array([shapes[i].area for i in at], pa.float64()),
        "neighbours": pa.array([len(shapes[i].neighbours) for i in at], pa.int32()),
    }


def _lonlat(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a closed ring of unit vectors in degrees."""
    return rings_of(_as_shapes(ring)).points


def _box(shape: RegionShape, pieces: list[list[NDArray[np.float64]]], sphere: bool) -> NDArray[np.float64]:
    if not pieces:
        return np.full(4, np.nan)
    if not sphere:
        corners = np.concatenate([ring for rings in pieces for ring in rings])
        return np.concatenate([corners.min(axis=0), corners.max(axis=0)])
    if not shape.polygons:
        return np.array([-180.0, -90.0, 180.0, 90.0])
    boxes = np.array([rings_of(_as_shapes(ring)).boxes[0] for rings in shape.polygons for ring in rings])
    box = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    for pole, side in ((1.0, 3), (-1.0, 1)):
        place = np.array([0.0, 0.0, pole])
        if any(all(left_of(ring, place) for ring in rings) for rings in shape.polygons):
            box[0], box[2], box[side] = -180.0, 180.0, 90.0 * pole
    return box


def _as_shapes(ring: NDArray[np.float64]) -> CellPolygons:
    corners = np.ascontiguousarray(ring[:-1])
    none = np.zeros(0)
    length = np.linalg.norm(ring[1:] - ring[:-1], axis=1)
    return CellPolygons(np.array([0, len(corners)]), corners, np.zeros(0, np.int64), length, np.zeros(1), none)


def taken(ids: Ids, rows: NDArray[Any]) -> pa.Array:
    """Return ids of rows as an Arrow array."""
    return ids.take(pa.array(rows)) if isinstance(ids, pa.Array) else pa.array(ids[rows])


def _same(number: int, count: int) -> pa.Array:
    return pa.array(np.full(count, number, np.int32))


def cells_frame(
    view: CellView, string_ids: bool, ids: Iterable[Any] | None, clip: Any, place_of: Callable[[Any], Place]
) -> geopandas.GeoDataFrame:
    """Return cells as a GeoDataFrame: :meth:`dtoss.Index.cells`.

    ``ids``: whose cells, a row each; None is a row for each place; ``clip``: as :func:`.clip.boundary_of`, or None.
    """
    need("geopandas", "index.cells", "geo")
    drawing = Drawing(True, None if clip is None else boundary_of(clip, view.space))
    schema = cells_schema(id_type_of(string_ids))
    if ids is None:
        layers = list(planar_cells(view, drawing))
        return _framed(schema, layers, drawn_crs(view.space))
    asked = _list_of(ids)
    places = [place_of(id_) for id_ in asked]
    layers, rows = [], []
    numbers = np.array([place.partition.number for place in places], np.int64)
    for number in np.unique(numbers).tolist():
        mine = np.flatnonzero(numbers == number)
        partition = places[mine[0]].partition
        sites, which = np.unique([places[i].site for i in mine.tolist()], return_inverse=True)
        # a boundary may keep fewer
        columns, shapes, kept = drawn_cells(view, partition, cells_at(view, partition, sites), drawing)
        at = np.full(len(sites), -1)
        at[kept] = np.arange(len(kept))
        held = at[which] >= 0
        take = at[which][held]
        told = {name: column.take(pa.array(take)) for name, column in columns.items()}
        told["id"] = pa.array([asked[i] for i in mine[held].tolist()], schema.field("id").type)
        layers.append((told, shapes[take]))
        rows.append(mine[held])
    frame = _framed(schema, layers, drawn_crs(view.space))
    if not rows:
        return frame
    return frame.iloc[np.argsort(np.concatenate(rows), kind="stable")].reset_index(drop=True)


def regions_frame(
    regions: Regions, bounds: NDArray[np.float64] | None, parts: OpenPartitions, space: Space, clip: Any
) -> geopandas.GeoDataFrame:
    """Return the regions of the partitions as a GeoDataFrame: :meth:`dtoss.Index.regions`.

    ``clip``: as :func:`.clip.boundary_of`, or None.
    """
    need("geopandas", "index.regions", "geo")
    drawing = Drawing(True, None if clip is None else boundary_of(clip, space))
    return _framed(REGIONS_SCHEMA, [planar_regions(regions, bounds, parts, drawing)], drawn_crs(space))


def objects_frame(
    parts: OpenPartitions,
    space: Space,
    string_ids: bool,
    rows_of: Callable[[Partition], NDArray[Any]] | None,
    columns: Sequence[str] | None,
    clip: Any,
) -> geopandas.GeoDataFrame:
    """Return objects as a GeoDataFrame: :meth:`dtoss.Index.objects`.

    ``rows_of``: which objects of a partition, ascending; None is all that it owns; ``columns``: attributes; None is
    all; ``clip``: as :func:`.clip.boundary_of`, or None.
    """
    need("geopandas", "index.objects", "geo")
    boundary = None if clip is None else boundary_of(clip, space)
    layers = list(object_layers(parts, space, boundary, rows_of, columns))
    return _framed(objects_schema(parts, space, id_type_of(string_ids), columns), layers, space.crs)


def _framed(schema: pa.Schema, layers: Sequence[tuple[Columns, NDArray[Any]]], crs: str) -> geopandas.GeoDataFrame:
    tables = [pa.Table.from_arrays(list(columns.values()), schema=schema) for columns, _ in layers]
    table = pa.concat_tables([schema.empty_table(), *tables])
    shapes = np.concatenate([shape for _, shape in layers]) if layers else np.zeros((0, 2))
    if shapes.dtype == object:
        import shapely

        shapes = shapely.orient_polygons(shapes)
    return geo_frame(table, shapes, crs)


def _list_of(ids: Iterable[Any]) -> list[Any]:
    if isinstance(ids, str):
        return [ids]
    return list(ids.tolist()) if hasattr(ids, "tolist") else list(ids)
