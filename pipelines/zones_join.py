"""The join of zones in Spark: all objects within each polygon of a DataFrame.

Zones are sent to the tasks of the partitions that hold their middles, so that neighbours read the same files. A zone is
answered by one task, some hits at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.answer_rows import make_ask, open_once
from dtoss.errors import InputError
from dtoss.frames.polygon_frames import Zones, rings_of_values
from dtoss.geometry.polygons import check_edges, polygons_in
from dtoss.geometry.space import Space
from dtoss.mapped_index import Verify
from dtoss.names import unused_name
from dtoss.partitioning.regions import Regions
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.join import answer_in_tasks, check_crs_of, check_named, result_schema
from pipelines.rows.row_sources import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ZONE = "zone"
"""The column that says of which zone a row is."""
ROWS = 1 << 18
"""Rows of a batch of the result, at the most."""


@dataclass(frozen=True)
class ZoneAsk:
    """What is asked of each zone: a checked snapshot, and how the result is called."""

    store: str
    snapshot: str
    verify: Verify
    how: str
    columns: tuple[str, ...]
    where: str | None
    names: tuple[str, ...]
    edges: str | None


def within_join(
    zones: DataFrame,
    store: str,
    *,
    by: str,
    geometry: str = "geometry",
    columns: Sequence[str] = (),
    where: str | None = None,
    how: Literal["inner", "left"] = "inner",
    edges: str | None = None,
    crs: str | None = None,
    snapshot: str | None = None,
    verify: Verify = "touch",
) -> DataFrame:
    """Return all objects within every zone or on its edges: zone, id, and columns.

    Parameters
    ----------
    zones
        One row a zone. Zones may overlap, and several may have one name: each row is answered by itself.
    store
        Path or URI; executors must reach it too.
    by
        The column that becomes ``zone``, of any type.
    geometry
        The column of polygons: WKB as binary, or GeoJSON as text. A zone whose geometry is null or empty has no hits.
    columns
        Attributes of the objects to return, or their coordinates; one that is called zone comes as ``zone_``.
    where
        A condition on the objects (:mod:`dtoss.conditions.parse`).
    how
        "inner", or "left": a zone without hits has one row of nulls.
    edges
        As in :meth:`dtoss.Index.within`.
    crs
        Of the zones, to be sure that it is the snapshot's own.
    snapshot
        Its name; the current one when None. It is fixed when the join is called, whenever it is run.
    verify
        Which checksums the workers compare, as :func:`dtoss.open` does: each file's when a worker first reads it.

    Raises
    ------
    ValueError
        If ``how`` or ``edges`` is neither, a column or condition does not fit the objects, or the CRS is another one.
    InputError
        If a column is missing, the message lists those found; or if the geometries are neither binary nor text. When
        the join runs: if a geometry cannot be read or is no polygon; the message names its zone.
    StoreError
        If there is no such store or snapshot.

    Notes
    -----
    Lazy: nothing runs before an action. The same hits as :meth:`dtoss.Index.within`, whose edges and insides these are.
    A task holds the hits of one zone: cut a zone that holds a large part of all objects into parts.
    """
    from pyspark.sql import types as T

    asked = make_ask(store, snapshot, radius=0.0, how=how, columns=columns, where=where, verify=verify)
    check_edges(edges)
    manifest = Store(asked.store).manifest(asked.snapshot)
    space = space_of_manifest(manifest)
    check_crs_of(crs, space, "zones", "snapshot")
    check_named(zones, (by, geometry), "zones")
    kinds = {field.name: field.dataType for field in zones.schema.fields}
    if not isinstance(kinds[geometry], (T.BinaryType, T.StringType)):
        raise InputError(
            f"column {geometry!r} of the zones is {kinds[geometry].simpleString()}: WKB as binary or GeoJSON as text "
            "is wanted"
        )
    names = [unused_name(name, [ZONE]) for name in columns]
    ask = ZoneAsk(asked.store, asked.snapshot, verify, how, asked.columns, asked.where, (ZONE, "id", *names), edges)
    frame = zones.select(exactly(by).alias(ZONE), exactly(geometry).alias("shape"))
    _, ids, _, _, *carried = result_schema(manifest, kinds[by], columns).fields
    fields = [T.StructField(ZONE, kinds[by]), ids]
    fields += [T.StructField(name, field.dataType) for name, field in zip(names, carried, strict=True)]
    route = _router(space, regions_of_manifest(manifest), ask.edges)
    return answer_in_tasks(frame, route, answerer(ask), T.StructType(fields))


def _zones_of(batch: pa.RecordBatch, space: Space, edges: str | None) -> tuple[Zones, NDArray[np.float64]]:
    """Return the zones of a batch, and the middle of the first polygon of each, NaN where there is none."""
    values = batch.column("shape").to_pylist()
    try:
        rings = rings_of_values(values)
        zones = Zones(rings if edges is None else replace(rings, edges=edges))
        polygons = polygons_in(zones.rings, space)
    except ValueError as error:
        row, text = re.fullmatch(r"zone (\d+): (.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
        raise InputError(f"zone {batch.column(ZONE)[int(row)].as_py()!r}: {text}") from None
    nowhere = np.full(space.dimension, np.nan)
    middles = [shape[0].middle if shape else nowhere for shape in polygons]
    return zones, np.array(middles).reshape(-1, space.dimension)


def _router(space: Space, regions: Regions, edges: str | None) -> Callable[..., Iterator[pa.RecordBatch]]:
    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            _, middles = _zones_of(batch, space, edges)
            task = np.full(len(middles), turn, np.int32)
            there = ~np.isnan(middles[:, 0])
            task[there] = regions.nearest(np.ascontiguousarray(middles[there]))
            yield pa.record_batch([*batch.columns, pa.array(task)], names=[*batch.schema.names, "task"])

    return route


def answerer(ask: ZoneAsk, rows: int = ROWS) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that answers the zones of a task, in batches of so many rows at the most."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = open_once(ask.store, ask.snapshot, ask.verify)
        for batch in batches:
            (zones, _), names = _zones_of(batch, index.space, ask.edges), batch.column(ZONE)
            held = np.zeros(len(zones), np.bool_)
            meant = zones.rings.edges
            found = index.within_batches(zones, batch_size=rows, columns=ask.columns, where=ask.where, edges=meant)
            for hits in found:
                held[hits.query] = True
                ids = pa.array(hits.id, pa.large_string() if index.string_ids else pa.int64())
                yield pa.record_batch(
                    [names.take(pa.array(hits.query)), ids, *hits.columns.values()], names=list(ask.names)
                )
            if ask.how == "left" and not held.all():
                none = index.within(zones.between(0, 0), columns=ask.columns)
                kinds = [pa.large_string() if index.string_ids else pa.int64()]
                kinds += [column.type for column in none.columns.values()]
                alone = pa.array(np.flatnonzero(~held))
                nulls = [pa.nulls(len(alone), kind) for kind in kinds]
                yield pa.record_batch([names.take(alone), *nulls], names=list(ask.names))

    return answer


if __name__ == "__main__":
    from pipelines.command.main import refuse_script

    refuse_script("within_join is a function of Python; dtoss within --polygons joins a file of zones")
