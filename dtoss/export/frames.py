"""Objects, cells and regions of an index as GeoDataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.export.cell_rings import cells_at
from dtoss.export.clip import boundary_of
from dtoss.export.export_layers import (
    REGIONS_SCHEMA,
    Columns,
    Drawing,
    cells_schema,
    drawn_cells,
    drawn_crs,
    id_type_of,
    object_layers,
    objects_schema,
    planar_cells,
    planar_regions,
)
from dtoss.extras import need
from dtoss.geometry.space import Space
from dtoss.partition import Partition
from dtoss.partitioning.regions import Regions
from dtoss.queries.cell_of import CellView
from dtoss.queries.find_by_id import Place
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.result_frames import geo_frame

if TYPE_CHECKING:
    import geopandas


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
