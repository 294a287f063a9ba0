"""``register``: a store as a view and as table functions of a Spark session's SQL.

The import is ``from pipelines.sql.register import register``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtoss.mapped_index import Verify
from dtoss.names import not_carried
from dtoss.snapshots.store import Store
from pipelines.spark.session import BYTES_PER_BATCH, ROWS_PER_BATCH
from pipelines.sql.data_source import NAME, DtossSource
from pipelines.sql.functions import ID_TYPES, Told
from pipelines.sql.store_scan import absolute, ddl_of, types_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES_PER_BATCH),
}
"""What a session needs: functions get many queries at a time."""


def register(
    spark: SparkSession,
    store: str,
    name: str = NAME,
    snapshot: str | None = None,
    *,
    columns: Sequence[str] = (),
    query_id: str = "bigint",
    verify: Verify = "touch",
) -> str:
    """Make a snapshot known to the SQL of a session and return its name.

    The format ``dtoss`` (:mod:`pipelines.sql.data_source`), the temporary view ``name`` of all objects, and three table
    functions: ``{name}_knn(TABLE(queries), k => 8)``, ``{name}_range(TABLE(queries), radius => 500.0)`` and
    ``{name}_within(TABLE(zones))``. Their other arguments are ``where``, ``having``, ``how``, and but for zones
    ``exclude_self``; ``max_distance`` of the nearest. They mean the same as in :func:`pipelines.join.knn_join`.

    Parameters
    ----------
    spark
        The session; the size of its Arrow batches is set.
    store
        Path or URI; executors must reach it too.
    name
        Of the view, and what the functions begin with.
    snapshot
        Its name; the current one when None. It is fixed here: register again to ask a newer one.
    columns
        What the functions return of objects besides their ids: attributes, and lon and lat or x and y.
    query_id
        The type of the ids of queries and zones, which the functions return as ``query_id``: "bigint" or "string".
    verify
        Which checksums the workers compare, as :func:`dtoss.open` does.

    Raises
    ------
    ValueError
        If the name is no identifier, a column is not carried or would stand twice, or ``query_id`` is neither.
    StoreError
        If there is no such store or snapshot.
    """
    from pyspark.sql.functions import arrow_udtf

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name is {name!r}: letters, digits and underscores are wanted, as functions begin with it")
    if query_id not in ID_TYPES:
        raise ValueError(f"query_id is {query_id!r}: bigint or string is wanted")
    if verify not in (False, True, "touch"):
        raise ValueError(f"verify is {verify!r}: False, 'touch' or True is wanted")
    path = absolute(store)
    manifest = Store(path).manifest(snapshot)
    told = Told(path, manifest["snapshot"], _carried(columns, manifest), query_id, verify)
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    spark.dataSource.register(DtossSource)
    check = {False: "no", "touch": "touch", True: "all"}[verify]
    view = spark.read.format(NAME).option("snapshot", told.snapshot).option("verify", check).load(path)
    view.createOrReplaceTempView(name)
    types = types_of(manifest)
    ids = {"query_id": query_id, "id": types["id"]}
    carried = {column: types[column] for column in told.columns}
    ranked = ddl_of({**ids, "distance": "double", "rank": "int", **carried})
    spark.udtf.register(f"{name}_knn", arrow_udtf(_knn(told), returnType=ranked))
    spark.udtf.register(f"{name}_range", arrow_udtf(_range(told), returnType=ranked))
    spark.udtf.register(f"{name}_within", arrow_udtf(_within(told), returnType=ddl_of(ids | carried)))
    return told.snapshot


def _carried(columns: Sequence[str], manifest: dict[str, Any]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise ValueError(f"columns is the string {columns!r}: give a list of names")
    known = [column for column in types_of(manifest) if column != "id"]
    for column in columns:
        if column not in known:
            raise ValueError(not_carried(column, known))
        if list(columns).count(column) > 1:
            raise ValueError(f"column {column!r} would stand twice in the result")
    return tuple(columns)


# Spark wants classes, and makes one for each task without a word: what they were told is in their closure


def _knn(told: Told) -> type:
    class Knn:
        def eval(self, queries: Any, k: Any = None, max_distance: Any = None, **others: Any) -> Any:
            from pipelines.sql.functions import nearest

            yield from nearest(told, queries, k, max_distance, **others)

    return Knn


def _range(told: Told) -> type:
    class Range:
        def eval(self, queries: Any, radius: Any = None, **others: Any) -> Any:
            from pipelines.sql.functions import around

            yield from around(told, queries, radius, **others)

    return Range


def _within(told: Told) -> type:
    class Within:
        def eval(self, zones: Any, **others: Any) -> Any:
            from pipelines.sql.functions import inside

            yield from inside(told, zones, **others)

    return Within
