"""Rows as a watch takes them: its columns and types, those that a batch lacks, and its tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.columnar_files import REJECTED
from dtoss.commits.offsets import Source
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.partition import numbers as arrow_of
from dtoss.rows.input_columns import MISTYPED, NOT_WHOLE, RAW, REASON, Columns, Unfitting, attribute_column
from dtoss.rows.raw_json import number_text
from dtoss.rows.row_plan import as_double, where
from dtoss.snapshots.column_types import is_text, stored_type, type_name
from dtoss.text.text_times import moments
from dtoss.text.text_values import any_whole_numbers, numbers
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import AHEAD_OF_CLOCK, TaskResult, run_task
from dtoss.watch.watch_settings import Rows as TaskRows
from dtoss.watch.watch_settings import Settings
from pipelines.engines.rows import Batches, Rows
from pipelines.engines.spark_rows import done_by_bucket
from pipelines.rows.inputs import MixedFiles
from pipelines.rows.position_frame import Positions, screen_positions

_YES, _NO = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_SECOND_US = 1_000_000
_GREATEST = 2**63 - 1
_MOST_SECONDS = _GREATEST // _SECOND_US
_BLANKS = "".join(map(chr, range(33)))


def as_kind(name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as a type that snapshots have, null where one cannot be; ``name``: of the column, for the error.

    Raises Unfitting where no value of the one type is one of the other.
    """
    held, wanted = stored_type(values.type), stored_type(kind)
    if held == wanted or _name(held) == _name(wanted):
        return values.cast(kind)
    found = _cast(values.cast(held), wanted)
    if found is None:
        raise Unfitting(
            f"column {name!r} is {type_name(held)} here and {type_name(wanted)} in the rows before: cast it"
        )
    return found.cast(kind)


def _name(kind: pa.DataType) -> str:
    return type_name(kind).replace("timestamp_ntz", "timestamp")


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    if is_text(wanted):
        return _as_text(values)
    held = values.type
    if pa.types.is_boolean(wanted):
        return _as_boolean(values)
    if _is_number(wanted):
        return _as_number(values, wanted)
    if pa.types.is_date(wanted) and pa.types.is_timestamp(held):
        return pc.floor_temporal(values, unit="day").cast(wanted)
    if pa.types.is_date(wanted) and is_text(held):
        return pa.array([None if text is None else _date(text) for text in values.to_pylist()], wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_date(held):
        return values.cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_timestamp(wanted) and _is_number(held):
        return _of_seconds(values).cast(wanted)
    if pa.types.is_timestamp(wanted) and is_text(held):
        return moments(values, None, ".", None)
    return None


def _date(text: str) -> date | None:
    found = _DATE.fullmatch(text.strip(_BLANKS))
    try:
        return None if found is None else date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        return None


def _of_seconds(values: pa.Array) -> pa.Array:
    """Return numbers as moments, which are so many seconds after 1970; the last or the first where none is so far."""
    if pa.types.is_integer(values.type):
        seconds = values.cast(pa.int64())
        micros = pc.if_else(pc.greater(seconds, _MOST_SECONDS), _GREATEST, pc.multiply(seconds, _SECOND_US))
        micros = pc.if_else(pc.less(seconds, -_MOST_SECONDS), -_GREATEST - 1, micros)
    else:
        micros = pc.trunc(pc.multiply(as_double(values), float(_SECOND_US)))
        micros = pc.if_else(pc.less(pc.abs(micros), 2.0**63), micros, None).cast(pa.int64(), safe=False)
    return micros.cast(pa.timestamp("us", "UTC"))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _as_number(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    held = values.type
    if pa.types.is_boolean(held):
        values, held = values.cast(pa.int64()), pa.int64()
    if pa.types.is_timestamp(held) and held.tz is not None:  # its seconds
        micros = values.cast(pa.int64())
        values, held = _seconds(micros, wanted), pa.int64()
    if is_text(held):
        values = any_whole_numbers(values) if pa.types.is_integer(wanted) else numbers(values)
    elif not _is_number(held):
        return None
    if pa.types.is_floating(wanted):
        return as_double(values).cast(wanted, safe=False)
    if pa.types.is_floating(values.type) and pa.types.is_integer(wanted):
        least, beyond = -(2.0 ** (wanted.bit_width - 1)), 2.0 ** (wanted.bit_width - 1)
        fit = pc.and_(
            pc.equal(pc.trunc(values), values), pc.and_(pc.greater_equal(values, least), pc.less(values, beyond))
        )
        return pc.if_else(fit, values, None).cast(wanted, safe=False)
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid:
        return pa.array([_one(value, wanted) for value in values], wanted)


def _seconds(micros: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_integer(wanted):
        return pc.divide(as_double(micros), float(_SECOND_US))
    return pc.floor_temporal(micros.cast(pa.timestamp("us")), unit="second").cast(pa.timestamp("s")).cast(pa.int64())


def _one(value: pa.Scalar, wanted: pa.DataType) -> object:
    try:
        return value.cast(wanted).as_py()
    except pa.ArrowInvalid:
        return None


def _as_boolean(values: pa.Array) -> pa.Array | None:
    if _is_number(values.type):
        return pc.not_equal(as_double(values), 0.0)
    if not is_text(values.type):
        return None
    words = pc.utf8_lower(pc.utf8_trim(values, _BLANKS))
    yes, no = (pc.is_in(words, pa.array(some, words.type)) for some in (_YES, _NO))
    return pc.if_else(yes, True, pc.if_else(no, False, None))


def _as_text(values: pa.Array) -> pa.Array | None:
    held = values.type
    if pa.types.is_floating(held):
        single = pa.types.is_float32(held)
        return pa.array([None if v is None else number_text(v, single=single) for v in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(held):
        texts = pc.strftime(values.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0") if len(texts) else texts, ".")
    if pa.types.is_boolean(held) or _is_number(held) or pa.types.is_date(held) or pa.types.is_binary(held):
        return values.cast(pa.string())
    return None


FAR_TIME = "time out of range"
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000
"""The beginning of the year 1 and the end of the year 9999."""
MICROS = "t_us"
_DAY_US = 86_400_000_000
_UNITS = {"ms": 1e3, "s": 1e6}


def first_settings(positions: Positions, space: Space, text: str | None, messages: bool, has_ids: bool) -> Settings:
    """Return the settings of a watch, of its first rows."""
    kinds = positions.arrow_types
    attributes = {name: kinds[attribute_column(name)] for name in positions.attributes}
    if text is not None:
        kind = attributes.get(text)
        if kind is None:
            there = ", ".join(attributes) or "none"
            raise InputError(f"there is no column {text!r} (--text NAME); the attributes are {there}")
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"column {text!r} (--text NAME) is {kind}: a column of text is wanted")
    if not has_ids and not messages:
        raise InputError("rows without an id are messages: name the column of ids (--id NAME), or pass --messages")
    time = None
    if positions.timed:
        time = "timestamp" if pa.types.is_date(kinds["t"]) or pa.types.is_timestamp(kinds["t"]) else "double"
    id_type = ("string" if positions.string_ids else "int64") if has_ids else None
    return Settings(space, id_type, time, text, messages, attributes)


def types_wanted(settings: Settings | None, columns: Columns) -> dict[str, str]:
    """Return the Spark types that later rows are to have, by their names in the input; none before the first."""
    if settings is None:
        return {}
    types = {name: _spark_name(kind) for name, kind in settings.attributes.items()}
    if columns.id is not None and settings.id_type is not None:
        types[columns.id] = "bigint" if settings.id_type == "int64" else "string"
    if columns.time is not None and settings.time is not None:
        types[columns.time] = settings.time
    return types


def _spark_name(kind: pa.DataType) -> str:
    """Return what Spark calls the type of a column; times without a zone are of UTC."""
    try:
        return type_name(kind).replace("timestamp_ntz", "timestamp")
    except TypeError:  # an interval, which rows that Spark has read may have
        from pyspark.sql.pandas.types import from_arrow_type

        return from_arrow_type(kind).simpleString()


def fit_rows(
    positions: Positions, settings: Settings, wrap: bool, unit: str | None, believed_us: int | None = None
) -> Positions:
    """Return rows with the columns of a watch: id, x, y, t_us, attributes, and the reason.

    ``unit``: of times that are numbers: "ms", or seconds when None; ``believed_us``: later times may be set aside, in
    microseconds since 1970; None believes every time.
    """
    if settings.time is not None and not positions.timed:
        raise Unfitting(f"these rows have no column of times, those of the watch have ({settings.time})")
    good = screen_positions(positions, settings.space, wrap)
    limit = None if settings.time is None or believed_us is None else min(believed_us, _LAST_US)
    if settings.time is not None:
        _check_times(good.arrow_types["t"])
    frame = good.frame.then(partial(_fit_batch, settings, unit))
    return replace(good, frame=frame if limit is None else frame.doubt(partial(_later_than, limit)))


def _check_times(kind: pa.DataType) -> None:
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numbers or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise InputError(f"times are {type_name(kind)}, which are neither moments nor numbers")


def _fit_batch(settings: Settings, unit: str | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return screened rows as :func:`fit_rows` has them, batch after batch."""
    reason, ids, t = rows.column(REASON), rows.column("id"), pa.nulls(len(rows), pa.int64())
    if settings.time is not None:
        t = _micros_of(rows.column("t"), unit)
        far = where(rows.column("t").is_valid()) & where(t.is_null())
        reason = _with_reason(reason, far, FAR_TIME)
    if settings.id_type is not None and (settings.id_type == "string") != pa.types.is_string(ids.type):
        ids = ids.cast(pa.string()) if settings.id_type == "string" else any_whole_numbers(ids)
        reason = _with_reason(reason, where(ids.is_null()), NOT_WHOLE)
    made = {"id": ids, "x": rows.column("x"), "y": rows.column("y"), MICROS: t}
    for name, kind in settings.attributes.items():
        column = attribute_column(name)
        held = rows.column(column) if column in rows.schema.names else pa.nulls(len(rows), kind)
        made[column] = as_kind(name, held, kind)
        reason = _with_reason(reason, where(held.is_valid()) & where(made[column].is_null()), MISTYPED)
    made[REASON] = reason
    return pa.record_batch([*made.values()], names=[*made])


def _with_reason(reasons: pa.Array, bad: NDArray[np.bool_], why: str) -> pa.Array:
    """Return the reasons of rows, with one more for those that are bad and had none."""
    if not bad.any():
        return reasons
    return pc.coalesce(reasons, pc.if_else(arrow_of(bad), pa.scalar(why), pa.scalar(None, pa.string())))


def _micros_of(t: pa.Array, unit: str | None) -> pa.Array:
    """Return times in microseconds since 1970, null where they are out of range."""
    if pa.types.is_date(t.type):
        days = t.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        near = pc.less_equal(pc.abs(days), _LAST_US // _DAY_US)
        micros = pc.multiply(pc.if_else(near, days, None), _DAY_US)
    elif pa.types.is_timestamp(t.type):
        micros = t.cast(pa.timestamp("us", t.type.tz), safe=False).cast(pa.int64())
    else:
        scaled = pc.multiply(as_double(t), _UNITS[unit or "s"])
        near = pc.less_equal(pc.abs(scaled), float(_LAST_US))
        rounded = pc.round(pc.if_else(near, scaled, None), round_mode="half_towards_infinity")
        micros = rounded.cast(pa.int64(), safe=False)
    return pc.if_else(pc.and_(pc.greater_equal(micros, _FIRST_US), pc.less_equal(micros, _LAST_US)), micros, None)


def _later_than(limit: int, rows: pa.RecordBatch) -> NDArray[np.bool_]:
    return where(pc.greater(rows.column(MICROS), limit))


def with_ahead(fitted: Positions, limit_us: int | None) -> Positions:
    """Return rows of :func:`fit_rows`, those later than a time with the reason that they are ahead of the clock."""
    if limit_us is None:
        return fitted

    def ahead(rows: pa.RecordBatch) -> pa.RecordBatch:
        reasons = _with_reason(rows.column(REASON), _later_than(limit_us, rows), AHEAD_OF_CLOCK)
        return rows.set_column(rows.schema.get_field_index(REASON), REASON, reasons)

    return replace(fitted, frame=fitted.frame.then(ahead))


def span_of(fitted: Positions) -> tuple[int, int] | None:
    """Return the first and the last time of the good rows of :func:`fit_rows`; None of none. An action."""
    ends = [end for end in fitted.good([MICROS]).map(_ends, f"{MICROS} bigint").values() if end is not None]
    return (min(ends), max(ends)) if ends else None


def _ends(batches: Batches) -> Batches:
    for batch in batches:
        ends = pc.min_max(batch.column(0))
        yield pa.record_batch([pa.concat_arrays([pa.repeat(ends[one], 1) for one in ("min", "max")])], names=[MICROS])


def of_time(fitted: Positions, since: int, until: int, *, bad_others: bool = False) -> Positions:
    """Return the rows of :func:`fit_rows` from a time on and before another; with ``bad_others`` all other bad ones."""

    def is_kept(rows: pa.RecordBatch) -> NDArray[np.bool_]:
        t = rows.column(MICROS)
        within = where(pc.and_(pc.greater_equal(t, since), pc.less(t, until)))
        return where(rows.column(REASON).is_valid()) & ~within if bad_others else within

    return replace(fitted, frame=fitted.frame.where(is_kept))


def with_attributes(columns: Columns, settings: Settings | None, found: list[str]) -> Columns:
    """Return which columns of an input mean what, with those of the watch's attributes that it has."""
    if settings is None:
        return columns
    return replace(columns, attributes=[name for name in settings.attributes if name in found])


ERROR, NULL, KEEP = "error", "null", "keep"


@dataclass
class Lacking:
    """What is made of columns that files lack."""

    missing: str | None = None  # "error", "null" or "keep"; null with a warning when None
    # Of the files in hand: one that lacks a column, by the columns of the watch that some of them lack
    files: Mapping[str, str] = field(default_factory=dict)
    some: frozenset[str] = frozenset()  # Columns that others of them have
    _named: frozenset[str] = frozenset()
    _told: set[str] = field(default_factory=set)

    def expect(self, wanted: Sequence[str], files: Sequence[str], names: Sequence[Sequence[str]]) -> None:
        """Take over which columns files have."""
        have = [frozenset(one) for one in names]
        lacking = {
            column: next((file for file, one in zip(files, have, strict=False) if column not in one), "")
            for column in wanted
        }
        self.files = {column: file for column, file in lacking.items() if file}
        self.some = frozenset(column for column in self.files if any(column in one for one in have))

    def judged(self, plan: Plan, warn: Callable[[str], None]) -> Plan:
        """Return the plan of a batch with the columns that its rows lack."""
        if not self.files and self.missing != KEEP:
            return plan
        text = [] if plan.settings.text is None else [plan.settings.text]
        self._named = frozenset((*plan.standing.columns_named, *text))
        if self.missing == KEEP and not plan.timed:
            raise InputError("--missing keep is for rows of objects that have times: messages have no row before")
        self.check()
        columns = sorted(self._named & set(self.files))
        for column in columns if self.missing is None else ():
            if column not in self._told:
                self._told.add(column)
                warn(
                    f"{self.files[column]} has no column {column!r}, which subscriptions ask about: it is null there, "
                    "so that objects may leave (--missing null takes it so, keep as it was, error refuses the file)"
                )
        if self.missing != KEEP:
            return plan
        return replace(plan, options=replace(plan.options, lacking=tuple(columns)))

    def check(self) -> None:
        """Raise where files lack what conditions of the last batch name, and cannot be taken together."""
        for column in sorted(self._named & set(self.files)):
            if self.missing == ERROR:
                raise InputError(
                    f"{self.files[column]} has no column {column!r}, which subscriptions ask about: --missing null "
                    "takes it as null, keep as it was"
                )
            if self.missing == KEEP and column in self.some:
                raise MixedFiles(f"{self.files[column]} has no column {column!r}, and others of the batch have it")


def run_tasks(rows: Rows | None, plan: Plan, tasks: int) -> list[TaskResult]:
    """Return what the tasks of a batch have done. One exchange and one action; nothing that grows with rows comes back.

    ``rows``: of :func:`pipelines.watching.typed_rows.fit_rows`, with what they were read as; None where there are none.
    """
    done: list[TaskResult] = []
    if rows is not None:
        done = done_by_bucket(rows, key_of(plan), tasks, _task(plan, tasks))
    ran = {one.task for one in done}
    # a task of no rows may never have begun: objects of its buckets expire all the same
    rest = [task for task in range(tasks) if task not in ran]
    return done + [run_task(plan, task, buckets_of(task, tasks), plan.settings.no_rows) for task in rest]


def key_of(plan: Plan) -> str | None:
    """Return the column by which rows of a batch are given to tasks; None where messages are, by their number."""
    return "id" if plan.settings.id_type is not None else None


def buckets_of(task: int, tasks: int) -> NDArray[np.int64]:
    """Return the buckets of a task, int64, rising."""
    return np.arange(task, BUCKETS, tasks)


def _task(plan: Plan, tasks: int) -> Callable[[int, pa.Table], TaskResult]:
    # the commit before and the ledger may be long, and no task asks for them
    plan = replace(plan, after=None, source=Source())

    def work(task: int, table: pa.Table) -> TaskResult:
        rows, raw, bad = rows_in(table, plan.settings)
        return run_task(plan, task, buckets_of(task, tasks), rows, raw, bad)

    return work


def rows_in(table: pa.Table, settings: Settings) -> tuple[TaskRows, pa.Array | None, pa.Table | None]:
    """Return the good rows of a task's table, each as it was read, and the bad ones with their reasons."""
    id_kind = {"int64": pa.int64(), "string": pa.string(), None: None}[settings.id_type]
    if table.num_columns == 0 or len(table) == 0:
        return settings.no_rows, None, None
    good = table.column(REASON).is_null()
    bad = table.filter(table.column(REASON).is_valid())
    rejected = pa.table([bad.column(REASON), bad.column(RAW)], names=REJECTED.names).cast(REJECTED)
    table = table.filter(good).combine_chunks()
    columns = {name: _one_chunk(table.column(name)) for name in table.column_names}
    attributes = {name: columns[attribute_column(name)].cast(kind) for name, kind in settings.attributes.items()}
    positions = np.stack([columns["x"].to_numpy(), columns["y"].to_numpy()], axis=1)
    rows = TaskRows(
        np.ascontiguousarray(positions, np.float64),
        None if id_kind is None else columns["id"].cast(id_kind),
        None if settings.time is None else np.asarray(columns[MICROS].to_numpy(), np.int64),
        None if settings.text is None else attributes[settings.text].cast(pa.string()),
        attributes,
    )
    return rows, columns[RAW], rejected


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def busiest(done: Sequence[TaskResult]) -> float:
    """Return the seconds of the task that took longest."""
    return max((one.seconds for one in done), default=0.0)
