"""Points in GeoParquet files: coordinates from the geometry column, and the CRS that the file states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.store import filesystem_of
from pipelines.positions import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def point_columns(frame: DataFrame, paths: Sequence[str], columns: Columns) -> tuple[DataFrame, str | None, Columns]:
    """Return a GeoParquet frame with its points in two columns, and the CRS that the file states."""
    from pyspark.sql import functions as F

    geo = _geo_metadata(paths[0])
    if geo is None:
        return frame, None, columns
    name = geo["primary_column"]
    about = geo["columns"][name]
    kinds = set(about.get("geometry_types") or ["Point"])
    if not kinds <= {"Point", "Point Z"}:
        raise InputError(f"geometry column {name!r} holds {', '.join(sorted(kinds))}: points are wanted")
    x, y = "_x", "_y"
    if about["encoding"] == "point":
        frame = frame.withColumn(x, F.col(f"`{name}`.x")).withColumn(y, F.col(f"`{name}`.y"))
    elif about["encoding"] == "WKB":
        frame = frame.withColumn("_point", _wkb_points()(F.col(f"`{name}`")))
        frame = frame.withColumn(x, F.col("_point.x")).withColumn(y, F.col("_point.y")).drop("_point")
    else:
        raise InputError(f"geometry column {name!r} is encoded as {about['encoding']}: WKB or point is wanted")
    crs = about.get("crs", "missing")
    found = "OGC:CRS84" if crs in ("missing", None) else json.dumps(crs)
    return frame.drop(name), found, replace(columns, x=x, y=y)


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


def _geo_metadata(path: str) -> dict[str, Any] | None:
    filesystem, place = filesystem_of(path)
    if isinstance(filesystem, fs.LocalFileSystem):
        some = sorted(Path(place).parent.glob(Path(place).name)) or [Path(place)]
        inside = sorted(some[0].rglob("*.parquet")) if some[0].is_dir() else some[:1]
        place = str(inside[0]) if inside else place
    try:
        metadata = pq.read_schema(place, filesystem=filesystem).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    return json.loads(metadata[b"geo"]) if b"geo" in metadata else None
