"""Objects, cells and regions of an index as GeoParquet 1.1, written partition by partition."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.export.cell_rings import cells_of, rings_of
from dtoss.export.clip import Boundary, clip_cells, clip_regions, inside, read_boundary
from dtoss.export.geoparquet import Geometries, points_wkb, polygons_wkb, rings_wkb, write_geoparquet
from dtoss.geometry.space import LONLAT, Space
from dtoss.index import Index
from dtoss.partition import Ids, Partition
from dtoss.partitioning.region_polygons import RegionShape, left_of, region_shapes
from dtoss.queries.cell_of import CellView

WHAT = ("objects", "cells", "regions")
OBJECTS_AT_ONCE = 262_144
_AHEAD = 2
Batch = tuple[dict[str, pa.Array], Geometries]
_Item = TypeVar("_Item")

_HALVES = [[np.array([[x, 90.0], [x, 0.0], [x, -90.0], [180.0 - x, 0.0], [x, 90.0]])] for x in (0.0, 180.0)]


def export(index: Index, what: str, path: str, *, clip: str | None = None) -> int:
    """Write the objects, cells or regions of an index to a GeoParquet 1.1 file and return how many rows it has.

    Parameters
    ----------
    index
        An open one, or one built in this process.
    what
        "objects": a point each, with id, partition and attributes. "cells": a polygon for each site, with its lowest
        id, the number of its objects, area, number of neighbours and partition. "regions": a polygon for each
        partition, with the numbers of its objects and sites, area and number of neighbours.
    path
        Of the file, or a URI; it appears whole or not at all.
    clip
        Path of a GeoJSON file with a boundary: only what lies inside is kept, cells and regions cut by it. Areas stay
        those of whole cells.

    Raises
    ------
    ValueError
        If ``what`` is none of these.
    InputError
        If the boundary cannot be read or the file cannot be written.

    Notes
    -----
    Edges are straight in the plane. On the sphere they are arcs of great circles, and the file says so: a ring that
    crosses the antimeridian or goes round a pole has its interior on the left, and its box spans all longitudes. What a
    boundary cut has edges straight in lon, lat and is split at the antimeridian. Areas are in square metres or square
    CRS units. Where a projected CRS is compared on the sphere, cells and regions are in EPSG:4326. Memory does not grow
    with the index. Cost O(sites).
    """
    if what not in WHAT:
        raise ValueError(f"what is {what!r}: objects, cells or regions are wanted")
    space = index.space
    boundary = None if clip is None else read_boundary(clip, space)
    if what == "objects":
        kinds = {name: column.type for name, column in index.parts[0].attributes.items()}
        schema = pa.schema([("id", _id_type(index)), ("partition", pa.int32()), *kinds.items()])
        batches = _objects(index, boundary)
        return write_geoparquet(_ahead(batches), path, space.crs, spherical=False, polygons=False, schema=schema)
    if what == "cells":
        schema = pa.schema(
            [
                ("id", _id_type(index)),
                ("objects", pa.int32()),
                ("area", pa.float64()),
                ("neighbours", pa.int32()),
                ("partition", pa.int32()),
            ]
        )
        batches = _cells(index, boundary)
    else:
        schema = pa.schema(
            [
                ("partition", pa.int32()),
                ("objects", pa.int64()),
                ("sites", pa.int64()),
                ("area", pa.float64()),
                ("neighbours", pa.int32()),
            ]
        )
        batches = _regions(index, boundary)
    spherical = space.metric == "sphere" and boundary is None
    crs = LONLAT if space.to_lonlat else space.crs
    return write_geoparquet(_ahead(batches), path, crs, spherical=spherical, polygons=True, schema=schema)


def _id_type(index: Index) -> pa.DataType:
    return pa.large_string() if index.string_ids else pa.int64()


def _objects(index: Index, boundary: Boundary | None) -> Iterator[Batch]:
    for partition in _partitions(index):
        for begin in range(0, partition.owned_objects, OBJECTS_AT_ONCE):
            rows = slice(begin, min(begin + OBJECTS_AT_ONCE, partition.owned_objects))
            points = np.ascontiguousarray(partition.positions[rows])
            taken = np.arange(rows.start, rows.stop)
            if boundary is not None:
                keep = inside(_compared(index.space, points), boundary)
                points, taken = points[keep], taken[keep]
            columns = {"id": _taken(partition.ids, taken), "partition": _same(partition.number, len(taken))}
            for name, column in partition.attributes.items():
                columns[name] = column.take(pa.array(taken))
            yield columns, Geometries(points_wkb(points), np.tile(points, 2), frozenset(["Point"] * (len(points) > 0)))


def _compared(space: Space, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions in the coordinates of cells: degrees where a projected CRS is compared on the sphere."""
    return Space(LONLAT, "sphere").positions(space.vectors(points)) if space.to_lonlat else points


def _cells(index: Index, boundary: Boundary | None) -> Iterator[Batch]:
    view = CellView(index.space, index._opened, index._bounds, index.border)
    for partition in _partitions(index):
        for cells in cells_of(view, partition):
            rows = np.arange(len(cells.area))
            if boundary is not None:
                rows, geometries = clip_cells(cells.rings, boundary)
            else:
                geometries = _whole_cells(cells.rings.first, cells.rings.points, cells.rings.boxes)
            site = cells.begin + rows
            first = partition.first_object
            columns = {
                "id": _taken(partition.ids, first[site]),
                "objects": pa.array(first[site + 1] - first[site]),
                "area": pa.array(cells.area[rows]),
                "neighbours": pa.array(cells.neighbours[rows]),
                "partition": _same(partition.number, len(rows)),
            }
            yield columns, geometries


def _whole_cells(first: NDArray[np.int64], points: NDArray[np.float64], boxes: NDArray[np.float64]) -> Geometries:
    if len(first) == 2 and len(points) == 0:
        # one site owns the whole sphere, which no ring bounds: two halves
        return Geometries(
            pa.array([rings_wkb(_HALVES)], pa.binary()),
            np.array([[-180.0, -90.0, 180.0, 90.0]]),
            frozenset(["MultiPolygon"]),
        )
    return Geometries(polygons_wkb(first, points), boxes, frozenset(["Polygon"]))


def _regions(index: Index, boundary: Boundary | None) -> Iterator[Batch]:
    shapes = region_shapes(index.regions, index._bounds)
    sphere = index.space.metric == "sphere"
    drawn = [[[_lonlat(ring) if sphere else ring for ring in piece] for piece in shape.polygons] for shape in shapes]
    whole = np.array([len(shape.polygons) == 0 and shape.area > 0.0 for shape in shapes])
    if boundary is not None:
        rows, geometries = clip_regions(drawn, whole, boundary)
    else:
        rows = np.arange(len(shapes))
        polygons = [_HALVES if all_ else pieces for pieces, all_ in zip(drawn, whole.tolist(), strict=True)]
        wkb = pa.array([rings_wkb(pieces) if pieces else None for pieces in polygons], pa.binary())
        boxes = np.array([_box(shape, pieces, sphere) for shape, pieces in zip(shapes, polygons, strict=True)])
        kinds = frozenset("Polygon" if len(pieces) == 1 else "MultiPolygon" for pieces in polygons if pieces)
        geometries = Geometries(wkb, boxes.reshape(-1, 4), kinds)
    facts = index.parts.facts
    yield (
        {
            "partition": pa.array(rows.astype(np.int32)),
            "objects": pa.array([facts[i].objects for i in rows.tolist()], pa.int64()),
            "sites": pa.array([facts[i].sites for i in rows.tolist()], pa.int64()),
            "area": pa.array([shapes[i].area for i in rows.tolist()], pa.float64()),
            "neighbours": pa.array([len(shapes[i].neighbours) for i in rows.tolist()], pa.int32()),
        },
        geometries,
    )


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


def _taken(ids: Ids, rows: NDArray[Any]) -> pa.Array:
    return ids.take(pa.array(rows)) if isinstance(ids, pa.Array) else pa.array(ids[rows])


def _same(number: int, count: int) -> pa.Array:
    return pa.array(np.full(count, number, np.int32))


def _partitions(index: Index) -> Iterator[Partition]:
    for number in range(len(index.parts)):
        yield index.parts[number]


def _ahead(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield items that another thread makes, a few ahead: what is made and what is written take turns otherwise."""
    made: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                made.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return

    def make() -> None:
        try:
            for item in items:
                put("item", item)
                if stopped.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    worker = threading.Thread(target=make, daemon=True)
    worker.start()
    try:
        while True:
            kind, value = made.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        worker.join()
