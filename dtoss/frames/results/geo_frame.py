"""Columns and geometries as a GeoDataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.extras import need
from dtoss.frames.results.pandas_frame import pandas_frame
from dtoss.geometry.space import NO_CRS

if TYPE_CHECKING:
    import geopandas


def geo_frame(table: pa.Table, geometry: Any, crs: str, what: str = "a GeoDataFrame") -> geopandas.GeoDataFrame:
    """Return a GeoDataFrame of the columns of a table, with the geometries behind them in the column "geometry".

    ``geometry``: float64 (n, 2) makes points; an array of objects holds shapely's; anything else is WKB, as an Arrow
    array or a list of bytes. None where there is none; ``crs``: as an index names it; "none" is a frame without one.
    Coordinates are lon, lat or x, y in any case.
    """
    geopandas = need("geopandas", what, "geo")
    known = None if crs.lower() == NO_CRS else crs
    if isinstance(geometry, np.ndarray) and geometry.dtype == np.float64:
        shapes = geopandas.points_from_xy(geometry[:, 0], geometry[:, 1], crs=known)
    elif isinstance(geometry, np.ndarray) and geometry.dtype == object:
        shapes = geopandas.GeoSeries(geometry, crs=known)
    else:
        values = geometry.to_pylist() if isinstance(geometry, (pa.Array, pa.ChunkedArray)) else list(geometry)
        shapes = geopandas.GeoSeries.from_wkb(values, crs=known)
    return geopandas.GeoDataFrame(pandas_frame(table), geometry=shapes, crs=known)
