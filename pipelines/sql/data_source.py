"""The data source ``dtoss``: a snapshot of a store as a table of Spark's, a row for each object.

``spark.read.format("dtoss").load(STORE)`` once :func:`pipelines.sql.register.register` has made it known, or anywhere
that the wheel is installed, by the package ``pyspark_dtoss`` that Spark finds by itself. Options: ``snapshot``,
``columns``, ``where``, ``box``, ``verify``, ``tasks`` and ``filters`` (:mod:`pipelines.sql.store_scan`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from dtoss.names import position_names
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from pipelines.sql.store_scan import Scan, check_declared, ddl_of, groups_of, manifest_of, scan_of, types_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


PLACE_TOLERANCE = 1e-9
"""Of radians, and of a planar coordinate and a radius relatively: far more than rounding makes of either."""


def objects_to_scan(
    manifest: Mapping[str, Any], filters: Sequence[Filter], box: Sequence[float] | None = None
) -> dict[int, int]:
    """Return how many objects the partitions hold that may be in a box and satisfy all filters, by their numbers.

    Partitions without objects are left out. Positions of a projected CRS that are compared on the sphere rule none out.

    ``box``: as in :meth:`dtoss.Index.box`; everything when None.
    """
    space = space_of_manifest(dict(manifest))
    pivots = regions_of_manifest(dict(manifest)).pivots
    names = position_names(space.geographic)
    low, high = _box(filters, names)
    # across the antimeridian it is two
    west, south, east, north = box or (-math.inf, -math.inf, math.inf, math.inf)
    sides = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    kept = {}
    for entry, pivot in zip(manifest["partitions"], np.asarray(pivots).tolist(), strict=True):
        if not entry["objects"]:
            continue
        reach = float(entry["furthest"])
        if space.metric == "plane":
            spans = [_around(value, reach + PLACE_TOLERANCE * (abs(value) + reach)) for value in pivot]
        elif space.geographic:
            spans = _spans_on_sphere(pivot, reach)
        else:
            spans = [(-math.inf, math.inf)] * len(names)
        reached = all(_meet(span, (low[axis], high[axis])) for axis, span in enumerate(spans))
        if reached and any(_meet(spans[0], side) for side in sides) and _meet(spans[1], (south, north)):
            kept[int(entry["number"])] = int(entry["objects"])
    return kept


def _box(filters: Sequence[Filter], names: tuple[str, str]) -> tuple[list[float], list[float]]:
    """Return the least and the greatest values of both coordinates."""
    low, high = [-math.inf, -math.inf], [math.inf, math.inf]
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1 or path[0] not in names:
            continue
        axis = names.index(path[0])
        if isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            low[axis] = max(low[axis], float(one.value))
        if isinstance(one, (EqualTo, LessThan, LessThanOrEqual)):
            high[axis] = min(high[axis], float(one.value))
    return low, high


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _around(middle: float, reach: float) -> tuple[float, float]:
    return middle - reach, middle + reach


def _spans_on_sphere(pivot: Sequence[float], chord: float) -> list[tuple[float, float]]:
    """Return the spans of lon and lat, in degrees, of a cap round a pivot; all of lon where it may cross the border.

    A cap of angle a round latitude b that holds no pole spans asin(sin a / cos b) of longitude to both sides.
    """
    x, y, z = pivot
    angle = 2.0 * math.asin(min(chord / 2.0, 1.0)) + PLACE_TOLERANCE
    lat = math.atan2(z, math.hypot(x, y))
    lats = _around(math.degrees(lat), math.degrees(angle) + PLACE_TOLERANCE)
    if abs(lat) + angle >= math.pi / 2.0 - PLACE_TOLERANCE:
        return [(-180.0, 180.0), lats]
    lons = _around(
        math.degrees(math.atan2(y, x)), math.degrees(math.asin(math.sin(angle) / math.cos(lat)) + PLACE_TOLERANCE)
    )
    # what lies beyond the antimeridian has a longitude of the other sign
    return [lons if lons[0] > -180.0 and lons[1] < 180.0 else (-180.0, 180.0), lats]


NAME = "dtoss"
"""Of the format."""
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of Spark's that plans a read with filters: only in its process may a reader say that it takes some."""


class DtossSource(DataSource):
    """A snapshot of a store, fixed when it is loaded: Spark keeps this object with the name of the snapshot in it.

    Where somebody has declared the columns Spark asks for nothing at load, and the snapshot is fixed by each action.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    @property
    def scan(self) -> Scan:
        """What is read; the snapshot is looked up once, and the answer travels with this object."""
        found: Scan | None = self.__dict__.get("_scan")
        if found is None:
            found = self.__dict__["_scan"] = scan_of(self.options)
        return found

    def schema(self) -> str:
        """Return the columns with their types as Spark's SQL declares them: id, the position, and attributes."""
        scan = self.scan
        return ddl_of(types_of(manifest_of(scan.store, scan.snapshot), scan.columns))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of a schema.

        One that takes filters is made only where it was asked for by ``filters`` and Spark is about to hand them over:
        Spark refuses it where ``spark.sql.python.filterPushdown.enabled`` is off, and 4.3 reads a table that is
        filtered twice, in one query or in two, by the filters of one of them.
        """
        check_declared(manifest_of(self.scan.store, self.scan.snapshot), schema)
        taking = self.scan.filters and _filters_come()
        return FilteringReader(self.scan, schema) if taking else Reader(self.scan, schema)


def _filters_come() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or (main is not None and main.name == _PUSHING)


class Reader(DataSourceReader):
    """Reads all objects of a snapshot."""

    def __init__(self, scan: Scan, schema: StructType) -> None:
        self.scan = scan
        self.schema = schema
        self.filters: list[Filter] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Return the numbers of the store's partitions in groups, without those that the filters rule out."""
        manifest = manifest_of(self.scan.store, self.scan.snapshot)
        return [
            InputPartition(group)
            for group in groups_of(objects_to_scan(manifest, self.filters, self.scan.box), self.scan.tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return an iterator over the objects of a group of partitions."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from pipelines.sql.object_batches import batches_of

        # Spark reads one partition of nothing where there is none
        numbers = partition.value or ()
        return batches_of(self.scan, numbers, to_arrow_schema(self.schema, timezone="UTC"), self.filters)


class FilteringReader(Reader):
    """Reads the objects that satisfy those filters of Spark's that mean the same here."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return the filters that stay with Spark, and keep the others."""
        from pipelines.sql.pushed_filters import taken

        types = {field.name: field.dataType.simpleString() for field in self.schema.fields}
        self.filters = [one for one in filters if taken(one, types)]
        return [one for one in filters if not any(one is mine for mine in self.filters)]
