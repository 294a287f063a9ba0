"""Windows as files: the regions of keys with their measures at one end, or the measures of all ends of a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.export.cell_rings import rings_of
from dtoss.export.export_layers import drawn_crs, region_geometries, spherical_cells
from dtoss.export.geoparquet import Geometries, polygons_wkb, rings_wkb, write_geoparquet
from dtoss.export.h3_cells import h3_cells
from dtoss.export_files import format_of
from dtoss.geometry.polygons import PLANAR, Rings
from dtoss.geometry.space import LONLAT, Space
from dtoss.in_process import build
from dtoss.partitioning.region_polygons import region_shapes
from dtoss.partitioning.regions import Regions
from dtoss.snapshots.store_location import filesystem_of
from dtoss.windows.query.window_query import Windows
from dtoss.windows.storage.keys_file import rings_from
from pipelines.rows.write_file import open_writer

_MARGIN = 0.25
"""Share of their spread by which regions of a plane reach beyond the outermost places."""
_WHOLE = 180.0
"""Degrees of longitude from which a polygon is taken to cross the antimeridian."""


def export_windows(found: Windows, path: str, end: Any = None) -> int:
    """Write the regions of keys with the measures of all lengths at one end, and return how many rows the file has.

    Columns are those of :meth:`dtoss.Windows.wide`, the end as a timestamp, then the geometry: cells of pivots and of
    sites, polygons, or cells of H3. In a plane cells are cut a quarter of their spread beyond the outermost pivots. A
    key that has no region (a site at the place of another one) has none.
    """
    _check_format(path)
    found = found.of_end(end)
    table = _with_times(found.wide(end))
    space = found.spec.space
    shapes = _shapes(found, np.asarray(table["key"]))
    crs = LONLAT if found.spec.by.startswith("h3:") else drawn_crs(space)
    spherical = space.metric == "sphere"
    if found.spec.by.startswith("polygons:"):
        crs, spherical = space.crs, spherical and rings_from(found.reader.material).edges != PLANAR
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return write_geoparquet([(columns, shapes)], path, crs, spherical=spherical, polygons=False, schema=table.schema)


def export_ends(found: Windows, path: str, since: Any, until: Any = None) -> int:
    """Write the measures of all lengths at each end of a time as Parquet, and return how many rows the file has.

    ``since``, ``until``: the first and the last end; the last one that is due when None.
    """
    _check_format(path)
    table = _with_times(found.wide_between(since, until))
    if "://" not in path:
        with open_writer(path, table.schema) as write:
            for batch in table.to_batches():
                write(batch)
        return len(table)
    place, target = filesystem_of(path)
    try:
        pq.write_table(table, target, filesystem=place, compression="zstd")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    return len(table)


def _check_format(path: str) -> None:
    if format_of(path) != "GeoParquet":
        raise InputError(f"--out {path}: windows are written as .parquet or .geoparquet")


def _with_times(table: pa.Table) -> pa.Table:
    at = table.column_names.index("end")
    return table.set_column(at, "end", table["end"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))


def _shapes(found: Windows, keys: NDArray[np.int64]) -> Geometries:
    """Return the region of each key."""
    space, tables = found.spec.space, found.reader.material
    if "h3" in tables:
        return _of_cells(keys)
    if "corners" in tables:
        return _of_polygons(rings_from(tables), space, keys)
    if "sites" in tables:
        return _of_sites(np.stack([tables["sites"][name].to_numpy() for name in ("x", "y")], axis=1), space, keys)
    columns = tables["regions"]
    pivots = np.stack([columns[f"pivot_{i}"].to_numpy() for i in range(columns.num_columns - 1)], axis=1)
    regions = Regions(np.ascontiguousarray(pivots), np.array(columns["weight"].to_numpy()))
    made = region_shapes(regions, _bounds(space, pivots))
    return region_geometries([made[key] for key in keys.tolist()], sphere=space.metric == "sphere")


def _of_sites(sites: NDArray[np.float64], space: Space, keys: NDArray[np.int64]) -> Geometries:
    """Return the places of which each site is the nearest one; of equal sites the first has them. O(n log n)."""
    vectors = space.vectors(sites)
    first = np.unique(vectors, axis=0, return_index=True)[1]
    bounds = _bounds(space, vectors)
    given = None if bounds is None else tuple(bounds.tolist())
    index = build(first, sites[first], crs=space.crs, metric=space.metric, bounds=given, partitions=1, progress=False)
    made = list(spherical_cells(index.engine.view))
    owner = np.concatenate([np.asarray(columns["id"]) for columns, _ in made])
    row = np.full(len(sites), len(owner))
    row[owner] = np.arange(len(owner))
    wkb = pa.chunked_array([*(one.wkb for _, one in made), pa.array([None], pa.binary())]).combine_chunks()
    boxes = np.concatenate([*(one.boxes for _, one in made), np.full((1, 4), np.nan)])
    kinds = frozenset(kind for _, one in made for kind in one.kinds)
    return Geometries(wkb.take(pa.array(row[keys])), boxes[row[keys]], kinds)


def _bounds(space: Space, places: NDArray[np.float64]) -> NDArray[np.float64] | None:
    if space.metric == "sphere":
        return None
    low, high = places.min(axis=0), places.max(axis=0)
    beyond = max(float((high - low).max()), 1.0) * _MARGIN
    return np.concatenate([low - beyond, high + beyond])


def _of_polygons(rings: Rings, space: Space, keys: NDArray[np.int64]) -> Geometries:
    shapes = [rings.of_shape(key) for key in keys.tolist()]
    around = space.geographic and rings.edges != PLANAR
    boxes = [_box(np.concatenate([ring for polygon in shape for ring in polygon]), around) for shape in shapes]
    closed = [[[_closed(ring) for ring in polygon] for polygon in shape] for shape in shapes]
    return _geometries([rings_wkb(shape) for shape in closed], boxes, [len(shape) for shape in shapes])


def _closed(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    return ring if (ring[0] == ring[-1]).all() else np.concatenate([ring, ring[:1]])


def _box(corners: NDArray[np.float64], around: bool) -> list[float]:
    low, high = corners.min(axis=0), corners.max(axis=0)
    if around and high[0] - low[0] > _WHOLE:
        low[0], high[0] = -_WHOLE, _WHOLE
    return [*low.tolist(), *high.tolist()]


def _of_cells(keys: NDArray[np.int64]) -> Geometries:
    rings = rings_of(h3_cells(keys)[1])
    return Geometries(polygons_wkb(rings.first, rings.points), rings.boxes, frozenset(["Polygon"]))


def _geometries(wkb: Sequence[bytes], boxes: Sequence[Sequence[float]], pieces: Sequence[int]) -> Geometries:
    kinds = frozenset("Polygon" if count == 1 else "MultiPolygon" for count in pieces)
    return Geometries(pa.array(wkb, pa.binary()), np.array(boxes, np.float64).reshape(-1, 4), kinds)
