"""Columns of Arrow as a frame of pandas, in which whole numbers keep their digits.

Columns and geometries as a GeoDataFrame.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.extras import need
from dtoss.geometry.space import NO_CRS

if TYPE_CHECKING:
    import geopandas
    import pandas


def pandas_frame(table: pa.Table, nullable: Collection[str] = ()) -> pandas.DataFrame:
    """Return a table as a DataFrame: whole numbers, booleans and text with nulls are of a nullable type.

    All other columns are those of ``table.to_pandas()``. Whole numbers in lists are objects where there are nulls among
    them.

    Examples
    --------
    >>> frame = pandas_frame(pa.table({"ref": [2**60 + 1, None], "size": [1, 2]}))
    >>> frame.dtypes.astype(str).tolist(), int(frame.ref[0])
    (['Int64', 'int64'], 1152921504606846977)
    """
    kinds = _nullable_types()
    held = {
        at: said.name
        for at, said in enumerate(table.schema)
        if said.type in kinds and (said.name in nullable or table.column(at).null_count)
    }
    plain = table.drop_columns(list(held.values())) if held else table
    frame = plain.to_pandas(integer_object_nulls=True)
    for at, name in held.items():
        frame.insert(at, name, table.column(at).to_pandas(types_mapper=kinds.get))
    return frame


@cache
def _nullable_types() -> dict[pa.DataType, Any]:
    import pandas

    kinds: dict[pa.DataType, Any] = {pa.bool_(): pandas.BooleanDtype()}
    kinds |= dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), pandas.StringDtype())
    for size in (8, 16, 32, 64):
        for sign in ("Int", "UInt"):
            kinds[pa.type_for_alias(f"{sign}{size}".lower())] = pandas.api.types.pandas_dtype(f"{sign}{size}")
    return kinds


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
