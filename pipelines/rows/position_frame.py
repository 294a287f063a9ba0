"""Positions in our columns, with bad rows set aside with a reason each, and their files in the snapshot.

The result has the columns ``id``, ``x``, ``y``, ``t`` where there is a time, and the attributes; a row that cannot be
used has a reason in ``_reason`` instead of being lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.columnar_files import REJECTED, encode_rejected
from dtoss.erasure.forgotten import forgotten_in
from dtoss.errors import InputError
from dtoss.frames.geo_columns import check_crs
from dtoss.geometry.space import NO_CRS, Space
from dtoss.rows.incoming import screen_space
from dtoss.rows.input_columns import DELETED, REASON, Columns, attribute_names, parts_of
from dtoss.rows.row_plan import RowPlan, plan_rows, say_taken, where
from dtoss.snapshots.column_types import stored_type, type_name, type_named
from dtoss.snapshots.partition_file import checksum
from dtoss.snapshots.store import Store
from dtoss.text.time_patterns import is_numeric
from pipelines.engines.rows import Rows, one_value
from pipelines.rows.row_sources import FrameSource, MadeRows, Source
from pipelines.rows.screened_frame import Screen, ScreenedFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Positions:
    """Positions in our columns, and what became of the input's."""

    # id (int64 or string), x, y (float64), t where there is a time, attributes, and the reason in ``_reason``:
    frame: ScreenedFrame
    attributes: tuple[str, ...]  # Names of the attribute columns
    timed: bool  # Whether there is a ``t``
    string_ids: bool  # Whether ids are strings
    # Of the positions, as the user says it, or else the file (GeoParquet); None where neither does
    crs: str | None = None
    # What was taken for what, to be told: of the id, the position and the time
    taken: Mapping[str, str] = field(default_factory=dict)
    # Which columns of the input mean what, as they were asked for, the column of the time as it was found
    source: Columns | None = None
    kept: DataFrame | None = None  # What Spark keeps of the rows, because making them again costs much

    @property
    def session(self) -> SparkSession | None:
        """The Spark that has the rows; None where this process has them."""
        return self.frame.source.session

    @property
    def spark_frame(self) -> DataFrame:
        """All rows with their reasons, as Spark has them."""
        from pipelines.engines.spark_rows import SparkRows

        rows = self.frame.all_rows()
        if not isinstance(rows, SparkRows):
            raise InputError("these rows were read without Spark, and this job needs it: --engine spark reads them so")
        return rows.frame

    @property
    def columns(self) -> list[str]:
        """Names of the columns, without the row as it was read."""
        return list(self.frame.schema.names)

    @property
    def types(self) -> dict[str, str]:
        """Spark's names of the types of the columns."""
        return {field.name: type_name(field.type) for field in self.frame.schema}

    @property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """Arrow's types of the columns."""
        return {field.name: stored_type(field.type) for field in self.frame.schema}

    def only(self, names: Sequence[str]) -> Positions:
        """Return positions with some columns, in this order."""
        return replace(self, frame=self.frame.then(lambda rows: rows.select(list(names))))

    def with_nulls(self, types: Mapping[str, str]) -> Positions:
        """Return positions with columns more, without values, of the types that Spark calls so."""

        def add(rows: pa.RecordBatch) -> pa.RecordBatch:
            for name, kind in types.items():
                rows = rows.append_column(name, pa.nulls(len(rows), type_named(kind)))
            return rows

        return replace(self, frame=self.frame.then(add))

    def good(self, names: Sequence[str]) -> Rows:
        """Return some columns of the rows that can be used."""
        return self.frame.rows(names)

    def with_raw(self) -> Rows:
        """Return all rows with their reasons, those that may be set aside also as they were read."""
        return self.frame.with_raw()

    def rejected(self) -> Rows:
        """Return the rows that have a reason: the columns ``reason`` and ``row``, which is as it was read."""
        return self.frame.rejected()

    @property
    def forgotten(self) -> int:
        """Rows that were dropped, as those of whom they are were forgotten; to be asked once the rows were read."""
        return self.frame.forgotten

    @property
    def dropped_rows(self) -> dict[str, int]:
        """What counts of rows say of :attr:`forgotten`: nothing where there are none."""
        return {"forgotten": self.forgotten} if self.forgotten else {}

    def release(self) -> None:
        """Let go of what is kept."""
        if self.kept is not None:
            self.kept.unpersist()


def positions_of_rows(
    rows: Rows, types: Mapping[str, str], attributes: tuple[str, ...], *, string_ids: bool
) -> Positions:
    """Return positions of rows that are all good, in our columns, of the types that Spark calls so."""
    given = pa.schema([(name, type_named(kind)) for name, kind in types.items()])
    frame = ScreenedFrame(MadeRows(rows), Screen(None, given))
    return Positions(frame, attributes, timed=True, string_ids=string_ids)


def positions_by(plan: RowPlan, source: Source, crs: str | None) -> Positions:
    """Return the positions in raw rows, which become ours by a plan."""
    return Positions(
        frame=ScreenedFrame(source, Screen(plan)),
        attributes=plan.attributes,
        timed=plan.columns.time is not None,
        string_ids=not plan.whole,
        crs=crs,
        taken=say_taken(plan),
        source=replace(plan.asked, time=plan.columns.time),
    )


def from_frame(frame: DataFrame, columns: Columns, *, wanted: Mapping[str, str] | None = None) -> Positions:
    """Return the positions in a DataFrame of Spark's; columns that Arrow cannot carry are in no row that is told."""
    schema = arrow_columns(frame)
    carried = {one.name for one in schema if not pa.types.is_null(one.type)}
    odd = {one.name: one.dataType.simpleString() for one in frame.schema if one.name not in carried}
    asked = (columns.id, columns.x, columns.y, columns.time, columns.deleted, columns.geometry)
    _check_carried([*filter(None, asked), *attribute_names(columns.attributes)], odd)
    plan = plan_rows(schema, columns, wanted=wanted)
    _check_carried(plan.attributes, odd)
    plan = replace(plan, tops={name: kind for name, kind in plan.tops.items() if name not in odd})
    return positions_by(plan, FrameSource(frame), columns.crs)


def arrow_columns(frame: DataFrame) -> pa.Schema:
    """Return the columns of a DataFrame in the types of Arrow, null where that cannot carry one; no value is text."""
    return pa.schema([(one.name, _arrow_type(one.dataType.simpleString())) for one in frame.schema])


def _arrow_type(name: str) -> pa.DataType:
    try:
        return pa.string() if name == "void" else type_named(name)
    except TypeError:
        return pa.null()


def _check_carried(names: Sequence[str], odd: Mapping[str, str]) -> None:
    for name in names:
        if (first := name if name in odd else parts_of(name)[0]) in odd:
            raise InputError(f"column {name!r} is {odd[first]}, which cannot be carried along: name others (--columns)")


def screen_positions(positions: Positions, space: Space, wrap: bool = False) -> Positions:
    """Return the positions with the reasons completed by what is legal in a space.

    ``wrap`` takes 360 from longitudes above 180 first.
    """
    if space.crs != NO_CRS:
        check_crs(positions.crs, space, "the positions", "what they are for")
    return replace(positions, frame=positions.frame.then(screen_space(space, wrap)))


def taken_of(positions: Positions | None) -> dict[str, dict[str, str]]:
    """Return what a manifest says of what was taken for what; nothing where nothing was chosen."""
    return {"taken": dict(positions.taken)} if positions is not None and positions.taken else {}


def placed_rows(positions: Positions) -> Positions:
    """Return positions without the rows that delete an object."""
    if DELETED not in positions.columns:
        return positions

    def has_place(rows: pa.RecordBatch) -> NDArray[np.bool_]:
        return ~where(rows.column(DELETED)) | where(rows.column(REASON).is_valid())

    return replace(positions, frame=positions.frame.where(has_place))


def without_deletions(positions: Positions) -> Positions:
    """Return positions without the rows that delete an object, and without the column that says so."""
    return placed_rows(positions).only([name for name in positions.columns if name != DELETED])


def without_forgotten(positions: Positions, path: str) -> Positions:
    """Return positions without the rows of those who are forgotten in a store or a history.

    How many these are is ``forgotten`` of what is returned, once the rows were read. Nothing is done where nobody is
    forgotten, or rows have no ids.
    """
    known = forgotten_in(path)
    if known is None or (positions.source is not None and positions.source.id is None):
        return positions
    return replace(positions, frame=positions.frame.without(known))


def time_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``time``: the column, Spark's type, and the unit where times are numbers; None without.

    Numbers are seconds unless the time format says milliseconds.
    """
    if not positions.timed:
        return None
    kind, source = positions.types["t"], positions.source
    unit = None
    if is_numeric(kind):
        unit = "ms" if source is not None and source.time_format == "epoch_ms" else "s"
    column = "t" if source is None or source.time is None else source.time
    return {"column": column, "type": kind, "unit": unit}


def source_of(positions: Positions) -> dict[str, Any] | None:
    """Return the manifest's ``source``: which columns meant what and how text was read; a cycle takes them again."""
    return None if positions.source is None else positions.source.facts()


ROWS_PER_FILE = 1_000_000


def quarantine(positions: Positions, store: Store, snapshot: str, rows: int) -> list[dict[str, Any]]:
    """Write the rows that have a reason as Parquet (reason, row), and return the manifest's entries of the files.

    Files are the same for the same rows: a row goes to one of them by its hash, and stands sorted in it.
    """
    store.folder.make("snapshots", snapshot, "quarantine")
    files = -(-rows // ROWS_PER_FILE)
    rejected = positions.rejected().exchange_by_hash(files, "row")
    written = rejected.map(_writer(store, snapshot), "entry string").values()
    return sorted(map(json.loads, written), key=lambda entry: entry["file"])


def _writer(store: Store, snapshot: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = [batch.cast(REJECTED) for batch in batches]
        if not kept:
            return
        table = pa.Table.from_batches(kept)
        data = encode_rejected(table)
        digest = checksum(data)
        file = f"quarantine/{digest[:16]}.parquet"
        store.write(snapshot, file, data)
        entry = {"file": file, "rows": len(table), "bytes": data.size, "sha256": digest}
        yield one_value("entry", json.dumps(entry))

    return write
