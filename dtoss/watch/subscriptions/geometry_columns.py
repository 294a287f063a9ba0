"""Geometries of frames and files as the places of subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.frames.crs_names import NO_CRS_SAID, check_crs, crs_name
from dtoss.frames.geo_columns import geo_column
from dtoss.frames.point_coordinates import points_of
from dtoss.frames.polygon_frames import GEOMETRY_NAMES
from dtoss.geometry.space import Space
from dtoss.watch.subscription import SUBSCRIPTION_SCHEMA
from dtoss.watch.subscriptions.forms import RADII

_WHOSE = "the watch"


def place_geometries(table: pa.Table, space: Space) -> pa.Table:
    """Return a table whose column of geometries, if it has one, is one of polygons, or of the centres of circles.

    ``table``: of subscriptions; points are centres where there is a column radius or metres.
    """
    name = next((name for name in GEOMETRY_NAMES if name in table.column_names), None)
    if name is None or set(SUBSCRIPTION_SCHEMA.names) <= set(table.column_names):
        return table
    at = table.schema.get_field_index(name)
    said = (table.schema.metadata or {}).get(b"geo")
    read = geo_column(table.column(at), table.schema.field(at), said)
    if read is not None:
        check_crs(read.crs or NO_CRS_SAID, space, "the places", _WHOSE)
    reach = next((one for one in RADII if one in table.column_names), None)
    if reach is not None and read is not None:
        centres, _ = points_of(read, missing=True)
        none = np.isnan(centres[:, 0])
        table = table.remove_column(at)
        for axis, values in (("x", centres[:, 0]), ("y", centres[:, 1])):
            table = table.append_column(axis, pa.array(values, mask=none))
    else:
        values = table.column(at) if read is None else pa.chunked_array([read.values])
        table = table.set_column(at, "polygon", values)
        if read is not None and read.edges is not None and "edges" not in table.column_names:
            said = pc.if_else(values.is_valid(), read.edges, pa.scalar(None, pa.string()))
            table = table.append_column("edges", said)
    # the boxes round geometries, which GeoParquet may keep beside them
    return table.drop_columns(["bbox"]) if "bbox" in table.column_names else table


def check_collection(collection: Mapping[str, Any], space: Space) -> None:
    """Check that a FeatureCollection says no other CRS, as GDAL writes it."""
    stated = collection.get("crs")
    properties = stated.get("properties") if isinstance(stated, Mapping) else None
    name = properties.get("name") if isinstance(properties, Mapping) else None
    if name is not None:
        check_crs(crs_name(name), space, "the places", _WHOSE)
