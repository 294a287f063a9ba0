"""The data source ``dtoss``: a snapshot of a store as a table of Spark's, a row for each object.

``spark.read.format("dtoss").load(STORE)`` once :func:`pipelines.sql.register.register` has made it known, or anywhere
that the wheel is installed, by the package ``pyspark_dtoss`` that Spark finds by itself. Options: ``snapshot``,
``columns``, ``where``, ``box``, ``verify``, ``tasks`` and ``filters`` (:mod:`pipelines.sql.store_scan`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from pipelines.sql.store_scan import Scan, check_declared, ddl_of, groups_of, manifest_of, scan_of, types_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

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
        from pipelines.sql.pruning import concerned

        manifest = manifest_of(self.scan.store, self.scan.snapshot)
        return [
            InputPartition(group)
            for group in groups_of(concerned(manifest, self.filters, self.scan.box), self.scan.tasks)
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
