"""Rows of an input as positions, by Arrow, batch after batch: the rules of :mod:`pipelines.rows.position_frame`.

What the columns mean and are is decided once, from their types; each batch is then screened by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.delimited.record_batches import CORRUPT, FLAW
from dtoss.delimited.records import BEHIND_QUOTE, UNDECODED, UNENDED
from dtoss.errors import InputError
from dtoss.names import unused_name
from dtoss.partition import numbers as arrow_of
from dtoss.partition import texts, values_of
from dtoss.rows.input_columns import (
    DELETED,
    MISTYPED,
    NO_NUMBER,
    NO_POINT,
    NOT_WHOLE,
    REASON,
    REASONS,
    TOO_LARGE,
    UNMARKED,
    UNREADABLE_TIME,
    Columns,
    attribute_column,
    attributes_of,
    check_found,
    leaves,
    parts_of,
    taken_said,
    type_at,
)
from dtoss.rows.point_columns import points
from dtoss.snapshots.column_types import is_text, type_name, type_named
from dtoss.text import text_values, time_patterns
from dtoss.text.text_values import (
    MOSTLY,
    PLAIN_NUMBER,
    empty_or_null,
    matching,
    numbers,
    of_java,
    read_as,
    strictly,
    whole_numbers,
)

Marks = list[tuple[str, NDArray[np.bool_]]]
"""Reasons, and where rows are bad for them, in the order in which they are looked for."""
NO, ZERO = arrow_of(np.array([False]))[0], arrow_of(np.zeros(1))[0]
"""As a scalar: one of Python's loads pandas first."""
_NO, _YES = ("", "0", "false", "f", "no", "n"), ("1", "true", "t", "yes", "y", "deleted")
_WORDS = texts(REASONS)
_UINT64 = pa.decimal128(20, 0)
"""What whole numbers of 64 bits without a sign are read as."""


@dataclass(frozen=True)
class RowPlan:
    """What columns of an input mean, and how each becomes ours."""

    asked: Columns  # As the user says them
    columns: Columns  # As they were found
    x: str  # The columns of coordinates, or how those of points are called
    y: str
    point: str | None  # The column of points, where coordinates come from one
    types: Mapping[str, pa.DataType]  # Of what is read of each row, by name or path
    tops: Mapping[str, pa.DataType]  # The columns of the input and their types
    attributes: tuple[str, ...]
    text: bool
    kinds: Mapping[str, str]  # Of columns of text
    wanted: Mapping[str, str]  # Names of types that columns are to have
    whole: bool  # Whether ids are whole numbers
    mixed: bool  # Whether ids are turned into numbers, or numbers into text

    @property
    def needed(self) -> list[str]:
        """The columns of the input that are read of each row."""
        tops = [parts_of(name)[0] if name not in self.tops else name for name in self.types]
        flaws = [name for name in (CORRUPT, FLAW) if name in self.tops]
        return list(dict.fromkeys([*tops, *flaws]))

    @property
    def as_read(self) -> list[str]:
        """The columns of the input that stand in rows that are set aside."""
        return [name for name in self.tops if name != FLAW]

    def row_as_read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they stand where they are set aside: points have their coordinates behind."""
        rows = batch.select(self.as_read)
        if self.point is None:
            return rows
        x, y, _ = _coordinates(self, batch)
        return rows.append_column(self.x, x).append_column(self.y, y)

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        nothing = [pa.nulls(0, self.tops[name]) for name in self.needed]
        return screen_rows(self, pa.record_batch(nothing, names=self.needed)).schema


def plan_rows(
    schema: pa.Schema,
    columns: Columns,
    *,
    text: bool = False,
    kinds: Mapping[str, str] | None = None,
    wanted: Mapping[str, str] | None = None,
    point: str | None = None,
    timeless: bool = False,
) -> RowPlan:
    """Return how rows of such columns become positions.

    ``kinds``: of columns of text; None before they are known, when only the names count; ``point``: the column of
    points that the file itself tells of; ``timeless``: a column ``t`` is no time unless it is named.
    """
    asked, wanted = columns, wanted or {}
    found = [name for name in schema.names if name not in (CORRUPT, FLAW)]
    pointed = columns.geometry if columns.geometry is not None and columns.x is None else point
    if pointed is not None:
        if type_at(schema, pointed) is None:
            check_found(pointed, "--geometry", found, leaves(schema))
        x, y = (unused_name(axis, [*schema.names, "_point"]) for axis in ("_x", "_y"))
        columns = replace(columns, x=x, y=y)
    else:
        x, y = columns.coordinates(found)
    there = not timeless and "t" in found and "t" not in (columns.id, x, y)
    time = columns.time or ("t" if there else None)
    axes = () if pointed is not None else (("--x", x), ("--y", y))
    roles = (("--id", columns.id), *axes, ("--time", time), ("--deleted", columns.deleted))
    for option, name in roles:
        if name is not None and type_at(schema, name) is None:
            check_found(name, option, found, leaves(schema))
    others = {columns.deleted or x, columns.geometry or x}
    known = {name for name in (*found, *_paths(columns.attributes)) if type_at(schema, name) is not None}
    attributes = attributes_of(columns.attributes, found, {columns.id or x, x, y, *others}, known)
    read = [name for _, name in roles if name is not None]
    read = list(dict.fromkeys([*read, *([pointed] if pointed else []), *attributes]))
    types = {name: type_at(schema, name) for name in read}
    plan = RowPlan(
        asked=asked, columns=replace(columns, time=time), x=x, y=y, point=pointed, types=types,
        attributes=tuple(attributes), text=text, kinds=kinds or {}, wanted=wanted,
        whole=True, mixed=False, tops={field.name: field.type for field in schema},
    )  # fmt: skip
    _check_types(plan)
    whole, mixed = _kind_of_ids(plan)
    return replace(plan, whole=whole, mixed=mixed)


def kinds_asked(plan: RowPlan) -> tuple[list[str], list[str]]:
    """Return the columns of text whose kinds are to be found, and those of them of which most values are enough."""
    columns = plan.columns
    tolerant = [name for name in (None if columns.id_type else columns.id, columns.time) if name]
    return list(dict.fromkeys([*tolerant, *plan.attributes])), tolerant


def say_taken(plan: RowPlan) -> dict[str, str]:
    """Return what was taken for what, as a reader is told it."""
    types = {name: type_name(kind) for name, kind in plan.types.items()}
    return taken_said(plan.columns, (plan.x, plan.y), plan.columns.time, plan.whole, types, plan.kinds)


def _paths(wanted: Sequence[str] | str) -> list[str]:
    from dtoss.rows.input_columns import attribute_names

    return attribute_names(wanted)


def _check_types(plan: RowPlan) -> None:
    columns = plan.columns
    for name in (plan.x, plan.y) if plan.point is None else ():
        kind = plan.types[name]
        if not (is_number(kind) or is_text(kind)):
            raise InputError(f"column {name!r} is {type_name(kind)}: coordinates are numbers")
    if plan.point is not None:
        points(pa.nulls(0, plan.types[plan.point]))
    if columns.time is not None:
        kind = plan.types[columns.time]
        moments = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        if not (moments or is_number(kind) or is_text(kind)):
            raise InputError(
                f"column {columns.time!r} is {type_name(kind)}: times are timestamps, dates, numbers or text"
            )
    if columns.deleted is not None:
        kind = plan.types[columns.deleted]
        if not (pa.types.is_boolean(kind) or is_number(kind) or is_text(kind)):
            raise InputError(
                f"column {columns.deleted!r} is {type_name(kind)}: deletions are marked by booleans, 1 and 0, or text"
            )


def _kind_of_ids(plan: RowPlan) -> tuple[bool, bool]:
    """Return whether ids are whole numbers, and whether they have to be made so, or text, of what they are."""
    columns = plan.columns
    if columns.id is None:
        return True, False
    kind, known = plan.types[columns.id], {} if columns.id_type else plan.kinds
    unsigned = kind == _UINT64
    if unsigned:
        whole = True
    elif columns.id in known:
        whole = known[columns.id] in (text_values.AS_WHOLE, text_values.MOSTLY)
    else:
        whole = pa.types.is_integer(kind)
        if not whole and not is_text(kind):
            raise InputError(f"column {columns.id!r} is {type_name(kind)}: ids are integers or strings, cast it first")
    mixed = plan.kinds.get(columns.id) == MOSTLY
    if columns.id_type is not None:
        return columns.id_type == "int", whole != (columns.id_type == "int")
    if not plan.text and not unsigned and columns.id in plan.wanted:
        return plan.wanted[columns.id] == "bigint", whole != (plan.wanted[columns.id] == "bigint")
    return whole, mixed


def screen_rows(plan: RowPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in our columns, with a reason in ``_reason`` where one cannot be used."""
    columns, n = plan.columns, len(batch)
    marks: Marks = []
    flawless = None
    if FLAW in batch.schema.names:
        flaw = batch.column(FLAW)
        flawless = flaw.is_null()
        if flaw.null_count < n:
            marks += [(why, where(pc.equal(flaw, why))) for why in (UNDECODED, UNENDED, BEHIND_QUOTE)]
    if CORRUPT in batch.schema.names:
        corrupt = batch.column(CORRUPT)
        marks.append(("unreadable line", where(corrupt.is_valid())))
    if not plan.text:
        marks[:0] = _undecoded(plan, batch)
    ids = arrow_of(np.zeros(n, np.int64))
    if columns.id is not None:
        source = value_of(batch, columns.id)
        ids = _ids(plan, source)
        unsigned = plan.types[columns.id] == _UINT64
        marks.append(("no id", where(empty_or_null(source))))
        marks.append((TOO_LARGE if unsigned and plan.whole else NOT_WHOLE, where(ids.is_null())))
    x, y, nowhere = _coordinates(plan, batch)
    t = None
    if columns.time is not None:
        source = value_of(batch, columns.time)
        t = _times(plan, source)
        marks.append(("no time", where(empty_or_null(source))))
        marks.append((UNREADABLE_TIME, where(t.is_null())))
    stands = np.ones(n, np.bool_)
    gone = None
    if columns.deleted is not None:
        gone = _mark(value_of(batch, columns.deleted))
        marks.append((UNMARKED, where(gone.is_null())))
        gone = pc.fill_null(gone, NO)
        stands = ~where(gone)
        if not stands.all():
            x, y = (pc.if_else(arrow_of(stands), axis, None) for axis in (x, y))
    null = where(pc.or_(x.is_null(), y.is_null()))
    elsewhere = [*nowhere, (NO_NUMBER, null)]
    if columns.geometry is not None:
        elsewhere.insert(1, (NO_POINT, null))
    elsewhere.append(("position is NaN", where(pc.or_(pc.is_nan(x), pc.is_nan(y)))))
    marks += [(why, stands & bad) for why, bad in elsewhere]
    carried = {}
    for name in plan.attributes:
        value = _attribute(plan, name, value_of(batch, name), t)
        if name in plan.wanted and name != columns.time and value[1] is not None:
            marks.append((MISTYPED, stands & value[1]))
        carried[attribute_column(name)] = value[0]
    if flawless is not None and flawless.true_count < n:
        # whose text cannot be read is nobody, and nowhere
        ids, x, y = (pc.if_else(flawless, one, None) for one in (ids, x, y))
    made = {"id": ids, "x": x, "y": y}
    if t is not None:
        made["t"] = t
    if gone is not None:
        made[DELETED] = gone
    made |= carried
    made[REASON] = reasons_of(marks, n)
    return pa.record_batch([*made.values()], names=[*made])


def reasons_of(marks: Marks, n: int, known: pa.Array | None = None) -> pa.Array:
    """Return the first reason of each row, null where it can be used; ``known`` ones stay."""
    codes = np.zeros(n, np.int32)
    for why, bad in reversed(marks):
        if bad.any():
            codes[bad] = REASONS.index(why) + 1
    if not codes.any():
        return pa.nulls(n, pa.string()) if known is None else known
    found = _WORDS.take(arrow_of(codes - 1, codes != 0))
    return found if known is None else pc.coalesce(known, found)


def value_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column, or the field of structs that a path leads to."""
    if name in batch.schema.names:
        return batch.column(name)
    first, *others = parts_of(name)
    value = batch.column(first)
    for part in others:
        value = pc.struct_field(value, part)
    return value


def where(array: pa.Array) -> NDArray[np.bool_]:
    """Return where a condition holds; null is no."""
    if array.null_count:
        array = pc.fill_null(array, NO)
    return values_of(array)


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _ids(plan: RowPlan, source: pa.Array) -> pa.Array:
    if not plan.whole:
        return source.cast(pa.string())
    if is_text(source.type):
        return whole_numbers(source)
    if pa.types.is_decimal(source.type):
        return whole_numbers(source.cast(pa.string()))
    return source.cast(pa.int64())


def as_double(values: pa.Array, decimal: str = ".") -> pa.Array:
    """Return numbers, or texts of some, as float64; null where there is none."""
    if is_text(values.type):
        return numbers(values, decimal)
    if pa.types.is_decimal(values.type):
        return values.cast(pa.string()).cast(pa.float64())  # Arrow's own way is an ulp beside the nearest
    return values.cast(pa.float64(), safe=False)


def _coordinates(plan: RowPlan, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, Marks]:
    """Return x and y, null where there are none, and where no position is said."""
    if plan.point is not None:
        source = value_of(batch, plan.point)
        found = points(source)
        x, y = (pc.struct_field(found, axis) for axis in ("x", "y"))
        missing = empty_or_null(source) if plan.columns.geometry is not None else pc.or_(x.is_null(), y.is_null())
        return x, y, [("no position", where(missing))]
    sources = [value_of(batch, name) for name in (plan.x, plan.y)]
    x, y = (as_double(source, plan.columns.decimal) for source in sources)
    missing = pc.or_(*map(empty_or_null, sources))
    return x, y, [("no position", where(missing))]


def _times(plan: RowPlan, values: pa.Array) -> pa.Array:
    columns, name = plan.columns, plan.columns.time or ""
    pattern, kind, zone = columns.time_format, plan.kinds.get(name, text_values.AS_TEXT), columns.zone
    t = values
    if is_text(values.type):
        if pattern in time_patterns.COUNTED_TIMES:
            from dtoss.text.text_times import moments_of_numbers

            t = moments_of_numbers(numbers(values, columns.decimal), pattern, zone)
        elif pattern is None and kind != text_values.AS_TEXT:
            t = read_as(values, kind, columns.decimal)
        else:
            from dtoss.text.text_times import moments

            t = moments(values, pattern, columns.decimal, zone)
    elif is_number(values.type):
        if pa.types.is_floating(values.type):
            t = pc.if_else(pc.is_nan(values), None, values)
        if pattern in time_patterns.ONLY_MOMENTS:
            from dtoss.text.text_times import moments_of_numbers

            t = moments_of_numbers(t, pattern, zone)
    elif pa.types.is_timestamp(values.type) and values.type.tz is None and zone is not None:
        from dtoss.text.text_times import of_zone

        t = of_zone(values.cast(pa.timestamp("us", "UTC")), zone)
    if not plan.text and plan.wanted.get(name) in ("bigint", "double"):
        cast = as_type(values, plan.wanted[name])
        t = t if cast is None else cast
    return t


def _mark(values: pa.Array) -> pa.Array:
    """Return whether a row deletes its object; null where its mark cannot be read, and no mark is no."""
    if pa.types.is_boolean(values.type):
        return pc.fill_null(values, False)
    if not is_text(values.type):
        numbers_ = as_double(values)
        no = pc.or_(numbers_.is_null(), pc.fill_null(pc.equal(numbers_, 0.0), False))
        yes = pc.fill_null(pc.equal(numbers_, 1.0), False)
    else:
        words = pc.utf8_lower(pc.utf8_trim(values, " "))
        no = pc.or_(words.is_null(), pc.is_in(words, texts(_NO).cast(words.type)))
        yes = pc.is_in(words, texts(_YES).cast(words.type))
    return pc.if_else(no, False, pc.if_else(yes, True, None))


def _attribute(
    plan: RowPlan, name: str, values: pa.Array, t: pa.Array | None
) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Return the values of an attribute, and where they are of another type than is wanted."""
    text = plan.text
    if name == plan.columns.time and t is not None and (text or name in plan.wanted):
        return t, None
    if name in plan.wanted:
        decimal = plan.columns.decimal
        fits = strictly(values, plan.kinds[name], decimal) if text else as_type(values, plan.wanted[name])
        if fits is None:
            return values, None
        return fits, ~where(empty_or_null(values)) & where(fits.is_null())
    return (read_as(values, plan.kinds.get(name, text_values.AS_TEXT), plan.columns.decimal) if text else values), None


def as_type(values: pa.Array, wanted: str) -> pa.Array | None:
    """Return values of JSON as another type, null where one is not of it; None where that is not to be had."""
    found = type_name(values.type)
    if found == wanted:
        return values
    if (found, wanted) in (("bigint", "double"), ("bigint", "string")):
        return values.cast(pa.float64(), safe=False) if wanted == "double" else values.cast(pa.string())
    if (found, wanted) == ("double", "bigint"):
        fit = pc.and_(pc.equal(pc.trunc(values), values), pc.less(pc.abs(values), float(1 << 63)))
        return pc.if_else(fit, values, None).cast(pa.int64(), safe=False)
    if found != "string":
        return None
    if wanted == "bigint":
        return whole_numbers(values)
    if wanted == "double":
        return pc.if_else(matching(values, of_java(PLAIN_NUMBER)), numbers(values), None)
    # of all others only their nulls
    return pa.nulls(len(values), type_named(wanted))


def _undecoded(plan: RowPlan, batch: pa.RecordBatch) -> Marks:
    """Return where text that is carried is not UTF-8."""
    carried = dict.fromkeys([*([plan.columns.id] if plan.columns.id else []), *plan.attributes])
    bad = np.zeros(len(batch), np.bool_)
    for name in carried:
        values = value_of(batch, name)
        if not _holds_text(values.type) or _is_valid(values):
            continue
        bad |= [not _is_valid(values.slice(row, 1)) for row in range(len(values))]
    return [(UNDECODED, bad)] if bad.any() else []


def _is_valid(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _holds_text(kind: pa.DataType) -> bool:
    return is_text(kind) or any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))


def with_reasons(rows: pa.RecordBatch, marks: Marks) -> pa.RecordBatch:
    """Return rows with reasons where they had none."""
    at = rows.schema.get_field_index(REASON)
    return rows.set_column(at, REASON, reasons_of(marks, len(rows), rows.column(at)))
