"""Objects, cells and regions of an index in a file: GeoParquet 1.1, GeoJSON or FlatGeobuf, partition by partition."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar

from dtoss.errors import InputError
from dtoss.export.clip import read_boundary
from dtoss.export.export_layers import (
    REGIONS_SCHEMA,
    Columns,
    Drawing,
    cells_schema,
    drawn_crs,
    id_type_of,
    object_layers,
    objects_schema,
    planar_cells,
    planar_regions,
    points_of,
    spherical_cells,
    spherical_regions,
)
from dtoss.export.flatgeobuf import write_flatgeobuf
from dtoss.export.geojson import to_wgs84, write_geojson
from dtoss.export.geoparquet import Geometries, write_geoparquet
from dtoss.export.planar import PLANAR_TOLERANCE, geometries_of
from dtoss.index import Index

WHAT = ("objects", "cells", "regions")
EDGES = ("planar", "spherical")
FORMATS = {".parquet": "GeoParquet", ".geoparquet": "GeoParquet", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}
"""What files are, by their last suffix."""
_AHEAD = 2
Batch = tuple[Columns, Geometries]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Written:
    """What a file holds: its rows, and how many have no geometry, as all of it is one point on the grid of corners."""

    rows: int
    empty: int


def write(
    index: Index,
    what: str,
    path: str,
    *,
    clip: str | None = None,
    edges: str | None = None,
    tolerance: float = PLANAR_TOLERANCE,
) -> Written:
    """Write the objects, cells or regions of an index to a file and return what that holds.

    ``what``: "objects": a point each, with id, partition and attributes. "cells": a polygon for each site, with its
    lowest id, the number of its objects, area, number of neighbours and partition. "regions": a polygon for each
    partition, with the numbers of its objects and sites, area and number of neighbours; ``clip``: path of a GeoJSON
    file with a boundary: only what lies inside is kept, cells and regions cut by it. Areas stay those of whole cells;
    ``edges``: "spherical": arcs of great circles, as cells have them; GeoParquet alone can say so. "planar": straight
    in lon, lat. None is spherical in GeoParquet, and planar in all else and with ``clip``. In a plane all edges are
    straight, and "planar" repairs what rounding made cross itself; ``tolerance``: metres that a planar edge may leave
    its great circle.

    Spherical: a ring that crosses the antimeridian or goes round a pole has its interior on the left, and its box spans
    all longitudes. Planar: polygons are valid, cut at the antimeridian and closed along the poles, and neighbours have
    the same corners (:mod:`dtoss.export.planar`). Areas are in square metres or square CRS units. Where a projected CRS
    is compared on the sphere, cells and regions are in EPSG:4326; GeoJSON is so always. Memory does not grow with the
    index, but for FlatGeobuf's own tree. Cost O(sites).
    """
    if what not in WHAT:
        raise ValueError(f"what is {what!r}: objects, cells or regions are wanted")
    kind = format_of(path)
    space = index.space
    planar = _is_planar(index, kind, edges, clip)
    if not tolerance > 0.0:
        raise ValueError(f"tolerance is {tolerance:g}: metres above 0 are wanted")
    drawing = Drawing(planar, None if clip is None else read_boundary(clip, space), tolerance)
    crs = space.crs if what == "objects" else drawn_crs(space)
    id_type = id_type_of(index.string_ids)
    batches: Callable[[], Iterator[Batch]]
    if what == "objects":
        schema = objects_schema(index.parts, space, id_type)
        batches = partial(_objects, index, drawing)
    elif what == "cells":
        schema = cells_schema(id_type)
        batches = partial(_cells, index, drawing)
    else:
        schema = REGIONS_SCHEMA
        batches = partial(_regions, index, drawing)
    counted = _Counted(batches)
    if kind == "GeoParquet":
        polygons = what != "objects"
        spherical = polygons and not planar and space.metric == "sphere"
        rows = write_geoparquet(counted(), path, crs, spherical=spherical, polygons=polygons, schema=schema)
    elif kind == "GeoJSON":
        rows = write_geojson(to_wgs84(counted(), crs, tolerance), path, name="partition" if what == "regions" else "id")
    else:
        rows = write_flatgeobuf(counted, path, crs, what, schema, "Point" if what == "objects" else "Unknown")
    return Written(rows, counted.empty)


def format_of(path: str) -> str:
    """Return what a file is by its suffix: "GeoParquet", "GeoJSON" or "FlatGeobuf"."""
    suffix = PurePath(path).suffix
    if suffix not in FORMATS:
        raise InputError(f"{path} ends in {suffix or 'nothing'}: {', '.join(FORMATS)} are wanted")
    return FORMATS[suffix]


def _is_planar(index: Index, kind: str, edges: str | None, clip: str | None) -> bool:
    if edges not in (None, *EDGES):
        raise ValueError(f"edges is {edges!r}: planar or spherical is wanted")
    if edges == "spherical":
        if index.space.metric == "plane":
            raise ValueError(f"edges in {index.crs} are straight: planar is wanted")
        if kind != "GeoParquet":
            raise ValueError(f"edges of {kind} are straight in lon, lat: ask for planar ones, or for a .parquet file")
        if clip is not None:
            raise ValueError("what a boundary cuts has edges straight in lon, lat: ask for planar ones")
        return False
    return edges == "planar" or kind != "GeoParquet" or clip is not None


def _objects(index: Index, drawing: Drawing) -> Iterator[Batch]:
    for columns, points in object_layers(index.parts, index.space, drawing.boundary):
        yield columns, points_of(points)


def _cells(index: Index, drawing: Drawing) -> Iterator[Batch]:
    if not drawing.planar:
        yield from spherical_cells(index.engine.view)
        return
    for columns, shapes in planar_cells(index.engine.view, drawing):
        yield columns, geometries_of(shapes)


def _regions(index: Index, drawing: Drawing) -> Iterator[Batch]:
    if not drawing.planar:
        yield spherical_regions(index.partitioning, index._bounds, index.parts)
        return
    columns, shapes = planar_regions(index.partitioning, index._bounds, index.parts, drawing)
    yield columns, geometries_of(shapes)


class _Counted:
    """Gives batches as they are made, and counts those of their rows that have no geometry."""

    def __init__(self, batches: Callable[[], Iterator[Batch]]) -> None:
        self._batches = batches
        self.empty = 0

    def __call__(self) -> Iterator[Batch]:
        self.empty = 0
        for columns, shapes in _ahead(self._batches()):
            self.empty += shapes.wkb.null_count
            yield columns, shapes


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
