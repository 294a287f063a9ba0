"""Rows that somebody tells a store of: judged as those of its files are, and in the columns of its log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.delimited.record_batches import CORRUPT
from dtoss.errors import InputError
from dtoss.geometry.space import AXES, FURTHEST, SMALLEST, Space
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.rows.input_columns import (
    AHEAD_OF_NOW,
    DELETED,
    MISTYPED,
    OUT_OF_BOUNDS,
    REASON,
    UNREADABLE_TIME,
    attribute_column,
    columns_of,
    parts_of,
    types_of,
)
from dtoss.rows.json_values import Kind, batches_of_block, kinds_of_block, schema_of_kinds
from dtoss.rows.row_plan import ZERO, Marks, plan_rows, screen_rows, where, with_reasons
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.column_types import is_text, stored_column, type_name
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.manifest_fields import Columns, Wishes
from dtoss.text.text_values import numbers, whole_numbers

FEW_BYTES = 4_096
"""Of JSON that is read line by line: to begin with Arrow would take longer."""
AHEAD_SECONDS = 300.0
"""After now, from which on the clock of who told a row is wrong."""


@dataclass(frozen=True)
class Judgement:
    """Rows that were told."""

    rows: pa.Table  # Those that can be taken, in the columns of the log
    refused: tuple[tuple[int, str], ...]  # The number of each of the others, from 1 on, and why it cannot

    def __len__(self) -> int:
        return len(self.rows) + len(self.refused)


@dataclass(frozen=True, eq=False)
class Incoming:
    """What rows have to be that come to a store."""

    manifest: Mapping[str, Any]  # Of the snapshot that they come to; its partitions are not asked for
    schema: pa.Schema  # The columns of its log
    roles: Mapping[str, str]  # What of those is the id, x, y, the time

    @cached_property
    def columns(self) -> Columns:
        """Which columns mean what, and how text in them is read: as of the rows that the store was built of."""
        said = columns_of(self.manifest, {"id": self.roles["id"], "time": self.roles["time"]})
        return replace(said, id_type=None, deleted=None, attributes=self.attributes)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes, as rows call them."""
        return tuple(name for name in self.schema.names if name not in self.roles.values())

    @cached_property
    def scale(self) -> Scale:
        """How times count."""
        return Scale.of(dict(self.manifest))

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that are read of rows; all others are left out."""
        columns = self.columns
        roles = [columns.id, columns.time, columns.geometry, columns.x, columns.y]
        axes = [name for pair in AXES for name in pair]
        asked = [*filter(None, roles), *self.roles.values(), *self.attributes, DELETED, CORRUPT, "id", "t"]
        return frozenset([*asked, *(parts_of(name)[0] for name in asked), *axes])

    def of_json(self, lines: bytes, where: str) -> pa.RecordBatch:
        """Return rows of JSON, an object a line, in the columns that are read; ``where``: they come from, for errors.

        A line that is no object has it in the column ``_corrupt_record``.
        """
        arrow = len(lines) > FEW_BYTES
        found = kinds_of_block(lines, where, arrow=arrow)
        kinds: dict[str, Kind] = {name: kind for name, kind in found.items() if name in self.names}
        if not kinds:  # without a column rows could not be counted
            kinds[self.roles["id"]] = None
        schema = schema_of_kinds([kinds])
        batches = list(batches_of_block(lines, schema, where, arrow=arrow))
        return _whole(pa.Table.from_batches(batches, schema))

    def of_table(self, table: pa.Table) -> pa.RecordBatch:
        """Return rows of Arrow in the columns that are read, of types that a store has."""
        read: dict[str, pa.Array] = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name not in self.names:
                continue
            if name in read:
                raise InputError(f"column {name!r} is there twice: send one")
            try:
                read[name] = stored_column(column.combine_chunks())
                type_name(read[name].type)
            except (pa.ArrowException, NotImplementedError, TypeError):
                raise InputError(f"column {name!r} is {column.type}, which is not read here: cast it") from None
        if not read:
            read[self.roles["id"]] = pa.nulls(len(table), pa.string())
        return _whole(pa.table(read))

    def judge(self, rows: pa.RecordBatch, now: float | None = None, ahead: float | None = AHEAD_SECONDS) -> Judgement:
        """Return which rows can be taken, as the log has them, and why the others cannot. Cost O(n).

        ``now``: on the scale of the store's times; that of the clock when None; ``ahead``: seconds after it that a
        row may be at most, None for any. Raises InputError where a column is of a type that no row of it can be taken.
        """
        columns, rows = self._complete(rows)
        rows, marks = self._read_text(rows)
        wanted = types_of(dict(self.manifest), columns)
        screened = screen_rows(plan_rows(rows.schema, columns, wanted=wanted), rows)
        bounds = Wishes.of(self.manifest["parameters"]).bounds
        screened = screen_space(space_of_manifest(dict(self.manifest)), False)(screened)
        if bounds is not None:
            screened = screen_bounds(bounds)(screened)
        made, misfits = self._make(screened)
        screened = with_reasons(screened, [*marks, *misfits])
        latest = math.inf if ahead is None else (self.scale.now() if now is None else now) + self.scale.span(ahead)
        if not math.isinf(latest):
            times = pa.record_batch([made.column(self.roles["time"]), screened.column(REASON)], names=["t", REASON])
            screened = screen_clock(self.scale, latest)(times)
        reasons = screened.column(REASON)
        bad = np.flatnonzero(values_of(reasons.is_valid()))
        good = made if not len(bad) else made.filter(reasons.is_null())
        said = zip((bad + 1).tolist(), reasons.take(arrow_of(bad)).to_pylist(), strict=True)
        return Judgement(pa.table(good.columns, schema=self.schema), tuple(said))

    def _complete(self, rows: pa.RecordBatch) -> tuple[Columns, pa.RecordBatch]:
        """Return which columns mean what, and rows with those that are missing: null, if a row may lack them."""
        columns, found = self.columns, set(rows.schema.names)
        columns = replace(columns, deleted=DELETED if DELETED in found else None)
        # who has no other names for them calls them as most do
        if self.roles["id"] not in found and "id" in found - {*self.attributes}:
            columns = replace(columns, id="id")
        if self.roles["time"] not in found and "t" in found - {*self.attributes}:
            columns = replace(columns, time="t")
        x, y = self.roles["x"], self.roles["y"]
        if columns.geometry is not None and parts_of(columns.geometry)[0] not in found:
            columns = replace(columns, geometry=None)
        if columns.geometry is None:
            usual = None if {x, y} <= found else next((pair for pair in AXES if set(pair) <= found), None)
            columns = replace(columns, x=(usual or (x, y))[0], y=(usual or (x, y))[1])
        for name in filter(None, (columns.id, columns.time, columns.x, columns.y)):
            if parts_of(name)[0] not in found and name not in found:
                rows = rows.append_column(name, pa.nulls(len(rows), pa.string()))
                found.add(name)
        for name in self.attributes:
            if name not in found:
                if _some_stand(rows):
                    raise InputError(
                        f"the rows have no column {name!r}, which snapshot {self.manifest['snapshot']} has: a row is "
                        "the whole object; send null where there is no value"
                    )
                rows = rows.append_column(name, pa.nulls(len(rows), self.schema.field(name).type))
        return columns, rows

    def _read_text(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Marks]:
        """Return rows with text read as what the store has, and where it could not be: a bad one spoils no others."""
        marks: Marks = []
        for name in self.attributes:
            kind, values = self.schema.field(name).type, rows.column(name)
            if is_text(values.type) and (read := _read_as(values, kind, self.columns)) is not None:
                marks.append((MISTYPED, values_of(pc.and_(values.is_valid(), read.is_null()))))
                rows = rows.set_column(rows.schema.get_field_index(name), name, read)
        return rows, marks

    def _make(self, screened: pa.RecordBatch) -> tuple[pa.RecordBatch, Marks]:
        """Return screened rows in the columns of the log, and where a value does not fit into one."""
        ours = {self.roles["x"]: "x", self.roles["y"]: "y", self.roles["id"]: "id", self.roles["time"]: "t"}
        stands = None
        if DELETED in screened.schema.names:
            stands = ~values_of(screened.column(DELETED))
        made, marks = [], list[tuple[str, NDArray[np.bool_]]]()
        for field in self.schema:
            if field.name == self.roles["deleted"]:
                gone = screened.column(DELETED) if stands is not None else arrow_of(np.zeros(len(screened), np.bool_))
                made.append(gone)
                continue
            own = ours.get(field.name)
            values = screened.column(own or attribute_column(field.name))
            fit, bad = self._fit(field, values)
            made.append(fit)
            if bad is not None:
                why = UNREADABLE_TIME if own == "t" else MISTYPED
                marks.append((why, bad if own is not None or stands is None else bad & stands))
        fields = [field.with_nullable(True) for field in self.schema]
        return pa.record_batch(made, schema=pa.schema(fields)), marks

    def _fit(self, field: pa.Field, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_] | None]:
        """Return values as those of a column, null where one does not fit, and where that is; None where all fit."""
        kind = field.type
        if values.type == kind:
            return values, None
        both = pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind)
        if not (both or _goes(values.type, kind) or pa.types.is_null(values.type) or values.null_count == len(values)):
            said, wanted = type_name(values.type), type_name(kind)
            raise InputError(
                f"column {field.name!r} is {said} in the rows and {wanted} in snapshot {self.manifest['snapshot']}: "
                "cast it"
            )
        if values.null_count == len(values):
            return pa.nulls(len(values), kind), None
        try:
            return values.cast(kind), None
        except pa.ArrowInvalid:
            pass
        cast = values.cast(kind, safe=False)
        same = pc.fill_null(pc.equal(cast.cast(values.type, safe=False), values), False)
        bad = values_of(pc.and_(values.is_valid(), pc.invert(same)))
        return pc.if_else(same, cast, None), bad if bad.any() else None


def _goes(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of a type may be ones of another: numbers of numbers, moments of days, same nested."""
    types = pa.types

    def number(kind: pa.DataType) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    if number(one) and number(other):
        return True
    if types.is_temporal(one) and types.is_temporal(other):
        return not (types.is_time(one) or types.is_time(other))
    if types.is_list(one) and types.is_list(other):
        return one.value_type == other.value_type or _goes(one.value_type, other.value_type)
    return bool(is_text(one) and is_text(other))


def _read_as(texts: pa.Array, kind: pa.DataType, columns: Columns) -> pa.Array | None:
    """Return what texts say of a type, null where one does not; None of types that rows are screened for anyway."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        from dtoss.text.text_times import moments

        return moments(texts, None, zone=columns.zone).cast(kind, safe=False)
    if types.is_boolean(kind):
        return pc.if_else(pc.equal(texts, "true"), True, pc.if_else(pc.equal(texts, "false"), False, None))
    if types.is_integer(kind) and kind != pa.int64():
        return whole_numbers(texts)
    return numbers(texts, columns.decimal) if types.is_float32(kind) else None


def _some_stand(rows: pa.RecordBatch) -> bool:
    """Return whether a row is an object, and neither deletes one nor is none."""
    stands = np.ones(len(rows), np.bool_)
    if CORRUPT in rows.schema.names:
        stands &= values_of(rows.column(CORRUPT).is_null())
    if DELETED in rows.schema.names and pa.types.is_boolean(rows.column(DELETED).type):
        stands &= ~where(rows.column(DELETED))
    return bool(stands.any())


def _whole(table: pa.Table) -> pa.RecordBatch:
    """Return a table in one batch."""
    found: Iterator[pa.RecordBatch] = iter(table.combine_chunks().to_batches())
    none = pa.record_batch([pa.nulls(0, kind) for kind in table.schema.types], schema=table.schema)
    return next(found, none)


Step = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What completes the reasons of screened rows."""


def screen_space(space: Space, wrap: bool) -> Step:
    """Return the function that completes the reasons by what is legal in a space; it takes 360 off first to wrap."""

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        x, y = (rows.column(name) for name in ("x", "y"))
        if wrap:
            west = pc.and_(pc.greater(x, 180.0), pc.less_equal(x, 360.0))
            x = pc.if_else(pc.fill_null(west, False), pc.subtract(x, 360.0), x)
            rows = rows.set_column(rows.schema.get_field_index("x"), "x", x)
        places = np.stack([values_of(axis.fill_null(ZERO)) for axis in (x, y)], axis=1)
        there = where(pc.and_(x.is_valid(), y.is_valid()))
        return with_reasons(rows, [(why, bad & there) for why, bad in _out_of_range(places, space)])

    return screen


def _out_of_range(places: NDArray[np.float64], space: Space) -> Marks:
    far: NDArray[np.float64] = np.abs(places)
    near = np.asarray(((places != 0.0) & (far < SMALLEST)).any(axis=1))
    marks: Marks = [("position is infinite", np.asarray(np.isinf(far).any(axis=1)))]
    if space.geographic:
        marks.append(("longitude out of range", far[:, 0] > 180.0))
        marks.append(("latitude out of range", far[:, 1] > 90.0))
        if space.metric == "plane":
            marks.append(("latitude out of range", near))
        return marks
    outside = np.asarray((far > FURTHEST).any(axis=1))
    if space.to_lonlat:
        legal = places.copy()
        # what is larger than it may be has a reason of its own
        legal[~(far <= FURTHEST).all(axis=1)] = 0.0
        outside |= ~space.legal(legal)
    if space.metric == "plane":
        outside |= near
    marks.append(("position out of range", outside))
    return marks


def screen_bounds(bounds: ArrayLike) -> Step:
    """Return the function that completes the reasons by that of places outside xmin, ymin, xmax, ymax."""
    xmin, ymin, xmax, ymax = np.asarray(bounds, dtype=np.float64).tolist()

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        x, y = (rows.column(name) for name in ("x", "y"))
        beyond = [pc.less(x, xmin), pc.greater(x, xmax), pc.less(y, ymin), pc.greater(y, ymax)]
        return with_reasons(rows, [(OUT_OF_BOUNDS, where(one)) for one in beyond])

    return screen


def screen_clock(scale: Scale, ahead_after: float) -> Step:
    """Return the function that completes the reasons by that of times after a moment of a scale."""

    def screen(rows: pa.RecordBatch) -> pa.RecordBatch:
        return with_reasons(rows, [(AHEAD_OF_NOW, scale.numbers(rows.column("t")) > ahead_after)])

    return screen
