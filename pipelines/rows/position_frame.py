"""Positions as a DataFrame in our columns, with bad rows set aside with a reason each.

The result has the columns ``id``, ``x``, ``y``, ``t`` where there is a time, and the attributes; a row that cannot be
used has a reason in ``_reason`` instead of being lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.delimited.record_batches import CORRUPT, FLAW
from dtoss.delimited.records import BEHIND_QUOTE, UNDECODED, UNENDED
from dtoss.errors import InputError
from dtoss.frames.crs_names import check_crs
from dtoss.geometry.space import FURTHEST, NO_CRS, SMALLEST, Space
from dtoss.partition import numbers as arrow_of
from dtoss.snapshots.column_types import stored_type, type_name, type_named
from pipelines.engines.local_rows import LocalRows
from pipelines.engines.rows import Rows
from pipelines.engines.spark_rows import SparkRows
from pipelines.rows.input_columns import (
    DELETED,
    MISTYPED,
    NO_NUMBER,
    NO_POINT,
    NOT_WHOLE,
    RAW,
    REASON,
    TOO_LARGE,
    UNMARKED,
    UNREADABLE_TIME,
    Columns,
    attribute_column,
    attribute_names,
    attributes_of,
    taken_said,
)
from pipelines.rows.local_frame import LocalFrame, RowsSource
from pipelines.rows.paths import check_found, with_fields
from pipelines.rows.point_columns import with_points
from pipelines.rows.row_plan import screened_in
from pipelines.text import text_types, time_columns
from pipelines.text.text_types import empty, exactly

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession


@dataclass(frozen=True)
class Positions:
    """Positions as a DataFrame in our columns, and what became of the input's."""

    # id (bigint or string), x, y (double), t where there is a time, attributes, the reason in ``_reason`` and the row
    # as it was read, as JSON, in ``_raw``:
    frame: DataFrame | LocalFrame  # Of Spark, or of this process, where it has no ``_raw``
    attributes: tuple[str, ...]  # Names of the attribute columns
    timed: bool  # Whether there is a ``t``
    string_ids: bool  # Whether ids are strings
    # Of the positions, as the user says it, or else the file (GeoParquet); None where neither does
    crs: str | None = None
    # What was taken for what, to be told: of the id, the position and the time
    taken: Mapping[str, str] = field(default_factory=dict)
    # Which columns of the input mean what, as they were asked for, the column of the time as it was found
    source: Columns | None = None
    # What was read from text is kept by Spark, because reading it again costs much; see :meth:`release`
    kept: DataFrame | None = None
    dropped: Observation | None = None  # What counts the rows of those who are forgotten; None where nobody is

    @property
    def session(self) -> SparkSession | None:
        """The Spark that has the rows; None where this process has them."""
        return None if isinstance(self.frame, LocalFrame) else self.frame.sparkSession

    @property
    def spark_frame(self) -> DataFrame:
        """The rows as Spark has them."""
        if isinstance(self.frame, LocalFrame):
            raise InputError("these rows were read without Spark, and this job needs it: --engine spark reads them so")
        return self.frame

    @property
    def columns(self) -> list[str]:
        """Names of the columns, without the row as it was read."""
        return [name for name in self.frame.columns if name != RAW]

    @property
    def types(self) -> dict[str, str]:
        """Spark's names of the types of the columns."""
        if isinstance(self.frame, LocalFrame):
            return {field.name: type_name(field.type) for field in self.frame.schema}
        return {field.name: field.dataType.simpleString() for field in self.frame.schema.fields}

    @property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """Arrow's types of the columns."""
        if isinstance(self.frame, LocalFrame):
            return {field.name: stored_type(field.type) for field in self.frame.schema}
        from pyspark.sql.pandas.types import to_arrow_type

        return {field.name: to_arrow_type(field.dataType, timezone="UTC") for field in self.frame.schema.fields}

    def only(self, names: Sequence[str]) -> Positions:
        """Return positions with some columns, in this order, and rows as they were read."""
        if isinstance(self.frame, LocalFrame):
            return replace(self, frame=self.frame.then(lambda rows: rows.select(list(names))))
        return replace(self, frame=self.frame.select(*map(exactly, [*names, RAW])))

    def with_nulls(self, types: Mapping[str, str]) -> Positions:
        """Return positions with columns more, without values, of the types that Spark calls so."""
        if isinstance(self.frame, LocalFrame):

            def add(rows: pa.RecordBatch) -> pa.RecordBatch:
                for name, kind in types.items():
                    rows = rows.append_column(name, pa.nulls(len(rows), type_named(kind)))
                return rows

            return replace(self, frame=self.frame.then(add))
        from pyspark.sql import functions as F

        return replace(self, frame=self.frame.withColumns({n: F.lit(None).cast(k) for n, k in types.items()}))

    def good(self, names: Sequence[str]) -> Rows:
        """Return some columns of the rows that can be used."""
        if isinstance(self.frame, LocalFrame):
            return self.frame.rows(names)
        from pyspark.sql import functions as F

        return SparkRows(self.frame.where(F.col(REASON).isNull()).select(*map(exactly, names)))

    def with_raw(self) -> Rows:
        """Return all rows with their reasons, those that may be set aside also as they were read."""
        return self.frame.with_raw() if isinstance(self.frame, LocalFrame) else SparkRows(self.frame)

    def rejected(self) -> Rows:
        """Return the rows that have a reason: the columns ``reason`` and ``row``, which is as it was read."""
        if isinstance(self.frame, LocalFrame):
            return self.frame.rejected()
        from pyspark.sql import functions as F

        bad = self.frame.where(F.col(REASON).isNotNull())
        return SparkRows(bad.select(F.col(REASON).alias("reason"), F.col(RAW).alias("row")))

    @property
    def forgotten(self) -> int:
        """Rows that were dropped, as those of whom they are were forgotten; to be asked once the rows were read."""
        if isinstance(self.frame, LocalFrame):
            return self.frame.forgotten
        return 0 if self.dropped is None else int(self.dropped.get["rows"])

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
    if isinstance(rows, SparkRows):
        from pyspark.sql import functions as F

        nothing = F.lit(None).cast("string")
        frame = rows.frame.withColumn(REASON, nothing).withColumn(RAW, nothing)
        return Positions(frame, attributes, timed=True, string_ids=string_ids)
    assert isinstance(rows, LocalRows)
    given = pa.schema([(name, type_named(kind)) for name, kind in types.items()])
    return Positions(LocalFrame(RowsSource(rows), None, given=given), attributes, timed=True, string_ids=string_ids)


@dataclass(frozen=True)
class _Rule:
    reason: str
    bad: Column


def from_frame(
    frame: DataFrame, columns: Columns, *, text: bool = False, wanted: Mapping[str, str] | None = None
) -> Positions:
    """Return positions from a DataFrame."""
    from pyspark.sql import functions as F

    asked = columns
    if columns.geometry is not None and columns.x is None:
        frame, x_name, y_name = with_points(frame, columns.geometry)
        columns = replace(columns, x=x_name, y=y_name)
    as_read = [exactly(name) for name in frame.columns if name != FLAW]
    found = [name for name in frame.columns if name not in (CORRUPT, FLAW)]
    id_name, (x_name, y_name) = columns.id, columns.coordinates(found)
    time = columns.time or ("t" if "t" in found and "t" not in (id_name, x_name, y_name) else None)
    roles = (
        ("--id", id_name), ("--x", x_name), ("--y", y_name), ("--time", time), ("--deleted", columns.deleted),
    )  # fmt: skip
    named = [name for _, name in roles]
    frame = with_fields(frame, [*named, *attribute_names(columns.attributes)])
    for option, name in roles:
        if name not in frame.columns:
            check_found(name, option, found)
    others = {columns.deleted or x_name, columns.geometry or x_name}
    attributes = attributes_of(columns.attributes, found, {id_name or x_name, x_name, y_name, *others}, frame.columns)
    types = {field.name: field.dataType for field in frame.schema.fields}
    kinds: dict[str, str] = {}
    if text:
        tolerant = [name for name in (None if columns.id_type else id_name, time) if name]
        names = list(dict.fromkeys([*tolerant, *attributes]))
        kinds = text_types.kinds_of(frame, names, tolerant, columns.decimal, wanted) if names else {}
    wanted = wanted or {}

    rules: list[_Rule] = []
    whole, id_column = True, F.lit(0).cast("bigint")
    if id_name is not None:
        unsigned = _is_uint64(types[id_name])
        whole = unsigned or _whole_ids(id_name, types[id_name], {} if columns.id_type else kinds)
        mixed = kinds.get(id_name) == text_types.MOSTLY
        if columns.id_type is not None:
            mixed, whole = not whole, columns.id_type == "int"
        elif not text and not unsigned and id_name in wanted:
            mixed, whole = not whole, wanted[id_name] == "bigint"
        source = exactly(id_name)
        id_column = source.cast("string")
        if whole:
            id_column = text_types.whole(source) if mixed else source.try_cast("bigint")
        rules = [
            _Rule("no id", _missing(id_name, types[id_name])),
            _Rule(TOO_LARGE if unsigned and whole else NOT_WHOLE, id_column.isNull()),
        ]
    x, y = (coordinate(name, types[name], columns.decimal) for name in (x_name, y_name))
    selected = [id_column.alias("id"), x.alias("x"), y.alias("y")]
    if CORRUPT in frame.columns:
        rules.insert(0, _Rule("unreadable line", F.col(CORRUPT).isNotNull()))
    if FLAW in frame.columns:
        # whose text cannot be read is nobody, and nowhere
        selected = [
            F.when(F.col(FLAW).isNull(), one).alias(name) for one, name in zip(selected, ("id", "x", "y"), strict=True)
        ]
        rules = [*(_Rule(flaw, F.col(FLAW) == flaw) for flaw in (UNDECODED, UNENDED, BEHIND_QUOTE)), *rules]
    elif not text:
        carried = dict.fromkeys([*([id_name] if id_name else []), *attributes])
        unsure = [bad for name in carried if (bad := text_types.not_utf8(exactly(name), types[name])) is not None]
        rules = [*(_Rule(UNDECODED, bad) for bad in unsure), *rules]
    if time is not None:
        time_columns.check_pattern(frame.sparkSession, columns.time_format)
        t = _time(time, types[time], columns, kinds)
        if not text and wanted.get(time) in ("bigint", "double"):
            cast = text_types.as_type(exactly(time), types[time], wanted[time])
            t = t if cast is None else cast
        selected.append(t.alias("t"))
        rules += [_Rule("no time", _missing(time, types[time])), _Rule(UNREADABLE_TIME, t.isNull())]
    stands: Column = F.lit(True)
    if columns.deleted is not None:
        gone = _mark(columns.deleted, types[columns.deleted])
        rules.append(_Rule(UNMARKED, gone.isNull()))
        stands = ~F.coalesce(gone, F.lit(False))
        selected[1:3] = [F.when(stands, x).alias("x"), F.when(stands, y).alias("y")]
        selected.append(F.coalesce(gone, F.lit(False)).alias(DELETED))
    nowhere = [_Rule("no position", _missing(x_name, types[x_name]) | _missing(y_name, types[y_name]))]
    if columns.geometry is not None:
        there = _missing(columns.geometry, types[columns.geometry])
        nowhere = [_Rule("no position", there), _Rule(NO_POINT, x.isNull() | y.isNull())]
    elsewhere = [
        *nowhere,
        _Rule(NO_NUMBER, x.isNull() | y.isNull()),
        _Rule("position is NaN", F.isnan(x) | F.isnan(y)),
    ]
    rules += [_Rule(rule.reason, stands & rule.bad) for rule in elsewhere]
    for name in attributes:
        _check_carried(name, types[name])
        value = exactly(name)
        if name == time and (text or name in wanted):
            value = t
        elif name in wanted:
            fits: Column | None
            if text:
                fits = text_types.strictly(value, kinds[name], columns.decimal)
            else:
                fits = text_types.as_type(value, types[name], wanted[name])
            if fits is not None:
                rules.append(_Rule(MISTYPED, stands & ~_missing(name, types[name]) & fits.isNull()))
                value = fits
        elif text:
            value = text_types.typed(value, kinds[name], columns.decimal)
        selected.append(value.alias(attribute_column(name)))
    reason = F.lit(None).cast("string")
    for rule in reversed(rules):
        reason = F.when(rule.bad, F.lit(rule.reason)).otherwise(reason)
    raw = F.to_json(F.struct(*as_read), {"ignoreNullFields": "false"})
    return Positions(
        frame=frame.select(*selected, reason.alias(REASON), raw.alias(RAW)),
        attributes=tuple(attributes),
        timed=time is not None,
        string_ids=not whole,
        crs=columns.crs,
        taken=taken_said(
            columns, (x_name, y_name), time, whole, {name: kind.simpleString() for name, kind in types.items()}, kinds
        ),
        source=replace(asked, time=time),
    )


def _mark(name: str, kind: Any) -> Column:
    """Return whether a row deletes its object; null where its mark cannot be read, and no mark is no."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    value = exactly(name)
    if isinstance(kind, T.BooleanType):
        return F.coalesce(value, F.lit(False))
    if isinstance(kind, T.NumericType):
        return F.when(value.isNull() | (value == 0), False).when(value == 1, True)
    if not isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
        raise InputError(
            f"column {name!r} is {kind.simpleString()}: deletions are marked by booleans, 1 and 0, or text"
        )
    word = F.lower(F.trim(value))
    no = word.isNull() | word.isin("", "0", "false", "f", "no", "n")
    return F.when(no, False).when(word.isin("1", "true", "t", "yes", "y", "deleted"), True)


def _missing(name: str, kind: Any) -> Column:
    """Return where a column is null, or an empty text; only text is compared, as numbers cost much to write out."""
    from pyspark.sql import types as T

    text = isinstance(kind, (T.StringType, T.VarcharType, T.CharType))
    return empty(exactly(name)) if text else exactly(name).isNull()


def screen_positions(positions: Positions, space: Space, wrap: bool = False) -> Positions:
    """Return the positions with the reasons completed by what is legal in a space.

    ``wrap`` takes 360 from longitudes above 180 first.
    """
    if space.crs != NO_CRS:
        check_crs(positions.crs, space, "the positions", "what they are for")
    if isinstance(positions.frame, LocalFrame):
        return replace(positions, frame=positions.frame.then(screened_in(space, wrap)))
    from pyspark.sql import functions as F

    x, y = F.col("x"), F.col("y")
    if wrap:
        west = F.when((x > 180.0) & (x <= 360.0), x - 360.0).otherwise(x)
        positions = replace(positions, frame=positions.spark_frame.withColumn("x", west))
    label = F.lit("position out of range")
    if space.geographic:
        label = F.when(F.abs(x) > 180.0, F.lit("longitude out of range")).otherwise(F.lit("latitude out of range"))
    outside = out_of_range(x, y, space)
    if space.metric == "plane":
        # objects, that is: one may ask anywhere
        outside |= ((x != 0.0) & (F.abs(x) < SMALLEST)) | ((y != 0.0) & (F.abs(y) < SMALLEST))
    infinite = (F.abs(x) == float("inf")) | (F.abs(y) == float("inf"))
    reason = F.coalesce(F.col(REASON), F.when(infinite, F.lit("position is infinite")), F.when(outside, label))
    return replace(positions, frame=positions.spark_frame.withColumn(REASON, reason))


def out_of_range(x: Column, y: Column, space: Space) -> Column:
    """Return where numbers are not a legal position in a space."""
    from pyspark.sql import functions as F

    if space.geographic:
        return (F.abs(x) > 180.0) | (F.abs(y) > 90.0)
    outside = (F.abs(x) > FURTHEST) | (F.abs(y) > FURTHEST)
    return outside | ~_transformable(space)(x, y) if space.to_lonlat else outside


def _transformable(space: Space) -> Any:
    """Return the function that says which positions in a projected CRS are places on the sphere."""
    from pyspark.sql.functions import arrow_udf

    def inside(x: pa.Array, y: pa.Array) -> pa.Array:
        places = np.stack([a.fill_null(0.0).to_numpy(zero_copy_only=False) for a in (x, y)], axis=1)
        # what is larger than it may be has a reason of its own
        places[~(np.abs(places) <= FURTHEST).all(axis=1)] = 0.0
        return arrow_of(space.legal(places))

    return arrow_udf(inside, "boolean")


def taken_of(positions: Positions | None) -> dict[str, dict[str, str]]:
    """Return what a manifest says of what was taken for what; nothing where nothing was chosen."""
    return {"taken": dict(positions.taken)} if positions is not None and positions.taken else {}


def _is_uint64(kind: Any) -> bool:
    """Return whether a type is what Spark makes of whole numbers of 64 bits without a sign."""
    from pyspark.sql import types as T

    return isinstance(kind, T.DecimalType) and (kind.precision, kind.scale) == (20, 0)


def _whole_ids(name: str, kind: Any, kinds: Mapping[str, str]) -> bool:
    from pyspark.sql import types as T

    if name in kinds:
        return kinds[name] in (text_types.WHOLE, text_types.MOSTLY)
    whole = isinstance(kind, (T.ByteType, T.ShortType, T.IntegerType, T.LongType))
    if not whole and not isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
        raise InputError(f"column {name!r} is {kind.simpleString()}: ids are integers or strings, cast it first")
    return whole


def coordinate(name: str, kind: Any, decimal: str = ".") -> Column:
    """Return a column of some type as double, null where a text is not a number."""
    from pyspark.sql import types as T

    if isinstance(kind, T.NumericType):
        return exactly(name).cast("double")
    if isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
        return text_types.number(exactly(name), decimal)
    raise InputError(f"column {name!r} is {kind.simpleString()}: coordinates are numbers")


def _time(name: str, kind: Any, columns: Columns, kinds: Mapping[str, str]) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    value, pattern = exactly(name), columns.time_format
    if isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
        return time_columns.moment(value, kinds.get(name, text_types.TEXT), pattern, columns.decimal, columns.zone)
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        value = F.when(~F.isnan(value), value)
    if isinstance(kind, T.NumericType):
        # seconds and milliseconds stay numbers, as they always did
        return time_columns.counted(value, pattern, columns.zone) if pattern in time_columns.ONLY_MOMENTS else value
    if isinstance(kind, T.TimestampNTZType) and columns.zone is not None:
        return time_columns.of_zone(value.cast("timestamp"), columns.zone)
    if isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType)):
        return value
    raise InputError(f"column {name!r} is {kind.simpleString()}: times are timestamps, dates, numbers or text")


def _check_carried(name: str, kind: Any) -> None:
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        to_arrow_type(kind, timezone="UTC")
        carried = not isinstance(kind, (T.VariantType, T.UserDefinedType))
    except Exception:
        carried = False
    if not carried:
        raise InputError(
            f"column {name!r} is {kind.simpleString()}, which cannot be carried along: name others (--columns)"
        )
