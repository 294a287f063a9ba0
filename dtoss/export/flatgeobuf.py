"""FlatGeobuf files, by pyogrio."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyproj

from dtoss.errors import InputError
from dtoss.export.geoparquet import GEOMETRY, Geometries
from dtoss.extras import needed
from dtoss.geometry.space import NO_CRS


def write_flatgeobuf(
    batches: Iterable[tuple[dict[str, pa.Array], Geometries]],
    path: str,
    crs: str,
    layer: str,
    schema: pa.Schema,
    kind: str,
) -> int:
    """Write batches of columns and geometries as one layer with a spatial index, and return how many rows it has.

    The file appears whole or not at all. The index takes some 100 bytes a row of memory while it is made.

    Parameters
    ----------
    batches
        Columns by name, and the geometries of their rows.
    path
        A local path.
    crs
        Of all coordinates: one that pyproj reads, or "none".
    layer
        Its name.
    schema
        Of the columns without the geometry.
    kind
        "Point", or "Unknown" where a row may have a polygon, several or none.

    Raises
    ------
    InputError
        If pyogrio is missing, or the file cannot be written there.
    """
    pyogrio = needed("pyogrio", f"{Path(path).suffix} files", "geo")
    target = Path(path)
    # the suffix says to GDAL what it is
    scratch = target.with_name(f".{uuid.uuid4().hex}.writing{target.suffix}")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {target.parent}; make it first")
    whole = pa.schema([*schema, pa.field(GEOMETRY, pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})])
    rows = 0

    def made() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for columns, shapes in batches:
            rows += len(shapes.wkb)
            yield pa.RecordBatch.from_arrays([*columns.values(), shapes.wkb], schema=whole)

    try:
        pyogrio.write_arrow(
            pa.RecordBatchReader.from_batches(whole, made()),
            scratch,
            layer=layer,
            driver="FlatGeobuf",
            geometry_name=GEOMETRY,
            geometry_type=kind,
            crs=None if crs.lower() == NO_CRS else pyproj.CRS.from_user_input(crs).to_wkt(),
        )
        scratch.replace(target)
    except pyogrio.errors.DataSourceError as error:
        raise InputError(f"{path} cannot be written: {str(error).splitlines()[0]}") from None
    finally:
        scratch.unlink(missing_ok=True)
    return rows
