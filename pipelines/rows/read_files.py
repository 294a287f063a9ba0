"""Reading positions from files of any format, by tasks of either engine; from tables, and from frames of Spark's."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from dtoss.delimited.record_batches import CORRUPT, FLAW
from dtoss.errors import InputError
from dtoss.frames.arrow_tables import arrow_of
from dtoss.ids import as_ids
from dtoss.rows.input_columns import Columns
from dtoss.rows.row_plan import RowPlan, kinds_asked, plan_rows
from dtoss.snapshots.column_types import stored_column, stored_type
from dtoss.text.text_values import add_counts, kinds_of_texts
from pipelines.engines.rows import Batches, one_value
from pipelines.rows.delimited_frame import check_said, text_by_spark, text_tasks
from pipelines.rows.inputs import Inputs, columns_of_log, look
from pipelines.rows.position_frame import Positions, arrow_columns, from_frame, positions_by, without_deletions
from pipelines.rows.row_sources import FileSource, FrameSource, KeptSource, Read, Source, TableSource
from pipelines.rows.table_formats import crs_taken, point_of, types_meant
from pipelines.rows.table_tasks import json_tasks, table_tasks
from pipelines.spark.session import raised_in_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dtoss.frames.arrow_tables import Frame


def kinds_in(source: Source, plan: RowPlan) -> dict[str, str]:
    """Return the kinds of columns of text, from all their values: an action."""
    names, tolerant = kinds_asked(plan)
    if not names:
        return {}
    columns, decimal, wanted = plan.needed, plan.columns.decimal, plan.wanted

    def look(number: int, read: Read) -> Batches:
        yield one_value("seen", pickle.dumps(kinds_of_texts(read(columns), names, tolerant, decimal, wanted)))

    seen = add_counts([pickle.loads(counts) for counts in source.rows(look, columns, "seen binary").values()])
    return {name: seen[name].kind(name in tolerant, wanted.get(name)) for name in names}


KEPT_BYTES = 1 << 30
"""Of files of text up to which this process keeps their rows between two looks at them; larger ones are read twice."""


def positions_in(frame: DataFrame | Frame, columns: Columns) -> Positions:
    """Return the positions in a DataFrame of Spark's, or in a frame of this process; the index of pandas is its id."""
    if is_of_spark(frame):
        return from_frame(cast("DataFrame", frame), columns)
    table = frame if isinstance(frame, pa.Table) else arrow_of(frame)
    if table is None:
        raise TypeError(f"{type(frame).__name__} is no frame: a DataFrame, an Arrow table or a mapping is wanted")
    index = getattr(frame, "index", None)
    if columns.id is not None and columns.id not in table.column_names and getattr(index, "nlevels", 0) == 1:
        table = table.append_column(columns.id, pa.array(as_ids(index)))
    return positions_of_table(table, columns)


def is_of_spark(frame: object) -> bool:
    """Return whether an object is a DataFrame of Spark's, without loading it."""
    return type(frame).__module__.startswith("pyspark.")


def read_positions(
    session: SparkSession | None,
    paths: Sequence[str] | Inputs,
    columns: Columns,
    *,
    schema: str = "union",
    wanted: Mapping[str, str] | None = None,
    timeless: bool = False,
    kept_bytes: int = KEPT_BYTES,
) -> Positions:
    """Return the positions in files, directories at any depth, or globs, all of one format.

    The format goes by the name, of the files or the directory: ``.csv``, ``.txt`` and ``.tsv`` (text with a header
    line), ``.json``, ``.jsonl``, ``.ndjson``, each also with ``.gz`` or ``.bz2``, and ``.parquet``. GeoParquet points
    are read from the geometry column where no coordinates are named or found.

    ``columns``: which columns mean what, and how text is written; ``schema``: "union" takes the columns of all Parquet
    files, "strict" wants all of them in each; ``wanted``: the Spark types that columns of text and JSON lines are to
    have, :func:`dtoss.rows.input_columns.types_of`; what all values of these files look like when None;
    ``timeless``: no column is a time unless it is named; ``kept_bytes``: of files of text whose rows this process keeps
    between two looks at them; larger ones are read twice.

    Without a session tasks of this process read them. Text and JSON lines are looked through for the types of columns.
    Rows of a log that delete their objects are left out where ``columns`` names no column that says so.
    """
    check_said(columns)
    inputs = (
        paths
        if isinstance(paths, Inputs)
        else look(paths, schema=schema, encoding=columns.encoding, session=lambda _: session)
    )
    deletes, columns = columns.deleted is not None, columns_of_log(columns, inputs.roles)
    if inputs.kind == "json" and columns.encoding is not None:
        raise InputError("--encoding is for CSV: JSON lines are read in UTF-8")
    if session is None and not inputs.places:
        raise InputError(f"{', '.join(inputs.paths)} cannot be reached by this process: --engine spark reads it")
    try:
        source, found = raw_rows_of(session, inputs, columns)
        if inputs.kind in ("csv", "tsv"):
            return _of_text(source, found, columns, wanted, timeless, kept_bytes)
        if inputs.kind == "json":
            return positions_by(plan_rows(found, columns, wanted=wanted, timeless=timeless), source, columns.crs)
        meant = {} if timeless else types_meant(inputs.kind, columns.time)
        rows = positions_of(source, found, columns, timeless=timeless, wanted=meant)
        return rows if deletes or columns.deleted is None else without_deletions(rows)
    except InputError:
        raise
    except Exception as error:
        if session is None:
            raise
        raise unreadable(error, inputs) from None


def raw_rows_of(session: SparkSession | None, inputs: Inputs, columns: Columns) -> tuple[Source, pa.Schema]:
    """Return the rows of files as they are read, and their columns."""
    if not inputs.places and session is not None:
        return _by_spark(session, inputs, columns)
    if inputs.kind in ("csv", "tsv"):
        groups, read, names = text_tasks(session, inputs, columns)
        schema = _strings([*names, CORRUPT, FLAW])
    elif inputs.kind == "json":
        groups, read, schema = json_tasks(session, inputs, multiline=columns.multiline)
    else:
        groups, read, schema = table_tasks(session, inputs)
    return FileSource(session, groups, read, sum(inputs.sizes)), schema


def names_in(session: SparkSession | None, inputs: Inputs, columns: Columns) -> list[str]:
    """Return the names of the columns of files."""
    return [name for name in raw_rows_of(session, inputs, columns)[1].names if name not in (CORRUPT, FLAW)]


def _strings(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])


def _by_spark(session: SparkSession, inputs: Inputs, columns: Columns) -> tuple[Source, pa.Schema]:
    """Return the rows of files that only Spark reaches."""
    options: dict[str, str | bool] = {} if inputs.base is None else {"basePath": inputs.base}
    if inputs.kind in ("csv", "tsv"):
        frame = text_by_spark(session, inputs, columns)
    elif inputs.kind == "json":
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "multiLine": columns.multiline}
        frame = session.read.options(**options, **how).json(list(inputs.paths))
    else:
        frame = session.read.options(**options, mergeSchema=True).parquet(*inputs.paths)
    return FrameSource(frame), arrow_columns(frame)


def _of_text(
    source: Source,
    schema: pa.Schema,
    columns: Columns,
    wanted: Mapping[str, str] | None,
    timeless: bool,
    kept_bytes: int,
) -> Positions:
    plan = partial(plan_rows, schema, columns, text=True, wanted=wanted, timeless=timeless)
    first = plan()
    if source.session is None and isinstance(source, FileSource) and source.size <= kept_bytes:
        source = KeptSource(source, first.needed)
    return positions_by(plan(kinds=kinds_in(source, first)), source, columns.crs)


def positions_of(
    source: Source,
    schema: pa.Schema,
    columns: Columns,
    *,
    timeless: bool = False,
    wanted: Mapping[str, str] | None = None,
) -> Positions:
    """Return the positions in rows of such columns, of Parquet or of a table, points by their metadata too."""
    point = point_of(schema, columns)
    crs = crs_taken(point, columns.crs)
    named = columns
    if point is not None and columns.attributes == "all":
        left_out = {point.name, columns.id, *point.covering}
        named = replace(columns, attributes=[n for n in schema.names if n not in left_out and not n.startswith("_")])
    at = None if point is None else point.name
    plan = plan_rows(schema, named, point=at, timeless=timeless, wanted=wanted)
    plan = replace(plan, asked=replace(columns, time=plan.columns.time))
    found = positions_by(plan, source, crs)
    said = dict(found.taken)
    if point is not None:
        said["position"] = f"{point.name}, points"
    if crs is not None and columns.crs is None:
        said["crs"] = f"{crs}, as the file states"
    return replace(found, taken=said)


def positions_of_table(table: pa.Table, columns: Columns) -> Positions:
    """Return the positions in a table, in the types that snapshots have."""
    schema = pa.schema([one.with_type(stored_type(one.type)) for one in table.schema], metadata=table.schema.metadata)
    batches = [pa.record_batch([*map(stored_column, one.columns)], schema=schema) for one in table.to_batches()]
    return positions_of(TableSource([pa.Table.from_batches(batches, schema)]), schema, columns)


def unreadable(error: Exception, inputs: Inputs) -> Exception:
    """Return what to tell a user of an error of Spark's, or the error itself where it is not about the input."""
    if (raised := raised_in_task(error)) is not None:
        return raised
    text, where, kind = str(error), ", ".join(inputs.paths), inputs.kind
    if missing := re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\.? SQLSTATE", text):
        return InputError(f"nothing is at {missing[1].removeprefix('file:')}: check the path")
    if scheme := re.search(r'No FileSystem for scheme "?(\w+)', text):
        return InputError(
            f"{where} cannot be reached: Spark has no file system for {scheme[1]}://, and pyarrow finds nothing there; "
            "check the path and the credentials"
        )
    if "UNABLE_TO_INFER_SCHEMA" in text:
        return InputError(f"{where} holds no {kind} file: check the path")
    if "CANNOT_MERGE_SCHEMAS" in text:
        return InputError(f"a column has different types in the files of {where}: one type is wanted")
    if found := re.search(r"\[FAILED_READ_FILE[A-Z_.]*\] [^\n]*?reading file (\S+?)\.? ", text):
        causes = re.findall(r"Caused by: ([^\n]*)", text)
        cause = f": {causes[-1].rpartition('Exception: ')[2]}" if causes else ""
        short = ", it may be cut short" if causes and "EOF" in causes[-1] else ""
        return InputError(f"{found[1].removeprefix('file://')} cannot be read as {kind}{short}{cause}")
    if found := re.search(r"\[PARQUET[A-Z_.]*\] ([^\n]*)", text):
        return InputError(f"{where} cannot be read as {kind}: {found[1].split(' SQLSTATE')[0]}")
    if type(error).__name__ in ("AnalysisException", "ArithmeticException"):
        return InputError(f"{where} cannot be read as {kind}: {text.splitlines()[0]}")
    return error
