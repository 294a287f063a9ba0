"""FlatGeobuf files, by pyogrio."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyproj

from dtoss.errors import InputError
from dtoss.export.geoparquet import GEOMETRY, Geometries
from dtoss.extras import need
from dtoss.geometry.space import NO_CRS


def write_flatgeobuf(
    batches: Callable[[], Iterable[tuple[dict[str, pa.Array], Geometries]]],
    path: str,
    crs: str,
    layer: str,
    schema: pa.Schema,
    kind: str,
) -> int:
    """Write batches of columns and geometries as one layer, and return how many rows it has.

    The file appears whole or not at all. It has a spatial index, which takes some 100 bytes a row of memory while it is
    made; the format allows none where a row has no geometry, and then it is written again without.

    ``crs``: of all coordinates: one that pyproj reads, or "none"; ``schema``: of the columns without the geometry;
    ``kind``: "Point", or "Unknown" where a row may have a polygon, several or none.
    """
    pyogrio = need("pyogrio", f"{Path(path).suffix} files", "geo")
    target = Path(path)
    # the suffix says to GDAL what it is
    scratch = target.with_name(f".{uuid.uuid4().hex}.writing{target.suffix}")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {target.parent}; make it first")
    whole = pa.schema([*schema, pa.field(GEOMETRY, pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})])
    options = {
        "layer": layer,
        "driver": "FlatGeobuf",
        "geometry_name": GEOMETRY,
        "geometry_type": kind,
        "crs": None if crs.lower() == NO_CRS else pyproj.CRS.from_user_input(crs).to_wkt(),
    }
    try:
        for indexed in ("YES", "NO"):
            stream = _Stream(batches(), whole, may_be_null=indexed == "NO")
            try:
                reader = pa.RecordBatchReader.from_batches(whole, stream.batches())
                pyogrio.write_arrow(reader, scratch, layer_options={"SPATIAL_INDEX": indexed}, **options)
                break
            except (RuntimeError, pyogrio.errors.DataLayerError, pyogrio.errors.DataSourceError) as error:
                # what went wrong in the stream is not told by who reads it
                if stream.error is not None:
                    raise stream.error from None
                if not stream.null:
                    raise InputError(f"{path} cannot be written: {str(error).splitlines()[0]}") from None
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)
    return stream.rows


class _Stream:
    """Batches on their way to a file: how many rows went by, and why they ended."""

    def __init__(
        self, made: Iterable[tuple[dict[str, pa.Array], Geometries]], schema: pa.Schema, *, may_be_null: bool
    ) -> None:
        self._made, self._schema, self._may_be_null = made, schema, may_be_null
        self.rows, self.null = 0, False
        self.error: BaseException | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches, up to the first geometry that is missing where none may be."""
        try:
            for columns, shapes in self._made:
                self.rows += len(shapes.wkb)
                if shapes.wkb.null_count and not self._may_be_null:
                    self.null = True
                    raise ValueError("a geometry is missing")
                yield pa.RecordBatch.from_arrays([*columns.values(), shapes.wkb], schema=self._schema)
        except BaseException as error:
            self.error = None if self.null else error
            raise
