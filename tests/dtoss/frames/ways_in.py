"""The same objects as frames of each kind: what comes in, and what an index of plain arrays is made of."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import shapely
from hypothesis import strategies as st

from dtoss.geometry.space import AXES
from dtoss.snapshots.partition_file import encode

NUMBERS = ("float64", "float32", "int64", "Float64", "Int32", "double[pyarrow]", "int16[pyarrow]", "decimal", "text")
"""Types of coordinates."""
INDEXES = ("range", "unsorted", "text", "named", "id", "ID")
"""Where ids stand: in an index of pandas, or in a column."""
CRS = {"sphere": "EPSG:4326", "plane": "EPSG:32610"}


def same_index(ours, theirs):
    """Whether two indexes hold the same in all their arrays, bit for bit, and the same attributes."""
    assert (ours.space, ours.string_ids, len(ours.parts)) == (theirs.space, theirs.string_ids, len(theirs.parts))
    for mine, its in zip(ours.parts.all(), theirs.parts.all(), strict=True):
        assert list(mine.attributes) == list(its.attributes)
        for name, column in mine.attributes.items():
            assert column.to_pylist() == its.attributes[name].to_pylist()
        assert bare(mine) == bare(its)


def bare(partition):
    """The bytes of a partition without its attributes, whose types are those of the frame."""
    return encode(replace(partition, attributes={})).to_pybytes()


def number(values, kind):
    """A column of numbers of a type, as pandas has it, and the floats that they are."""
    values = np.asarray(values, np.float64)
    if kind.lower().startswith("int"):
        values = np.rint(values.clip(-30_000, 30_000)) + 0.0  # whole numbers have no -0.0
    if kind == "float32":
        values = values.astype(np.float32)
    exact = values.astype(np.float64)
    if kind == "decimal":
        return pd.Series([Decimal(repr(one)) for one in exact.tolist()], dtype=object), exact
    if kind == "text":
        return pd.Series([repr(one) for one in exact.tolist()], dtype=object), exact
    return pd.Series(values).astype(kind), exact


def attributes(rng, n):
    """Columns with nulls of all kinds that are kept, as pandas has them."""
    holes = rng.random(n) < 0.2

    def holed(values, kind):
        return pd.Series([None if hole else one for one, hole in zip(values, holes, strict=True)], dtype=kind)

    kinds = {
        "speed": holed(rng.normal(size=n).tolist(), "float64"),
        "seats": holed(rng.integers(0, 9, n).tolist(), "Int8"),
        "free": holed((rng.random(n) < 0.5).tolist(), "boolean"),
        "make": holed([f"é{i % 3}" for i in range(n)], "string"),
        "plate": holed([f"p{i}" for i in range(n)], "string[pyarrow]"),
        "kind": pd.Series(pd.Categorical([("bus", "taxi")[i % 2] for i in range(n)], categories=["taxi", "bus", "x"])),
        "seen": pd.Series(pd.to_datetime(rng.integers(0, 10**9, n), unit="s", utc=True)),
        "price": holed([Decimal(int(v)) / 100 for v in rng.integers(0, 999, n)], object),
        "lon_": holed(rng.integers(0, 9, n).tolist(), "int32[pyarrow]"),
    }
    names = sorted(kinds)
    return {names[i]: kinds[names[i]] for i in rng.permutation(len(names))[: rng.integers(0, 4)]}


def values_of(columns):
    """Columns of pandas as what an index of arrays takes."""
    return {name: pa.array(column, from_pandas=True) for name, column in columns.items()}


@st.composite
def id_lists(draw, n):
    """Distinct ids, in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    some = (rng.permutation(3 * n)[:n] - n).tolist()
    return some if draw(st.booleans()) else [f"ä{one}" if one % 2 else f"z{one}" for one in some]


@st.composite
def pandas_ways(draw, ids, positions, metric):
    """A DataFrame with coordinates by name, its keywords; the ids, positions and attributes that it holds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = [pair for pair in AXES if (pair[0] == "x") == (metric == "plane")]
    shout = draw(st.sampled_from([str, str.upper, str.title]))
    names = [shout(name) for name in draw(st.sampled_from(pairs))]
    told = {"metric": "plane"} if metric == "plane" else {}
    if draw(st.booleans()):  # columns that are named, beside some that are called as coordinates
        names = ["east", "north"]
        told = {"x": "east", "y": "north", "crs": CRS[metric]}
    columns, exact = {}, []
    for name, axis in zip(names, positions.T, strict=True):
        columns[name], floats = number(axis, draw(st.sampled_from(NUMBERS)))
        exact.append(floats)
    others = attributes(rng, len(positions))
    ids, columns, index, told_id = placed_ids(draw(st.sampled_from(INDEXES)), ids, columns)
    order = [*others, *columns]
    held = {**columns, **others}
    order = [order[i] for i in rng.permutation(len(order))]
    frame = pd.DataFrame({name: held[name] for name in order})
    if index is not None:
        frame.index = index
    attributes_held = {name: others[name] for name in order if name in others}
    return frame, told | told_id, ids, np.stack(exact, axis=1), attributes_held


def placed_ids(where, ids, columns):
    """Put ids into an index or a column: the ids that count, the columns, the index, and what build is told."""
    if where == "range":
        return list(range(len(ids))), columns, None, {}
    if where in ("id", "ID"):
        return ids, columns | {where: pd.Series(ids, dtype=object if not ids else None)}, None, {}
    named = where == "named"
    if where == "text":
        ids = [str(one) for one in ids]
    return ids, columns, pd.Index(ids, name="taxi" if named else None), {"id": "taxi"} if named else {}


def geo_frame_of(frame, positions, crs):
    """Points in the place of the coordinates."""
    return gpd.GeoDataFrame(frame, geometry=gpd.points_from_xy(*positions.T), crs=crs)


def as_library(frame, way):
    """A DataFrame of pandas, as which it is handed over, ids in a column: in another library's."""
    if way == "polars":
        return pl.from_pandas(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if way == "arrow":
        return table
    if way == "chunks":
        return pa.concat_tables([table.slice(0, 1), table.slice(1, 3), table.slice(4)])
    if way == "reader":
        return table.to_reader(max_chunksize=3)
    if way == "dictionary":
        return {name: table.column(name) for name in table.column_names}
    if way == "stream":
        return OnlyStream(table)
    raise AssertionError(way)


LIBRARIES = ("polars", "arrow", "chunks", "reader", "dictionary", "stream")


class OnlyStream:
    """A table of a library that nobody knows."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


POINTS = (
    "GeoSeries", "GeometryArray", "GeoDataFrame", "list", "array", "Series", "geoarrow", "apart", "wkb", "wkt",
    "chunked wkb", "big-endian", "table", "sliced",
)  # fmt: skip


def as_points(positions, crs, way):
    """Positions as points of each kind; all but those of shapely alone name the CRS."""
    points = gpd.GeoSeries(gpd.points_from_xy(*positions.T), crs=crs)
    if way == "GeoSeries":
        return points.set_axis([f"r{len(points) - row}" for row in range(len(points))])
    if way == "GeometryArray":
        return points.values
    if way == "GeoDataFrame":
        return points.to_frame("somewhere").set_geometry("somewhere")
    if way == "list":
        return list(points)
    if way == "array":
        return np.array(points)
    if way == "Series":
        return pd.Series(list(points), dtype=object)
    if way in ("geoarrow", "apart") and len(points):  # GeoPandas writes none as WKB alone
        return points.to_arrow(geometry_encoding="geoarrow", interleaved=way == "geoarrow")
    if way in ("wkb", "geoarrow", "apart"):
        return points.to_arrow(geometry_encoding="WKB")
    table = pa.table(points.to_frame("p").set_geometry("p").to_arrow(index=False, geometry_encoding="WKB"))
    if way == "table":
        return table
    if way == "sliced":
        around = pa.table(
            gpd.GeoDataFrame(geometry=[*points[:1], *points, *points[:1]], crs=crs).to_arrow(
                index=False, geometry_encoding="geoarrow" if len(points) else "WKB"
            )
        )
        return around.slice(min(1, len(points)), len(points))
    if way == "chunked wkb":
        return pa.concat_tables([table.slice(0, 2), table.slice(2)])
    metadata = dict(table.schema.field("p").metadata)
    if way == "big-endian":
        values, kind = shapely.to_wkb(np.array(points), byte_order=0), pa.binary()
    else:
        # GEOS writes 0.30000000000000004 as 0.3
        values, kind = [f"POINT ({x!r} {y!r})" for x, y in positions.tolist()], pa.string()
        metadata[b"ARROW:extension:name"] = b"geoarrow.wkt"
    return pa.table([pa.array(list(values), kind)], schema=pa.schema([pa.field("p", kind, metadata=metadata)]))
