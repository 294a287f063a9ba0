"""Points in GeoParquet files: coordinates from the geometry column, and the CRS that the file states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyproj
from pyproj.exceptions import CRSError

from dtoss.errors import InputError
from dtoss.names import unused
from pipelines.rows.positions import Columns
from pipelines.rows.texts import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def point_columns(frame: DataFrame, schema: pa.Schema, columns: Columns) -> tuple[DataFrame, str | None, Columns]:
    """Return a GeoParquet frame with its points in two columns, the CRS that the file states, and the columns' names.

    Where the schema of the file has no metadata of GeoParquet, everything is returned as it is.

    Raises
    ------
    InputError
        If the geometries are no points, or their encoding is another one than WKB or point.
    """
    if b"geo" not in (schema.metadata or {}):
        return frame, None, columns
    name, about = primary_points(schema)
    point = exactly(name) if about["encoding"] == "point" else _wkb_points()(exactly(name))
    attributes = columns.attributes
    if attributes == "all":
        covering = {path[0] for path in about.get("covering", {}).get("bbox", {}).values()}
        attributes = [found for found in frame.columns if found not in {name, columns.id, *covering}]
        attributes = [found for found in attributes if not found.startswith("_")]
    # columns of the file stay what they are, whatever they are called
    pair, x, y = (unused(wanted, frame.columns) for wanted in ("_point", "_x", "_y"))
    frame = frame.withColumn(pair, point)
    frame = frame.withColumn(x, exactly(pair)["x"]).withColumn(y, exactly(pair)["y"]).drop(pair)
    return frame, crs_of(about), replace(columns, x=x, y=y, attributes=attributes)


def primary_points(schema: pa.Schema) -> tuple[str, dict[str, Any]]:
    """Return the geometry column that the metadata of GeoParquet names, and what it says of it.

    Raises
    ------
    InputError
        If the geometries are no points, or their encoding is another one than WKB or point.
    """
    geo = json.loads(schema.metadata[b"geo"])
    name = geo["primary_column"]
    about = geo["columns"][name]
    kinds = set(about.get("geometry_types") or ["Point"])
    if not kinds <= {"Point", "Point Z"}:
        raise InputError(f"geometry column {name!r} holds {', '.join(sorted(kinds))}: points are wanted")
    if about["encoding"] not in ("point", "WKB"):
        raise InputError(f"geometry column {name!r} is encoded as {about['encoding']}: WKB or point is wanted")
    return name, about


def crs_of(about: dict[str, Any]) -> str | None:
    """Return the name of a geometry column's CRS: longitude and latitude where none is stated, None where unknown.

    Raises
    ------
    InputError
        If pyproj does not read what is stated.
    """
    if "crs" not in about:
        return "OGC:CRS84"
    stated = about["crs"]
    if stated is None:
        return None
    try:
        return pyproj.CRS.from_json_dict(stated).to_string()
    except CRSError:
        raise InputError("the CRS that the file states is not one that pyproj reads: name it (--crs)") from None


def _wkb_points() -> Any:
    from pyspark.sql.functions import arrow_udf

    def decode(geometries: pa.Array) -> pa.Array:
        return wkb_points(geometries)

    return arrow_udf(decode, "struct<x:double,y:double>")


def wkb_points(geometries: pa.Array) -> pa.Array:
    """Return the x and y of WKB points as an Arrow struct array; null where a value is null, empty or not a point."""
    data = geometries.cast(pa.large_binary())
    n = len(data)
    lengths = pc.fill_null(pc.binary_length(data), 0).to_numpy(zero_copy_only=False)
    _, offset_buffer, bytes_buffer = data.buffers()
    starts = np.frombuffer(offset_buffer, np.int64)[data.offset : data.offset + n]
    raw = np.frombuffer(bytes_buffer or b"", np.uint8)
    x, y = np.full(n, np.nan), np.full(n, np.nan)
    ok = np.zeros(n, np.bool_)
    for first, order in ((1, "<"), (0, ">")):
        candidate = np.flatnonzero(lengths >= 21)
        candidate = candidate[raw[starts[candidate]] == first]
        if len(candidate) == 0:
            continue
        head = raw[starts[candidate][:, None] + np.arange(1, 5)].copy().view(f"{order}u4").ravel()
        # the type may carry flags or thousands for Z, M and an SRID of 4 bytes
        point = (head & 0xFFFF) % 1000 == 1
        skip = np.where(head & 0x20000000, 9, 5)
        long_enough = lengths[candidate] >= skip + 16
        rows, at = candidate[point & long_enough], (starts[candidate] + skip)[point & long_enough]
        values = raw[at[:, None] + np.arange(16)].copy().view(f"{order}f8")
        x[rows], y[rows] = values[:, 0], values[:, 1]
        ok[rows] = True
    empty = np.isnan(x) | np.isnan(y)
    mask = pa.array(~ok | empty)
    return pa.StructArray.from_arrays([pa.array(x), pa.array(y)], ["x", "y"], mask=mask)
